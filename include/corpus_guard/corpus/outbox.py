"""Making Chroma hold what the ledger says: the outbox, drained.

Rules
    * one process drains at a time, under a lock that dies with its holder;
    * what was written is read back by id and looked for by its vector, and only then marked; what no query finds stays in the outbox,
      the rest goes on;
    * to put an index right neighbours of a lost record may have to be written again: the ledger says first that they are to be
      published, and only those are touched that are as it published them;
    * a document's new chunks are served before its old ones are retired;
    * killed anywhere, running again ends in the same place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import split, vectors_from_table, versions_from_table
from corpus_guard.corpus import reach
from corpus_guard.corpus.store import Record, Store
from corpus_guard.domain import Version, record_digest
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, documents, publications, versions

GROUP = 1_000  # chunks published between two marks in the ledger


def drain(ledger: Ledger, storage: Storage, store: Callable[[], Store], run_id: str) -> tuple[int, int]:
    """Make Chroma hold what the ledger says, whoever asked for it.

    Args:
        ledger: the ledger.
        storage: where batches and vectors lie.
        store: opens Chroma; called only when there is work.
        run_id: who works, for the event log.

    Returns:
        Chunks published, chunks retired.

    Raises:
        StoreUnavailable: Chroma does not answer; what was done is marked, running again does the rest.
        Inconsistent: what was read back is not what was written, or no query finds it; the latter is told when all else is done.
    """
    if not _has_work(ledger):
        return 0, 0
    with ledger.exclusive("publish"):
        opened = store()
        published = 0
        last: Sequence[Any] = ()
        lost: list[Record] = []
        while group := _pending(ledger, last):
            missing = _publish(ledger, storage, opened, run_id, group)
            waiting = {record.chunk_id for record in missing}
            published += sum(row.chunk_id not in waiting for row in group)
            lost += missing
            last = group[-1]
        retired = 0
        while group := _retiring(ledger):
            _retire(ledger, opened, run_id, group)
            retired += len(group)
    if lost:
        raise Inconsistent(
            f"{len(lost)} chunks are in Chroma at {opened.url}, written {1 + reach.ROUNDS} times, and no query finds them, first "
            f"{', '.join(record.chunk_id for record in lost[:5])}: they stay in the outbox and are not marked as published. Run again; if "
            "it stays, delete their collection: `guard verify` names it as missing, and `guard incident heal` makes it again"
        )
    return published, retired


def _has_work(ledger: Ledger) -> bool:
    with ledger.read() as connection:
        work = sa.select(publications.c.chunk_id).where(publications.c.state.in_(("pending", "retiring"))).limit(1)
        return connection.execute(work).first() is not None


def _pending(ledger: Ledger, last: Any) -> Sequence[Any]:
    """The next group after the row `last`: what was tried and is not found waits for the next run."""
    order = (publications.c.vectors, publications.c.version_id, publications.c.chunk_id, publications.c.collection)
    statement = (
        sa.select(
            publications.c.chunk_id,
            publications.c.collection,
            publications.c.doc_id,
            publications.c.version_id,
            publications.c.vectors,
            publications.c.model,
            versions.c.batch,
            versions.c.state,
        )
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.state == "pending")
        .order_by(*order)
        .limit(GROUP)
    )
    if last:
        before = (last.vectors, last.version_id, last.chunk_id, last.collection)
        statement = statement.where(sa.tuple_(*order) > sa.tuple_(*before))
    with ledger.read() as connection:
        return connection.execute(statement).all()


def _publish(ledger: Ledger, storage: Storage, store: Store, run_id: str, group: Sequence[Any]) -> list[Record]:
    """Returns what was written and no query finds."""
    vectors = {}
    for name in {row.vectors for row in group}:
        vectors.update(vectors_from_table(storage.read_table(name)))
    texts: dict[str, Version] = {}
    for name in {row.batch for row in group}:
        wanted = list({row.version_id for row in group if row.batch == name})
        table = storage.read_table(name, filters=[("version_id", "in", wanted)])
        texts.update({version.version_id: version for version in versions_from_table(table)})
    by_target: dict[tuple[str, str], list[Record]] = {}
    for row in group:
        by_target.setdefault((row.collection, row.model), []).append(record_of(row, texts[row.version_id], vectors))
    found: dict[str, list[Record]] = {}
    lost: list[Record] = []
    for (collection, model), records in by_target.items():
        lend = functools.partial(_lend, ledger, store, run_id, collection)
        # The number format is left out: vectors of one model in bfloat16 and float32 agree to 0.9998 and may be mixed.
        written = reach.write(store, collection, records, model.rpartition("/")[0], lend)
        found.setdefault(collection, []).extend(written.found)
        lost += written.lost
    _mark_published(ledger, run_id, found)
    return lost


def _lend(
    ledger: Ledger, store: Store, run_id: str, collection: str, lost: Sequence[str], others: Sequence[str]
) -> Sequence[Record]:
    """Those of `others` that are in the collection as they were published; from now on they are to be published again.

    What differs is left for verification to name: writing it again would wipe out the trace.
    """
    if not others:
        return ()
    columns = (
        publications.c.chunk_id,
        publications.c.vector_sha256,
        publications.c.metadata_sha256,
        chunks.c.text_sha256,
    )
    statement = (
        sa.select(*columns)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(publications.c.collection == collection, publications.c.state == "published")
    )
    there, _ = store.read(collection, others)
    with ledger.write() as connection:
        lent = [
            there[row.chunk_id]
            for part in split(sorted(there), 500)
            for row in connection.execute(statement.where(publications.c.chunk_id.in_(part)))
            if there[row.chunk_id].fingerprint == (row.text_sha256, row.vector_sha256, row.metadata_sha256)
        ]
        if lent:
            connection.execute(
                publications.update()
                .where(
                    publications.c.chunk_id == sa.bindparam("chunk"),
                    publications.c.collection == collection,
                    publications.c.state == "published",
                )
                .values(state="pending", changed_at=now(), run_id=run_id),
                [{"chunk": record.chunk_id} for record in lent],
            )
            told = {"lost": list(lost), "republished": [record.chunk_id for record in lent]}
            ledger.event(connection, "relinked", collection, run_id, **told)
    return lent


def record_of(row: Any, version: Version, vectors: Mapping[str, Any]) -> Record:
    """What a collection shall hold for a publication.

    Args:
        row: chunk_id, batch, vectors (storage names) and the version's state.
        version: the chunk's, with its text.
        vectors: chunk id → vector.

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
        "verdict": "release" if row.state == "released" else "accept",
        # Never left out: `upsert` merges, and a title that is declared no longer would stay (chromadb 1.5.9).
        "title": stamp.declared.get("title", ""),
    }
    return Record(chunk.chunk_id, chunk.text, vectors[row.chunk_id], metadata)


def _mark_published(ledger: Ledger, run_id: str, found: Mapping[str, Sequence[Record]]) -> None:
    when = now()
    mark = (
        publications.update()
        .where(
            publications.c.chunk_id == sa.bindparam("chunk"),
            publications.c.collection == sa.bindparam("target"),
            publications.c.state == "pending",
        )
        .values(
            state="published",
            vector_sha256=sa.bindparam("vector"),
            metadata_sha256=sa.bindparam("data"),
            changed_at=when,
        )
    )
    rows = [
        {"chunk": record.chunk_id, "target": collection, "vector": record.vector_sha256, "data": record.metadata_sha256}
        for collection, records in found.items()
        for record in records
    ]
    if not rows:
        return
    doc_ids = {str(record.metadata["doc_id"]) for records in found.values() for record in records}
    with ledger.write() as connection:
        connection.execute(mark, rows)
        for collection, records in found.items():
            prints = {record.chunk_id: record_digest(*record.fingerprint) for record in records}
            ledger.event(connection, "published", collection, run_id, chunks=prints)
        replace_old(connection, run_id, sorted(doc_ids), when)


def replace_old(connection: sa.Connection, run_id: str, doc_ids: Sequence[str], when: datetime) -> None:
    """Retire what the target versions of these documents replace, once all their own chunks are served."""
    waiting = sa.select(publications.c.doc_id).where(
        publications.c.state == "pending", publications.c.doc_id.in_(doc_ids)
    )
    own = (
        sa.select(publications.c.chunk_id, publications.c.collection)
        .join(documents, documents.c.doc_id == publications.c.doc_id)
        .where(
            publications.c.doc_id.in_(doc_ids),
            publications.c.state == "published",
            sa.or_(
                publications.c.version_id != documents.c.target_version,
                # the source's trust level changed: the same version now lives in another collection
                sa.not_(publications.c.collection.like(sa.literal("%-") + documents.c.trust)),
            ),
            publications.c.doc_id.not_in(waiting),
        )
    )
    rows = [{"chunk": row.chunk_id, "target": row.collection} for row in connection.execute(own)]
    if rows:
        connection.execute(
            publications.update()
            .where(
                publications.c.chunk_id == sa.bindparam("chunk"), publications.c.collection == sa.bindparam("target")
            )
            .values(state="retiring", changed_at=when, run_id=run_id),
            rows,
        )


def _retiring(ledger: Ledger) -> Sequence[Any]:
    statement = (
        sa.select(publications.c.chunk_id, publications.c.collection, publications.c.changed_at)
        .where(publications.c.state == "retiring")
        .order_by(publications.c.collection, publications.c.chunk_id)
        .limit(GROUP)
    )
    with ledger.read() as connection:
        return connection.execute(statement).all()


def _retire(ledger: Ledger, store: Store, run_id: str, group: Sequence[Any]) -> None:
    for collection in {row.collection for row in group}:
        store.delete(collection, [row.chunk_id for row in group if row.collection == collection])
    with ledger.write() as connection:
        connection.execute(
            publications.update()
            .where(
                publications.c.chunk_id == sa.bindparam("chunk"),
                publications.c.collection == sa.bindparam("target"),
                publications.c.state == "retiring",
            )
            .values(state="retired", changed_at=now()),
            [{"chunk": row.chunk_id, "target": row.collection} for row in group],
        )
        for collection in sorted({row.collection for row in group}):
            gone = [row.chunk_id for row in group if row.collection == collection]
            ledger.event(connection, "unpublished", collection, run_id, chunks=gone)
