"""Taking decisions back, and what time does: escalate, never release. Part of `corpus_guard.review.decisions`, which has the rules."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.errors import Stale, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import acts, decisions, documents, versions
from corpus_guard.review._marks import AT_ONCE, act, is_decided, latest, marks_of, rows_of
from corpus_guard.review.reviewer import Reviewer, reason_of
from corpus_guard.screening.policy import ReviewRules

CLOCK: Final = Reviewer("corpus-guard", "corpus-guard", "corpus-guard")
"""Who escalates what nobody decided in time."""


def undo(ledger: Ledger, decision_id: str, *, reviewer: Reviewer, reason: str, policy_digest: str = "") -> list[str]:
    """Take a decision back that has not taken effect; the taking back is kept.

    Args:
        ledger: the ledger.
        decision_id: of a release, a rejection or an escalation.
        reviewer: who takes it back.
        reason: why; required.
        policy_digest: the policy in force.

    Returns:
        Ids of the decisions that no longer stand: with a first approval goes the second.

    Raises:
        Misuse: no reason.
        UnknownSubject: no such decision.
        Stale: it took effect, or was undone already.
    """
    kept = reason_of(reason)
    with ledger.write() as connection:
        version = connection.scalar(
            sa.union_all(
                sa.select(decisions.c.version_id).where(decisions.c.decision_id == decision_id),
                sa.select(acts.c.version_id).where(acts.c.act_id == decision_id, acts.c.kind == "escalate"),
            )
        )
        if version is None:
            raise UnknownSubject(f"decision {decision_id[:64]!r} is not in the ledger; see `guard quarantine history`")
        row = rows_of(connection, [version], lock=True)[version]
        done = marks_of(connection, [version])[version].done
        target = next(one for one in done if one.id == decision_id)
        falls = [
            one
            for one in done
            if one.id == decision_id or (one.subject == decision_id and one.kind == "release" and not one.undone)
        ]
        gone = target.undone or any(one.kind == "undo" and one.subject == decision_id for one in done)
        if gone or any(one.applied for one in falls):
            raise Stale(
                f"decision {decision_id} {'was undone already' if gone else 'has taken effect'}; nothing was changed. "
                "What was released is taken out again by `guard purge`"
            )
        when = now()
        for one in falls:
            connection.execute(
                decisions.update()
                .where(decisions.c.decision_id == one.id, decisions.c.applied_at.is_(None))
                .values(undone_at=when)
            )
            act(ledger, connection, "undo", reviewer, kept, policy_digest, when, version_id=version, subject=one.id)
        if row.state == "rejected" and any(one.kind == "reject" for one in falls):
            # The same bytes came again, or were judged anew, while the rejection stood: nobody but it kept them out.
            connection.execute(
                versions.update()
                .where(versions.c.version_id == version)
                .values(state="quarantined", waits_since=sa.func.coalesce(versions.c.waits_since, versions.c.judged_at))
            )
    return [one.id for one in falls]


def expire(ledger: Ledger, rules: ReviewRules, when: datetime | None = None, *, policy_digest: str = "") -> int:
    """Escalate and mark what nobody decided for longer than the policy allows. It stays in quarantine. How many are new."""
    when = when or now()
    limit = when - timedelta(days=rules.expire_days)
    marked = sa.exists().where(acts.c.version_id == versions.c.version_id, acts.c.cause == "expired")
    statement = (
        sa.select(versions.c.version_id, versions.c.content_sha256)
        .select_from(latest())
        .where(
            versions.c.state == "quarantined",
            versions.c.waits_since < limit,
            documents.c.retired_at.is_(None),
            sa.not_(marked),
            sa.not_(is_decided()),
        )
        .order_by(versions.c.version_id)
    )
    why = f"nobody decided within {rules.expire_days:g} days; it stays in quarantine"
    with ledger.read() as connection:
        late = [row.version_id for row in connection.execute(statement)]
    count = 0
    for part in split(late, AT_ONCE):
        with ledger.write() as connection:  # asked again: somebody may have decided, or another clock was first
            rows_of(connection, part, lock=True)
            rows = connection.execute(statement.where(versions.c.version_id.in_(part))).all()
            for row in rows:
                told = {"version_id": row.version_id, "content_sha256": row.content_sha256}
                act(ledger, connection, "escalate", CLOCK, why, policy_digest, when, cause="expired", **told)
        count += len(rows)
    return count
