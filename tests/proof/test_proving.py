"""Proofs hold for whoever has a key of their own, and for nothing that was changed in them."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus_guard.deployment import Deployment
from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.proof.checking import ProofReport, check_proof
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.log.note import Note, Signer, VerifierKey, parse_note
from corpus_guard.proof.proving import export_proofs, prove_chunk
from corpus_guard.settings import Settings
from tampering import CHUNK, PUMPS, QUAYS, STRANGER, Corpus, a_line_of_the_manifest

TEXT = PUMPS.chunks[2].text.encode()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path, chroma_url: str) -> Corpus:
    home = tmp_path_factory.mktemp("proving")
    return Corpus.sealed(home, migrated_sqlite, home, chroma_url, "proving")


@pytest.fixture(scope="module")
def keys(corpus: Corpus) -> list[VerifierKey]:
    return [trusted.key for trusted in Keyring.open(corpus.settings.keys).public_keys()]


@pytest.fixture(scope="module")
def proof(corpus: Corpus) -> dict[str, Any]:
    with Deployment(corpus.settings) as guard:
        made: dict[str, Any] = json.loads(json.dumps(prove_chunk(guard.ledger, guard.storage, guard.settings, CHUNK)))
    return made


@pytest.fixture(scope="module")
def exported(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "proofs"
    with Deployment(corpus.settings) as guard:
        assert export_proofs(guard.ledger, guard.storage, guard.settings, folder) == corpus.size
    return folder


def written(tmp_path: Path, proof: Any) -> Path:
    path = tmp_path / "proof.json"
    path.write_text(proof if isinstance(proof, str) else json.dumps(proof))
    return path


def failed(report: ProofReport) -> str:
    assert not report.holds
    assert report.facts == {}
    assert [step.holds for step in report.steps] == [True] * (len(report.steps) - 1) + [False]
    return report.steps[-1].what


def test_a_proof_leads_from_the_text_to_a_signature(
    proof: dict[str, Any], keys: list[VerifierKey], corpus: Corpus, tmp_path: Path
) -> None:
    report = check_proof(written(tmp_path, proof), keys, TEXT)

    assert report.holds
    assert [step.what for step in report.steps] == ["head", "log", "manifest", "text"]
    assert (report.facts["origin"], report.facts["size"]) == (corpus.settings.log_origin, corpus.size)
    assert report.facts["line"]["chunk_id"] == CHUNK
    assert report.facts["signed_by"] == [str(keys[0])]
    assert PUMPS.chunks[2].text.strip() not in json.dumps(proof)
    json.dumps(report.as_dict())


@pytest.mark.parametrize("chunk", [chunk.chunk_id for chunk in (*PUMPS.chunks, *QUAYS.chunks)])
def test_every_chunk_has_one(corpus: Corpus, keys: list[VerifierKey], tmp_path: Path, chunk: str) -> None:
    with Deployment(corpus.settings) as guard:
        assert check_proof(
            written(tmp_path, prove_chunk(guard.ledger, guard.storage, guard.settings, chunk)), keys
        ).holds


def _edited(part: str, name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def edit(proof: dict[str, Any]) -> None:
        proof[part][name] = change(proof[part][name])

    return edit


def _another_chunk(proof: dict[str, Any]) -> None:
    proof["chunk_id"] = STRANGER


def _signed_by_another(proof: dict[str, Any]) -> None:
    note = parse_note(proof["head"])
    signer = Signer(note.signatures[0].name, Ed25519PrivateKey.generate())
    proof["head"] = Note(note.text, (signer.sign(note.text),)).serialize()
    proof["keys"] = [signer.verifier.encode()]


def _larger(proof: dict[str, Any]) -> None:
    first, size, *rest = proof["head"].split("\n")
    proof["head"] = "\n".join([first, str(int(size) + 1), *rest])


@pytest.mark.parametrize(
    ("edit", "step"),
    [
        (_edited("manifest", "line", lambda line: line.replace('"ordinal":2', '"ordinal":3')), "manifest"),
        (_edited("manifest", "index", lambda index: index + 1), "manifest"),
        (_edited("manifest", "size", lambda size: size + 1), "manifest"),
        (_edited("manifest", "proof", lambda proof: proof[:-1]), "manifest"),
        (_edited("manifest", "proof", lambda proof: [*proof, proof[0]]), "manifest"),
        (_edited("manifest", "proof", lambda proof: ["nothing", *proof[1:]]), "manifest"),
        (_edited("log", "line", lambda line: line.replace('"chunks":10', '"chunks":11')), "log"),
        (_edited("log", "index", lambda index: index - 1), "log"),
        (_edited("log", "proof", lambda proof: proof[::-1]), "log"),
        (_another_chunk, "manifest"),
        (_signed_by_another, "head"),
        (_larger, "head"),
    ],
)
def test_a_proof_that_was_changed_fails_where_it_was(
    proof: dict[str, Any], keys: list[VerifierKey], tmp_path: Path, edit: Callable[[Any], None], step: str
) -> None:
    changed = copy.deepcopy(proof)
    edit(changed)
    assert changed != proof

    assert failed(check_proof(written(tmp_path, changed), keys, TEXT)) == step


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "no json", '{"v": 1, "chunk_id": "x", "head": "x", "log": {}, "manifest": []}']
)
def test_what_has_not_the_form_of_a_proof_proves_nothing(keys: list[VerifierKey], tmp_path: Path, content: str) -> None:
    assert failed(check_proof(written(tmp_path, content), keys)) == "form"


def test_another_text_fails(proof: dict[str, Any], keys: list[VerifierKey], tmp_path: Path) -> None:
    assert failed(check_proof(written(tmp_path, proof), keys, TEXT + b"\n")) == "text"


def test_an_event_that_is_signed_and_no_seal_proves_nothing(
    corpus: Corpus, proof: dict[str, Any], keys: list[VerifierKey], tmp_path: Path
) -> None:
    """Somebody who can have any event logged has no manifest of their own."""
    from corpus_guard.proof.log.heads import leaf_hashes
    from corpus_guard.proof.log.merkle import inclusion_proof

    event = corpus.events()[0]
    way = [one.hex() for one in inclusion_proof(leaf_hashes(corpus.shelf.ledger, corpus.size), 0)]
    other = {**proof, "log": {"line": event.line.decode(), "index": 0, "size": corpus.size, "proof": way}}

    assert failed(check_proof(written(tmp_path, other), keys)) == "log"


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_character_of_a_proof_can_change(
    proof: dict[str, Any], keys: list[VerifierKey], tmp_path: Path, data: st.DataObject
) -> None:
    """Except in what nobody believes: the keys inside."""
    text = json.dumps({name: value for name, value in proof.items() if name != "keys"})
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from('0a9f"{}[],:x—').filter(lambda one: one != text[at]))

    changed = text[:at] + other + text[at + 1 :]

    report = check_proof(written(tmp_path, changed), keys)
    assert not report.holds or json.loads(changed) == json.loads(text)


def test_a_key_must_be_brought_along(proof: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no key to check it with"):
        check_proof(written(tmp_path, proof), [])


def test_a_file_that_is_not_there(keys: list[VerifierKey], tmp_path: Path) -> None:
    with pytest.raises(Misuse, match="no such file"):
        check_proof(tmp_path / "nothing.json", keys)


def test_a_chunk_that_is_not_served_has_no_proof(corpus: Corpus) -> None:
    with Deployment(corpus.settings) as guard, pytest.raises(UnknownSubject, match="which lists 10 chunks"):
        prove_chunk(guard.ledger, guard.storage, guard.settings, STRANGER)


def test_where_nothing_was_sealed_nothing_is_proved(tmp_path: Path) -> None:
    with Deployment(Settings(home=tmp_path)) as guard, pytest.raises(Misuse, match="sealed and signed yet"):
        prove_chunk(guard.ledger, guard.storage, guard.settings, CHUNK)


def test_from_a_manifest_that_was_changed_nothing_is_proved(corpus: Corpus, tmp_path: Path) -> None:
    own = corpus.copied(tmp_path / "home")
    a_line_of_the_manifest(own)

    with Deployment(own.settings) as guard, pytest.raises(Inconsistent, match="guard verify"):
        prove_chunk(guard.ledger, guard.storage, guard.settings, CHUNK)


# --- the exported folder ---------------------------------------------------------------------------------------------


def test_a_folder_holds_without_us(exported: Path, keys: list[VerifierKey], corpus: Corpus) -> None:
    report = check_proof(exported, keys, TEXT)

    assert report.holds
    assert report.facts["size"] == corpus.size
    assert report.facts["manifest_sha256"] == corpus.manifest.stem
    assert VerifierKey.parse((exported / "log.pub").read_text()) == keys[0]
    assert {path.name for path in exported.iterdir()} == {"head.note", "log.jsonl", "manifest.jsonl", "log.pub"}


def _without_first(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def _without_last(lines: list[bytes]) -> list[bytes]:
    return lines[:-1]


def _swapped(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], *lines[2:]]


def _twice(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[-1]]


def _a_digit(lines: list[bytes]) -> list[bytes]:
    return [lines[0].replace(b"2026", b"2027", 1), *lines[1:]]


@pytest.mark.parametrize("name", ["log.jsonl", "manifest.jsonl"])
@pytest.mark.parametrize("change", [_without_first, _without_last, _swapped, _twice, _a_digit])
def test_a_folder_that_was_changed_fails(
    exported: Path, keys: list[VerifierKey], tmp_path: Path, name: str, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    folder = tmp_path / "proofs"
    shutil.copytree(exported, folder)
    lines = (folder / name).read_bytes().splitlines(keepends=True)
    (folder / name).write_bytes(b"".join(change(lines)))

    assert failed(check_proof(folder, keys)) == name.partition(".")[0]


@pytest.mark.parametrize("name", ["head.note", "log.jsonl", "manifest.jsonl"])
def test_a_folder_that_lacks_a_file_fails(exported: Path, keys: list[VerifierKey], tmp_path: Path, name: str) -> None:
    folder = tmp_path / "proofs"
    shutil.copytree(exported, folder)
    (folder / name).unlink()

    assert failed(check_proof(folder, keys)) == "form"


def test_a_text_that_no_chunk_has(exported: Path, keys: list[VerifierKey]) -> None:
    assert failed(check_proof(exported, keys, b"another text")) == "text"


def test_keys_inside_are_not_believed(exported: Path, tmp_path: Path) -> None:
    stranger = Signer("corpus-guard.local/corpus", Ed25519PrivateKey.generate()).verifier

    assert failed(check_proof(exported, [stranger])) == "head"


def test_checking_needs_neither_ledger_nor_store() -> None:
    code = (
        "import sys, corpus_guard.proof.checking;"
        "print([name for name in ('sqlalchemy', 'chromadb', 'pyarrow', 'corpus_guard.ledger') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
