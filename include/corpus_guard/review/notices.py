"""What people are told about the quarantine: counts and names of sources and checks, never a text, a title or a URI.

Rules
    * an item is counted once, by the check of its worst finding that counts, so that the parts add up to the whole;
    * what is decided and only waits to take effect needs nobody; half an approval does;
    * who was told what is overdue is not told the same again for a day, unless more became overdue since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import split
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, findings, versions
from corpus_guard.review._marks import is_decided, latest
from corpus_guard.review.decisions import MOST, Chosen, decide
from corpus_guard.review.health import overdue
from corpus_guard.review.queue import Filter, ids_of
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.screening.policy import ReviewRules

REMIND: Final = timedelta(days=1)
TOLD: Final = "review/overdue-told.json"
NOTHING: Final = "no finding"
MOST_AT_ONCE: Final = 100_000  # items one answer escalates


@dataclass(frozen=True, slots=True)
class Waits:
    """What waits for a decision, of some runs or of all."""

    items: int
    by_check: Mapping[str, int]  # most first; adds up to `items`
    by_source: Mapping[str, int]

    @property
    def sentence(self) -> str:
        """``12 to review: 9 instructions, 2 perplexity, 1 provenance``."""
        parts = ", ".join(f"{count:,} {check}" for check, count in self.by_check.items())
        return f"{self.items:,} to review: {parts}" if self.items else "nothing to review"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "items": self.items,
            "by_check": dict(self.by_check),
            "by_source": dict(self.by_source),
            "sentence": self.sentence,
        }


def waits(ledger: Ledger, run_ids: Sequence[str] = ()) -> Waits:
    """What nobody decided yet.

    Args:
        ledger: the ledger.
        run_ids: of the runs that judged; empty: all that waits.
    """
    worst = (
        sa.select(findings.c.check_name)
        .where(
            findings.c.version_id == versions.c.version_id, sa.func.coalesce(findings.c.muted, sa.false()) == sa.false()
        )
        .order_by(findings.c.ordinal)
        .limit(1)
        .correlate(versions)
        .scalar_subquery()
    )
    each = (
        sa.select(sa.func.coalesce(worst, NOTHING).label("check_name"), documents.c.source)
        .select_from(latest())
        .where(versions.c.state == "quarantined", documents.c.retired_at.is_(None), sa.not_(is_decided()))
    )
    if run_ids:
        each = each.where(versions.c.run_id.in_(list(run_ids)))
    one = each.subquery()
    statement = sa.select(one.c.check_name, one.c.source, sa.func.count().label("items")).group_by(
        one.c.check_name, one.c.source
    )
    by_check: dict[str, int] = {}
    by_source: dict[str, int] = {}
    with ledger.read() as connection:
        for row in connection.execute(statement):
            by_check[row.check_name] = by_check.get(row.check_name, 0) + row.items
            by_source[row.source] = by_source.get(row.source, 0) + row.items
    return Waits(sum(by_check.values()), _most_first(by_check), _most_first(by_source))


def escalate_run(
    ledger: Ledger, rules: ReviewRules, run_ids: Sequence[str], *, reviewer: Reviewer, reason: str, policy_digest: str
) -> int:
    """Escalate what nobody decided of these runs, of all where none is named; how many. Raises what `decide` raises."""
    runs: Sequence[str | None] = run_ids or [None]
    chosen = [pair for run in runs for pair in _undecided(ledger, run)]
    for part in split(chosen, MOST):
        items = [Chosen(*pair) for pair in part]
        decide(ledger, rules, items, "escalate", reviewer=reviewer, reason=reason, policy_digest=policy_digest)
    return len(chosen)


def overdue_news(
    ledger: Ledger, storage: Storage, rules: ReviewRules, when: datetime | None = None
) -> dict[str, Any] | None:
    """What is overdue, where somebody should be told now; None where nobody should. `told_overdue` says that they were."""
    when = when or now()
    late = overdue(ledger, rules, when)
    if not late["items"]:
        return None
    last = storage.read_json(TOLD) if storage.exists(TOLD) else None
    if last and datetime.fromisoformat(last["at"]) > when - REMIND and late["items"] <= last["items"]:
        return None
    return late


def told_overdue(storage: Storage, late: Mapping[str, Any], when: datetime | None = None) -> None:
    """Remember that people were told. Asked after it was sent: a message may come twice, but not get lost."""
    storage.write_json(TOLD, {"at": (when or now()).isoformat(), "items": late["items"]})


def overdue_sentence(late: Mapping[str, Any]) -> str:
    """``7 items wait longer than 24 hours: 4 wiki, 3 tickets; the oldest since 2026-03-01 12:00 UTC``."""
    parts = ", ".join(f"{count:,} {source}" for source, count in late["by_source"].items())
    since = datetime.fromisoformat(late["oldest"])
    what = "item waits" if late["items"] == 1 else "items wait"
    return (
        f"{late['items']:,} {what} longer than {late['deadline_hours']:g} hours: {parts}; "
        f"the oldest since {since:%Y-%m-%d %H:%M} UTC"
    )


def _undecided(ledger: Ledger, run: str | None) -> list[tuple[str, str]]:
    return ids_of(ledger, Filter(run_id=run, undecided=True), limit=MOST_AT_ONCE)


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
