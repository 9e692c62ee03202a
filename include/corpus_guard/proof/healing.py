"""Healing: undoing the deviations that a verification found in the collections.

Rules
    * the ledger says what is served, the Parquet batches hold it; both are trusted only where they agree:
      what is published again must have exactly the text, vector and metadata that were published before;
    * a record that the ledger does not serve is deleted; one that it serves is deleted and published again,
      through the outbox;
    * a chunk whose row in the ledger was changed is left alone, and so is everything that is not a record: a
      person has to decide;
    * nothing is touched where this is not the ledger that was signed, such as an older copy: what it does not know may be
      honest, and what it serves may have been withdrawn since;
    * healing is logged; the caller seals and verifies again. If the process is killed, running again
      converges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches, vectors_from_table, versions_from_table
from corpus_guard.corpus import outbox
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.states import UNFINISHED_STATES, PublicationState
from corpus_guard.ledger.tables import chunks, publications, versions
from corpus_guard.proof.deviations import OTHER_LEDGER_KINDS, Deviation, DeviationKind
from corpus_guard.proof.manifest import RecordKey

_Row: TypeAlias = sa.Row[tuple[object, ...]]
"""A publication with its batch and its version's state."""


@dataclass(frozen=True, slots=True)
class HealingReport:
    """Outcome of a healing."""

    deleted: int  # records that the ledger does not serve
    republished: int  # records
    unhealed: tuple[tuple[str, str], ...]  # (subject, why a person has to decide)


@dataclass(slots=True)
class _Progress:
    """Chunk ids that are done, by collection, and subjects that are left."""

    deleted: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    republished: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    unhealed: dict[str, str] = field(default_factory=dict)  # subject → why


def heal(ledger: Ledger, storage: Storage, store: Store, run_id: str, deviations: Sequence[Deviation]) -> HealingReport:
    """Undo those of `deviations` that can be undone; seal and verify afterwards.

    Raises:
        StoreUnavailable: the vector store does not answer; running again converges.
        Inconsistent: what was read back after writing is not what was written.
    """
    progress = _Progress()
    is_other_ledger = any(deviation.kind in OTHER_LEDGER_KINDS for deviation in deviations)
    for deviation in deviations:
        if not deviation.healable:
            progress.unhealed[deviation.subject] = "not a record of a collection: a person has to decide"
        elif is_other_ledger:
            progress.unhealed[deviation.subject] = "this is not the ledger that was signed: a person has to decide"
    healable = [
        deviation for deviation in deviations if deviation.healable and deviation.subject not in progress.unhealed
    ]
    suspects = _suspect_records(ledger, healable)
    if suspects:
        store.forget_collections()  # a collection may have been made again under its name
        with ledger.exclusive("publish"):
            for batch in in_batches(_sort_by_file(ledger, suspects)):
                _heal_batch(ledger, storage, store, run_id, batch, progress)
        outbox.drain(ledger, storage, store, run_id)
    unhealed = tuple(sorted(progress.unhealed.items()))
    return HealingReport(_count(progress.deleted), _count(progress.republished), unhealed)


def _suspect_records(ledger: Ledger, deviations: Iterable[Deviation]) -> set[RecordKey]:
    """Return every key under which a record may have to be deleted or written."""
    suspects: set[RecordKey] = set()
    for deviation in deviations:
        if deviation.kind is DeviationKind.COLLECTION_MISSING:
            is_published = sa.and_(
                publications.c.collection == deviation.collection, publications.c.state == PublicationState.PUBLISHED
            )
            with ledger.read() as connection:
                chunk_ids = connection.scalars(sa.select(publications.c.chunk_id).where(is_published))
                suspects |= {(chunk_id, deviation.collection) for chunk_id in chunk_ids}
        else:
            suspects.add((deviation.subject, deviation.collection))
        if deviation.kind is DeviationKind.MOVED:
            suspects.add((deviation.subject, deviation.actual))
    return suspects


def _sort_by_file(ledger: Ledger, keys: Collection[RecordKey]) -> list[RecordKey]:
    """Return the keys in the order of the files that hold their vectors, so that each file is read a few times at most."""
    statement = sa.select(publications.c.chunk_id, publications.c.collection, publications.c.vectors)
    with ledger.read() as connection:
        rows = select_in_batches(connection, statement, publications.c.chunk_id, (chunk_id for chunk_id, _ in keys))
        files = {(row.chunk_id, row.collection): row.vectors for row in rows}
    return sorted(keys, key=lambda key: (files.get(key, ""), key))


def _heal_batch(
    ledger: Ledger, storage: Storage, store: Store, run_id: str, keys: Sequence[RecordKey], progress: _Progress
) -> None:
    """Delete what is not served, delete and request again what is; the outbox publishes it."""
    rows = _publication_rows(ledger, keys)
    published = [row for row in rows.values() if row.publication == PublicationState.PUBLISHED]
    recoverable = _recoverable_records(storage, published)
    to_delete: dict[str, list[str]] = defaultdict(list)
    to_republish: dict[str, list[str]] = defaultdict(list)
    for chunk_id, collection in keys:
        row = rows.get((chunk_id, collection))
        if row is not None and row.publication in UNFINISHED_STATES:
            continue  # the outbox is about to do it
        if row is None or row.publication == PublicationState.RETIRED:
            to_delete[collection].append(chunk_id)
        elif (chunk_id, collection) in recoverable:
            to_republish[collection].append(chunk_id)
        else:
            progress.unhealed[chunk_id] = (
                f"the batches no longer hold what was published to {collection}: restore the storage folder "
                "from a backup"
            )
    for collection in set(store.names()) & {*to_delete, *to_republish}:
        store.delete(collection, [*to_delete[collection], *to_republish[collection]])
    if not (to_delete or to_republish):
        return
    with ledger.write() as connection:
        for collection in sorted({*to_delete, *to_republish}):
            deleted, republished = to_delete[collection], to_republish[collection]
            connection.execute(
                publications.update()
                .where(
                    publications.c.collection == collection,
                    publications.c.chunk_id.in_(republished),
                    publications.c.state == PublicationState.PUBLISHED,
                )
                .values(state=PublicationState.PENDING, changed_at=now(), run_id=run_id)
            )
            append_event(connection, "healed", collection, run_id, deleted=deleted, republished=republished)
            progress.deleted[collection] += deleted
            progress.republished[collection] += republished


def _publication_rows(ledger: Ledger, keys: Sequence[RecordKey]) -> Mapping[RecordKey, _Row]:
    statement: sa.Select[tuple[object, ...]] = (
        sa.select(
            *(column for column in publications.c if column.name != "state"),
            publications.c.state.label("publication"),
            chunks.c.text_sha256,
            versions.c.batch,
            versions.c.state,
        )
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.chunk_id.in_([chunk_id for chunk_id, _ in keys]))
    )
    return {(row.chunk_id, row.collection): row for row in ledger.rows(statement)}


def _recoverable_records(storage: Storage, rows: Sequence[_Row]) -> set[RecordKey]:
    """Return the keys of the publications whose very record the batches still hold."""
    recoverable: set[RecordKey] = set()
    for vectors, batch in sorted({(row.vectors, row.batch) for row in rows}):
        in_files = [row for row in rows if (row.vectors, row.batch) == (vectors, batch)]
        for row, record in _records_in_files(storage, vectors, batch, in_files):
            if record.fingerprint == (row.text_sha256, row.vector_sha256, row.metadata_sha256):
                recoverable.add((row.chunk_id, row.collection))
    return recoverable


def _records_in_files(
    storage: Storage, vectors_name: str, batch_name: str, rows: Sequence[_Row]
) -> Iterator[tuple[_Row, ChunkRecord]]:
    try:
        vectors = vectors_from_table(storage.read_table(vectors_name))
        version_ids = list({row.version_id for row in rows})
        table = storage.read_table(batch_name, filters=[("version_id", "in", version_ids)])
        by_id = {version.version_id: version for version in versions_from_table(table)}
        for row in rows:
            if row.version_id in by_id:
                yield row, outbox.build_record(row, by_id[row.version_id], vectors)
    except (Inconsistent, ValueError, LookupError, OSError):  # missing, or no longer Parquet: nothing to heal from
        return


def _count(by_collection: Mapping[str, Sequence[str]]) -> int:
    return sum(map(len, by_collection.values()))
