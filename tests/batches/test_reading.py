"""A recorded batch is used only as it was judged: any difference from the ledger's hashes is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.reading import BatchDamaged, read_checked_versions
from corpus_guard.batches.tables import versions_to_table
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.domain import TrustLevel, Verdict, Version
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import BlockedKind, PurgeState
from corpus_guard.ledger.tables import blocked, purges, versions
from material import Shelf, a_version

PUMPS = a_version("pumps.md", ("The pump is greased in spring. ", "The valve is closed in autumn. "))
QUAYS = a_version("quays.md")


@pytest.fixture
def batch(sqlite_ledger: Ledger, storage: Storage) -> str:
    """Two versions that wait in one batch; nothing is published, so no collection is opened."""
    shelf = Shelf(sqlite_ledger, storage, ChromaStore("http://127.0.0.1:1", "never"))
    shelf.record((PUMPS, Verdict.QUARANTINE), (QUAYS, Verdict.QUARANTINE))
    return str(sqlite_ledger.scalar(sa.select(versions.c.batch).limit(1)))


def rewrite(storage: Storage, batch: str, *stored: Version) -> None:
    Path(storage.location(batch)).unlink()
    storage.write_table(batch, versions_to_table(stored))


def test_an_unchanged_batch_is_returned_whole_or_in_part(sqlite_ledger: Ledger, storage: Storage, batch: str) -> None:
    assert read_checked_versions(sqlite_ledger, storage, batch) == [PUMPS, QUAYS]
    assert read_checked_versions(sqlite_ledger, storage, batch, [QUAYS.version_id]) == [QUAYS]


CHANGES: dict[str, tuple[Callable[[Version], Version], str]] = {
    "text": (lambda version: replace(version, text=version.text.replace("greased", "emptied")), "its text is not"),
    "stamp": (lambda version: replace(version, stamp=replace(version.stamp, trust=TrustLevel.TRUSTED)), "its stamp"),
    "document": (lambda version: replace(version, doc_id=QUAYS.doc_id), "its stamp"),
    "chunk left out": (lambda version: replace(version, chunks=version.chunks[:1]), "its chunks are not"),
    "no chunks": (lambda version: replace(version, chunks=()), "its chunks are not"),
    "chunk moved": (
        lambda version: replace(version, chunks=(replace(version.chunks[0], end=9), version.chunks[1])),
        "its chunks are not",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_version_is_named_and_the_others_can_be_read(
    sqlite_ledger: Ledger, storage: Storage, batch: str, name: str
) -> None:
    change, problem = CHANGES[name]
    rewrite(storage, batch, change(PUMPS), QUAYS)

    with pytest.raises(BatchDamaged, match=problem) as caught:
        read_checked_versions(sqlite_ledger, storage, batch)

    assert batch in str(caught.value)
    assert [(defect.version_id, defect.doc_id) for defect in caught.value.defects] == [(PUMPS.version_id, PUMPS.doc_id)]
    assert read_checked_versions(sqlite_ledger, storage, batch, [QUAYS.version_id]) == [QUAYS]


def test_a_missing_row_and_a_missing_file_are_named(sqlite_ledger: Ledger, storage: Storage, batch: str) -> None:
    rewrite(storage, batch, QUAYS)
    with pytest.raises(BatchDamaged, match=f"{PUMPS.version_id}.*does not hold it"):
        read_checked_versions(sqlite_ledger, storage, batch)

    Path(storage.location(batch)).unlink()
    with pytest.raises(BatchDamaged, match="the file is missing"):
        read_checked_versions(sqlite_ledger, storage, batch, [PUMPS.version_id])


def test_a_file_that_is_no_longer_parquet_is_named(sqlite_ledger: Ledger, storage: Storage, batch: str) -> None:
    Path(storage.location(batch)).write_bytes(b"PAR1 and nothing else")

    with pytest.raises(BatchDamaged, match="not readable as a batch"):
        read_checked_versions(sqlite_ledger, storage, batch)


def test_a_purged_version_is_missing_rightly(sqlite_ledger: Ledger, storage: Storage, batch: str) -> None:
    rewrite(storage, batch, QUAYS)
    when = now()
    with sqlite_ledger.write() as connection:
        purge = {"purge_id": "p" * 32, "state": PurgeState.REMOVED, "subject": {}, "versions": [], "run_id": "r"}
        connection.execute(purges.insert().values(**purge, requested_by="ada", reason="asked", requested_at=when))
        row = {"sha256": PUMPS.stamp.content_sha256, "kind": BlockedKind.CONTENT, "purge_id": "p" * 32}
        connection.execute(blocked.insert().values(**row, reason="asked", blocked_at=when))

    assert read_checked_versions(sqlite_ledger, storage, batch) == [QUAYS]


def test_a_version_that_is_not_recorded_in_this_file_is_left_to_its_run(
    sqlite_ledger: Ledger, storage: Storage
) -> None:
    name = "batches/new/versions.parquet"
    storage.write_table(name, versions_to_table([PUMPS]))

    assert read_checked_versions(sqlite_ledger, storage, name) == [PUMPS]
