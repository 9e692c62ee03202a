"""Figures on the review: false alarms of each check, time to decision, overdue items, canary recall.

Rules
    * a release is a false alarm of every check that found something in the item, a rejection a correct one;
      undecided items count as neither, so a rate says how often people disagreed, not how often a check is
      wrong;
    * rates come with their Wilson interval (95 %), which is wide when there are few decisions;
    * canary recall is what `corpus_refresh` measured, run by run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, TypedDict

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import ReviewAction, RunKind
from corpus_guard.ledger.tables import acts, decisions, documents, runs, versions, waits_for_decision
from corpus_guard.review.labels import ReviewLabel, load_labels
from corpus_guard.review.records import escalated_for_time, has_complete_decision, latest_versions
from corpus_guard.screening.calibration import Proportion
from corpus_guard.screening.policy import ReviewRules

RUNS_WITH_CANARIES: Final = 30
DAYS_OF_DECISIONS: Final = 90

Share = Mapping[str, int | float | None]
"""A proportion as `Proportion.as_dict` returns it: ``count``, ``of``, ``share``, ``low``, ``high``."""


class FalseAlarmRate(TypedDict):
    """Released items among the decided ones in which a check or a rule found something."""

    name: str
    false_alarms: Share


class DurationSummary(TypedDict):
    """Distribution of durations in seconds; None where there are none."""

    count: int
    median: float | None
    p90: float | None


class CanaryRecall(TypedDict):
    """Planted attacks that one run caught, and innocent documents that it stopped."""

    run_id: str
    at: str  # ISO 8601
    caught: int
    planted: int
    recall: Share
    missed: list[str]
    false_alarms: int
    innocent: int


class DecisionsOfDay(TypedDict):
    """Decisions of one day."""

    day: str  # ISO 8601
    released: int
    rejected: int


class OverdueItems(TypedDict):
    """Items that nobody decided within the policy's deadline."""

    items: int
    by_source: dict[str, int]
    oldest: str | None  # ISO 8601
    deadline_hours: float


class WaitingItems(TypedDict):
    """Counts of waiting items."""

    items: int
    overdue: int
    for_second: int  # released once, waiting for a second person
    escalated: int
    expired: int
    decided_not_applied: int
    oldest: str | None  # ISO 8601


class DecidedItems(TypedDict):
    """Counts of decided items."""

    released: int
    rejected: int


class ReviewHealth(TypedDict):
    """All figures of the health view, JSON-ready."""

    at: str
    source: str | None
    waiting: WaitingItems
    decided: DecidedItems
    checks: list[FalseAlarmRate]
    codes: list[FalseAlarmRate]
    seconds_to_decision: DurationSummary
    days: list[DecisionsOfDay]
    canaries: list[CanaryRecall]


def measure_health(ledger: Ledger, rules: ReviewRules, *, source: str | None = None) -> ReviewHealth:
    """Return the figures of the health view, of all sources or of one."""
    when = now()
    labels = list(load_labels(ledger, source=source))
    return {
        "at": when.isoformat(),
        "source": source,
        "waiting": _count_waiting(ledger, rules, source, when),
        "decided": _count_decided(labels),
        "checks": false_alarm_rates(labels, "checks"),
        "codes": false_alarm_rates(labels, "codes"),
        "seconds_to_decision": summarize_durations(
            [label.waited_seconds for label in labels if label.waited_seconds is not None]
        ),
        "days": _decisions_by_day(labels, when),
        "canaries": canary_recall(ledger),
    }


def false_alarm_rates(labels: Iterable[ReviewLabel], by: Literal["checks", "codes"]) -> list[FalseAlarmRate]:
    """Return the false-alarm rate of each check or code, most often decided first."""
    decided, released = Counter[str](), Counter[str]()
    for label in labels:
        names = label.checks if by == "checks" else label.codes
        decided.update(names)
        released.update(names if label.label == "honest" else ())
    ordered = sorted(decided, key=lambda name: (-decided[name], name))
    return [{"name": name, "false_alarms": Proportion(released[name], decided[name]).as_dict()} for name in ordered]


def summarize_durations(seconds: Sequence[float]) -> DurationSummary:
    """Return count, median and 90th percentile (nearest rank)."""
    ordered = sorted(seconds)

    def percentile(share: float) -> float | None:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

    return {"count": len(ordered), "median": percentile(0.5), "p90": percentile(0.9)}


def canary_recall(ledger: Ledger) -> list[CanaryRecall]:
    """Return the recall of planted canaries in the last runs that screened any, oldest first."""
    statement = (
        sa.select(runs.c.run_id, runs.c.finished_at, runs.c.counts)
        .where(runs.c.kind == RunKind.REFRESH.value, runs.c.finished_at.is_not(None))
        .order_by(runs.c.started_at.desc())
        .limit(RUNS_WITH_CANARIES)
    )
    rows = ledger.rows(statement)
    return [
        {
            "run_id": row.run_id,
            "at": row.finished_at.isoformat(),
            "caught": canaries["caught"],
            "planted": canaries["planted"],
            "recall": Proportion(canaries["caught"], canaries["planted"]).as_dict(),
            "missed": list(canaries["missed"]),
            "false_alarms": len(canaries["false_alarms"]),
            "innocent": canaries["innocent"],
        }
        for row in reversed(rows)
        if (canaries := (row.counts or {}).get("canaries"))
    ]


def find_overdue(ledger: Ledger, rules: ReviewRules, when: datetime | None = None) -> OverdueItems:
    """Count the items that nobody decided within the policy's deadline, by source."""
    limit = (when or now()) - timedelta(hours=rules.deadline_hours)
    statement = (
        sa.select(
            documents.c.source, sa.func.count().label("items"), sa.func.min(versions.c.waits_since).label("since")
        )
        .select_from(latest_versions())
        .where(*_undecided(), versions.c.waits_since < limit)
        .group_by(documents.c.source)
        .order_by(sa.func.count().desc(), documents.c.source)
    )
    rows = ledger.rows(statement)
    oldest = min((row.since for row in rows), default=None)
    return {
        "items": sum(row.items for row in rows),
        "by_source": {row.source: row.items for row in rows},
        "oldest": oldest.isoformat() if oldest else None,
        "deadline_hours": rules.deadline_hours,
    }


def _undecided() -> list[sa.ColumnElement[bool]]:
    return [waits_for_decision(), documents.c.retired_at.is_(None), sa.not_(has_complete_decision())]


def _count_waiting(ledger: Ledger, rules: ReviewRules, source: str | None, when: datetime) -> WaitingItems:
    # Not by the index on sources: see `corpus_guard.review.queue`.
    in_source = [sa.func.coalesce(documents.c.source, "") == source] if source is not None else []
    overdue = versions.c.waits_since < when - timedelta(hours=rules.deadline_hours)
    half_approved = sa.exists().where(
        decisions.c.version_id == versions.c.version_id,
        decisions.c.applied_at.is_(None),
        decisions.c.undone_at.is_(None),
        decisions.c.lacking == 1,
    )
    escalated = sa.exists().where(
        acts.c.version_id == versions.c.version_id, acts.c.kind == ReviewAction.ESCALATE.value
    )
    expired = escalated_for_time()
    count = sa.func.count()
    in_quarantine = [waits_for_decision(), documents.c.retired_at.is_(None), *in_source]
    with ledger.read() as connection:
        row = connection.execute(
            sa.select(
                count.label("items"),
                count.filter(overdue).label("overdue"),
                count.filter(half_approved).label("for_second"),
                count.filter(escalated).label("escalated"),
                count.filter(expired).label("expired"),
                sa.func.min(versions.c.waits_since).label("oldest"),
            )
            .select_from(latest_versions())
            .where(*_undecided(), *in_source)
        ).one()
        total = connection.scalar(sa.select(count).select_from(latest_versions()).where(*in_quarantine)) or 0
    return {
        "items": row.items,
        "overdue": row.overdue,
        "for_second": row.for_second,
        "escalated": row.escalated,
        "expired": row.expired,
        "decided_not_applied": total - row.items,
        "oldest": row.oldest and row.oldest.isoformat(),
    }


def _count_decided(labels: Sequence[ReviewLabel]) -> DecidedItems:
    released = sum(label.label == "honest" for label in labels)
    return {"released": released, "rejected": len(labels) - released}


def _decisions_by_day(labels: Iterable[ReviewLabel], when: datetime) -> list[DecisionsOfDay]:
    """Return the decisions of each of the last days, oldest first, days without decisions included."""
    counts = Counter((label.decided_at.date(), label.label) for label in labels)
    days = [when.date() - timedelta(days=back) for back in range(DAYS_OF_DECISIONS - 1, -1, -1)]
    return [
        {"day": day.isoformat(), "released": counts[day, "honest"], "rejected": counts[day, "attack"]} for day in days
    ]
