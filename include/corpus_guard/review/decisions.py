"""Decisions about items in quarantine: release, reject, escalate.

Rules
    * a decision is about bytes: the same bytes fetched again keep it; other bytes are a new version that
      needs a new decision;
    * decisions are appended, never changed; of several on one version the last one that was not undone
      counts;
    * only a waiting item can be decided, and only as the reviewer saw it: if it was decided, screened
      again, replaced or retired since, the decision is refused and the reviewer is told (`Stale`);
    * a call decides all of its items or none;
    * a release that the policy names needs two different people: the first is an approval, 1 of 2, without
      effect; the second completes it, unless anything was decided in between. Who counts as two people is in
      `corpus_guard.review.identities`;
    * a person who decides with their own key signs each decision, and its event holds the signature;
    * a decision that has not taken effect can be undone, and so can a rejection that has; undoing is recorded
      like a decision;
    * undoing the first approval undoes the second as well, and undoing the decision that counts undoes those
      that it replaced: the item waits again;
    * time releases nothing: an item that waits too long is escalated, marked, and stays in quarantine;
    * deciding changes nothing that is served: `corpus_guard.review.release` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, Self

import sqlalchemy as sa

from corpus_guard.domain import JsonRecord, Severity, TrustLevel, digest
from corpus_guard.errors import Misuse, NotAllowed, Stale, UnknownSubject, require_one_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.states import ActCause, Purpose, ReviewAction, VersionState
from corpus_guard.ledger.tables import acts, decisions
from corpus_guard.review.identities import NOBODY, Identities, ReviewAct
from corpus_guard.review.records import ItemRevision, ReviewRecord, VersionReview, load_reviews, load_versions
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.screening.policy import ReviewRules

Choice = Literal["release", "reject", "escalate"]
CHOICES: Final[tuple[Choice, ...]] = ("release", "reject", "escalate")
MAX_ITEMS: Final = 1_000
"""Items that one call may decide."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision about a version's bytes."""

    decision_id: str
    version_id: str
    verdict: Choice
    reviewer: Reviewer
    reason: str
    approval: int  # 1 or 2 …
    of: int  # … of 1 or 2; `1 of 2` has no effect until another person releases the item too
    decided_at: datetime

    @property
    def is_complete(self) -> bool:
        """True if the next run of `quarantine_release` applies it.

        An escalation never changes what is served.
        """
        return self.approval == self.of

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {
            "decision_id": self.decision_id,
            "version_id": self.version_id,
            "verdict": self.verdict,
            "reviewer": self.reviewer.name,
            "reviewer_id": self.reviewer.id,
            "auth": self.reviewer.auth,
            "reason": self.reason,
            "approval": self.approval,
            "of": self.of,
            "decided_at": self.decided_at.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class DecisionPreview(JsonRecord):
    """Effects of a decision before it is made; all counts are items."""

    choice: Choice
    items: int  # that would be decided
    by_source: Mapping[str, int]
    by_trust: Mapping[str, int]
    by_severity: Mapping[str, int]
    first_of_two: int  # items that would wait for a second person
    second_of_two: int  # items that this decision would complete
    refused: tuple[tuple[str, str], ...]  # (id, reason); a call that names any of them is refused as a whole
    revisions: Mapping[str, str] = field(default_factory=dict)  # id → revision, of the items that would be decided


def decide(
    ledger: Ledger,
    rules: ReviewRules,
    items: Sequence[ItemRevision],
    choice: Choice,
    act: ReviewAct,
    *,
    purpose: Purpose | None = None,
) -> list[Decision]:
    """Decide on items, all of them or none; return the decisions in their order.

    Args:
        rules: the policy's review rules; they say which releases need two people.
        items: 1 to `MAX_ITEMS` different items, each in the revision that the reviewer saw.
        purpose: ``withdraw``: reject what is served; ``restore``: release what was withdrawn; None: a review of the
            quarantine.

    Raises:
        Misuse: no item, too many items, or the same item twice.
        UnknownSubject: an item is not in the ledger.
        Stale: an item no longer waits, or changed since the reviewer saw it.
        NotAllowed: the release needs two people, and this reviewer gave the first approval or cannot be one of the two.
    """
    version_ids = _checked_ids([item.version_id for item in items], choice)
    revisions = {item.version_id: item.revision for item in items}
    with ledger.write() as connection:
        question = _Question.load(connection, version_ids, rules, choice, purpose, lock=True)
        refusals = [
            error
            for item in items
            if (error := question.refusal(item.version_id, act.reviewer, act.identities, item.revision))
        ]
        if refusals:
            raise _combined_error(refusals, len(items))
        when = now()
        made = [question.decision(version_id, act, when) for version_id in version_ids]
        _insert_decisions(connection, question, made, revisions, act.policy_digest)
    return [decision for decision, _ in made]


def preview_decision(
    ledger: Ledger,
    rules: ReviewRules,
    version_ids: Sequence[str],
    choice: Choice,
    reviewer: Reviewer,
    identities: Identities = NOBODY,
) -> DecisionPreview:
    """Return the effects of a decision on these items, and the items that would be refused. Changes nothing.

    Raises:
        Misuse: no item, too many items, or the same item twice.
    """
    version_ids = _checked_ids(version_ids, choice)
    with ledger.read() as connection:
        question = _Question.load(connection, version_ids, rules, choice)
    refused: list[tuple[str, str]] = []
    revisions: dict[str, str] = {}
    by_source, by_trust, by_severity = Counter[str](), Counter[str](), Counter[str]()
    approvals = Counter[tuple[int, int]]()
    for version_id in version_ids:
        if error := question.refusal(version_id, reviewer, identities):
            refused.append((version_id, str(error)))
            continue
        row = question.rows[version_id]
        revisions[version_id] = question.reviews[version_id].revision(row)
        by_source[row.source] += 1
        by_trust[row.trust] += 1
        by_severity[row.severity or Severity.INFO.value] += 1
        approvals[question.approval(version_id)] += 1
    return DecisionPreview(
        choice=choice,
        items=len(revisions),
        by_source=dict(by_source.most_common()),
        by_trust=dict(by_trust.most_common()),
        by_severity=dict(by_severity.most_common()),
        first_of_two=approvals[1, 2],
        second_of_two=approvals[2, 2],
        refused=tuple(refused),
        revisions=revisions,
    )


def _checked_ids(version_ids: Sequence[str], choice: str) -> list[str]:
    require_one_of("decision", choice, CHOICES)
    if not 1 <= len(version_ids) <= MAX_ITEMS:
        raise Misuse(f"a decision covers 1 to {MAX_ITEMS:,} items, got {len(version_ids):,}")
    if len(set(version_ids)) != len(version_ids):
        raise Misuse("an item was named twice; nothing was changed")
    return [version_id.replace("\x00", "") for version_id in version_ids]


@dataclass(frozen=True, slots=True)
class _Question:
    """A choice about versions, with what the ledger holds of them."""

    rules: ReviewRules
    choice: Choice
    purpose: Purpose | None
    rows: Mapping[str, Row]
    reviews: Mapping[str, VersionReview]

    @classmethod
    def load(
        cls,
        connection: sa.Connection,
        version_ids: Sequence[str],
        rules: ReviewRules,
        choice: Choice,
        purpose: Purpose | None = None,
        *,
        lock: bool = False,
    ) -> Self:
        rows = load_versions(connection, version_ids, lock=lock)
        return cls(rules, choice, purpose, rows, load_reviews(connection, version_ids))

    def refusal(
        self, version_id: str, reviewer: Reviewer, identities: Identities, revision: str | None = None
    ) -> Misuse | None:
        """Return the error that keeps this item from being decided; None if nothing does."""
        row = self.rows.get(version_id)
        if row is None:
            return UnknownSubject(f"item {version_id[:64]!r} is not in the ledger; see `guard quarantine list`")
        if problem := _NOT_DECIDABLE[self.purpose](row):
            return Stale(f"item {version_id} {problem}")
        review = self.reviews[version_id]
        first = review.first_approval
        if self.approval(version_id)[1] == 2 and (
            problem := identities.pair_problem(first.reviewer if first else None, reviewer, "already released")
        ):
            return NotAllowed(f"item {version_id} {problem}")
        if revision is not None and revision != review.revision(row):
            last = review.records[-1] if review.records else None
            change = f"{last.reviewer.name}: {last.kind}" if last else "it was screened again"
            return Stale(
                f"item {version_id} changed since you looked at it ({change}); look again, nothing was changed"
            )
        return None

    def approval(self, version_id: str) -> tuple[int, int]:
        """Return which approval a decision would be, of how many."""
        row, first = self.rows[version_id], self.reviews[version_id].first_approval
        severity = Severity(row.severity) if row.severity else None
        if self.choice != "release" or not (self.rules.needs_two(TrustLevel(row.trust), severity) or first):
            return 1, 1
        return (2 if first else 1), 2

    def decision(self, version_id: str, act: ReviewAct, when: datetime) -> tuple[Decision, ReviewRecord | None]:
        """Return a decision, and the first approval that it completes, if any."""
        approval, of = self.approval(version_id)
        kind = "act/v1" if self.choice == "escalate" else "decision/v1"
        parts = [version_id, self.choice, act.reviewer.id, act.reviewer.auth, when.isoformat()]
        decision = Decision(
            decision_id=digest(kind, parts)[:32],
            version_id=version_id,
            verdict=self.choice,
            reviewer=act.reviewer,
            reason=act.reason,
            approval=approval,
            of=of,
            decided_at=when,
        )
        return decision, self.reviews[version_id].first_approval if approval == 2 else None


def _not_waiting(row: Row) -> str:
    """Return why a version does not wait for a decision; empty if it does."""
    if row.state != VersionState.QUARANTINED and row.reopened_at is None:
        return f"does not wait: it is {row.state}; nothing was changed"
    if row.latest_version != row.version_id:
        return f"was replaced by {row.latest_version} at its source; decide on that one"
    if row.retired_at is not None:
        return "vanished from its source; nothing was changed"
    return ""


def _not_served(row: Row) -> str:
    """Return why a version cannot be withdrawn; empty if it can."""
    return "is rejected already; nothing was changed" if row.state == VersionState.REJECTED else ""


def _not_withdrawn(row: Row) -> str:
    """Return why a version cannot be restored; empty if it can, as far as its state tells."""
    return "" if row.state == VersionState.REJECTED else f"is not withdrawn: it is {row.state}; nothing was changed"


_NOT_DECIDABLE: Final[Mapping[Purpose | None, Callable[[Row], str]]] = MappingProxyType(
    {None: _not_waiting, Purpose.WITHDRAW: _not_served, Purpose.RESTORE: _not_withdrawn}
)


def _combined_error(refusals: Sequence[Misuse], item_count: int) -> Misuse:
    """Return one error for all refused items: the most severe kind, with its first message."""
    kinds = [type(error) for error in refusals]
    worst = next(kind for kind in (UnknownSubject, NotAllowed, Stale) if kind in kinds)
    first = next(error for error in refusals if type(error) is worst)
    if len(refusals) == 1:
        return first
    return worst(
        f"{len(refusals):,} of {item_count:,} items cannot be decided; nothing was changed. The first: {first}"
    )


def _insert_decisions(
    connection: sa.Connection,
    question: _Question,
    made: Sequence[tuple[Decision, ReviewRecord | None]],
    revisions: Mapping[str, str],
    policy_digest: str,
) -> None:
    """Insert decisions (escalations as acts) and their events."""
    inserts: list[dict[str, object]] = []
    for decision, first in made:
        reviewer = decision.reviewer
        row: dict[str, object] = {
            "version_id": decision.version_id,
            "content_sha256": question.rows[decision.version_id].content_sha256,
            "reviewer": reviewer.name,
            "reviewer_id": reviewer.id,
            "auth": reviewer.auth,
            "reason": decision.reason,
            "policy_digest": policy_digest,
            "revision": revisions[decision.version_id],
        }
        if decision.verdict == "escalate":
            row |= {"act_id": decision.decision_id, "cause": ActCause.PERSON.value}
            append_event(connection, "review_escalate", decision.version_id, "", **row, **_signature(decision, row))
            inserts.append({**row, "kind": ReviewAction.ESCALATE.value, "done_at": decision.decided_at})
            continue
        row |= {
            "decision_id": decision.decision_id,
            "verdict": decision.verdict,
            "lacking": decision.of - decision.approval,
            "completes": first.id if first else None,
            "purpose": question.purpose.value if question.purpose else None,
        }
        signature = _signature(decision, row)
        append_event(connection, "decided", decision.version_id, "", **row, rules=question.rules.digest, **signature)
        inserts.append({**row, "decided_at": decision.decided_at})
    table = acts if question.choice == "escalate" else decisions
    connection.execute(table.insert(), inserts)


def _signature(decision: Decision, row: Mapping[str, object]) -> dict[str, str]:
    return decision.reviewer.sign(decision.decision_id, decision.verdict, decision.version_id, str(row["revision"]))
