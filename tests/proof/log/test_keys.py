"""The log's keys: who may sign which size, rotation and revocation, and what a stranger needs."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from corpus_guard.errors import Misuse, SettingsError, UnknownSubject
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.keys import HeadRefused, Keyring, open_head
from corpus_guard.proof.log.note import COSIGNATURE, Note, Signature, Signer, VerifierKey, parse_note

ORIGIN = "harbour.example/corpus"


def checkpoint(size: int, origin: str = ORIGIN) -> Checkpoint:
    return Checkpoint(origin, size, size.to_bytes(32, "big"))


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring.create(tmp_path / "keys", ORIGIN)


def ids(keyring: Keyring) -> list[str]:
    return [trusted.key.key_id.hex() for trusted in keyring.public_keys()]


def refused(keyring: Keyring, note: str) -> DeviationKind:
    with pytest.raises(HeadRefused) as caught:
        keyring.open_head(note)
    return caught.value.kind


def strangers_keys(keyring: Keyring) -> list[VerifierKey]:
    return [VerifierKey.parse(line) for line in (keyring.folder / "log.pub").read_text().splitlines()]


def test_a_head_is_signed_and_opened(keyring: Keyring) -> None:
    note = keyring.sign(checkpoint(7))

    head = Keyring.open(keyring.folder).open_head(note)

    assert head.checkpoint == checkpoint(7)
    assert head.signed_by == (f"{ORIGIN}+{ids(keyring)[0]}",)
    assert open_head(note, strangers_keys(keyring)) == head


def test_only_the_owner_can_read_what_is_private(keyring: Keyring) -> None:
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in [keyring.folder, *keyring.folder.iterdir()]}

    assert modes == {"keys": 0o700, f"{ids(keyring)[0]}.pem": 0o600, "keyring.json": 0o600, "log.pub": 0o644}
    assert (keyring.folder / f"{ids(keyring)[0]}.pem").read_text().startswith("-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_private_key_that_others_can_read_is_not_used(keyring: Keyring, mode: int) -> None:
    (keyring.folder / f"{ids(keyring)[0]}.pem").chmod(mode)

    with pytest.raises(SettingsError, match="chmod 600"):
        Keyring.open(keyring.folder)
    with pytest.raises(SettingsError, match="chmod 600"):
        keyring.sign(checkpoint(7))


@pytest.mark.parametrize(("mode", "accepted"), [(0o440, True), (0o460, False), (0o444, False)])
def test_a_key_that_a_cluster_mounts_for_the_group_is_used(
    keyring: Keyring, monkeypatch: pytest.MonkeyPatch, mode: int, *, accepted: bool
) -> None:
    (keyring.folder / f"{ids(keyring)[0]}.pem").chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)  # the file is another's, as a mounted secret is

    with contextlib.nullcontext() if accepted else pytest.raises(SettingsError, match="chmod 600"):
        Keyring.open(keyring.folder).sign(checkpoint(7))


def test_a_folder_that_others_can_change_is_refused(keyring: Keyring) -> None:
    keyring.folder.chmod(0o770)

    with pytest.raises(SettingsError, match="chmod 700"):
        Keyring.open(keyring.folder)


def test_a_second_keyring_in_the_same_place_is_refused(keyring: Keyring) -> None:
    before = (keyring.folder / "keyring.json").read_bytes()

    with pytest.raises(Misuse, match="already"):
        Keyring.create(keyring.folder, "other.example")
    assert (keyring.folder / "keyring.json").read_bytes() == before


def test_an_origin_that_no_key_can_be_named_after_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="spaces"):
        Keyring.create(tmp_path / "keys", "a b")
    assert not Keyring.exists(tmp_path / "keys")


def test_a_missing_keyring_says_what_to_do(tmp_path: Path) -> None:
    assert not Keyring.exists(tmp_path)
    for attempt in (lambda: Keyring.open(tmp_path), lambda: Keyring(tmp_path / "none").rotate(1, 0)):
        with pytest.raises(SettingsError, match="restore"):
            attempt()


def entry(content: dict[str, Any], **values: Any) -> None:
    content["keys"][0].update(values)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda content: content.clear(),
        lambda content: content.update(keys=[]),
        lambda content: content.update(origin="other.example"),
        lambda content: content.update(origin=7),
        lambda content: content.update(more=1),
        lambda content: entry(content, more=1),
        lambda content: entry(content, revoked="no"),
        lambda content: entry(content, revoked=True),
        lambda content: entry(content, from_size=-1),
        lambda content: entry(content, from_size=True),
        lambda content: entry(content, from_size="0"),
        lambda content: entry(content, to_size=5),
        lambda content: entry(content, vkey=content["keys"][0]["vkey"].replace(ORIGIN, "other.example")),
        lambda content: entry(content, vkey="nonsense"),
        lambda content: content["keys"].append(content["keys"][0]),
        lambda content: content["keys"].insert(0, {**content["keys"][0], "to_size": 3}),
    ],
)
def test_a_malformed_keyring_is_refused(keyring: Keyring, spoil: Callable[[dict[str, Any]], None]) -> None:
    file = keyring.folder / "keyring.json"
    content = json.loads(file.read_text())
    spoil(content)
    file.write_text(json.dumps(content))

    with pytest.raises(SettingsError):
        Keyring.open(keyring.folder)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_keyring_that_is_no_json_is_refused(keyring: Keyring, content: bytes) -> None:
    (keyring.folder / "keyring.json").write_bytes(content)

    with pytest.raises(SettingsError, match="malformed"):
        Keyring.open(keyring.folder)


@pytest.mark.parametrize("pem", [b"", b"-----BEGIN PRIVATE KEY-----\n", None])
def test_a_lost_or_exchanged_private_key_is_told(keyring: Keyring, tmp_path: Path, pem: bytes | None) -> None:
    other = Keyring.create(tmp_path / "other", ORIGIN)
    foreign = (other.folder / f"{ids(other)[0]}.pem").read_bytes()
    file = keyring.folder / f"{ids(keyring)[0]}.pem"
    file.write_bytes(foreign if pem is None else pem)

    with pytest.raises(SettingsError, match="restore"):
        keyring.sign(checkpoint(7))
    file.unlink()
    with pytest.raises(SettingsError, match="restore"):
        keyring.sign(checkpoint(7))


# --- rotation and revocation -------------------------------------------------------------------------------------------


def test_after_a_rotation_both_sign_until_the_overlap_ends(keyring: Keyring) -> None:
    before = keyring.sign(checkpoint(9))
    vkey = keyring.rotate(10, overlap=5)
    old, new = (str(trusted.key) for trusted in keyring.public_keys())

    assert vkey.startswith(new)
    signed_by = {size: keyring.open_head(keyring.sign(checkpoint(size))).signed_by for size in (10, 15, 16)}
    assert {size: set(names) for size, names in signed_by.items()} == {10: {old, new}, 15: {old, new}, 16: {new}}
    assert len(parse_note(keyring.sign(checkpoint(16))).signatures) == 1
    assert keyring.open_head(before).signed_by == (old,)
    assert [str(one.verifier) for one in keyring.signers()] == [new, old]
    assert [line.encode() for line in strangers_keys(keyring)] == [
        trusted.key.encode() for trusted in keyring.public_keys()
    ]


def test_a_stranger_who_knows_only_the_old_key_has_the_overlap_to_learn_the_new_one(keyring: Keyring) -> None:
    old = strangers_keys(keyring)
    keyring.rotate(10, overlap=5)

    assert open_head(keyring.sign(checkpoint(15)), old).checkpoint.size == 15
    with pytest.raises(HeadRefused, match="not from the log") as caught:
        open_head(keyring.sign(checkpoint(16)), old)
    assert caught.value.kind is DeviationKind.UNKNOWN_KEY


def test_an_old_key_counts_for_no_new_head_and_a_new_one_for_no_old_head(keyring: Keyring) -> None:
    stolen = keyring.signers()[0]
    keyring.rotate(10, overlap=5)
    newest = keyring.signers()[0]

    def by(signer: Signer, size: int) -> str:
        text = checkpoint(size).body()
        return Note(text, (signer.sign(text),)).serialize()

    assert keyring.open_head(by(stolen, 15))
    assert refused(keyring, by(stolen, 16)) is DeviationKind.REVOKED_KEY
    assert keyring.open_head(by(newest, 10))
    assert refused(keyring, by(newest, 9)) is DeviationKind.UNKNOWN_KEY


def test_a_revoked_key_signs_nothing_and_counts_up_to_where_it_was_trusted(keyring: Keyring) -> None:
    before, first = keyring.sign(checkpoint(4)), ids(keyring)[0]
    stolen = keyring.signers()[0]
    keyring.rotate(10, overlap=100)

    keyring.revoke(first, 4)

    assert not (keyring.folder / f"{first}.pem").exists()
    assert [str(one.verifier) for one in keyring.signers()] == [str(keyring.public_keys()[-1].key)]
    assert keyring.open_head(before).checkpoint.size == 4
    text = checkpoint(5).body()
    assert refused(keyring, Note(text, (stolen.sign(text),)).serialize()) is DeviationKind.REVOKED_KEY
    assert strangers_keys(keyring) == [keyring.public_keys()[-1].key]
    keyring.revoke(first, 50)
    assert keyring.public_keys()[0].to_size == 4  # trust does not come back


def test_a_good_signature_does_not_heal_a_revoked_one_but_counts(keyring: Keyring) -> None:
    stolen = keyring.signers()[0]
    keyring.rotate(10, overlap=0)
    keyring.revoke(stolen.verifier.key_id.hex(), 10)
    text = checkpoint(20).body()
    both = Note(text, (stolen.sign(text), keyring.signers()[0].sign(text))).serialize()

    assert keyring.open_head(both).signed_by == (str(keyring.public_keys()[-1].key),)


def test_the_only_active_key_cannot_be_revoked(keyring: Keyring) -> None:
    with pytest.raises(Misuse, match="first rotate"):
        keyring.revoke(ids(keyring)[0], 5)
    keyring.rotate(5, overlap=0)
    keyring.revoke(ids(keyring)[0], 5)
    with pytest.raises(Misuse, match="first rotate"):
        keyring.revoke(ids(keyring)[1], 5)
    with pytest.raises(UnknownSubject):
        keyring.revoke("00000000", 5)
    assert keyring.open_head(keyring.sign(checkpoint(6)))


def test_a_private_key_is_destroyed_when_nothing_can_be_signed_with_it(keyring: Keyring) -> None:
    keyring.rotate(10, overlap=5)
    keyring.rotate(15, overlap=0)
    assert (keyring.folder / f"{ids(keyring)[0]}.pem").exists()  # signs at 15 still
    keyring.rotate(16, overlap=0)
    assert [(keyring.folder / f"{one}.pem").exists() for one in ids(keyring)] == [False, False, True, True]


@pytest.mark.parametrize(("size", "overlap"), [(9, 0), (10, -1), (-1, 0)])
def test_no_rotation_backwards(keyring: Keyring, size: int, overlap: int) -> None:
    keyring.rotate(10, overlap=0)

    with pytest.raises(Misuse, match="does not shrink"):
        keyring.rotate(size, overlap)


def test_no_head_from_before_the_keys_began(keyring: Keyring) -> None:
    keyring.rotate(10, overlap=0)
    keyring.revoke(ids(keyring)[0], 8)

    with pytest.raises(Misuse, match="shorter"):
        keyring.sign(checkpoint(9))


def test_those_who_rotate_at_the_same_time_lose_no_key(keyring: Keyring) -> None:
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(lambda _: Keyring(keyring.folder).rotate(1, overlap=1), range(20)))

    assert len(set(made)) == 20
    assert {trusted.key.encode() for trusted in Keyring.open(keyring.folder).public_keys()} > set(made)
    assert len(strangers_keys(keyring)) == 21


def _dies_at(step: int, work: Callable[[], object]) -> bool:
    """Do `work` in a child that is killed before its step-th change to the disk; whether it was killed."""
    child = os.fork()
    if not child:
        left = itertools.count(step, -1)
        for owner, name in ((os, "fsync"), (os, "open"), (Path, "replace"), (Path, "unlink")):
            original = getattr(owner, name)

            def counted(*arguments: Any, original: Any = original, **named: Any) -> Any:
                if next(left) == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*arguments, **named)

            setattr(owner, name, counted)
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == signal.SIGKILL


@pytest.mark.parametrize("what", ["rotate", "revoke"])
def test_killed_anywhere_the_keyring_is_the_old_one_or_the_new_one(keyring: Keyring, tmp_path: Path, what: str) -> None:
    if what == "revoke":
        keyring.rotate(5, overlap=100)
    first = ids(keyring)[0]
    before = keyring.public_keys()
    kills = 0
    for step in itertools.count():
        folder = tmp_path / f"{what}-{step}"
        shutil.copytree(keyring.folder, folder)
        copy = Keyring(folder)
        killed = _dies_at(step, lambda ring=copy: ring.rotate(10, 0) if what == "rotate" else ring.revoke(first, 7))
        opened = Keyring.open(folder)
        assert open_head(opened.sign(checkpoint(12)), strangers_keys(opened)).checkpoint.size == 12
        if not killed:
            break
        kills += 1
        if opened.public_keys() == before:
            copy.rotate(10, 5)  # what was begun can be begun again
    assert kills >= 8
    assert opened.public_keys() != before


# --- hostile heads -----------------------------------------------------------------------------------------------------


def test_a_head_that_was_changed_is_refused(keyring: Keyring) -> None:
    note = keyring.sign(checkpoint(7))
    longer = note.replace("\n7\n", "\n8\n")

    assert refused(keyring, longer) is DeviationKind.BAD_SIGNATURE
    with pytest.raises(HeadRefused) as caught:
        open_head(longer, strangers_keys(keyring))
    assert caught.value.kind is DeviationKind.BAD_SIGNATURE


def test_a_bad_signature_of_a_known_key_condemns_what_a_good_one_signed(keyring: Keyring) -> None:
    keyring.rotate(1, overlap=10)
    note = parse_note(keyring.sign(checkpoint(7)))
    good, other = note.signatures
    for spoiled in (
        (good, Signature(other.name, other.key_id, b"x" * 64)),
        (Signature(good.name, good.key_id, good.value[::-1]), other),
    ):
        assert refused(keyring, Note(note.text, spoiled).serialize()) is DeviationKind.BAD_SIGNATURE


@pytest.mark.parametrize("raw", ["", "nonsense", f"{ORIGIN}\n7\n"])
def test_what_is_no_note_is_refused(keyring: Keyring, raw: str) -> None:
    assert refused(keyring, raw) is DeviationKind.BAD_SIGNATURE
    assert refused(keyring, keyring.sign(checkpoint(7))[:-1]) is DeviationKind.BAD_SIGNATURE
    assert refused(keyring, keyring.sign(checkpoint(7)).replace("\n", "\r\n")) is DeviationKind.BAD_SIGNATURE


def test_strangers_signatures_are_ignored_and_never_enough(keyring: Keyring) -> None:
    stranger = Signer(ORIGIN, Ed25519PrivateKey.generate())
    text = checkpoint(7).body()
    foreign = stranger.sign(text)

    assert refused(keyring, Note(text, (foreign,)).serialize()) is DeviationKind.UNKNOWN_KEY
    own = parse_note(keyring.sign(checkpoint(7))).signatures
    assert keyring.open_head(Note(text, (foreign, *own)).serialize()).signed_by == (f"{ORIGIN}+{ids(keyring)[0]}",)
    with pytest.raises(HeadRefused):
        open_head(keyring.sign(checkpoint(7)), [])


def test_a_key_signs_for_the_log_it_is_named_after(keyring: Keyring) -> None:
    foreign = checkpoint(7, origin="other.example")
    with pytest.raises(Misuse, match="its own"):
        keyring.sign(foreign)
    note = Note(foreign.body(), (keyring.signers()[0].sign(foreign.body()),)).serialize()

    assert refused(keyring, note) is DeviationKind.UNKNOWN_KEY
    with pytest.raises(HeadRefused):
        open_head(note, strangers_keys(keyring))


def test_a_stranger_can_ask_for_a_witness_too(keyring: Keyring) -> None:
    witness = Signer("witness.example", Ed25519PrivateKey.generate(), COSIGNATURE)
    note = parse_note(keyring.sign(checkpoint(7)))
    cosigned = Note(note.text, (*note.signatures, witness.sign(note.text))).serialize()

    head = open_head(cosigned, [*strangers_keys(keyring), witness.verifier])

    assert head.signed_by == (f"{ORIGIN}+{ids(keyring)[0]}", str(witness.verifier))
    assert keyring.open_head(cosigned).signed_by == head.signed_by[:1]
