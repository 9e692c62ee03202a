"""Rows of the ledger that take content out of service: versions rejected, documents retired, content blocked.

Rules
    * everything is written in the caller's transaction, as an ordinary decision in the name of whoever asked
      for it;
    * a document that has another accepted version keeps being served by that one;
    * bytes and texts are blocked by hash, under the id of the purge or withdrawal that blocked them; a purge
      takes over the blocks of a withdrawal, because nothing of purged content may be kept again.

Not done here: changing Chroma, which follows through the outbox, and erasing what lies on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus import publishing
from corpus_guard.domain import digest
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import select_in_batches, upsert
from corpus_guard.ledger.states import LIVE_STATES, BlockedKind, PublicationState, ReviewAction, VersionState
from corpus_guard.ledger.tables import blocked, decisions, documents, publications, purges, versions


def block_content(
    connection: sa.Connection,
    removal_id: str,
    content_sha256: Iterable[str],
    text_sha256: Iterable[str],
    reason: str,
) -> None:
    """Keep bytes and texts from coming back.

    Args:
        connection: a writing one.
        removal_id: id of the purge or withdrawal.
        content_sha256: of bytes as fetched.
        text_sha256: of texts as parsed.
        reason: why; kept.
    """
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
) -> None:
    """Reject versions by a decision that takes effect at once.

    Args:
        connection: a writing one.
        run_id: id of the run, for the event log.
        version_ids: versions to reject.
        policy_digest: digest of the policy in force.
        by: who decided.
        reason: why; kept.
    """
    decided_at = now()
    for row in select_in_batches(connection, sa.select(versions), versions.c.version_id, version_ids):
        decision_id = digest("decision/v1", [row.version_id, "reject", by, decided_at.isoformat()])[:32]
        connection.execute(  # a release that waits would serve it again, or look for a text that is gone
            decisions.update()
            .where(
                decisions.c.version_id == row.version_id,
                decisions.c.applied_at.is_(None),
                decisions.c.undone_at.is_(None),
            )
            .values(applied_at=decided_at)
        )
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
            )
        )
        connection.execute(
            versions.update().where(versions.c.version_id == row.version_id).values(state=VersionState.REJECTED)
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
        )


def retire_versions(connection: sa.Connection, run_id: str, version_ids: Sequence[str], reason: str) -> None:
    """Ask the outbox to withdraw versions, and retire the documents that have no other version to serve.

    Args:
        connection: a writing one.
        run_id: id of the run, for the event log.
        version_ids: versions to retire.
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
