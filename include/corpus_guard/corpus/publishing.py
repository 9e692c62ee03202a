"""From verdicts in the ledger to records in Chroma.

The ledger says what each collection should hold: a document's *target version* is the newest one that was accepted or
released. `publications` is the outbox between the two.

Rules
    * `record` writes verdicts and outbox rows in one transaction, and can be repeated;
    * `drain` makes Chroma follow. It is held by one process at a time, reads back what it wrote, and marks a row only then;
    * a document's new chunks are served before its old ones are retired; a version that waits in quarantine leaves its
      accepted predecessor where it is;
    * bytes that were accepted and are refused when judged again (another policy, a lower trust level) are served no longer,
      nor is what was accepted while the source had another trust level;
    * a person's decision on the same bytes is kept when they come again;
    * killed anywhere, running again ends in the same place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import vectors_from_table, versions_from_table
from corpus_guard.corpus.store import Record, Store
from corpus_guard.domain import Judgement, TrustLevel, Verdict, Version, sha256_text
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, decisions, documents, events, findings, publications, versions

STATE_OF = {Verdict.ACCEPT: "accepted", Verdict.QUARANTINE: "quarantined", Verdict.REJECT: "rejected"}
DECIDED = {"release": "released", "reject": "rejected"}
SERVED = ("accepted", "released")
GROUP = 1_000  # chunks published between two marks in the ledger

AlongWith = Callable[[sa.Connection], None]


def record(
    ledger: Ledger,
    run_id: str,
    batch: str,
    judged: Sequence[tuple[Version, Judgement]],
    *,
    collection: Callable[[TrustLevel], str],
    vectors: str,
    model: str,
    along_with: AlongWith = lambda connection: None,
) -> None:
    """Write a shard's verdicts and what they ask of the collections, in one transaction.

    Args:
        ledger: the ledger.
        run_id: the run that judged.
        batch: storage name of the Parquet file with the versions' texts.
        judged: versions and their judgements.
        collection: name of the collection of a trust level.
        vectors: storage name of the Parquet file with the vectors of the accepted; "" where there are none.
        model: identity of the embedder; "" where there are no vectors.
        along_with: more to write in the same transaction.
    """
    if not judged:
        return
    with ledger.write() as connection:
        states = _states(connection, judged)
        _documents(ledger, connection, judged)
        _versions(ledger, connection, run_id, batch, judged, states)
        served = [version for version, _ in judged if states[version.version_id] in SERVED]
        refused = [version for version, _ in judged if states[version.version_id] not in SERVED]
        _withdraw(connection, run_id, refused, collection)
        request(ledger, connection, run_id, served, collection=collection, vectors=vectors, model=model)
        along_with(connection)


def request(
    ledger: Ledger,
    connection: sa.Connection,
    run_id: str,
    served: Sequence[Version],
    *,
    collection: Callable[[TrustLevel], str],
    vectors: str,
    model: str,
) -> None:
    """Make versions their documents' targets and put their chunks into the outbox.

    A version is passed over when a newer one is the target already, when its document was retired after it was fetched, and when
    its source has another trust level by now.
    """
    when = now()
    for version in served:
        fetched = version.stamp.fetched_at
        name = collection(version.stamp.trust)
        became = connection.execute(
            documents.update()
            .where(
                documents.c.doc_id == version.doc_id,
                documents.c.trust == version.stamp.trust.value,
                sa.or_(documents.c.target_fetched_at.is_(None), documents.c.target_fetched_at <= fetched),
                sa.or_(documents.c.retired_at.is_(None), documents.c.retired_at <= fetched),
            )
            .values(target_version=version.version_id, target_fetched_at=fetched, retired_at=None)
        )
        if not became.rowcount:
            continue
        connection.execute(
            publications.update()
            .where(
                publications.c.doc_id == version.doc_id,
                publications.c.state == "pending",
                sa.or_(publications.c.version_id != version.version_id, publications.c.collection != name),
            )
            .values(state="retiring", changed_at=when, run_id=run_id)
        )
        rows = [
            {
                "chunk_id": chunk.chunk_id,
                "collection": name,
                "doc_id": version.doc_id,
                "version_id": version.version_id,
                "state": "pending",
                "vectors": vectors,
                "model": model,
                "vector_sha256": None,
                "metadata_sha256": None,
                "changed_at": when,
                "run_id": run_id,
            }
            for chunk in version.chunks
        ]
        # What is served already stays untouched: writing equal records again is what damaged indexes upstream (chroma #7678).
        ledger.upsert(
            connection,
            publications,
            rows,
            ["state", "vectors", "model", "changed_at", "run_id"],
            only=publications.c.state != "published",
        )
        # Where nothing has to be published (no chunks, or all of them are served still), no publishing will replace the old.
        _replace(connection, run_id, [version.doc_id], when)


def retire(ledger: Ledger, connection: sa.Connection, run_id: str, doc_ids: Iterable[str], reason: str) -> None:
    """Stop serving documents; `drain` removes their chunks."""
    when = now()
    for doc_id in doc_ids:
        connection.execute(
            documents.update()
            .where(documents.c.doc_id == doc_id)
            .values(target_version=None, target_fetched_at=None, retired_at=when)
        )
        connection.execute(
            publications.update()
            .where(publications.c.doc_id == doc_id, publications.c.state.in_(("pending", "published")))
            .values(state="retiring", changed_at=when, run_id=run_id)
        )
        ledger.event(connection, "retired", doc_id, run_id, reason=reason)


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
        Inconsistent: what was read back is not what was written.
    """
    if not _has_work(ledger):
        return 0, 0
    with ledger.exclusive("publish"):
        opened = store()
        published = 0
        while group := _pending(ledger):
            _publish(ledger, storage, opened, run_id, group)
            published += len(group)
        retired = 0
        while group := _retiring(ledger):
            _retire(ledger, opened, run_id, group)
            retired += len(group)
    return published, retired


def _withdraw(
    connection: sa.Connection, run_id: str, refused: Sequence[Version], collection: Callable[[TrustLevel], str]
) -> None:
    """Stop serving bytes that are refused now, and what lies in the collection of a trust level their source no longer has."""
    when = now()
    for version in refused:
        here = documents.c.doc_id == version.doc_id
        trust = TrustLevel(connection.execute(sa.select(documents.c.trust).where(here)).scalar_one())
        connection.execute(
            publications.update()
            .where(
                publications.c.doc_id == version.doc_id,
                sa.or_(
                    sa.and_(
                        publications.c.state.in_(("pending", "published")),
                        publications.c.version_id == version.version_id,
                    ),
                    sa.and_(publications.c.state == "pending", publications.c.collection != collection(trust)),
                ),
            )
            .values(state="retiring", changed_at=when, run_id=run_id)
        )
        _replace(connection, run_id, [version.doc_id], when)
        kept = sa.exists().where(
            publications.c.version_id == documents.c.target_version,
            publications.c.state.in_(("pending", "published")),
        )
        connection.execute(
            documents.update().where(here, sa.not_(kept)).values(target_version=None, target_fetched_at=None)
        )


def _states(connection: sa.Connection, judged: Sequence[tuple[Version, Judgement]]) -> dict[str, str]:
    ids = [version.version_id for version, _ in judged]
    decided = connection.execute(
        sa.select(decisions.c.version_id, decisions.c.verdict)
        # A release that was not applied is left to `apply`: it may be younger than the vectors given here.
        .where(
            decisions.c.version_id.in_(ids),
            sa.or_(decisions.c.verdict == "reject", decisions.c.applied_at.is_not(None)),
        )
        .order_by(decisions.c.decided_at)
    )
    by_person = {row.version_id: DECIDED[row.verdict] for row in decided}  # the last one stands
    return {
        judgement.version_id: by_person.get(judgement.version_id, STATE_OF[judgement.verdict])
        for _, judgement in judged
    }


def _documents(ledger: Ledger, connection: sa.Connection, judged: Sequence[tuple[Version, Judgement]]) -> None:
    rows = [
        {
            "doc_id": version.doc_id,
            "source": version.stamp.source,
            "uri": version.stamp.uri,
            "trust": version.stamp.trust.value,
            "latest_version": version.version_id,
            "latest_content_sha256": version.stamp.content_sha256,
            "latest_fetched_at": version.stamp.fetched_at,
            "target_version": None,
            "target_fetched_at": None,
            "last_seen_at": version.stamp.fetched_at,
            "missing_since": None,
            "retired_at": None,
        }
        for version, _ in judged
    ]
    ledger.insert_missing(connection, documents, rows)
    newest = ("trust", "latest_version", "latest_content_sha256", "latest_fetched_at")
    for row in rows:
        # Two runs may have fetched different bytes; the later fetch is the later truth, whoever records last.
        here = documents.c.doc_id == row["doc_id"]
        connection.execute(
            documents.update()
            .where(here, documents.c.latest_fetched_at <= row["latest_fetched_at"])
            .values({name: row[name] for name in newest})
        )
        # It is there again, whatever its verdict: what vanished does not wait in the quarantine's queue.
        connection.execute(
            documents.update()
            .where(here, documents.c.retired_at <= row["latest_fetched_at"])
            .values(retired_at=None, missing_since=None)
        )


def _versions(
    ledger: Ledger,
    connection: sa.Connection,
    run_id: str,
    batch: str,
    judged: Sequence[tuple[Version, Judgement]],
    states: Mapping[str, str],
) -> None:
    when = now()
    ids = [version.version_id for version, _ in judged]
    rows = [
        {
            "version_id": version.version_id,
            "doc_id": version.doc_id,
            "content_sha256": version.stamp.content_sha256,
            "text_sha256": version.text_sha256,
            "stamp": version.stamp.as_dict(),
            "batch": batch,
            "state": states[version.version_id],
            "verdict": judgement.verdict.value,
            "risk": judgement.risk,
            "policy_digest": judgement.policy_digest,
            "skipped": [[skipped.check, skipped.reason] for skipped in judgement.skipped],
            "run_id": run_id,
            "judged_at": when,
        }
        for version, judgement in judged
    ]
    overwrite = ["stamp", "batch", "state", "verdict", "risk", "policy_digest", "skipped", "run_id", "judged_at"]
    ledger.upsert(connection, versions, rows, overwrite)
    connection.execute(findings.delete().where(findings.c.version_id.in_(ids)))
    ledger.insert_missing(connection, findings, [row for _, judgement in judged for row in _findings(judgement)])
    ledger.insert_missing(connection, chunks, [row for version, _ in judged for row in _chunks(version)])
    connection.execute(
        events.insert(),
        [
            {
                "at": when,
                "kind": "judged",
                "subject": row["version_id"],
                "run_id": run_id,
                "body": {
                    name: row[name]
                    for name in ("doc_id", "content_sha256", "verdict", "risk", "policy_digest", "state")
                },
            }
            for row in rows
        ],
    )


def _findings(judgement: Judgement) -> list[dict[str, Any]]:
    return [
        {
            "version_id": judgement.version_id,
            "ordinal": ordinal,
            "check_name": finding.check,
            "code": finding.code,
            "severity": finding.severity.value,
            "score": finding.score,
            "message": finding.message,
            "span_start": finding.span.start if finding.span else None,
            "span_end": finding.span.end if finding.span else None,
            "tags": list(finding.tags),
        }
        for ordinal, finding in enumerate(judgement.findings)
    ]


def _chunks(version: Version) -> list[dict[str, Any]]:
    return [
        {
            "chunk_id": chunk.chunk_id,
            "version_id": version.version_id,
            "ordinal": chunk.ordinal,
            "span_start": chunk.start,
            "span_end": chunk.end,
            "tokens": chunk.tokens,
            "text_sha256": sha256_text(chunk.text),
        }
        for chunk in version.chunks
    ]


def _has_work(ledger: Ledger) -> bool:
    with ledger.read() as connection:
        work = sa.select(publications.c.chunk_id).where(publications.c.state.in_(("pending", "retiring"))).limit(1)
        return connection.execute(work).first() is not None


def _pending(ledger: Ledger) -> Sequence[Any]:
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
        .order_by(publications.c.vectors, publications.c.version_id, publications.c.chunk_id)
        .limit(GROUP)
    )
    with ledger.read() as connection:
        return connection.execute(statement).all()


def _publish(ledger: Ledger, storage: Storage, store: Store, run_id: str, group: Sequence[Any]) -> None:
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
        by_target.setdefault((row.collection, row.model), []).append(_record(row, texts[row.version_id], vectors))
    for (collection, model), records in by_target.items():
        # The number format is left out: vectors of one model in bfloat16 and float32 agree to 0.9998 and may be mixed.
        store.upsert(collection, records, model.rpartition("/")[0])
    _mark_published(ledger, run_id, by_target, {row.doc_id for row in group})


def _record(row: Any, version: Version, vectors: Mapping[str, Any]) -> Record:
    chunk = next((chunk for chunk in version.chunks if chunk.chunk_id == row.chunk_id), None)
    if chunk is None or row.chunk_id not in vectors:
        raise Inconsistent(
            f"chunk {row.chunk_id} is to be published, and {row.batch if chunk is None else row.vectors} does not hold it; "
            "delete that file and refresh its source again"
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


def _mark_published(
    ledger: Ledger, run_id: str, by_target: Mapping[tuple[str, str], Sequence[Record]], doc_ids: set[str]
) -> None:
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
        for (collection, _), records in by_target.items()
        for record in records
    ]
    with ledger.write() as connection:
        connection.execute(mark, rows)
        ledger.event(connection, "published", f"{len(rows)} chunks", run_id, chunks=len(rows), documents=len(doc_ids))
        _replace(connection, run_id, sorted(doc_ids), when)


def _replace(connection: sa.Connection, run_id: str, doc_ids: Sequence[str], when: datetime) -> None:
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
        ledger.event(connection, "unpublished", f"{len(group)} chunks", run_id, chunks=len(group))
