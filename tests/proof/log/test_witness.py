"""A witness as another process: what it cosigns, what it refuses and keeps, and that no kill makes it forget."""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from witnessing import Running

from corpus_guard.errors import Inconsistent, Misuse, SettingsError
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.keys import open_head
from corpus_guard.proof.log.merkle import EMPTY_ROOT, consistency_proof, leaf_hash, root_of
from corpus_guard.proof.log.note import COSIGNATURE, Note, Signer, encode_base64, parse_note
from corpus_guard.proof.log.witness import MAX_REQUEST_BYTES, Witness, WitnessRefused, WitnessUnavailable, submit
from corpus_guard.proof.log.witness_store import WitnessStore
from postgres import free_port

ORIGIN = "harbour.example/corpus"


@dataclass
class Log:
    """A log whose operator may do what he likes with it."""

    leaves: list[bytes]
    signer: Signer = field(default_factory=lambda: Signer(ORIGIN, Ed25519PrivateKey.generate()))

    def head(self, size: int, *, by: Signer | None = None) -> str:
        text = Checkpoint(ORIGIN, size, root_of(self.leaves[:size])).body()
        return Note(text, ((by or self.signer).sign(text),)).serialize()

    def proof(self, size: int) -> Callable[[int], list[bytes]]:
        return lambda old: consistency_proof(self.leaves[:size], old)

    def request(self, old: int, size: int, proof: Sequence[bytes] | None = None) -> bytes:
        proof = (consistency_proof(self.leaves[:size], old) if 0 < old < size else []) if proof is None else proof
        return f"old {old}\n{''.join(encode_base64(node) + chr(10) for node in proof)}\n{self.head(size)}".encode()

    def forked(self, at: int) -> Log:
        changed = [*self.leaves[:at], leaf_hash(b"rewritten"), *self.leaves[at + 1 :]]
        return Log(changed, self.signer)


@pytest.fixture
def journal() -> Log:
    return Log([leaf_hash(b"%d" % number) for number in range(40)])


@pytest.fixture
def witness(tmp_path: Path, journal: Log) -> Witness:
    made = Witness.create(tmp_path / "witness", "witness.example")
    made.trust(ORIGIN, [journal.signer.verifier.encode()])
    return made


@pytest.fixture
def running(witness: Witness, tmp_path: Path) -> Iterator[Running]:
    started = Running(tmp_path / "witness")
    started.start()
    yield started
    started.kill()


def refused(running: Running, note: str, old: int, prove: Callable[[int], Sequence[bytes]]) -> WitnessRefused:
    with pytest.raises(WitnessRefused) as caught:
        submit(running.url, note, old, prove, running.key)
    return caught.value


# --- over HTTP ---------------------------------------------------------------------------------------------------------


def test_a_log_that_grows_is_cosigned_each_time(running: Running, journal: Log) -> None:
    old = 0
    for size in (0, 1, 5, 8, 8, 9, 40):
        note = submit(running.url, journal.head(size), old, journal.proof(size), running.key)
        head = open_head(note, [journal.signer.verifier, running.key])
        assert head.checkpoint.size == size
        assert head.signed_by == (str(journal.signer.verifier), str(running.key))
        assert abs(running.key.signing_time(parse_note(note).signatures[-1]) - time.time()) < 60
        old = size


def test_a_client_that_knows_another_size_learns_it_and_proves_from_there(running: Running, journal: Log) -> None:
    submit(running.url, journal.head(7), 0, journal.proof(7), running.key)
    asked: list[int] = []

    def prove(old: int) -> list[bytes]:
        asked.append(old)
        return journal.proof(12)(old)

    for old in (0, 3, 7, 40):  # 40: more than the head has
        note = submit(running.url, journal.head(12), old, prove, running.key)
        assert open_head(note, [running.key]).checkpoint.size == 12
    assert asked == [7, 3, 7]  # from 7 because it said so; at size 12 there is nothing left to prove


def test_a_cosignature_replaces_the_witness_own_older_one(running: Running, journal: Log) -> None:
    note = submit(running.url, journal.head(7), 0, journal.proof(7), running.key)

    again = submit(running.url, note, 7, journal.proof(7), running.key)

    assert [signature.name for signature in parse_note(again).signatures] == [ORIGIN, "witness.example"]


def test_a_log_that_was_rolled_back_is_refused(running: Running, journal: Log) -> None:
    submit(running.url, journal.head(20), 0, journal.proof(20), running.key)

    for old in (0, 7, 12):
        error = refused(running, journal.head(12), old, journal.proof(12))
        assert error.kind is DeviationKind.ROLLED_BACK
        assert "cosigned size 20" in str(error)


def test_a_second_root_of_one_size_is_refused_and_kept_as_proof(running: Running, journal: Log) -> None:
    submit(running.url, journal.head(20), 0, journal.proof(20), running.key)
    fork = journal.forked(3)

    assert refused(running, fork.head(20), 20, fork.proof(20)).kind is DeviationKind.FORKED

    assert "WITNESS REFUSES" in running.said()
    assert "HISTORY WAS REWRITTEN" in running.said()
    (kept,) = Witness(running.home).store.refusals()
    for note, log in ((kept["note"], fork), (kept["against"], journal)):  # enough for anybody who has the log's key
        assert open_head(note, [journal.signer.verifier]).checkpoint.root == root_of(log.leaves[:20])
    assert [head["size"] for head in Witness(running.home).store.heads()] == [20]


def test_a_fork_that_grew_is_refused_whatever_it_proves(running: Running, journal: Log) -> None:
    submit(running.url, journal.head(20), 0, journal.proof(20), running.key)
    fork = journal.forked(3)

    for prove in (
        fork.proof(30),
        journal.proof(30),
        lambda old: [root_of(fork.leaves[:30]), root_of(journal.leaves[:20])],
    ):
        assert refused(running, fork.head(30), 20, prove).kind is DeviationKind.FORKED
    assert submit(running.url, journal.head(30), 20, journal.proof(30), running.key)


def test_what_is_refused_again_and_again_is_kept_once(running: Running, journal: Log) -> None:
    submit(running.url, journal.head(20), 0, journal.proof(20), running.key)
    answers = [running.post(journal.request(20, 30, [])).status_code for _ in range(3)]

    assert answers == [422, 422, 422]
    assert len(Witness(running.home).store.refusals()) == 1


def test_the_status_table(running: Running, journal: Log) -> None:
    stranger = Log(journal.leaves)
    answer = running.post(journal.request(0, 20))
    assert (answer.status_code, answer.text[:18]) == (200, "— witness.example ")
    assert answer.text.endswith("\n")

    for body, status in [
        (stranger.request(20, 30), 403),
        (journal.request(20, 30).replace(b"\n30\n", b"\n31\n"), 403),
        (journal.request(20, 30).replace(ORIGIN.encode(), b"other.example"), 404),
        (journal.request(0, 30, []), 409),
        (journal.request(19, 30), 409),
        (journal.request(10, 12), 409),
        (journal.request(20, 30, journal.proof(30)(19)), 422),
        (journal.request(20, 30, []), 422),
        (journal.request(20, 20, [EMPTY_ROOT]), 422),
        (journal.forked(1).request(20, 20), 422),
        (f"old 20\n\n{ORIGIN}\n0\n{encode_base64(b'x' * 32)}\n\n— a MTIzNDU2\n".encode(), 422),
        (journal.request(30, 20, []), 400),
    ]:
        answer = running.post(body)
        assert answer.status_code == status, body
        if status == 409:
            assert (answer.text, answer.headers["content-type"]) == ("20\n", "text/x.tlog.size")
    assert [head["size"] for head in Witness(running.home).store.heads()] == [20]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda body: b"",
        lambda body: body.replace(b"old 20", b"old 020"),
        lambda body: body.replace(b"old 20", b"old -1"),
        lambda body: body.replace(b"old 20", b"old  20"),
        lambda body: body.replace(b"old 20", b"old 20 "),
        lambda body: body.replace(b"old 20", b"OLD 20"),
        lambda body: body.replace(b"old 20\n", b""),
        lambda body: body.replace(b"old 20", b"old 99999999999999999999"),
        lambda body: body.replace(b"old 20\n", b"old 20\r\n"),
        lambda body: body.replace(b"old 20\n", b"old 20\nAAAA\n"),
        lambda body: body.replace(b"old 20\n", b"old 20\n\xff\n"),
        lambda body: body.replace(b"old 20\n", b"old 20\n" + 64 * (encode_base64(EMPTY_ROOT).encode() + b"\n")),
        lambda body: body.replace(b"\n30\n", b"\n030\n"),
        lambda body: body.replace("—".encode(), b"-"),
        lambda body: body[:-1],
        lambda body: body.replace(b"=\n\n" + "—".encode(), b"=\nextension\n\n" + "—".encode()),
    ],
)
def test_a_malformed_request_is_told_so(witness: Witness, journal: Log, spoil: Callable[[bytes], bytes]) -> None:
    assert witness.add_checkpoint(journal.request(0, 20)).status == 200
    body = journal.request(20, 30)
    assert spoil(body) != body

    assert witness.add_checkpoint(spoil(body)).status == 400
    assert witness.add_checkpoint(body).status == 200


def test_from_size_0_nothing_is_proved(witness: Witness, journal: Log) -> None:
    assert witness.add_checkpoint(journal.request(0, 20, [EMPTY_ROOT])).status == 422
    assert witness.add_checkpoint(journal.request(0, 20)).status == 200


def test_a_request_that_does_not_end_is_not_read_to_its_end(running: Running) -> None:
    answer = running.post(b"old 0\n" + b"x" * MAX_REQUEST_BYTES)

    assert answer.status_code == 413
    assert httpx.get(f"{running.url}/add-checkpoint").status_code == 405


def test_it_listens_on_loopback_alone(running: Running) -> None:
    other = next(
        (
            entry[4][0]
            for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)
            if entry[4][0][:4] != "127."
        ),
        None,
    )
    if other is None:
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((other, running.port), timeout=5).close()


def test_of_many_histories_sent_at_once_one_is_cosigned(running: Running, journal: Log) -> None:
    running.post(journal.request(0, 20))
    forks = [Log([*journal.leaves[:25], leaf_hash(b"%d" % number)], journal.signer) for number in range(12)]
    with ThreadPoolExecutor(12) as threads:
        codes = list(threads.map(lambda fork: running.post(fork.request(20, 26)).status_code, forks))

    assert sorted(codes) == [200] + [409] * 11
    assert [head["size"] for head in Witness(running.home).store.heads()] == [26]


def test_comparing_and_remembering_are_one_step(
    witness: Witness, journal: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with the window held open: all of them could read the old size before the first of them writes."""
    assert witness.add_checkpoint(journal.request(0, 20)).status == 200
    newest = WitnessStore.newest_head

    def slow(*arguments: Any) -> Any:
        found = newest(*arguments)
        time.sleep(0.05)
        return found

    monkeypatch.setattr(WitnessStore, "newest_head", slow)
    forks = [Log([*journal.leaves[:25], leaf_hash(b"%d" % number)], journal.signer) for number in range(6)]
    with ThreadPoolExecutor(6) as threads:
        codes = list(threads.map(lambda fork: witness.add_checkpoint(fork.request(20, 26)).status, forks))

    assert sorted(codes) == [200] + [409] * 5


def test_two_submitters_of_one_log_both_end_cosigned_or_told(running: Running, journal: Log) -> None:
    def one(size: int) -> int | DeviationKind:
        try:
            return open_head(
                submit(running.url, journal.head(size), 0, journal.proof(size), running.key), [running.key]
            ).checkpoint.size
        except WitnessRefused as error:
            return error.kind
        except WitnessUnavailable:
            return 0  # overtaken twice; running again converges

    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(one, (20, 30)))

    assert answers[1] in (30, 0)
    assert answers[0] in (20, 0, DeviationKind.ROLLED_BACK)
    assert submit(running.url, journal.head(30), 0, journal.proof(30), running.key)


# --- the client, against others than an honest witness ------------------------------------------------------------------


@contextlib.contextmanager
def answering(status: int, body: str, media_type: str = "text/plain") -> Iterator[str]:
    """Something else at a witness's address."""
    asked = Starlette(
        routes=[
            Route("/add-checkpoint", lambda request: Response(body, status, media_type=media_type), methods=["POST"])
        ]
    )
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(asked, port=port, log_level="error"))
    with ThreadPoolExecutor(1) as threads:
        threads.submit(server.run)
        while not server.started:
            time.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True


def test_only_the_configured_witness_counts(running: Running, journal: Log) -> None:
    other = Signer("witness.example", Ed25519PrivateKey.generate(), COSIGNATURE)

    with pytest.raises(WitnessRefused, match="did not sign") as caught:
        submit(running.url, journal.head(7), 0, journal.proof(7), other.verifier)
    assert caught.value.kind is DeviationKind.BAD_SIGNATURE


@pytest.mark.parametrize("body", ["", "nonsense\n", "— witness.example MTIzNDU2\n", "cosigned, trust me\n\n"])
def test_an_answer_that_is_no_cosignature_is_not_taken(journal: Log, body: str) -> None:
    key = Signer("witness.example", Ed25519PrivateKey.generate(), COSIGNATURE).verifier
    with answering(200, body) as url, pytest.raises(WitnessRefused) as caught:
        submit(url, journal.head(7), 0, journal.proof(7), key)
    assert caught.value.kind is DeviationKind.BAD_SIGNATURE


def test_a_cosignature_of_another_head_is_not_taken(journal: Log) -> None:
    witness = Signer("witness.example", Ed25519PrivateKey.generate(), COSIGNATURE)
    other = parse_note(journal.head(8)).text
    with answering(200, witness.sign(other).line) as url, pytest.raises(WitnessRefused) as caught:
        submit(url, journal.head(7), 0, journal.proof(7), witness.verifier)
    assert caught.value.kind is DeviationKind.BAD_SIGNATURE


@pytest.mark.parametrize(
    ("status", "body"), [(500, ""), (302, ""), (409, "seven\n"), (409, "3\n"), (409, "07\n"), (200, "x" * 200_000)]
)
def test_what_is_no_witness_is_told(journal: Log, status: int, body: str) -> None:
    key = Signer("witness.example", Ed25519PrivateKey.generate(), COSIGNATURE).verifier
    with answering(status, body) as url, pytest.raises((WitnessUnavailable, WitnessRefused)):
        submit(url, journal.head(7), 3, journal.proof(7), key)


def test_a_witness_that_is_away_is_told(journal: Log) -> None:
    key = Signer("witness.example", Ed25519PrivateKey.generate(), COSIGNATURE).verifier
    for url in (f"http://127.0.0.1:{free_port()}", "http://", "nonsense"):
        with pytest.raises(WitnessUnavailable, match="guard witness run"):
            submit(url, journal.head(7), 0, journal.proof(7), key)


def test_a_log_that_the_witness_was_not_told_of_is_a_matter_of_settings(running: Running, journal: Log) -> None:
    stranger = Log(journal.leaves)

    with pytest.raises(SettingsError, match=r"trusts none.*log\.pub"):
        submit(running.url, stranger.head(7), 0, stranger.proof(7), running.key)
    text = Checkpoint("other.example", 1, journal.leaves[0]).body()
    note = Note(text, (journal.signer.sign(text),)).serialize()
    with pytest.raises(SettingsError, match="does not know"):
        submit(running.url, note, 0, journal.proof(1), running.key)


def test_a_rotated_key_counts_once_it_is_trusted(running: Running, journal: Log) -> None:
    newer = Signer(ORIGIN, Ed25519PrivateKey.generate())
    submit(running.url, journal.head(7), 0, journal.proof(7), running.key)
    with pytest.raises(SettingsError):
        submit(running.url, journal.head(9, by=newer), 7, journal.proof(9), running.key)

    Witness(running.home).trust(ORIGIN, [newer.verifier.encode()])

    assert submit(running.url, journal.head(9, by=newer), 7, journal.proof(9), running.key)
    with pytest.raises(SettingsError):
        submit(running.url, journal.head(11), 9, journal.proof(11), running.key)


# --- what it remembers --------------------------------------------------------------------------------------------------


def test_killed_between_requests_it_answers_the_same(running: Running, journal: Log) -> None:
    size = 0
    for more in (3, 8, 13):
        assert running.post(journal.request(size, size + more)).status_code == 200
        size += more
        running.kill()
        running.start()
        assert running.post(journal.request(0, 30, [])).text == f"{size}\n"
        assert running.post(journal.request(size, size)).status_code == 200
        assert running.post(journal.forked(1).request(size, size)).status_code == 422


@pytest.mark.parametrize("where", ["record_cosigned", "append"])
def test_killed_inside_a_request_it_remembers_all_or_nothing(
    witness: Witness, journal: Log, tmp_path: Path, where: str
) -> None:
    """Before the commit nothing happened; after it the head is known, though nobody was answered."""
    home = tmp_path / "witness"
    assert witness.add_checkpoint(journal.request(0, 20)).status == 200
    body = tmp_path / "body"
    body.write_bytes(journal.request(20, 30))
    code = (
        "import os, sys; from pathlib import Path; from corpus_guard.proof.log.witness import Witness, WitnessStore;"
        f"WitnessStore.{where} = lambda *a: os._exit(9); Witness(Path(sys.argv[1])).add_checkpoint(Path(sys.argv[2]).read_bytes())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(home), str(body)], check=False)
    assert done.returncode == 9

    again = Witness(home)
    size = 20 if where == "record_cosigned" else 30
    assert again.add_checkpoint(journal.request(0, 30, [])).body == f"{size}\n"
    assert again.add_checkpoint(journal.request(size, 30)).status == 200


def test_a_store_from_an_older_copy_is_refused_and_says_how_far_it_is_behind(running: Running, journal: Log) -> None:
    running.post(journal.request(0, 10))
    running.kill()
    shutil.copy(running.home / "witness.sqlite", running.home / "backup")
    running.start()
    running.post(journal.request(10, 23))
    running.kill()
    shutil.copy(running.home / "backup", running.home / "witness.sqlite")

    with pytest.raises(Inconsistent, match="13 leaves behind"):
        Witness(running.home)
    with pytest.raises(AssertionError, match=r"13\s+leaves"):
        running.start()


def test_a_store_that_is_put_back_under_a_running_witness_stops_it(running: Running, journal: Log) -> None:
    running.post(journal.request(0, 10))
    shutil.copy(running.home / "witness.sqlite", running.home / "backup")
    running.post(journal.request(10, 23))
    (running.home / "backup").replace(running.home / "witness.sqlite")

    assert running.post(journal.forked(15).request(10, 23)).status_code == 500
    assert "WITNESS STOPS" in running.said()
    with pytest.raises(WitnessUnavailable):
        submit(running.url, journal.head(23), 23, journal.proof(23), running.key)


def test_a_store_that_was_emptied_or_changed_is_refused(witness: Witness, journal: Log, tmp_path: Path) -> None:
    home = tmp_path / "witness"
    assert witness.add_checkpoint(journal.request(0, 20)).status == 200
    for statement in ("UPDATE heads SET root = replace(root, substr(root, 1, 4), '0000')", "DELETE FROM heads"):
        with contextlib.closing(sqlite3.connect(home / "witness.sqlite")) as store, store:
            store.execute(statement)
        with pytest.raises(Inconsistent, match="behind"):
            Witness(home)
    for name in ("witness.sqlite", "heads.log", "witness.pub"):
        (home / name).unlink()
        with pytest.raises(SettingsError, match="restore"):
            Witness(home)


def test_a_power_cut_in_the_side_log_costs_nothing_and_a_change_is_told(
    witness: Witness, journal: Log, tmp_path: Path
) -> None:
    side = tmp_path / "witness" / "heads.log"
    assert witness.add_checkpoint(journal.request(0, 20)).status == 200
    whole = side.read_bytes()
    with side.open("ab") as stream:
        stream.write(b"30 abc")

    assert Witness(tmp_path / "witness").add_checkpoint(journal.request(20, 30)).status == 200
    assert side.read_bytes().startswith(whole)
    assert len(side.read_bytes().splitlines()) == 2
    assert Witness(tmp_path / "witness").add_checkpoint(journal.request(0, 30, [])).body == "30\n"
    side.write_bytes(b"nonsense\n" + whole)
    with pytest.raises(Inconsistent, match="line 1"):
        Witness(tmp_path / "witness")


def test_a_write_is_on_disk_before_the_answer(witness: Witness, journal: Log, tmp_path: Path) -> None:
    """What strace sees: the store and the side log are flushed, then the cosignature is told."""
    if not shutil.which("strace"):
        pytest.skip("no strace")
    body, trace = tmp_path / "body", tmp_path / "trace"
    body.write_bytes(journal.request(0, 20))
    code = (
        "import os, sys; from pathlib import Path; from corpus_guard.proof.log.witness import Witness;"
        "w = Witness(Path(sys.argv[1])); b = Path(sys.argv[2]).read_bytes(); os.write(1, b'BEGIN');"
        "os.write(1, w.add_checkpoint(b).body.encode())"
    )
    strace = ["strace", "-f", "-y", "-e", "trace=write,fsync,fdatasync", "-o", str(trace)]
    command = [sys.executable, "-c", code, str(tmp_path / "witness"), str(body)]
    subprocess.run([*strace, *command], check=True, capture_output=True)
    calls = trace.read_text().partition("BEGIN")[2]
    before, told, _ = calls.partition("\\342\\200\\224 witness.ex")
    assert told
    for name in ("witness.sqlite", "heads.log"):
        assert any(f"/{name}>" in line and "sync(" in line for line in before.splitlines()), name


def test_a_second_witness_in_one_folder_is_refused(witness: Witness, tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="already"):
        Witness.create(tmp_path / "witness", "other.example")
    with pytest.raises(SettingsError, match="spaces"):
        Witness.create(tmp_path / "other", "a b")


def test_its_key_is_its_own(witness: Witness, tmp_path: Path) -> None:
    pem = tmp_path / "witness" / "witness.pem"
    assert (pem.stat().st_mode & 0o777, (tmp_path / "witness").stat().st_mode & 0o777) == (0o600, 0o700)
    pem.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        Witness(tmp_path / "witness")
    pem.chmod(0o600)
    shutil.copy(Witness.create(tmp_path / "other", "witness.example").store._file.parent / "witness.pem", pem)
    with pytest.raises(SettingsError, match="private half"):
        Witness(tmp_path / "witness")


def test_only_keys_of_the_log_itself_are_trusted_for_it(witness: Witness, journal: Log) -> None:
    for origin, vkeys in [
        (ORIGIN, []),
        ("other.example", [journal.signer.verifier.encode()]),
        ("witness.example", [witness.verifier.encode()]),
        (ORIGIN, ["nonsense"]),
    ]:
        with pytest.raises(SettingsError):
            witness.trust(origin, vkeys)
    assert witness.store.trusted_keys() == {ORIGIN: [journal.signer.verifier.encode()]}


def test_a_refusal_is_an_error_in_the_log(witness: Witness, journal: Log, caplog: pytest.LogCaptureFixture) -> None:
    witness.add_checkpoint(journal.request(0, 20))
    with caplog.at_level(logging.ERROR):
        witness.add_checkpoint(journal.forked(2).request(20, 20))

    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "HISTORY WAS REWRITTEN" in caplog.text
