"""Undoing what a verification found in the collections.

Rules
    * the ledger says what is served, the Parquet batches hold it; both are believed only where they agree with each other: what would
      be published again must have the very text, vector and metadata that were published before;
    * what the ledger does not serve is deleted, what it serves is deleted and published again, through the outbox like everything else;
    * a chunk of which the ledger itself was changed is left alone, and so is everything that is no record: it takes a person;
    * it is logged; the caller seals and verifies anew. Killed anywhere, running again converges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from corpus_guard.batches.tables import split, vectors_from_table, versions_from_table
from corpus_guard.corpus import outbox
from corpus_guard.corpus.store import Record
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, publications, versions
from corpus_guard.proof._sealed import Key
from corpus_guard.proof._verify_ledger import IN_FLIGHT
from corpus_guard.proof.deviations import Deviation, Kind

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

PAGE = 500  # chunks held at a time


@dataclass(frozen=True, slots=True)
class Healed:
    """What was undone, and what was not."""

    deleted: int  # records that nobody serves
    republished: int  # records that are as they were again
    left: tuple[tuple[str, str], ...]  # (subject, why) of what takes a person

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        left = [{"subject": subject, "reason": reason} for subject, reason in self.left]
        return {"deleted": self.deleted, "republished": self.republished, "left": left}


def heal(guard: Guard, run_id: str, deviations: Sequence[Deviation]) -> Healed:
    """Undo what can be undone of `deviations`; seal and verify afterwards.

    Args:
        guard: the deployment.
        run_id: who heals, for the event log.
        deviations: what `verify` found.

    Raises:
        StoreUnavailable: Chroma does not answer; running again converges.
        Inconsistent: what was read back after writing is not what was written.
    """
    left = {one.subject: "no record of a collection: it takes a person" for one in deviations if not one.healable}
    suspects = _suspects(guard, [one for one in deviations if one.healable and one.subject not in left])
    deleted: dict[str, list[str]] = defaultdict(list)
    asked: dict[str, list[str]] = defaultdict(list)
    if suspects:
        guard.store.forget()  # a collection may have been made again under its name
        with guard.ledger.exclusive("publish"):
            for page in split(sorted(suspects), PAGE):
                _heal(guard, run_id, page, deleted, asked, left)
        outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    return Healed(_count(deleted), _count(asked), tuple(sorted(left.items())))


def _suspects(guard: Guard, deviations: Iterable[Deviation]) -> set[Key]:
    """Every place where a record may have to be deleted or written."""
    suspects: set[Key] = set()
    for one in deviations:
        if one.kind is Kind.COLLECTION_MISSING:
            statement = sa.select(publications.c.chunk_id).where(
                publications.c.collection == one.collection, publications.c.state == "published"
            )
            with guard.ledger.read() as connection:
                suspects |= {(chunk, one.collection) for chunk in connection.execute(statement).scalars()}
        else:
            suspects.add((one.subject, one.collection))
        if one.kind is Kind.MOVED:
            suspects.add((one.subject, one.found))
    return suspects


def _heal(
    guard: Guard,
    run_id: str,
    page: Sequence[Key],
    deleted: dict[str, list[str]],
    asked: dict[str, list[str]],
    left: dict[str, str],
) -> None:
    rows = _rows(guard, page)
    good = _unchanged(guard, [row for row in rows.values() if row.publication == "published"])
    gone: dict[str, list[str]] = defaultdict(list)
    again: dict[str, list[str]] = defaultdict(list)
    for chunk, collection in page:
        row = rows.get((chunk, collection))
        if row is not None and row.publication in IN_FLIGHT:
            continue  # the outbox is about to do it
        if row is None or row.publication == "retired":
            gone[collection].append(chunk)
        elif (chunk, collection) in good:
            again[collection].append(chunk)
        else:
            left[chunk] = (
                f"the batches no longer hold what was published to {collection}: restore the storage folder from a copy"
            )
    existing = set(guard.store.names())
    for collection in existing & {*gone, *again}:
        guard.store.delete(collection, [*gone[collection], *again[collection]])
    if not (gone or again):
        return
    with guard.ledger.write() as connection:
        for collection in sorted({*gone, *again}):
            connection.execute(
                publications.update()
                .where(
                    publications.c.collection == collection,
                    publications.c.chunk_id.in_(again[collection]),
                    publications.c.state == "published",
                )
                .values(state="pending", changed_at=now(), run_id=run_id)
            )
            told = {"deleted": gone[collection], "republished": again[collection]}
            guard.ledger.event(connection, "healed", collection, run_id, **told)
            deleted[collection] += gone[collection]
            asked[collection] += again[collection]


def _rows(guard: Guard, page: Sequence[Key]) -> Mapping[Key, Any]:
    statement = (
        sa.select(
            *(column for column in publications.c if column.name != "state"),
            publications.c.state.label("publication"),
            chunks.c.text_sha256,
            versions.c.batch,
            versions.c.state,
        )
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.chunk_id.in_([chunk for chunk, _ in page]))
    )
    with guard.ledger.read() as connection:
        return {(row.chunk_id, row.collection): row for row in connection.execute(statement)}


def _unchanged(guard: Guard, rows: Sequence[Any]) -> set[Key]:
    """Those of which the batches hold the very record that was published."""
    good: set[Key] = set()
    for vectors, batch in sorted({(row.vectors, row.batch) for row in rows}):
        mine = [row for row in rows if (row.vectors, row.batch) == (vectors, batch)]
        for row, record in _from_batches(guard, vectors, batch, mine):
            if record.fingerprint == (row.text_sha256, row.vector_sha256, row.metadata_sha256):
                good.add((row.chunk_id, row.collection))
    return good


def _from_batches(guard: Guard, vectors: str, batch: str, rows: Sequence[Any]) -> Iterable[tuple[Any, Record]]:
    try:
        held = vectors_from_table(guard.storage.read_table(vectors))
        wanted = list({row.version_id for row in rows})
        table = guard.storage.read_table(batch, filters=[("version_id", "in", wanted)])
        texts = {version.version_id: version for version in versions_from_table(table)}
        for row in rows:
            if row.version_id in texts:
                yield row, outbox.record_of(row, texts[row.version_id], held)
    except (Inconsistent, ValueError, LookupError, OSError):  # gone, or no Parquet any more: nothing to heal from
        return


def _count(by_collection: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, by_collection.values()))
