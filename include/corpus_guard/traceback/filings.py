"""Filings: single reports of a wrong answer, as they are stored and as they count.

`corpus_guard.traceback.reports` says what is refused and what is cut.

Rules of the weight that a filing adds to its report
    * a reporter counts once per report: by as much as they are trusted, 1 if nothing is known about them;
    * trust is the mean of a Beta distribution that starts at (2, 0): among the reports that somebody counted
      for, those traced to poisoned texts keep it up, and those that ended as *not poisoning* pull it down. It
      never reaches 0, because an honest person may report ten wrong answers that nobody planted;
    * at most `FILINGS_PER_DAY` filings of one reporter count for one day (UTC, of `reported_at`). A busy
      tester stays below the limit; a script does not.

What was counted is cached for the batches that follow, so that a flood of filings is not read again for each
batch. Of two imports at once, each may count up to the limit.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta

import sqlalchemy as sa

from corpus_guard.corpus import retrieval_log
from corpus_guard.domain import digest, to_storable
from corpus_guard.errors import HostileInput
from corpus_guard.ledger.states import ReportState
from corpus_guard.ledger.tables import filings, reports

MAX_QUERY_LENGTH = retrieval_log.MAX_QUERY_CHARS  # characters stored of a question
MAX_OUTPUT_LENGTH = 8_000  # characters stored of an answer, wrong or right
MAX_REPORTER_LENGTH = 200  # characters stored of a reporter's name
MAX_NAME_LENGTH = 250  # characters stored of a session's name and of a chunk's id
MAX_ORIGIN_LENGTH = 500  # characters stored of a filing's origin
MAX_SERVED_CHUNKS = 100  # chunk ids stored of one filing
CLOCK_TOLERANCE = timedelta(minutes=5)  # how far ahead `reported_at` may lie

FILINGS_PER_DAY = 50  # of one reporter, that count for one day
PRIOR_TRACED_REPORTS = 2.0  # that a newcomer is trusted to have been right about
MAX_CACHED_ENTRIES = 50_000  # some 10 MB

FilingKey = tuple[str, str, datetime]  # report id, reporter, reported at


@dataclass(frozen=True, slots=True)
class Filing:
    """Statement of somebody that an answer was wrong."""

    query: str
    output: str  # the wrong answer
    reported_at: datetime  # with its time zone
    correct: str | None = None  # the right answer, where somebody knew it
    reporter: str = ""  # empty: unknown; all unknown reporters count as one
    session: str = ""
    served: tuple[str, ...] = ()  # ids of the chunks that the answer was made from, as reported
    origin: str = ""  # command line, file and line, trace id
    cut: bool = False  # something was longer than is stored

    @property
    def report_id(self) -> str:
        """Id from question and answer, however they are spelt."""
        return digest("report/v1", [_normalised(self.query), _normalised(self.output)])[:32]

    @property
    def filing_id(self) -> str:
        """Id from the report, the reporter, the time and the session."""
        when = self.reported_at.astimezone(UTC).isoformat(timespec="microseconds")
        return digest("filing/v1", [self.report_id, self.reporter, when, self.session])[:32]


def validate_filing(filing: Filing, at: datetime) -> Filing:
    """Return `filing` as it can be stored: bounded, and without anything that a database refuses.

    Raises:
        HostileInput: `report.empty_query`, `report.empty_output`, `report.right_output`, `report.no_zone` or
            `report.future`.
    """
    for name in ("query", "output"):
        if _is_blank(getattr(filing, name)):
            raise HostileInput(
                f"report.empty_{name}", f"{name} is empty; a report needs a question and the wrong answer"
            )
    if filing.reported_at.tzinfo is None:
        raise HostileInput("report.no_zone", "reported_at has no time zone; expected one such as 2026-03-01T12:00:00Z")
    if filing.reported_at > at + CLOCK_TOLERANCE:
        raise HostileInput(
            "report.future", f"reported_at is later than now ({at:%Y-%m-%dT%H:%M}Z); check the clock that wrote it"
        )
    correct = None if filing.correct is None or _is_blank(filing.correct) else filing.correct
    if correct is not None and _normalised(correct) == _normalised(filing.output):
        raise HostileInput(
            "report.right_output", "output and correct are the same answer; a report needs the wrong answer as output"
        )
    limits = (
        (filing.query, MAX_QUERY_LENGTH),
        (filing.output, MAX_OUTPUT_LENGTH),
        (correct or "", MAX_OUTPUT_LENGTH),
        (filing.reporter, MAX_REPORTER_LENGTH),
    )
    return replace(
        filing,
        query=to_storable(filing.query, MAX_QUERY_LENGTH),
        output=to_storable(filing.output, MAX_OUTPUT_LENGTH),
        correct=None if correct is None else to_storable(correct, MAX_OUTPUT_LENGTH),
        reporter=to_storable(filing.reporter.strip(), MAX_REPORTER_LENGTH).rstrip(),
        session=to_storable(filing.session.strip(), MAX_NAME_LENGTH).rstrip(),
        served=tuple(to_storable(chunk_id, MAX_NAME_LENGTH) for chunk_id in filing.served[:MAX_SERVED_CHUNKS]),
        origin=to_storable(filing.origin, MAX_ORIGIN_LENGTH),
        cut=filing.cut or any(len(text) > limit for text, limit in limits) or len(filing.served) > MAX_SERVED_CHUNKS,
    )


def reporter_trust(right: int, wrong: int) -> float:
    """Return the weight of a reporter, above 0 and at most 1.

    Args:
        right: reports they counted for that were traced to poisoned texts.
        wrong: reports they counted for that ended as not poisoning.
    """
    return (PRIOR_TRACED_REPORTS + right) / (PRIOR_TRACED_REPORTS + right + wrong)


@dataclass(frozen=True, slots=True)
class FilingWeight:
    """Weight that one filing adds to its report."""

    counted: float  # 0..1
    over_limit: bool  # its reporter had reached the limit of that day


class FilingWeigher:
    """Counter of filings, with a cache of what it counted."""

    def __init__(self) -> None:
        self._trust: dict[str, float] = {}
        self._days: dict[tuple[str, date], int] = {}
        self._pairs: dict[tuple[str, str], bool] = {}

    def count(self, connection: sa.Connection, new: Sequence[FilingKey]) -> list[FilingWeight]:
        """Return the weights of new filings, in their order.

        Args:
            connection: of the transaction that inserts them.
            new: (report id, reporter, reported at) of each filing.
        """
        self._limit_cache()
        self._fill_cache(connection, new)
        weights = []
        for report, reporter, at in new:
            day = (reporter, _day(at))
            over_limit = self._days[day] >= FILINGS_PER_DAY
            counts = not over_limit and not self._pairs[report, reporter]
            if counts:
                self._days[day] += 1
                self._pairs[report, reporter] = True
            weights.append(FilingWeight(self._trust[reporter] if counts else 0.0, over_limit))
        return weights

    def _limit_cache(self) -> None:
        for cache in (self._trust, self._days, self._pairs):
            if len(cache) > MAX_CACHED_ENTRIES:
                cache.clear()

    def _fill_cache(self, connection: sa.Connection, new: Sequence[FilingKey]) -> None:
        reporters = {reporter for _, reporter, _ in new} - self._trust.keys()
        if reporters:
            self._trust |= _read_trust(connection, reporters)
        days = {(reporter, _day(at)) for _, reporter, at in new} - self._days.keys()
        if days:
            self._days |= _read_counted_days(connection, days)
        pairs = {(report, reporter) for report, reporter, _ in new} - self._pairs.keys()
        if pairs:
            self._pairs |= _read_counted_pairs(connection, pairs)


def _read_trust(connection: sa.Connection, reporters: set[str]) -> dict[str, float]:
    right, wrong = ReportState.TRACED, ReportState.NOT_POISONING
    statement = (
        sa.select(filings.c.reporter, reports.c.state, sa.func.count(sa.distinct(filings.c.report_id)))
        .join(reports, reports.c.report_id == filings.c.report_id)
        .where(filings.c.reporter.in_(reporters), filings.c.counted > 0)
        .where(reports.c.state.in_((right, wrong)))
        .group_by(filings.c.reporter, reports.c.state)
    )
    counts = {(reporter, state): count for reporter, state, count in connection.execute(statement)}
    return {
        reporter: reporter_trust(counts.get((reporter, right), 0), counts.get((reporter, wrong), 0))
        for reporter in reporters
    }


def _read_counted_days(connection: sa.Connection, days: set[tuple[str, date]]) -> dict[tuple[str, date], int]:
    counts = dict.fromkeys(days, 0)
    statement = sa.select(filings.c.reporter, filings.c.reported_at).where(
        filings.c.reporter.in_({reporter for reporter, _ in days}),
        filings.c.reported_at >= _start_of_day(min(day for _, day in days)),
        filings.c.reported_at < _start_of_day(max(day for _, day in days)) + timedelta(days=1),
        filings.c.counted > 0,
    )
    for reporter, at in connection.execute(statement):
        if (key := (reporter, _day(at))) in counts:
            counts[key] += 1
    return counts


def _read_counted_pairs(connection: sa.Connection, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], bool]:
    counted = dict.fromkeys(pairs, False)
    statement = (
        sa.select(filings.c.report_id, filings.c.reporter)
        .where(sa.tuple_(filings.c.report_id, filings.c.reporter).in_(list(counted)), filings.c.counted > 0)
        .distinct()
    )
    return counted | {(row.report_id, row.reporter): True for row in connection.execute(statement)}


def _day(at: datetime) -> date:
    return at.astimezone(UTC).date()


def _start_of_day(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _normalised(text: str) -> str:
    # As `retrieval_log.query_id` does, which cuts at the length of a question.
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(" .?!")


def _is_blank(text: str) -> bool:
    return all(unicodedata.category(character)[0] in "ZC" for character in text)
