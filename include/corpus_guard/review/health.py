"""How the review is doing, from the ledger alone: false alarms of each check, time to decision, what is overdue, canary recall.

Rules
    * a release is a false alarm of every check that found something in the item, a rejection a true one; what nobody decided is
      neither, so a rate says how often people disagreed, not how often a check is wrong;
    * rates come with their Wilson interval (95 %): three decisions prove little, and the interval says so;
    * canary recall is what `corpus_refresh` measured, run by run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import acts, decisions, documents, runs, versions
from corpus_guard.review._marks import is_decided, latest
from corpus_guard.review.labels import Label, labels
from corpus_guard.screening.calibration import Share
from corpus_guard.screening.policy import ReviewRules

RUNS = 30  # of canaries
DAYS = 90  # of decisions


def health(ledger: Ledger, rules: ReviewRules, *, source: str | None = None, when: datetime | None = None) -> Any:
    """Everything the health view shows, JSON-ready.

    Args:
        ledger: the ledger.
        rules: the policy's: what is overdue.
        source: only this one.
        when: counted up to then; none: now.

    Returns:
        ``waiting``, ``decided``, ``checks``, ``codes``, ``seconds_to_decision``, ``days``, ``canaries``.
    """
    when = when or now()
    known = [one for one in labels(ledger, source=source) if one.decided_at <= when]
    return {
        "at": when.isoformat(),
        "source": source,
        "waiting": _waiting(ledger, rules, source, when),
        "decided": _decided(known),
        "checks": rates(known, "checks"),
        "codes": rates(known, "codes"),
        "seconds_to_decision": spread([one.waited for one in known if one.waited is not None]),
        "days": _days(known, when),
        "canaries": canaries(ledger),
    }


def rates(known: Iterable[Label], by: str) -> list[dict[str, Any]]:
    """False alarms of each check or code: released of decided, with the Wilson interval; the most often decided first."""
    decided, released = Counter[str](), Counter[str]()
    for one in known:
        names: Sequence[str] = getattr(one, by)
        decided.update(names)
        released.update(names if one.label == "honest" else ())
    ordered = sorted(decided, key=lambda name: (-decided[name], name))
    return [{"name": name, "false_alarms": Share(released[name], decided[name]).as_dict()} for name in ordered]


def spread(seconds: Sequence[float]) -> dict[str, Any]:
    """Count, median and 90th percentile (nearest rank); None where there is nothing."""
    ordered = sorted(seconds)

    def rank(share: float) -> float | None:
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None

    return {"count": len(ordered), "median": rank(0.5), "p90": rank(0.9)}


def canaries(ledger: Ledger) -> list[dict[str, Any]]:
    """Recall of the planted canaries, of the last runs that screened any; oldest first."""
    statement = (
        sa.select(runs.c.run_id, runs.c.finished_at, runs.c.counts)
        .where(runs.c.kind == "refresh", runs.c.finished_at.is_not(None))
        .order_by(runs.c.started_at.desc())
        .limit(RUNS)
    )
    with ledger.read() as connection:
        rows = connection.execute(statement).all()
    told = [(row, (row.counts or {}).get("canaries")) for row in rows]
    return [
        {
            "run_id": row.run_id,
            "at": row.finished_at.isoformat(),
            "caught": found["caught"],
            "planted": found["planted"],
            "recall": Share(found["caught"], found["planted"]).as_dict(),
            "missed": list(found["missed"]),
            "false_alarms": len(found["false_alarms"]),
            "innocent": found["innocent"],
        }
        for row, found in reversed(told)
        if found
    ]


def overdue(ledger: Ledger, rules: ReviewRules, when: datetime | None = None) -> dict[str, Any]:
    """What nobody decided within the policy's deadline: how many, of which sources, since when the oldest waits."""
    limit = (when or now()) - timedelta(hours=rules.deadline_hours)
    statement = (
        sa.select(
            documents.c.source, sa.func.count().label("items"), sa.func.min(versions.c.waits_since).label("since")
        )
        .select_from(latest())
        .where(*_undecided(), versions.c.waits_since < limit)
        .group_by(documents.c.source)
        .order_by(sa.func.count().desc(), documents.c.source)
    )
    with ledger.read() as connection:
        rows = connection.execute(statement).all()
    oldest = min((row.since for row in rows), default=None)
    return {
        "items": sum(row.items for row in rows),
        "by_source": {row.source: row.items for row in rows},
        "oldest": oldest.isoformat() if oldest else None,
        "deadline_hours": rules.deadline_hours,
    }


def _undecided() -> list[sa.ColumnElement[bool]]:
    return [versions.c.state == "quarantined", documents.c.retired_at.is_(None), sa.not_(is_decided())]


def _waiting(ledger: Ledger, rules: ReviewRules, source: str | None, when: datetime) -> dict[str, Any]:
    # Not by the index on sources: see `corpus_guard.review.queue`.
    here = [sa.func.coalesce(documents.c.source, "") == source] if source is not None else []
    late = versions.c.waits_since < when - timedelta(hours=rules.deadline_hours)
    half = sa.exists().where(
        decisions.c.version_id == versions.c.version_id,
        decisions.c.applied_at.is_(None),
        decisions.c.undone_at.is_(None),
        decisions.c.lacking == 1,
    )
    asked = sa.exists().where(acts.c.version_id == versions.c.version_id, acts.c.kind == "escalate")
    expired = sa.exists().where(acts.c.version_id == versions.c.version_id, acts.c.cause == "expired")
    count = sa.func.count()
    counts = {"items": count} | {
        name: count.filter(condition)
        for name, condition in (("overdue", late), ("for_second", half), ("escalated", asked), ("expired", expired))
    }
    living = [versions.c.state == "quarantined", documents.c.retired_at.is_(None), *here]
    with ledger.read() as connection:
        row = connection.execute(
            sa.select(
                *(column.label(name) for name, column in counts.items()),
                sa.func.min(versions.c.waits_since).label("oldest"),
            )
            .select_from(latest())
            .where(*_undecided(), *here)
        ).one()
        everything = connection.scalar(sa.select(count).select_from(latest()).where(*living)) or 0
    told = {name: getattr(row, name) for name in counts}
    return {**told, "decided_not_applied": everything - row.items, "oldest": row.oldest and row.oldest.isoformat()}


def _decided(known: Sequence[Label]) -> dict[str, int]:
    released = sum(one.label == "honest" for one in known)
    return {"released": released, "rejected": len(known) - released}


def _days(known: Iterable[Label], when: datetime) -> list[dict[str, Any]]:
    """Decisions of each of the last days, oldest first, none left out."""
    counted = Counter((one.decided_at.date(), one.label) for one in known)
    days = [when.date() - timedelta(days=back) for back in range(DAYS - 1, -1, -1)]
    return [
        {"day": day.isoformat(), "released": counted[day, "honest"], "rejected": counted[day, "attack"]} for day in days
    ]
