"""The outbox: publications that the ledger asks for and that Chroma does not hold yet, or holds still.

Rules
    * one process drains at a time, under a lock that is freed when its holder dies;
    * a text is written only if it is the one that was judged, by the hashes of the ledger;
    * a written record is read back by id and looked for by its vector, and only then marked as published; a
      record that no query finds stays in the outbox, the others go on;
    * to repair an index, neighbours of an unreachable record may have to be written again: the ledger first
      says that they are to be published, and only records that are as they were published are touched;
    * a document's new chunks are served before its old ones are retired;
    * killed anywhere, running again ends in the same place.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.reading import read_checked_versions, read_vectors
from corpus_guard.batches.tables import SERVED_COLUMNS
from corpus_guard.corpus import reach
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.domain import Verdict, Version, record_digest
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, select_in_batches
from corpus_guard.ledger.states import UNFINISHED_STATES, PublicationState, ReviewAction, VersionState
from corpus_guard.ledger.tables import chunks, documents, publications, versions, waits_for_publication

CHUNKS_PER_GROUP = 1_000  # published between two marks in the ledger


class Drained(NamedTuple):
    """Counts of chunks that one `drain` brought into Chroma or removed."""

    published: int
    retired: int


def drain(ledger: Ledger, storage: Storage, store: Store, run_id: str) -> Drained:
    """Make Chroma hold what the ledger says, whichever run asked for it.

    Args:
        store: the collections; connected only when there is work.

    Raises:
        StoreUnavailable: the vector store does not answer; what was done is marked, running again does the rest.
        BatchDamaged: a batch does not hold what was judged.
        Inconsistent: what was read back is not what was written, or no query finds it; the latter is raised
            when everything else is done.
    """
    if not _has_work(ledger):
        return Drained(0, 0)
    with ledger.exclusive("publish"):
        published = 0
        last: Row | None = None
        lost: list[ChunkRecord] = []
        while group := _pending(ledger, last):
            unreachable = _publish(ledger, storage, store, run_id, group)
            lost_ids = {record.chunk_id for record in unreachable}
            published += sum(row.chunk_id not in lost_ids for row in group)
            lost += unreachable
            last = group[-1]
        retired = 0
        while group := _retiring(ledger):
            _retire(ledger, store, run_id, group)
            retired += len(group)
    if lost:
        raise _lost_error(store, lost)
    return Drained(published, retired)


def _lost_error(store: Store, lost: Sequence[ChunkRecord]) -> Inconsistent:
    count = f"{len(lost)} chunks are" if len(lost) > 1 else "1 chunk is"
    first = ", ".join(record.chunk_id for record in lost[:5])
    return Inconsistent(
        f"{count} in {store.system} at {store.address}, written {1 + reach.MAX_REPAIR_ROUNDS} times, and no query finds them (first: "
        f"{first}). They stay in the outbox and are not marked as published. Run again; if the error stays, delete their "
        "collection: `guard verify` then reports it as missing, and `guard incident heal` writes it again"
    )


def _has_work(ledger: Ledger) -> bool:
    with ledger.read() as connection:
        unfinished = sa.select(publications.c.chunk_id).where(publications.c.state.in_(UNFINISHED_STATES)).limit(1)
        return connection.execute(unfinished).first() is not None


def _pending(ledger: Ledger, last: Row | None) -> Sequence[Row]:
    """Return the next group after the row `last`; unreachable records wait for the next run."""
    order = (publications.c.vectors, publications.c.version_id, publications.c.chunk_id, publications.c.collection)
    statement = (
        sa.select(
            *publications.c["chunk_id", "collection", "doc_id", "version_id", "vectors", "model"],
            versions.c.batch,
            versions.c.state,
        )
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(waits_for_publication())
        .order_by(*order)
        .limit(CHUNKS_PER_GROUP)
    )
    if last is not None:
        previous = (last.vectors, last.version_id, last.chunk_id, last.collection)
        statement = statement.where(sa.tuple_(*order) > sa.tuple_(*previous))
    return ledger.rows(statement)


def _publish(ledger: Ledger, storage: Storage, store: Store, run_id: str, group: Sequence[Row]) -> list[ChunkRecord]:
    """Write a group of chunks and mark them; return the records that are stored and no query finds."""
    # By file: a chunk that was embedded in two batches has two vectors, which differ in the last bits.
    vectors = {name: read_vectors(storage, name) for name in {row.vectors for row in group}}
    by_id: dict[str, Version] = {}
    for name in {row.batch for row in group}:
        version_ids = {row.version_id for row in group if row.batch == name}
        stored = read_checked_versions(ledger, storage, name, version_ids, SERVED_COLUMNS)
        by_id.update({version.version_id: version for version in stored})
    by_target: dict[tuple[str, str], list[ChunkRecord]] = {}
    for row in group:
        record = build_record(row, by_id[row.version_id], vectors[row.vectors])
        by_target.setdefault((row.collection, row.model), []).append(record)
    reachable: dict[str, list[ChunkRecord]] = {}
    lost: list[ChunkRecord] = []
    for (collection, model), records in by_target.items():
        claim = functools.partial(_claim_neighbours, ledger, store, run_id, collection)
        # The number format is left out: vectors of one model in bfloat16 and float32 agree to 0.9998 and may
        # be mixed.
        written = reach.write_reachable(store, collection, records, model.rpartition("/")[0], claim)
        reachable.setdefault(collection, []).extend(written.reachable)
        lost += written.unreachable
    _mark_published(ledger, run_id, reachable)
    return lost


def _claim_neighbours(
    ledger: Ledger, store: Store, run_id: str, collection: str, unreachable: Sequence[str], neighbours: Sequence[str]
) -> Sequence[ChunkRecord]:
    """Put neighbours that are as they were published back into the outbox, and return them.

    A record that differs is left for verification to report: writing it again would wipe out the evidence.
    """
    if not neighbours:
        return ()
    statement = (
        sa.select(
            publications.c.chunk_id, publications.c.vector_sha256, publications.c.metadata_sha256, chunks.c.text_sha256
        )
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(publications.c.collection == collection, publications.c.state == PublicationState.PUBLISHED)
    )
    stored, _ = store.read(collection, neighbours)
    with ledger.write() as connection:
        claimed = [
            stored[row.chunk_id]
            for row in select_in_batches(connection, statement, publications.c.chunk_id, stored)
            if stored[row.chunk_id].fingerprint == (row.text_sha256, row.vector_sha256, row.metadata_sha256)
        ]
        if claimed:
            connection.execute(
                publications.update()
                .where(
                    publications.c.chunk_id == sa.bindparam("chunk"),
                    publications.c.collection == collection,
                    publications.c.state == PublicationState.PUBLISHED,
                )
                .values(state=PublicationState.PENDING, changed_at=now(), run_id=run_id),
                [{"chunk": record.chunk_id} for record in claimed],
            )
            republished = [record.chunk_id for record in claimed]
            append_event(connection, "relinked", collection, run_id, lost=list(unreachable), republished=republished)
    return claimed


def build_record(row: Row, version: Version, vectors: Mapping[str, NDArray[np.float32]]) -> ChunkRecord:
    """Return the record that a collection shall hold for a publication.

    Args:
        row: chunk_id, batch and vectors (storage names), and the version's state.
        version: the chunk's, with its text.
        vectors: by chunk id.

    Raises:
        Inconsistent: a file does not hold the chunk.
    """
    chunk = next((chunk for chunk in version.chunks if chunk.chunk_id == row.chunk_id), None)
    if chunk is None or row.chunk_id not in vectors:
        raise Inconsistent(
            f"chunk {row.chunk_id} is to be published, and {row.batch if chunk is None else row.vectors} does not hold it; "
            "the file was changed: restore the storage folder from a copy, then run again"
        )
    stamp = version.stamp
    metadata: dict[str, str | int | float | bool] = {
        "doc_id": version.doc_id,
        "version_id": version.version_id,
        "source": stamp.source,
        "owner": stamp.owner,
        "trust": stamp.trust.value,
        "uri": stamp.uri,
        "ordinal": chunk.ordinal,
        "start": chunk.start,
        "end": chunk.end,
        "content_sha256": stamp.content_sha256,
        "fetched_at": stamp.fetched_at.isoformat(),
        "verdict": (ReviewAction.RELEASE if row.state == VersionState.RELEASED else Verdict.ACCEPT).value,
        # Never left out: `upsert` merges, and a title that is no longer declared would stay (chromadb 1.5.9).
        "title": stamp.declared.get("title", ""),
    }
    return ChunkRecord(chunk.chunk_id, chunk.text, vectors[row.chunk_id], metadata)


def _mark_published(ledger: Ledger, run_id: str, records: Mapping[str, Sequence[ChunkRecord]]) -> None:
    """Mark the records of each collection as published."""
    when = now()
    mark = (
        publications.update()
        .where(
            publications.c.chunk_id == sa.bindparam("chunk"),
            publications.c.collection == sa.bindparam("target"),
            publications.c.state == PublicationState.PENDING,
        )
        .values(
            state=PublicationState.PUBLISHED,
            vector_sha256=sa.bindparam("vector"),
            metadata_sha256=sa.bindparam("data"),
            changed_at=when,
        )
    )
    rows = [
        {"chunk": record.chunk_id, "target": collection, "vector": record.vector_sha256, "data": record.metadata_sha256}
        for collection, written in records.items()
        for record in written
    ]
    if not rows:
        return
    doc_ids = {str(record.metadata["doc_id"]) for written in records.values() for record in written}
    with ledger.write() as connection:
        connection.execute(mark, rows)
        for collection, written in records.items():
            digests = {record.chunk_id: record_digest(*record.fingerprint) for record in written}
            append_event(connection, "published", collection, run_id, chunks=digests)
        retire_replaced(connection, run_id, sorted(doc_ids), when)


def retire_replaced(connection: sa.Connection, run_id: str, doc_ids: Sequence[str], when: datetime) -> None:
    """Retire what the target versions of these documents replace, once all their own chunks are served."""
    waiting = sa.select(publications.c.doc_id).where(
        publications.c.state == PublicationState.PENDING, publications.c.doc_id.in_(doc_ids)
    )
    replaced = (
        sa.select(publications.c.chunk_id, publications.c.collection)
        .join(documents, documents.c.doc_id == publications.c.doc_id)
        .where(
            publications.c.doc_id.in_(doc_ids),
            publications.c.state == PublicationState.PUBLISHED,
            sa.or_(
                publications.c.version_id != documents.c.target_version,
                # the source's trust level changed: the same version now lives in another collection
                sa.not_(publications.c.collection.like(sa.literal("%-") + documents.c.trust)),
            ),
            publications.c.doc_id.not_in(waiting),
        )
    )
    rows = [{"chunk": row.chunk_id, "target": row.collection} for row in connection.execute(replaced)]
    if rows:
        connection.execute(
            publications.update()
            .where(
                publications.c.chunk_id == sa.bindparam("chunk"), publications.c.collection == sa.bindparam("target")
            )
            .values(state=PublicationState.RETIRING, changed_at=when, run_id=run_id),
            rows,
        )


def _retiring(ledger: Ledger) -> Sequence[Row]:
    statement = (
        sa.select(publications.c.chunk_id, publications.c.collection, publications.c.changed_at)
        .where(publications.c.state == PublicationState.RETIRING)
        .order_by(publications.c.collection, publications.c.chunk_id)
        .limit(CHUNKS_PER_GROUP)
    )
    return ledger.rows(statement)


def _retire(ledger: Ledger, store: Store, run_id: str, group: Sequence[Row]) -> None:
    by_collection: dict[str, list[str]] = {}
    for row in group:
        by_collection.setdefault(row.collection, []).append(row.chunk_id)
    for collection, chunk_ids in by_collection.items():
        store.delete(collection, chunk_ids)
    with ledger.write() as connection:
        connection.execute(
            publications.update()
            .where(
                publications.c.chunk_id == sa.bindparam("chunk"),
                publications.c.collection == sa.bindparam("target"),
                publications.c.state == PublicationState.RETIRING,
            )
            .values(state=PublicationState.RETIRED, changed_at=now()),
            [{"chunk": row.chunk_id, "target": row.collection} for row in group],
        )
        for collection, chunk_ids in sorted(by_collection.items()):
            append_event(connection, "unpublished", collection, run_id, chunks=chunk_ids)
