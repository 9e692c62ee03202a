"""Rows of the ledger that take content out of service: versions rejected, documents retired, content blocked.

Rules
    * everything is written in the caller's transaction, as an ordinary decision in the name of whoever asked
      for it;
    * a document whose served version is another one keeps being served by that; otherwise it is out of service until
      its source is repaired or the version is restored;
    * bytes and texts are blocked by hash, under the id of the purge or withdrawal that blocked them; a purge
      takes over the blocks of a withdrawal, because nothing of purged content may be kept again;
    * a withdrawal logs the state that each version had, so that `corpus_guard.removal.restoring` can bring it back.

Not done here: changing Chroma, which follows through the outbox, and erasing what lies on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import sqlalchemy as sa

from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus import publishing
from corpus_guard.domain import digest
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import select_in_batches, upsert, values_by_id
from corpus_guard.ledger.states import (
    LIVE_STATES,
    BlockedKind,
    Label,
    PublicationState,
    Purpose,
    ReviewAction,
    TraceOutcome,
    VersionState,
)
from corpus_guard.ledger.tables import blocked, decisions, documents, publications, purges, suspects, traces, versions


def withdrawal_id(version_ids: Iterable[str]) -> str:
    """Return the id of the withdrawal of these versions; the same versions are the same withdrawal."""
    return digest("withdrawal/v1", sorted(version_ids))[:32]


def withdraw_versions(
    connection: sa.Connection,
    run_id: str,
    removal_id: str,
    version_ids: Sequence[str],
    content_sha256: Collection[str],
    text_sha256: Collection[str],
    *,
    policy_digest: str,
    by: str,
    reason: str,
    decided: bool = False,
) -> None:
    """Take versions out of service, block what they hold, and log it.

    Args:
        content_sha256: bytes to block.
        text_sha256: texts to block.
        decided: decisions to reject them are in the ledger already; they take effect.
    """
    states = values_by_id(connection, sa.select(versions.c.version_id, versions.c.state), version_ids)
    block_content(connection, removal_id, content_sha256, text_sha256, reason)
    if decided:
        mark_applied(connection, version_ids)
        set_state(connection, version_ids, VersionState.REJECTED)
    else:
        reject_versions(
            connection, run_id, version_ids, policy_digest=policy_digest, by=by, reason=reason, purpose=Purpose.WITHDRAW
        )
    retire_versions(connection, run_id, version_ids, "withdrawn")
    accusing = accusing_traces(connection, version_ids)
    append_event(
        connection,
        "withdrawn",
        removal_id,
        run_id,
        versions=sorted(version_ids),
        states=states,
        content_sha256=sorted(content_sha256),
        text_sha256=sorted(text_sha256),
        traces=sorted(accusing),
        reports=sorted(set(accusing.values())),
        by=by,
        reason=reason,
    )


def accusing_traces(connection: sa.Connection, version_ids: Iterable[str]) -> dict[str, str]:
    """Return the traces that accuse one of these versions, with their reports, by trace id."""
    statement = (
        sa.select(traces.c.trace_id, traces.c.report_id)
        .join(suspects, suspects.c.trace_id == traces.c.trace_id)
        .where(traces.c.outcome == TraceOutcome.TRACED, suspects.c.label == Label.POISONED)
        .distinct()
    )
    rows = select_in_batches(connection, statement, suspects.c.version_id, version_ids)
    return {row.trace_id: row.report_id for row in rows}


def unblock_content(connection: sa.Connection, hashes: Iterable[str]) -> None:
    """Let bytes and texts that a withdrawal blocked come back; what a purge blocked stays blocked."""
    not_purged = blocked.c.purge_id.not_in(sa.select(purges.c.purge_id))
    for batch in in_batches(sorted(hashes)):
        connection.execute(blocked.delete().where(blocked.c.sha256.in_(batch), not_purged))


def set_state(connection: sa.Connection, version_ids: Iterable[str], state: VersionState) -> None:
    """Set the state of versions; none of them is reopened any longer."""
    for batch in in_batches(sorted(version_ids)):
        connection.execute(
            versions.update().where(versions.c.version_id.in_(batch)).values(state=state.value, reopened_at=None)
        )


def mark_applied(connection: sa.Connection, version_ids: Iterable[str]) -> None:
    """Mark all decisions on these versions that have not taken effect: one of them does now, the others no longer count."""
    for batch in in_batches(sorted(version_ids)):
        pending = sa.and_(decisions.c.applied_at.is_(None), decisions.c.undone_at.is_(None))
        connection.execute(
            decisions.update().where(decisions.c.version_id.in_(batch), pending).values(applied_at=now())
        )


def block_content(
    connection: sa.Connection, removal_id: str, content_sha256: Iterable[str], text_sha256: Iterable[str], reason: str
) -> None:
    """Keep bytes and texts from coming back."""
    blocked_at = now()
    rows = [
        {"sha256": sha256, "kind": kind, "purge_id": removal_id, "reason": reason, "blocked_at": blocked_at}
        for kind, hashes in ((BlockedKind.CONTENT, content_sha256), (BlockedKind.TEXT, text_sha256))
        for sha256 in hashes
    ]
    not_purged = blocked.c.purge_id.not_in(sa.select(purges.c.purge_id))
    upsert(connection, blocked, rows, ["purge_id", "reason", "blocked_at"], only=not_purged)


def reject_versions(
    connection: sa.Connection,
    run_id: str,
    version_ids: Iterable[str],
    *,
    policy_digest: str,
    by: str,
    reason: str,
    purpose: Purpose,
) -> None:
    """Reject versions by a decision that takes effect at once."""
    decided_at = now()
    mark_applied(connection, version_ids := list(version_ids))  # a waiting release would serve it again
    for row in select_in_batches(connection, sa.select(versions), versions.c.version_id, version_ids):
        decision_id = digest("decision/v1", [row.version_id, "reject", by, decided_at.isoformat()])[:32]
        connection.execute(
            decisions.insert().values(
                decision_id=decision_id,
                version_id=row.version_id,
                content_sha256=row.content_sha256,
                verdict=ReviewAction.REJECT,
                reviewer=by,
                reason=reason,
                policy_digest=policy_digest,
                decided_at=decided_at,
                applied_at=decided_at,
                purpose=purpose.value,
            )
        )
        append_event(
            connection,
            "decided",
            row.version_id,
            run_id,
            decision_id=decision_id,
            content_sha256=row.content_sha256,
            verdict="reject",
            reviewer=by,
            reason=reason,
            purpose=purpose.value,
        )
    set_state(connection, version_ids, VersionState.REJECTED)


def retire_versions(connection: sa.Connection, run_id: str, version_ids: Sequence[str], reason: str) -> None:
    """Ask the outbox to withdraw versions, and retire the documents that have no other version to serve.

    Args:
        reason: written into the event of a document that is retired.
    """
    columns = sa.select(documents.c.doc_id, documents.c.target_version)
    served = select_in_batches(connection, columns, documents.c.target_version, version_ids)
    not_served = columns.where(documents.c.target_version.is_(None))
    latest = select_in_batches(connection, not_served, documents.c.latest_version, version_ids)
    doc_ids = sorted({row.doc_id for row in (*served, *latest)})
    publishing.retire(connection, run_id, doc_ids, reason)
    for batch in in_batches(version_ids):
        connection.execute(
            publications.update()
            .where(publications.c.version_id.in_(batch), publications.c.state.in_(LIVE_STATES))
            .values(state=PublicationState.RETIRING, changed_at=now(), run_id=run_id)
        )
