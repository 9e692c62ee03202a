"""Release, reject, escalate, undo.

Rules
    * a decision is about bytes: the same bytes fetched again keep it, other bytes are a new version and a new question;
    * decisions are appended, never changed; of several on one version the last that stands counts;
    * only what waits can be decided, and only as it was seen: what somebody else decided, what was judged anew, replaced or
      retired since is refused, and the reviewer told (`Stale`);
    * a call decides all of its items or none;
    * a release that the policy names needs two different people: the first is an approval, 1 of 2, and has no effect; the second
      completes it, unless anything was decided between them;
    * a decision that has not taken effect can be undone, and the undoing is kept like a decision; without its first approval the
      second falls too;
    * time releases nothing: what waited too long is escalated, marked, and stays;
    * deciding changes nothing that is served: `corpus_guard.review.applying` does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import sqlalchemy as sa

from corpus_guard.domain import Severity, TrustLevel, digest
from corpus_guard.errors import Misuse, NotAllowed, Stale, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import acts, decisions
from corpus_guard.review._marks import Mark, Marks, marks_of, rows_of
from corpus_guard.review.reviewer import Reviewer, reason_of
from corpus_guard.review.undoing import expire, undo
from corpus_guard.screening.policy import ReviewRules

__all__ = ["CHOICES", "MOST", "Choice", "Chosen", "Decision", "Preview", "decide", "expire", "preview", "undo"]

Choice = Literal["release", "reject", "escalate"]
CHOICES: Final[tuple[Choice, ...]] = ("release", "reject", "escalate")
MOST = 1_000
"""Items one call decides."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """An item as the reviewer saw it."""

    version_id: str
    revision: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about a version's bytes."""

    decision_id: str
    version_id: str
    verdict: Choice
    reviewer: Reviewer
    reason: str
    approval: int  # 1 or 2 …
    of: int  # … of 1 or 2: `1 of 2` has no effect until somebody else releases it too
    decided_at: datetime

    @property
    def is_complete(self) -> bool:
        """Whether it takes effect with the next run of `quarantine_release`. An escalation never changes what is served."""
        return self.approval == self.of

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
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
class Preview:
    """What a decision would touch; counts of items."""

    choice: Choice
    items: int  # that would be decided
    by_source: Mapping[str, int]
    by_trust: Mapping[str, int]
    by_severity: Mapping[str, int]
    first_of_two: int  # that would wait for a second person
    second_of_two: int  # that this would complete
    refused: tuple[tuple[str, str], ...]  # (id, why); a call with any of them is refused whole
    revisions: Mapping[str, str] = field(default_factory=dict)  # id → revision, of those that would be decided

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "refused": [list(pair) for pair in self.refused]}


def decide(
    ledger: Ledger,
    rules: ReviewRules,
    chosen: Sequence[Chosen],
    choice: Choice,
    *,
    reviewer: Reviewer,
    reason: str,
    policy_digest: str,
) -> list[Decision]:
    """Decide about items, all or none.

    Args:
        ledger: the ledger.
        rules: the policy's, which say what needs two people.
        chosen: items, each with its revision as the reviewer saw it; 1 to `MOST`, none twice.
        choice: release, reject or escalate.
        reviewer: who decides.
        reason: why, in their words; required.
        policy_digest: the policy in force when they decided.

    Returns:
        One decision an item, in the order given.

    Raises:
        Misuse: no reason, no item, too many, or one of them twice.
        UnknownSubject: an item is not in the ledger.
        Stale: an item does not wait any more, or changed since it was seen.
        NotAllowed: a release that needs a second person was approved by this one already.
    """
    kept = reason_of(reason)
    ids = _checked([one.version_id for one in chosen], choice)
    with ledger.write() as connection:
        seen = rows_of(connection, ids, lock=True)
        marks = marks_of(connection, ids)
        refused = [
            (one.version_id, error)
            for one in chosen
            if (error := _refusal(one.version_id, one.revision, seen, marks, choice, reviewer))
        ]
        if refused:
            raise _joined(refused, len(chosen))
        when = now()
        made = [_made(seen[name], marks[name], rules, choice, reviewer, kept, when) for name in ids]
        _write(ledger, connection, made, seen, {one.version_id: one.revision for one in chosen}, rules, policy_digest)
    return [decision for decision, _ in made]


def preview(ledger: Ledger, rules: ReviewRules, ids: Sequence[str], choice: Choice, reviewer: Reviewer) -> Preview:
    """What deciding about these items would touch, and which of them would be refused. Changes nothing.

    Raises:
        Misuse: no item, too many, or one of them twice.
    """
    ids = _checked(ids, choice)
    with ledger.read() as connection:
        seen = rows_of(connection, ids)
        marks = marks_of(connection, ids)
    refused, counted = [], {name: Counter[str]() for name in ("source", "trust", "severity", "part")}
    revisions = {}
    for name in ids:
        row = seen.get(name)
        error = _refusal(name, None, seen, marks, choice, reviewer)
        if error or row is None:
            refused.append((name, str(error)))
            continue
        revisions[name] = marks[name].revision(row)
        counted["source"][row.source] += 1
        counted["trust"][row.trust] += 1
        counted["severity"][row.severity or Severity.INFO.value] += 1
        counted["part"][_part(row, marks[name], rules, choice)] += 1
    return Preview(
        choice=choice,
        items=len(revisions),
        by_source=dict(counted["source"].most_common()),
        by_trust=dict(counted["trust"].most_common()),
        by_severity=dict(counted["severity"].most_common()),
        first_of_two=counted["part"]["first"],
        second_of_two=counted["part"]["second"],
        refused=tuple(refused),
        revisions=revisions,
    )


def _checked(ids: Sequence[str], choice: str) -> list[str]:
    if choice not in CHOICES:
        raise Misuse(f"decision {choice!r}: expected one of {', '.join(CHOICES)}")
    if not 1 <= len(ids) <= MOST:
        raise Misuse(f"a call decides about 1 to {MOST:,} items, found {len(ids):,}")
    if len(set(ids)) != len(ids):
        raise Misuse("an item was given twice; nothing was changed")
    return [name.replace("\x00", "") for name in ids]


def _refusal(
    name: str,
    revision: str | None,
    seen: Mapping[str, Any],
    marks: Mapping[str, Marks],
    choice: Choice,
    reviewer: Reviewer,
) -> Misuse | None:
    """Why this item cannot be decided; None where it can."""
    row = seen.get(name)
    if row is None:
        return UnknownSubject(f"item {name[:64]!r} is not in the ledger; see `guard quarantine list`")
    if why := _waits_no_more(row):
        return Stale(f"item {name} {why}")
    known = marks[name]
    first = known.first_approval
    if choice == "release" and first and first.by.is_same(reviewer):
        return NotAllowed(f"item {name} was released by {first.by.name} already; another person must agree")
    if revision is not None and revision != known.revision(row):
        last = known.done[-1] if known.done else None
        what = f"{last.by.name}: {last.kind}" if last else "it was judged anew"
        return Stale(f"item {name} changed since you looked at it ({what}); look again, nothing was changed")
    return None


def _waits_no_more(row: Any) -> str:
    if row.state != "quarantined":
        return f"does not wait: it is {row.state}; nothing was changed"
    if row.latest_version != row.version_id:
        return f"was replaced by {row.latest_version} at its source; decide on that one"
    if row.retired_at is not None:
        return "vanished from its source; nothing was changed"
    return ""


def _joined(refused: Sequence[tuple[str, Misuse]], count: int) -> Misuse:
    kinds = [type(error) for _, error in refused]
    worst = next(kind for kind in (UnknownSubject, NotAllowed, Stale) if kind in kinds)
    first = next(error for _, error in refused if type(error) is worst)
    if len(refused) == 1:
        return first
    return worst(f"{len(refused):,} of {count:,} items cannot be decided, so none was; the first: {first}")


def _part(row: Any, known: Marks, rules: ReviewRules, choice: Choice) -> str:
    severity = Severity(row.severity) if row.severity else None
    if choice != "release" or not (rules.needs_two(TrustLevel(row.trust), severity) or known.first_approval):
        return "only"
    return "second" if known.first_approval else "first"


def _made(
    row: Any, known: Marks, rules: ReviewRules, choice: Choice, reviewer: Reviewer, reason: str, when: datetime
) -> tuple[Decision, Mark | None]:
    part = _part(row, known, rules, choice)
    kind = "act/v1" if choice == "escalate" else "decision/v1"
    parts = [row.version_id, choice, reviewer.id, reviewer.auth, when.isoformat()]
    decision = Decision(
        decision_id=digest(kind, parts)[:32],
        version_id=row.version_id,
        verdict=choice,
        reviewer=reviewer,
        reason=reason,
        approval=2 if part == "second" else 1,
        of=1 if part == "only" else 2,
        decided_at=when,
    )
    return decision, known.first_approval if part == "second" else None


def _write(
    ledger: Ledger,
    connection: sa.Connection,
    made: Sequence[tuple[Decision, Mark | None]],
    seen: Mapping[str, Any],
    revisions: Mapping[str, str],
    rules: ReviewRules,
    policy_digest: str,
) -> None:
    rows: list[dict[str, Any]] = []
    for decision, first in made:
        by = decision.reviewer
        row: dict[str, Any] = {
            "version_id": decision.version_id,
            "content_sha256": seen[decision.version_id].content_sha256,
            "reviewer": by.name,
            "reviewer_id": by.id,
            "auth": by.auth,
            "reason": decision.reason,
            "policy_digest": policy_digest,
            "revision": revisions[decision.version_id],
        }
        if decision.verdict == "escalate":
            row |= {"act_id": decision.decision_id, "cause": "person"}
            ledger.event(connection, "review_escalate", decision.version_id, "", **row)
            rows.append({**row, "kind": "escalate", "done_at": decision.decided_at})
            continue
        row |= {
            "decision_id": decision.decision_id,
            "verdict": decision.verdict,
            "lacking": decision.of - decision.approval,
            "completes": first.id if first else None,
        }
        ledger.event(connection, "decided", decision.version_id, "", **row, rules=rules.digest)
        rows.append({**row, "decided_at": decision.decided_at})
    table = acts if made[0][0].verdict == "escalate" else decisions
    connection.execute(table.insert(), rows)
