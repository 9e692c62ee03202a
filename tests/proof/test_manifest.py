"""The manifest: one line a served chunk, the same bytes for the same corpus, and none when Chroma says otherwise."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import chromadb
import pytest
import sqlalchemy as sa

from corpus_guard.corpus import outbox, publishing
from corpus_guard.deployment import Deployment
from corpus_guard.domain import TrustLevel, Verdict, canonical_json, sha256_text
from corpus_guard.errors import Inconsistent, LedgerUnavailable
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import events, seals
from corpus_guard.proof import manifest
from corpus_guard.proof.manifest import manifest_lines, write_manifest
from corpus_guard.settings import Settings
from material import Shelf, a_version, vector_of


@dataclass
class Sealing:
    """A guard and a shelf over the same ledger, storage and collections."""

    guard: Deployment
    shelf: Shelf

    def seal(self, run_id: str = "run-1") -> manifest.Manifest:
        return write_manifest(self.guard.ledger, self.guard.storage, self.guard.store, run_id)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in manifest_lines(self.shelf.ledger)]

    def seals(self) -> int:
        return self.shelf.ledger.scalar(sa.select(sa.func.count()).select_from(seals)) or 0


@pytest.fixture
def sealing(shelf: Shelf, tmp_path: Path) -> Iterator[Sealing]:
    settings = shelf.settings(tmp_path)
    with Deployment(settings) as guard:
        yield Sealing(guard, shelf)


def some(sealing: Sealing) -> None:
    sealing.shelf.serve(
        a_version("b"),
        a_version("a", trust=TrustLevel.TRUSTED),
        a_version("<script>{{ x }}</script>.md", ("naïve ", "زبان")),
    )
    sealing.shelf.record((a_version("doubtful"), Verdict.QUARANTINE))


def test_a_line_says_what_is_served_and_on_what_grounds(sealing: Sealing) -> None:
    version = a_version()
    sealing.shelf.serve(version)
    row = sealing.shelf.in_ledger()[sealing.shelf.store.collection_name(TrustLevel.OPEN), version.chunks[1].chunk_id]

    line = next(line for line in sealing.lines() if line["ordinal"] == 1)

    assert line == {
        "v": 2,
        "chunk_id": version.chunks[1].chunk_id,
        "collection": row.collection,
        "doc_id": version.doc_id,
        "version_id": version.version_id,
        "ordinal": 1,
        "source": "harbour",
        "owner": "harbour office",
        "trust": "open",
        "uri": "pumps.md",
        "fetched_at": "2026-03-01T12:00:00+00:00",
        "content_sha256": version.stamp.content_sha256,
        "text_sha256": sha256_text(version.chunks[1].text),
        "vector_sha256": row.vector_sha256,
        "metadata_sha256": row.metadata_sha256,
        "model": "hashed-texts/float32",
        "verdict": "accept",
        "decision_id": None,
        "policy_digest": "0" * 64,
    }
    assert not any(isinstance(value, float) for value in line.values())
    assert version.chunks[1].text not in json.dumps(line)


def test_lines_are_canonical_and_sorted(sealing: Sealing) -> None:
    some(sealing)

    written = list(manifest_lines(sealing.shelf.ledger))

    assert written == [canonical_json(json.loads(line)) for line in written]
    keys = [(line["chunk_id"], line["collection"]) for line in map(json.loads, written)]
    assert keys == sorted(keys)
    assert {(collection, chunk) for chunk, collection in keys} == set(sealing.shelf.in_chroma())


def test_the_file_is_the_lines_under_their_hash(sealing: Sealing) -> None:
    some(sealing)

    sealed = sealing.seal()

    content = sealing.guard.storage.read(sealed.name)
    assert content.splitlines() == list(manifest_lines(sealing.shelf.ledger))
    assert sealed.sha256 == sha256_text(content.decode())
    assert sealed.sha256 in sealed.name
    assert sealed.chunks == 6
    subject = sealing.shelf.ledger.scalar(sa.select(events.c.subject).where(events.c.kind == "sealed"))
    assert subject == sealed.sha256


def test_the_same_corpus_built_another_way_has_the_same_manifest(
    sealing: Sealing, sqlite_ledger: Any, store: Any, tmp_path: Path
) -> None:
    """Order of publishing, failed attempts and detours leave no trace."""
    other = Shelf(sqlite_ledger, sealing.shelf.storage, store)
    final = [a_version("a", ("second",), minute=1), a_version("b"), a_version("c", trust=TrustLevel.TRUSTED)]
    sealing.shelf.serve(*final)
    first = list(manifest_lines(sealing.shelf.ledger))
    if other.ledger is sealing.shelf.ledger:  # the run on SQLite compares with itself, rebuilt
        for version in final:
            other.retire(version.doc_id)
        other.drain()
        other.ledger.execute(sa.text("UPDATE documents SET retired_at = NULL"))
    else:
        other.serve(a_version("a", ("first",)), a_version("gone"))
        other.retire(a_version("gone").doc_id)
    for version in reversed(final):
        other.serve(version)

    assert list(manifest_lines(other.ledger)) == first


def test_an_unchanged_corpus_keeps_its_manifest(sealing: Sealing) -> None:
    some(sealing)
    first = sealing.seal("run-1")

    sealing.shelf.record((a_version("doubtful too"), Verdict.QUARANTINE))

    assert sealing.seal("run-2") == first
    assert sealing.seals() == 1


def test_an_empty_corpus_is_sealed_without_a_store(tmp_path: Path) -> None:
    with Deployment(Settings(home=tmp_path, chroma_url="http://chroma.invalid:1")) as guard:
        sealed = write_manifest(guard.ledger, guard.storage, guard.store, "run-1")

        assert sealed.chunks == 0
        assert guard.storage.read(sealed.name) == b""


@pytest.mark.parametrize("change", ["publish", "replace", "retire"])
def test_a_changed_corpus_gets_another_manifest(sealing: Sealing, change: str) -> None:
    some(sealing)
    first = sealing.seal("run-1")
    if change == "retire":
        sealing.shelf.retire(a_version("b").doc_id)
        sealing.shelf.drain()
    else:
        sealing.shelf.serve(a_version({"publish": "new", "replace": "b"}[change], ("other",), minute=1))

    second = sealing.seal("run-2")

    assert second.sha256 != first.sha256
    assert sealing.guard.storage.exists(first.name)  # what was sealed stays
    assert sealing.seals() == 2


def test_clocks_that_differ_hide_no_change(sealing: Sealing, monkeypatch: pytest.MonkeyPatch) -> None:
    some(sealing)
    first = sealing.seal("run-1")
    for room in (publishing, outbox):
        monkeypatch.setattr(room, "now", lambda: now().replace(year=2020))  # another machine, far behind

    sealing.shelf.serve(a_version("new"))

    assert sealing.seal("run-2").sha256 != first.sha256


def test_a_manifest_that_was_lost_is_written_again(sealing: Sealing, tmp_path: Path) -> None:
    some(sealing)
    first = sealing.seal("run-1")
    shutil.rmtree(tmp_path / "storage" / "manifests")

    assert sealing.seal("run-2") == first
    assert sealing.guard.storage.exists(first.name)


@pytest.mark.parametrize("tampering", ["planted", "removed"])
def test_another_count_than_the_ledgers_is_not_sealed(
    sealing: Sealing, chroma: chromadb.ClientAPI, tampering: str
) -> None:
    version = a_version()
    sealing.shelf.serve(version)
    name = sealing.shelf.store.collection_name(TrustLevel.OPEN)
    if tampering == "planted":
        chroma.get_collection(name).add(ids=["planted"], embeddings=[vector_of("planted")], documents=["planted"])
    else:
        chroma.get_collection(name).delete(ids=[version.chunks[0].chunk_id])

    with pytest.raises(
        Inconsistent, match=rf"collection {name} at .* holds {3 if tampering == 'planted' else 1} chunks"
    ):
        sealing.seal()

    assert sealing.seals() == 0
    assert not sealing.guard.storage.exists("manifests")


def test_a_record_planted_where_all_was_retired_is_not_sealed(sealing: Sealing, chroma: chromadb.ClientAPI) -> None:
    version = a_version()
    sealing.shelf.serve(version)
    sealing.shelf.retire(version.doc_id)
    sealing.shelf.drain()
    name = sealing.shelf.store.collection_name(TrustLevel.OPEN)
    chroma.get_collection(name).add(ids=["planted"], embeddings=[vector_of("planted")], documents=["planted"])

    with pytest.raises(Inconsistent, match=f"collection {name} at .* holds 1 chunks, the ledger published 0"):
        sealing.seal()


def test_what_another_run_has_only_asked_for_does_not_stop_the_seal(sealing: Sealing) -> None:
    some(sealing)
    sealing.shelf.retire(a_version("b").doc_id)
    sealing.shelf.accept(a_version("new"))

    assert sealing.seal().chunks == 4


def test_nobody_publishes_while_it_is_sealed(sealing: Sealing, monkeypatch: pytest.MonkeyPatch) -> None:
    some(sealing)
    lines = manifest.manifest_lines

    def while_reading(ledger: Any) -> Iterator[bytes]:
        with pytest.raises(LedgerUnavailable, match="lock 'publish'"), ledger.exclusive("publish", wait=0.1):
            raise AssertionError("published meanwhile")
        yield from lines(ledger)

    monkeypatch.setattr(manifest, "manifest_lines", while_reading)

    assert sealing.seal().chunks == 6
