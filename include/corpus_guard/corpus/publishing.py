"""From verdicts to what the collections should hold, in the ledger.

A document's *target version* is the newest one that was accepted or released. `publications` is the outbox between the
ledger and Chroma; `corpus_guard.corpus.outbox` makes Chroma follow.

Rules
    * `record` writes verdicts and outbox rows in one transaction, and can be repeated;
    * a version that waits in quarantine leaves its accepted predecessor where it is;
    * bytes that were accepted and are refused when judged again (another policy, a lower trust level) are served no longer,
      nor is what was accepted while the source had another trust level;
    * a person's decision on the same bytes is kept when they come again;
    * content that was purged is rejected, whatever screening said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.corpus._records import write_documents, write_versions
from corpus_guard.corpus.outbox import replace_old
from corpus_guard.domain import Judgement, TrustLevel, Verdict, Version
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import Utc, blocked, decisions, documents, publications, standing, versions

STATE_OF = {Verdict.ACCEPT: "accepted", Verdict.QUARANTINE: "quarantined", Verdict.REJECT: "rejected"}
DECIDED = {"release": "released", "reject": "rejected"}
SERVED = ("accepted", "released")

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
        write_documents(ledger, connection, judged)
        write_versions(ledger, connection, run_id, batch, judged, states, event="judged")
        served = [version for version, _ in judged if states[version.version_id] in SERVED]
        refused = [version for version, _ in judged if states[version.version_id] not in SERVED]
        _withdraw(connection, run_id, refused, collection)
        request(ledger, connection, run_id, served, collection=collection, vectors=vectors, model=model)
        along_with(connection)


def rejudge(
    ledger: Ledger,
    run_id: str,
    batch: str,
    judged: Sequence[tuple[Version, Judgement]],
    as_of: Mapping[str, datetime],
    *,
    collection: Callable[[TrustLevel], str],
    vectors: str,
    model: str,
) -> dict[str, str]:
    """Write new verdicts for versions that are known, in one transaction, and what they change in the collections.

    What was served and still may be is left untouched; what was not and now may be is asked for; what may no longer be is retired.

    Args:
        ledger: the ledger.
        run_id: the run that judged anew.
        batch: storage name of the Parquet file with the versions' texts.
        judged: versions and their new judgements.
        as_of: version → when it had been judged last, as read before; one that was judged by somebody else since is passed over.
        collection: name of the collection of a trust level.
        vectors: storage name of the Parquet file with the vectors of those that were not served and may be now.
        model: identity of the embedder; "" where there are no vectors.

    Returns:
        Version → its state now. Those that were passed over are missing.
    """
    with ledger.write() as connection:
        before = _judged_before(connection, [version.version_id for version, _ in judged])
        judged = [pair for pair in judged if before[pair[0].version_id].judged_at == as_of[pair[0].version_id]]
        states = _states(connection, judged)
        write_versions(ledger, connection, run_id, batch, judged, states, event="rejudged")
        refused = [version for version, _ in judged if states[version.version_id] not in SERVED]
        _withdraw(connection, run_id, refused, collection)
        new = [
            version
            for version, _ in judged
            if states[version.version_id] in SERVED and before[version.version_id].state not in SERVED
        ]
        request(ledger, connection, run_id, new, collection=collection, vectors=vectors, model=model)
    return states


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
    if not served:
        return
    when = now()
    connection.execute(
        documents.update()
        .where(
            documents.c.doc_id == sa.bindparam("doc"),
            documents.c.trust == sa.bindparam("level"),
            sa.or_(
                documents.c.target_fetched_at.is_(None),
                documents.c.target_fetched_at <= sa.bindparam("fetched", type_=Utc),
            ),
            sa.or_(documents.c.retired_at.is_(None), documents.c.retired_at <= sa.bindparam("fetched", type_=Utc)),
        )
        .values(target_version=sa.bindparam("version"), target_fetched_at=sa.bindparam("fetched"), retired_at=None),
        [
            {
                "doc": one.doc_id,
                "level": one.stamp.trust.value,
                "fetched": one.stamp.fetched_at,
                "version": one.version_id,
            }
            for one in served
        ],
    )
    stand = _targets(connection, served)
    targets = [version for version in served if _is_target(version, stand)]
    if not targets:
        return
    connection.execute(
        publications.update()
        .where(
            publications.c.doc_id == sa.bindparam("doc"),
            publications.c.state == "pending",
            sa.or_(
                publications.c.version_id != sa.bindparam("version"), publications.c.collection != sa.bindparam("name")
            ),
        )
        .values(state="retiring", changed_at=when, run_id=run_id),
        [{"doc": one.doc_id, "version": one.version_id, "name": collection(one.stamp.trust)} for one in targets],
    )
    rows = [
        {
            "chunk_id": chunk.chunk_id,
            "collection": collection(version.stamp.trust),
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
        for version in targets
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
    replace_old(connection, run_id, [version.doc_id for version in targets], when)


def _targets(connection: sa.Connection, served: Sequence[Version]) -> Mapping[str, Any]:
    statement = sa.select(
        documents.c.doc_id, documents.c.target_version, documents.c.target_fetched_at, documents.c.trust
    ).where(documents.c.doc_id.in_([version.doc_id for version in served]))
    return {row.doc_id: row for row in connection.execute(statement)}


def _is_target(version: Version, targets: Mapping[str, Any]) -> bool:
    row = targets[version.doc_id]
    expected = (version.version_id, version.stamp.fetched_at, version.stamp.trust.value)
    return (row.target_version, row.target_fetched_at, row.trust) == expected


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
        replace_old(connection, run_id, [version.doc_id], when)
        kept = sa.exists().where(
            publications.c.version_id == documents.c.target_version,
            publications.c.state.in_(("pending", "published")),
        )
        connection.execute(
            documents.update().where(here, sa.not_(kept)).values(target_version=None, target_fetched_at=None)
        )


def _judged_before(connection: sa.Connection, ids: Sequence[str]) -> dict[str, Any]:
    statement = sa.select(versions.c.version_id, versions.c.state, versions.c.judged_at)
    rows = connection.execute(statement.where(versions.c.version_id.in_(ids)))
    return {row.version_id: row for row in rows}


def _states(connection: sa.Connection, judged: Sequence[tuple[Version, Judgement]]) -> dict[str, str]:
    ids = [version.version_id for version, _ in judged]
    decided = connection.execute(
        sa.select(decisions.c.version_id, decisions.c.verdict)
        # A release that was not applied is left to `apply`: it may be younger than the vectors given here.
        .where(
            decisions.c.version_id.in_(ids),
            standing(),
            sa.or_(decisions.c.verdict == "reject", decisions.c.applied_at.is_not(None)),
        )
        .order_by(decisions.c.decided_at)
    )
    by_person = {row.version_id: DECIDED[row.verdict] for row in decided}  # the last one stands
    hashes = {sha for version, _ in judged for sha in (version.stamp.content_sha256, version.text_sha256)}
    # Asked in this transaction: a purge may have come between screening and publishing.
    stopped = set(connection.scalars(sa.select(blocked.c.sha256).where(blocked.c.sha256.in_(hashes))))
    return {
        judgement.version_id: "rejected"
        if stopped & {version.stamp.content_sha256, version.text_sha256}
        else by_person.get(judgement.version_id, STATE_OF[judgement.verdict])
        for version, judgement in judged
    }
