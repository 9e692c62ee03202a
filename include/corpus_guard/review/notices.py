"""Summaries of the quarantine for notifications: counts by source and check, never a text, a title or a URI.

Rules
    * an item is counted once, under the check of its worst finding that is not muted, so the parts add up
      to the whole;
    * an item with a complete decision waits for nobody; an item with one approval of two still does;
    * overdue items are reported again only after a day, or when there are more of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches
from corpus_guard.domain import JsonRecord
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, findings, versions, waits_for_decision
from corpus_guard.review.decisions import MAX_ITEMS, decide
from corpus_guard.review.health import OverdueItems, find_overdue
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.queue import QueueFilter, list_revisions
from corpus_guard.review.records import has_complete_decision, latest_versions
from corpus_guard.screening.policy import ReviewRules

REMINDER_INTERVAL: Final = timedelta(days=1)
LAST_REPORT_FILE: Final = "review/overdue-told.json"
NO_FINDING: Final = "no finding"
MAX_ESCALATED_ITEMS: Final = 100_000  # of one run


@dataclass(frozen=True, slots=True)
class WaitingCounts(JsonRecord):
    """Undecided items of some runs, or of all."""

    json_properties: ClassVar = ("sentence",)

    items: int
    by_check: Mapping[str, int]  # largest first; adds up to `items`
    by_source: Mapping[str, int]  # largest first; adds up to `items`

    @property
    def sentence(self) -> str:
        """The counts in words, such as ``12 to review: 9 instructions, 2 perplexity, 1 provenance``."""
        parts = ", ".join(f"{count:,} {check}" for check, count in self.by_check.items())
        return f"{self.items:,} to review: {parts}" if self.items else "nothing new to review"


def count_waiting(ledger: Ledger, run_ids: Sequence[str] = ()) -> WaitingCounts:
    """Count the undecided items.

    Args:
        run_ids: only items that these runs screened; empty: all items.
    """
    worst_check = (
        sa.select(findings.c.check_name)
        .where(
            findings.c.version_id == versions.c.version_id, sa.func.coalesce(findings.c.muted, sa.false()) == sa.false()
        )
        .order_by(findings.c.ordinal)
        .limit(1)
        .correlate(versions)
        .scalar_subquery()
    )
    undecided = (
        sa.select(sa.func.coalesce(worst_check, NO_FINDING).label("check_name"), documents.c.source)
        .select_from(latest_versions())
        .where(waits_for_decision(), documents.c.retired_at.is_(None), sa.not_(has_complete_decision()))
    )
    if run_ids:
        undecided = undecided.where(versions.c.run_id.in_(list(run_ids)))
    items = undecided.subquery()
    statement = sa.select(items.c.check_name, items.c.source, sa.func.count().label("items")).group_by(
        items.c.check_name, items.c.source
    )
    by_check: dict[str, int] = {}
    by_source: dict[str, int] = {}
    with ledger.read() as connection:
        for row in connection.execute(statement):
            by_check[row.check_name] = by_check.get(row.check_name, 0) + row.items
            by_source[row.source] = by_source.get(row.source, 0) + row.items
    return WaitingCounts(sum(by_check.values()), _largest_first(by_check), _largest_first(by_source))


def escalate_undecided(ledger: Ledger, rules: ReviewRules, run_ids: Sequence[str], act: ReviewAct) -> int:
    """Escalate the undecided items of these runs (of all, if none is named).

    Return how many; raises what `decide` raises.
    """
    filters = [QueueFilter(run_id=run_id, undecided=True) for run_id in run_ids] or [QueueFilter(undecided=True)]
    items = [item for criteria in filters for item in list_revisions(ledger, criteria, limit=MAX_ESCALATED_ITEMS)]
    for batch in in_batches(items, MAX_ITEMS):
        decide(ledger, rules, batch, "escalate", act)
    return len(items)


def overdue_to_report(
    ledger: Ledger, storage: Storage, rules: ReviewRules, when: datetime | None = None
) -> OverdueItems | None:
    """Return the overdue items if a reminder is due, else None.

    Call `mark_overdue_reported` once it was sent.
    """
    when = when or now()
    overdue = find_overdue(ledger, rules, when)
    if not overdue["items"]:
        return None
    last = storage.read_json(LAST_REPORT_FILE) if storage.exists(LAST_REPORT_FILE) else None
    if last and datetime.fromisoformat(last["at"]) > when - REMINDER_INTERVAL and overdue["items"] <= last["items"]:
        return None
    return overdue


def mark_overdue_reported(storage: Storage, overdue: OverdueItems) -> None:
    """Record that a reminder was sent. Call it after sending: a message may come twice, but is never lost."""
    storage.write_json(LAST_REPORT_FILE, {"at": now().isoformat(), "items": overdue["items"]})


def overdue_message(overdue: OverdueItems) -> str:
    """Return a sentence such as ``7 items have waited longer than 24 hours: 4 wiki, 3 tickets; the oldest since …``."""
    parts = ", ".join(f"{count:,} {source}" for source, count in overdue["by_source"].items())
    subject = "item has" if overdue["items"] == 1 else "items have"
    since = (
        f"; the oldest since {datetime.fromisoformat(overdue['oldest']):%Y-%m-%d %H:%M} UTC"
        if overdue["oldest"]
        else ""
    )
    return f"{overdue['items']:,} {subject} waited longer than {overdue['deadline_hours']:g} hours: {parts}{since}"


def _largest_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
