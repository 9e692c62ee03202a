"""Undoing decisions, by a person or because the text changed, and escalating what nobody decided in time.

`corpus_guard.review.decisions` states the rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import sqlalchemy as sa

from corpus_guard.batches.tables import in_batches
from corpus_guard.errors import Stale, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.states import DECISIVE_ACTIONS, ActCause, ReviewAction, VersionState
from corpus_guard.ledger.tables import acts, decisions, documents, versions, waits_for_decision
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.records import (
    ReviewRecord,
    VersionReview,
    escalated_for_time,
    has_complete_decision,
    latest_versions,
    load_reviews,
    load_versions,
    record_act,
)
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.screening.policy import ReviewRules

SYSTEM_REVIEWER: Final = Reviewer("corpus-guard", "corpus-guard", "corpus-guard")
"""The reviewer recorded for what the guard does by itself."""
LAPSED: Final = "the same bytes read differently with another parser; nobody has seen the new text"


def undo_decision(ledger: Ledger, decision_id: str, act: ReviewAct) -> list[str]:
    """Undo a decision that has not taken effect, or the rejection that keeps a document out. The undoing is recorded.

    Args:
        decision_id: id of a release, a rejection or an escalation.

    Returns:
        Ids of the undone decisions: undoing a first approval undoes the second as well, and undoing the decision that counts
        undoes those that it replaced, so that the item waits again.

    Raises:
        UnknownSubject: no such decision.
        Stale: it took effect and is no rejection in force, or was already undone.
    """
    with ledger.write() as connection:
        version_id = _decided_version(connection, decision_id)
        row = load_versions(connection, [version_id], lock=True)[version_id]
        review = load_reviews(connection, [version_id])[version_id]
        records = review.records
        target = next(record for record in records if record.id == decision_id)
        affected = [
            record
            for record in records
            if record.id == decision_id
            or (record.subject == decision_id and record.kind is ReviewAction.RELEASE and not record.undone)
        ]
        already_undone = target.undone or any(
            record.kind is ReviewAction.UNDO and record.subject == decision_id for record in records
        )
        is_rejected_by_it = _is_rejected_by(target, review, row)
        if already_undone or (any(record.applied for record in affected) and not is_rejected_by_it):
            state = "was already undone" if already_undone else "has taken effect"
            raise Stale(
                f"decision {decision_id} {state}; nothing was changed. To take out what was released so that it can come back, "
                "use `guard case open --document` and withdraw it there; to delete it, `guard purge`; to bring back what was "
                "withdrawn, `guard trace restore`"
            )
        if is_rejected_by_it or review.last_open_decision in affected:
            affected += [record for record in _replaced(review, target) if record not in affected]
        when = now()
        for record in affected:
            connection.execute(
                decisions.update()
                .where(decisions.c.decision_id == record.id, decisions.c.undone_at.is_(None))
                .values(undone_at=when)
            )
            record_act(connection, ReviewAction.UNDO, act, when, version_id=version_id, subject=record.id)
        if row.state == VersionState.REJECTED and any(record.kind is ReviewAction.REJECT for record in affected):
            # The same bytes came again, or were screened again, while only the rejection kept them out.
            _quarantine_again(connection, version_id)
    return [record.id for record in affected]


def _is_rejected_by(target: ReviewRecord, review: VersionReview, row: Row) -> bool:
    """Return whether a document is kept out by this decision of a reviewer, which took effect, and by nothing newer."""
    standing = [record for record in review.records if record.kind in DECISIVE_ACTIONS and not record.undone]
    return (
        (target.kind, target.purpose, target.applied) == (ReviewAction.REJECT, "", True)
        and standing[-1:] == [target]
        and row.state == VersionState.REJECTED
        and row.latest_version == row.version_id
    )


def _replaced(review: VersionReview, target: ReviewRecord) -> list[ReviewRecord]:
    """Return the decisions of the same purpose that would count without a later one; the approval that it completes is none."""
    return [
        record
        for record in review.records
        if record.kind in DECISIVE_ACTIONS
        and not record.undone
        and record.applied in (False, target.applied)
        and record.id != target.subject
        and record.purpose == target.purpose
    ]


def _decided_version(connection: sa.Connection, decision_id: str) -> str:
    """Return the id of the version that a decision or an escalation is about."""
    version_id: str | None = connection.scalar(
        sa.union_all(
            sa.select(decisions.c.version_id).where(decisions.c.decision_id == decision_id),
            sa.select(acts.c.version_id).where(
                acts.c.act_id == decision_id, acts.c.kind == ReviewAction.ESCALATE.value
            ),
        )
    )
    if version_id is None:
        raise UnknownSubject(f"decision {decision_id[:64]!r} is not in the ledger; see `guard quarantine history`")
    return version_id


def _quarantine_again(connection: sa.Connection, version_id: str) -> None:
    """Let a version wait for a decision; one that waited before has waited since then."""
    connection.execute(
        versions.update()
        .where(versions.c.version_id == version_id)
        .values(
            state=VersionState.QUARANTINED.value,
            waits_since=sa.func.coalesce(versions.c.waits_since, versions.c.judged_at),
        )
    )


def lapse_releases(ledger: Ledger, version_ids: Sequence[str], *, policy_digest: str = "") -> list[str]:
    """Undo the releases of versions that are about to read differently: nobody has seen the new text.

    A rejection stays. Repeating it changes nothing. The undoing is recorded with the cause `expired`.

    Args:
        version_ids: versions whose text changes.

    Returns:
        Ids of the undone releases.
    """
    when, act = now(), ReviewAct(SYSTEM_REVIEWER, LAPSED, policy_digest)
    lapsed: list[str] = []
    for batch in in_batches(version_ids):
        with ledger.write() as connection:
            load_versions(connection, batch, lock=True)
            releases = connection.execute(
                sa.select(decisions.c.decision_id, decisions.c.version_id).where(
                    decisions.c.version_id.in_(batch),
                    decisions.c.verdict == ReviewAction.RELEASE,
                    decisions.c.undone_at.is_(None),
                )
            ).all()
            for row in releases:
                connection.execute(
                    decisions.update().where(decisions.c.decision_id == row.decision_id).values(undone_at=when)
                )
                record_act(
                    connection, ReviewAction.UNDO, act, when,
                    cause=ActCause.EXPIRED, version_id=row.version_id, subject=row.decision_id,
                )  # fmt: skip
        lapsed.extend(row.decision_id for row in releases)
    return lapsed


def escalate_expired(ledger: Ledger, rules: ReviewRules, *, policy_digest: str = "") -> int:
    """Escalate and mark items that wait longer than the policy allows; they stay in quarantine.

    Return how many are new.
    """
    when = now()
    limit = when - timedelta(days=rules.expire_days)
    marked = escalated_for_time()
    statement = (
        sa.select(versions.c.version_id, versions.c.content_sha256)
        .select_from(latest_versions())
        .where(
            waits_for_decision(),
            versions.c.waits_since < limit,
            documents.c.retired_at.is_(None),
            sa.not_(marked),
            sa.not_(has_complete_decision()),
        )
        .order_by(versions.c.version_id)
    )
    reason = f"nobody decided within {rules.expire_days:g} days; it stays as it is"
    act = ReviewAct(SYSTEM_REVIEWER, reason, policy_digest)
    expired_ids = [row.version_id for row in ledger.rows(statement)]
    count = 0
    for batch in in_batches(expired_ids):
        with ledger.write() as connection:  # selected again: somebody may have decided meanwhile
            load_versions(connection, batch, lock=True)
            rows = connection.execute(statement.where(versions.c.version_id.in_(batch))).all()
            for row in rows:
                record_act(
                    connection, ReviewAction.ESCALATE, act, when,
                    cause=ActCause.EXPIRED, version_id=row.version_id, content_sha256=row.content_sha256,
                )  # fmt: skip
        count += len(rows)
    return count
