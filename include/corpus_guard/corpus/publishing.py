"""From verdicts to what the collections should hold, in the ledger.

A document's *target version* is the newest one that was accepted or released. `publications` is the outbox
between the ledger and Chroma; `corpus_guard.corpus.outbox` makes Chroma follow. Every function works in the
transaction of the connection it is given.

Rules
    * `record` writes verdicts and outbox rows together, and can be repeated;
    * a version that waits in quarantine leaves its accepted predecessor where it is;
    * bytes that were accepted and are refused when judged again (another policy, a lower trust level) are no
      longer served, nor is what was accepted while the source had another trust level;
    * a person's decision on the same bytes is kept when they come again;
    * what was reopened and may still be served stays reopened until a person decides: its finding is kept;
    * content that was purged is rejected, whatever screening found;
    * of equal chunks of a version the first is published.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus.outbox import retire_replaced
from corpus_guard.domain import Chunk, Finding, Judgement, TrustLevel, Version, first_of_each, sha256_text
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import (
    Row,
    finding_from_row,
    insert_missing,
    rows_by_id,
    select_in_batches,
    upsert,
    values_by_id,
)
from corpus_guard.ledger.states import (
    LIVE_STATES,
    SERVABLE_STATES,
    STATE_AFTER_DECISION,
    STATE_AFTER_VERDICT,
    PublicationState,
    ReviewAction,
    VersionState,
)
from corpus_guard.ledger.tables import (
    UtcDateTime,
    blocked,
    chunks,
    decision_stands,
    decisions,
    documents,
    findings,
    publications,
    versions,
)
from corpus_guard.ledger.triage import Triage

JUDGEMENT_EVENT_FIELDS: Final = (
    "doc_id",
    "content_sha256",
    "text_sha256",
    "verdict",
    "risk",
    "policy_digest",
    "state",
    "shadow_verdict",
)
"""Columns of a version that the event of its judgement repeats."""
REOPENED: Final = "coordination.reopened"
"""Code of the finding that reopens a member of a group (`corpus_guard.review.reopening`)."""
CONTRADICTED: Final = "conflict.reopened"
"""Code of the finding that reopens a version which a later trusted document contradicts."""
_TRIAGE_COLUMNS: Final = ("principal", "severity", "checks", "campaign", "waits_since", "reopened_at")

Judged = Sequence[tuple[Version, Judgement]]


def record(
    connection: sa.Connection,
    run_id: str,
    batch: str,
    judged: Judged,
    *,
    collection: Callable[[TrustLevel], str],
    vectors: str,
    model: str,
) -> None:
    """Write a shard's verdicts and the changes they require in the collections.

    Args:
        batch: storage name of the Parquet file with the versions' texts.
        vectors: storage name of the Parquet file with the vectors of the accepted; "" where there are none.
        model: identity of the embedder; "" where there are no vectors.
    """
    if not judged:
        return
    states = _states(connection, judged)
    _write_documents(connection, judged)
    _write_versions(connection, run_id, batch, judged, states, event="judged")
    served = [version for version, _ in judged if states[version.version_id] in SERVABLE_STATES]
    refused = [(v.doc_id, v.version_id) for v, _ in judged if states[v.version_id] not in SERVABLE_STATES]
    stop_serving(connection, run_id, refused, collection)
    request_publication(connection, run_id, served, collection=collection, vectors=vectors, model=model)


def rejudge(
    connection: sa.Connection,
    run_id: str,
    batch: str,
    judged: Judged,
    as_of: Mapping[str, datetime],
    *,
    collection: Callable[[TrustLevel], str],
    vectors: str,
    model: str,
) -> dict[str, VersionState]:
    """Write new verdicts for known versions and what they change in the collections.

    A version that was served and may still be served is left untouched; one that was not and may be now is
    asked for; one that may no longer be served is retired.

    Args:
        batch: storage name of the Parquet file with the versions' texts.
        as_of: version id → time of its last judgement, as read before; a version that was judged since is
            passed over.
        vectors: storage name of the Parquet file with the vectors of versions that were not served and may be
            now.

    Returns:
        Version id → its state now. Versions that were passed over are missing.
    """
    statement = sa.select(*versions.c["version_id", "state", "judged_at"])
    before = rows_by_id(connection, statement, (version.version_id for version, _ in judged))
    judged = [pair for pair in judged if before[pair[0].version_id].judged_at == as_of[pair[0].version_id]]
    states = _states(connection, judged)
    _write_versions(connection, run_id, batch, judged, states, event="rejudged")
    refused = [(v.doc_id, v.version_id) for v, _ in judged if states[v.version_id] not in SERVABLE_STATES]
    stop_serving(connection, run_id, refused, collection)
    newly_served = [
        version
        for version, _ in judged
        if states[version.version_id] in SERVABLE_STATES and before[version.version_id].state not in SERVABLE_STATES
    ]
    request_publication(connection, run_id, newly_served, collection=collection, vectors=vectors, model=model)
    return states


def request_publication(
    connection: sa.Connection,
    run_id: str,
    served: Sequence[Version],
    *,
    collection: Callable[[TrustLevel], str],
    vectors: str,
    model: str,
) -> None:
    """Make versions the targets of their documents and put their chunks into the outbox.

    A version is passed over when a newer one is the target already, when its document was retired after it
    was fetched, and when its source has another trust level by now. The arguments are those of `record`.
    """
    if not served:
        return
    _move_targets(connection, served)
    targets = _targets(connection, served)
    if not targets:
        return
    when = now()
    _retire_pending(connection, run_id, targets, collection, when)
    rows = [
        {
            "chunk_id": chunk.chunk_id,
            "collection": collection(version.stamp.trust),
            "doc_id": version.doc_id,
            "version_id": version.version_id,
            "state": PublicationState.PENDING,
            "vectors": vectors,
            "model": model,
            "changed_at": when,
            "run_id": run_id,
        }
        for version in targets
        for chunk in _distinct(version.chunks)
    ]
    # A served record stays untouched: writing equal records again is what damaged indexes upstream (chroma
    # #7678).
    upsert(
        connection,
        publications,
        rows,
        ["state", "vectors", "model", "changed_at", "run_id"],
        only=publications.c.state != PublicationState.PUBLISHED,
    )
    # Where nothing has to be published (no chunks, or all of them are still served), no publishing will
    # retire the old ones.
    retire_replaced(connection, run_id, [version.doc_id for version in targets], when)


def _distinct(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return the first chunk of each text: a document that repeats itself answers nothing twice."""
    return list(first_of_each(chunks, lambda chunk: chunk.text).values())


def retire(connection: sa.Connection, run_id: str, doc_ids: Iterable[str], reason: str) -> None:
    """Stop serving documents; `outbox.drain` removes their chunks."""
    when = now()
    for part in in_batches(doc_ids):
        connection.execute(
            documents.update()
            .where(documents.c.doc_id.in_(part))
            .values(target_version=None, target_fetched_at=None, retired_at=when)
        )
        connection.execute(
            publications.update()
            .where(publications.c.doc_id.in_(part), publications.c.state.in_(LIVE_STATES))
            .values(state=PublicationState.RETIRING, changed_at=when, run_id=run_id)
        )
        for doc_id in part:
            append_event(connection, "retired", doc_id, run_id, reason=reason)


def _move_targets(connection: sa.Connection, served: Sequence[Version]) -> None:
    """Make versions the targets of their documents, unless a newer one is, or the document was retired or rated anew."""
    connection.execute(
        documents.update()
        .where(
            documents.c.doc_id == sa.bindparam("doc"),
            documents.c.trust == sa.bindparam("level"),
            sa.or_(
                documents.c.target_fetched_at.is_(None),
                documents.c.target_fetched_at <= sa.bindparam("fetched", type_=UtcDateTime),
            ),
            sa.or_(
                documents.c.retired_at.is_(None), documents.c.retired_at <= sa.bindparam("fetched", type_=UtcDateTime)
            ),
        )
        .values(target_version=sa.bindparam("version"), target_fetched_at=sa.bindparam("fetched"), retired_at=None),
        [
            {
                "doc": version.doc_id,
                "level": version.stamp.trust.value,
                "fetched": version.stamp.fetched_at,
                "version": version.version_id,
            }
            for version in served
        ],
    )


def _targets(connection: sa.Connection, served: Sequence[Version]) -> list[Version]:
    """Return the versions that are their documents' targets."""
    statement = sa.select(*documents.c["doc_id", "target_version", "target_fetched_at", "trust"])
    targets = rows_by_id(connection, statement, (version.doc_id for version in served))
    return [
        version
        for version in served
        if tuple(targets[version.doc_id])
        == (version.doc_id, version.version_id, version.stamp.fetched_at, version.stamp.trust.value)
    ]


def _retire_pending(
    connection: sa.Connection,
    run_id: str,
    targets: Sequence[Version],
    collection: Callable[[TrustLevel], str],
    when: datetime,
) -> None:
    """Take out of the outbox what waits to be published of other versions, or in other collections."""
    connection.execute(
        publications.update()
        .where(
            publications.c.doc_id == sa.bindparam("doc"),
            publications.c.state == PublicationState.PENDING,
            sa.or_(
                publications.c.version_id != sa.bindparam("version"), publications.c.collection != sa.bindparam("name")
            ),
        )
        .values(state=PublicationState.RETIRING, changed_at=when, run_id=run_id),
        [
            {"doc": version.doc_id, "version": version.version_id, "name": collection(version.stamp.trust)}
            for version in targets
        ],
    )


def stop_serving(
    connection: sa.Connection, run_id: str, refused: Sequence[tuple[str, str]], collection: Callable[[TrustLevel], str]
) -> None:
    """Stop serving refused versions, and what lies in the collection of a former trust level of their source.

    Args:
        refused: (document id, version id).
    """
    when = now()
    # Of most refused documents nothing was ever served: there is nothing to change.
    published = sa.exists().where(publications.c.doc_id == documents.c.doc_id)
    affected = sa.select(documents.c.doc_id, documents.c.trust).where(
        sa.or_(published, documents.c.target_version.is_not(None))
    )
    levels = values_by_id(connection, affected, (doc_id for doc_id, _ in refused))
    target_is_live = sa.exists().where(
        publications.c.version_id == documents.c.target_version, publications.c.state.in_(LIVE_STATES)
    )
    retiring = {"state": PublicationState.RETIRING, "changed_at": when, "run_id": run_id}
    for part in in_batches(pair for pair in refused if pair[0] in levels):
        doc_ids = [doc_id for doc_id, _ in part]
        connection.execute(
            publications.update()
            .where(
                publications.c.doc_id.in_(doc_ids),
                publications.c.version_id.in_([version_id for _, version_id in part]),
                publications.c.state.in_(LIVE_STATES),
            )
            .values(retiring)
        )
        connection.execute(
            publications.update()
            .where(
                publications.c.doc_id == sa.bindparam("doc"),
                publications.c.state == PublicationState.PENDING,
                publications.c.collection != sa.bindparam("name"),
            )
            .values(retiring),
            [{"doc": doc_id, "name": collection(TrustLevel(levels[doc_id]))} for doc_id in doc_ids],
        )
        retire_replaced(connection, run_id, doc_ids, when)
        connection.execute(
            documents.update()
            .where(documents.c.doc_id.in_(doc_ids), sa.not_(target_is_live))
            .values(target_version=None, target_fetched_at=None)
        )


def _states(connection: sa.Connection, judged: Judged) -> dict[str, VersionState]:
    """Return each version's state: rejected if purged, else as a person decided, else as the policy says."""
    version_ids = [version.version_id for version, _ in judged]
    decided = connection.execute(
        sa.select(decisions.c.version_id, decisions.c.verdict)
        # A release that is not applied yet is left to `apply`: it may be younger than the vectors given here.
        .where(
            decisions.c.version_id.in_(version_ids),
            decision_stands(),
            sa.or_(decisions.c.verdict == ReviewAction.REJECT, decisions.c.applied_at.is_not(None)),
        )
        .order_by(decisions.c.decided_at)
    )
    by_person = {row.version_id: STATE_AFTER_DECISION[row.verdict] for row in decided}  # the last one counts
    hashes = {digest for version, _ in judged for digest in (version.stamp.content_sha256, version.text_sha256)}
    # Read in this transaction: a purge may have come between screening and publishing.
    purged = set(connection.scalars(sa.select(blocked.c.sha256).where(blocked.c.sha256.in_(hashes))))
    return {
        judgement.version_id: VersionState.REJECTED
        if purged & {version.stamp.content_sha256, version.text_sha256}
        else by_person.get(judgement.version_id, STATE_AFTER_VERDICT[judgement.verdict])
        for version, judgement in judged
    }


def _write_documents(connection: sa.Connection, judged: Judged) -> None:
    """Write documents that are new, and the newest version of those that are known."""
    rows = [
        {
            "doc_id": version.doc_id,
            "source": version.stamp.source,
            "uri": version.stamp.uri,
            "trust": version.stamp.trust.value,
            "latest_version": version.version_id,
            "latest_content_sha256": version.stamp.content_sha256,
            "latest_fetched_at": version.stamp.fetched_at,
            "last_seen_at": now(),  # the stamp may be of an earlier run that was killed: then it would count as missing
        }
        for version, _ in judged
    ]
    insert_missing(connection, documents, rows)
    # Two runs may have fetched different bytes; the later fetch counts, whoever records last.
    connection.execute(
        documents.update()
        .where(
            documents.c.doc_id == sa.bindparam("doc"),
            documents.c.latest_fetched_at <= sa.bindparam("fetched", type_=UtcDateTime),
        )
        .values(
            trust=sa.bindparam("level"),
            latest_version=sa.bindparam("version"),
            latest_content_sha256=sa.bindparam("content"),
            latest_fetched_at=sa.bindparam("fetched"),
        ),
        [
            {
                "doc": row["doc_id"],
                "fetched": row["latest_fetched_at"],
                "level": row["trust"],
                "version": row["latest_version"],
                "content": row["latest_content_sha256"],
            }
            for row in rows
        ],
    )
    # The document is there again, whatever its verdict: a vanished document does not wait in the quarantine's
    # queue.
    connection.execute(
        documents.update()
        .where(
            documents.c.doc_id == sa.bindparam("doc"),
            documents.c.retired_at <= sa.bindparam("fetched", type_=UtcDateTime),
        )
        .values(retired_at=None, missing_since=None),
        [{"doc": row["doc_id"], "fetched": row["latest_fetched_at"]} for row in rows],
    )


def _write_versions(
    connection: sa.Connection,
    run_id: str,
    batch: str,
    judged: Judged,
    states: Mapping[str, VersionState],
    *,
    event: str,
) -> None:
    """Write versions with their judgements, findings and chunks, and one `event` each."""
    if not judged:
        return
    when = now()
    version_ids = [version.version_id for version, _ in judged]
    waiting = _waiting_before(connection, version_ids)
    reopened = {version_id for version_id, before in waiting.items() if _stays_reopened(before, states[version_id])}
    reopening_findings = _reopening_findings(connection, reopened)
    judged = [
        (version, replace(judgement, findings=(*judgement.findings, *reopening_findings.get(version.version_id, ()))))
        for version, judgement in judged
    ]
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
            "risk": max(judgement.risk, waiting[version.version_id].risk)
            if version.version_id in reopened
            else judgement.risk,
            "policy_digest": judgement.policy_digest,
            "skipped": [[skipped.check, skipped.reason] for skipped in judgement.skipped],
            "run_id": run_id,
            "judged_at": when,
            "shadow_verdict": judgement.shadow_verdict,
            **_triage_values(version, judgement, states[version.version_id], waiting.get(version.version_id), when),
        }
        for version, judgement in judged
    ]
    judgement_columns = ("verdict", "risk", "policy_digest", "skipped", "shadow_verdict")
    overwrite = ["text_sha256", "stamp", "batch", "state", "run_id", "judged_at", *judgement_columns, *_TRIAGE_COLUMNS]
    upsert(connection, versions, rows, overwrite)
    connection.execute(findings.delete().where(findings.c.version_id.in_(version_ids)))
    insert_missing(
        connection,
        findings,
        [row for _, judgement in judged for row in finding_rows(judgement.version_id, judgement.findings)],
    )
    insert_missing(connection, chunks, [row for version, _ in judged for row in _chunk_rows(version)])
    for row in rows:
        event_body = {name: row[name] for name in JUDGEMENT_EVENT_FIELDS}
        append_event(connection, event, str(row["version_id"]), run_id, **event_body)


def _waiting_before(connection: sa.Connection, version_ids: Sequence[str]) -> dict[str, Row]:
    """Return the versions that wait or waited; a new judgement keeps their time and their campaign."""
    columns = versions.c["version_id", "state", "risk", "waits_since", "reopened_at", "campaign"]
    return rows_by_id(connection, sa.select(*columns).where(versions.c.waits_since.is_not(None)), version_ids)


def _stays_reopened(before: Row | None, state: VersionState) -> bool:
    return before is not None and before.reopened_at is not None and state == VersionState.ACCEPTED


def _reopening_findings(connection: sa.Connection, version_ids: Collection[str]) -> dict[str, list[Finding]]:
    """Return the findings that reopened versions: no judgement of a version alone makes them again."""
    by_version: dict[str, list[Finding]] = {}
    statement = sa.select(findings).where(findings.c.code.in_((REOPENED, CONTRADICTED)))
    for row in select_in_batches(connection, statement, findings.c.version_id, version_ids):
        by_version.setdefault(row.version_id, []).append(finding_from_row(row))
    return by_version


def _triage_values(
    version: Version, judgement: Judgement, state: VersionState, before: Row | None, when: datetime
) -> dict[str, object]:
    """Return the columns by which the queue sorts and groups a version; see `corpus_guard.ledger.triage`."""
    counted = [(finding.check, finding.severity.value) for finding in judgement.findings if not finding.muted]
    triage = Triage.from_findings(version.stamp.as_dict(), counted)
    reopened = _stays_reopened(before, state)
    waits = state == VersionState.QUARANTINED or reopened
    waited = before is not None and (before.state == VersionState.QUARANTINED or before.reopened_at is not None)
    since = before.waits_since if before and (reopened or state != VersionState.ACCEPTED) else None
    campaign = before.campaign if before is not None and waited else triage.campaign
    return {
        "principal": triage.principal,
        "severity": triage.severity,
        "checks": triage.checks,
        "campaign": campaign if waits else "",
        "waits_since": (since if waited else when) if waits else since,
        "reopened_at": before.reopened_at if before is not None and reopened else None,
    }


def finding_rows(version_id: str, version_findings: Sequence[Finding], first: int = 0) -> list[dict[str, object]]:
    """Return the rows of a version's findings; `first` is the number of the first."""
    return [
        {
            "version_id": version_id,
            "ordinal": ordinal,
            "check_name": finding.check,
            "code": finding.code,
            "severity": finding.severity.value,
            "score": finding.score,
            "message": finding.message,
            "span_start": finding.span.start if finding.span else None,
            "span_end": finding.span.end if finding.span else None,
            "tags": list(finding.tags),
            "muted": finding.muted or None,
            "counterstatement": finding.counterstatement.as_dict() if finding.counterstatement else None,
        }
        for ordinal, finding in enumerate(version_findings, first)
    ]


def _chunk_rows(version: Version) -> list[dict[str, object]]:
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
