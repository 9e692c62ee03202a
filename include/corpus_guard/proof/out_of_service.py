"""What the ledger has to say when content is taken out of service: no longer served, rejected, and kept from coming back.

Rules
    * it is said in one transaction, by a decision like any other, in the name of whoever asked for it;
    * a document of which an older or newer version lives on keeps being served by that one;
    * bytes and texts are blocked by hash, under the id of the purge or withdrawal that blocked them; a purge takes over what a withdrawal
      blocked, because of what is purged nothing may be kept again.

What is not done here: Chroma follows through the outbox, and what lies on disk stays there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.corpus import publishing
from corpus_guard.domain import digest
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import blocked, decisions, documents, publications, purges, versions
from corpus_guard.proof._purge_plan import in_parts

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

AT_ONCE = 500  # ids in one statement


def block(
    guard: Guard,
    connection: sa.Connection,
    by_id: str,
    content_sha256: Iterable[str],
    text_sha256: Iterable[str],
    reason: str,
) -> None:
    """Keep bytes and texts from coming back.

    Args:
        guard: the deployment.
        connection: a writing one.
        by_id: the purge or withdrawal.
        content_sha256: of bytes as fetched.
        text_sha256: of texts as parsed.
        reason: why; kept.
    """
    when = now()
    rows = [
        {"sha256": sha, "kind": kind, "purge_id": by_id, "reason": reason, "blocked_at": when}
        for kind, hashes in (("content", content_sha256), ("text", text_sha256))
        for sha in hashes
    ]
    by_no_purge = blocked.c.purge_id.not_in(sa.select(purges.c.purge_id))
    guard.ledger.upsert(connection, blocked, rows, ["purge_id", "reason", "blocked_at"], only=by_no_purge)


def reject(guard: Guard, connection: sa.Connection, run_id: str, ids: Iterable[str], by: str, reason: str) -> None:
    """Reject versions by a decision that has taken effect.

    Args:
        guard: the deployment.
        connection: a writing one.
        run_id: who works, for the event log.
        ids: versions.
        by: who decided.
        reason: why; kept.
    """
    when = now()
    for row in in_parts(connection, sa.select(versions), versions.c.version_id, ids):
        decision = digest("decision/v1", [row.version_id, "reject", by, when.isoformat()])[:32]
        connection.execute(  # a release that waits would serve it again, or look for a text that is gone
            decisions.update()
            .where(
                decisions.c.version_id == row.version_id,
                decisions.c.applied_at.is_(None),
                decisions.c.undone_at.is_(None),
            )
            .values(applied_at=when)
        )
        connection.execute(
            decisions.insert().values(
                decision_id=decision,
                version_id=row.version_id,
                content_sha256=row.content_sha256,
                verdict="reject",
                reviewer=by,
                reason=reason,
                policy_digest=guard.screening.digest,
                decided_at=when,
                applied_at=when,
            )
        )
        connection.execute(versions.update().where(versions.c.version_id == row.version_id).values(state="rejected"))
        told = {"decision_id": decision, "content_sha256": row.content_sha256, "verdict": "reject"}
        guard.ledger.event(connection, "decided", row.version_id, run_id, **told, reviewer=by, reason=reason)


def retire(guard: Guard, connection: sa.Connection, run_id: str, ids: Sequence[str], why: str) -> None:
    """Ask the outbox to withdraw versions, and retire the documents they leave without one.

    Args:
        guard: the deployment.
        connection: a writing one.
        run_id: who works, for the event log.
        ids: versions.
        why: for the event of a document that is retired.
    """
    columns = sa.select(documents.c.doc_id, documents.c.target_version)
    served = in_parts(connection, columns, documents.c.target_version, ids)
    latest = in_parts(connection, columns.where(documents.c.target_version.is_(None)), documents.c.latest_version, ids)
    gone = sorted({row.doc_id for row in (*served, *latest)})
    publishing.retire(guard.ledger, connection, run_id, gone, why)
    for part in split(ids, AT_ONCE):
        connection.execute(
            publications.update()
            .where(publications.c.version_id.in_(part), publications.c.state.in_(("pending", "published")))
            .values(state="retiring", changed_at=now(), run_id=run_id)
        )
