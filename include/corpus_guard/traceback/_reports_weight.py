"""What a filing adds to its report's weight.

Rules
    * a reporter counts once a report: as much as they are trusted, 1 where nothing is known of them;
    * trust is the mean of a Beta distribution that starts at (2, 0): of the reports somebody counted for, those that were traced to
      poisoned texts keep it up, those that ended as *not poisoning* pull it down. It never reaches 0, for an honest person may report
      ten wrong answers that nobody planted;
    * at most `A_DAY` filings of one reporter count for one day (UTC, of `reported_at`). A busy tester stays below; a script does not.

What was counted is remembered for the batches that follow, so that a flood of filings is not read again for each of them. Of two
imports at once each may count up to the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

import sqlalchemy as sa

from corpus_guard.ledger.tables import filings, reports

A_DAY = 50
"""Filings of one reporter that count for one day."""
PRIOR = 2.0  # reports that a newcomer is trusted to have been right about
REMEMBERED = 50_000  # entries; some 10 MB

Entry = tuple[str, str, datetime]


def trust(right: int, wrong: int) -> float:
    """How much somebody counts.

    Args:
        right: reports they counted for that were traced to poisoned texts.
        wrong: those that ended as not poisoning.

    Returns:
        Above 0, at most 1.
    """
    return (PRIOR + right) / (PRIOR + right + wrong)


@dataclass(frozen=True, slots=True)
class Weight:
    """What one filing adds."""

    counted: float  # 0..1
    over: bool  # its reporter's day was full


class Weighing:
    """Counts filings, and remembers what it counted."""

    def __init__(self) -> None:
        self._trust: dict[str, float] = {}
        self._days: dict[tuple[str, date], int] = {}
        self._pairs: dict[tuple[str, str], bool] = {}

    def count(self, connection: sa.Connection, fresh: Sequence[Entry]) -> list[Weight]:
        """What new filings add.

        Args:
            connection: of the transaction that inserts them.
            fresh: (report id, reporter, reported at) of each.

        Returns:
            One a filing, in order.
        """
        self._forget()
        self._recall(connection, fresh)
        weights = []
        for report, reporter, at in fresh:
            day = (reporter, _day(at))
            over = self._days[day] >= A_DAY
            counts = not over and not self._pairs[report, reporter]
            if counts:
                self._days[day] += 1
                self._pairs[report, reporter] = True
            weights.append(Weight(self._trust[reporter] if counts else 0.0, over))
        return weights

    def _forget(self) -> None:
        for memory in (self._trust, self._days, self._pairs):
            if len(memory) > REMEMBERED:
                memory.clear()

    def _recall(self, connection: sa.Connection, fresh: Sequence[Entry]) -> None:
        strangers = {reporter for _, reporter, _ in fresh} - self._trust.keys()
        if strangers:
            self._trust |= _trusted(connection, strangers)
        days = {(reporter, _day(at)) for _, reporter, at in fresh} - self._days.keys()
        if days:
            self._days |= _counted_days(connection, days)
        pairs = {(report, reporter) for report, reporter, _ in fresh} - self._pairs.keys()
        if pairs:
            self._pairs |= _counted_pairs(connection, pairs)


def _trusted(connection: sa.Connection, reporters: set[str]) -> dict[str, float]:
    ended = sa.func.count(sa.distinct(filings.c.report_id))
    statement = (
        sa.select(filings.c.reporter, reports.c.state, ended)
        .join(reports, reports.c.report_id == filings.c.report_id)
        .where(filings.c.reporter.in_(reporters), filings.c.counted > 0)
        .where(reports.c.state.in_(("traced", "not_poisoning")))
        .group_by(filings.c.reporter, reports.c.state)
    )
    found = {(reporter, state): count for reporter, state, count in connection.execute(statement)}
    return {
        reporter: trust(found.get((reporter, "traced"), 0), found.get((reporter, "not_poisoning"), 0))
        for reporter in reporters
    }


def _counted_days(connection: sa.Connection, days: set[tuple[str, date]]) -> dict[tuple[str, date], int]:
    counts = dict.fromkeys(days, 0)
    statement = sa.select(filings.c.reporter, filings.c.reported_at).where(
        filings.c.reporter.in_({reporter for reporter, _ in days}),
        filings.c.reported_at >= _start(min(day for _, day in days)),
        filings.c.reported_at <= _start(max(day for _, day in days)) + timedelta(days=1) - timedelta(microseconds=1),
        filings.c.counted > 0,
    )
    for reporter, at in connection.execute(statement):
        if (key := (reporter, _day(at))) in counts:
            counts[key] += 1
    return counts


def _counted_pairs(connection: sa.Connection, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bool]:
    wanted = dict.fromkeys(pairs, False)
    statement = (
        sa.select(filings.c.report_id, filings.c.reporter)
        .where(sa.tuple_(filings.c.report_id, filings.c.reporter).in_(list(wanted)), filings.c.counted > 0)
        .distinct()
    )
    return wanted | {(row.report_id, row.reporter): True for row in connection.execute(statement)}


def _day(at: datetime) -> date:
    return at.astimezone(UTC).date()


def _start(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
