"""Reports: wrong answers that somebody told us of.

Rules
    * the same question with the same wrong answer is one report, however often it is filed; Unicode form, case, spacing and closing
      punctuation make no difference. Each filing is kept, once: importing twice adds nothing;
    * filings decide in which order reports are traced, and nothing else: a report alone never removes a text. A reporter adds to a
      report's weight once, less when earlier reports of theirs turned out not to be poisoning (`trust`), and not at all beyond
      `A_DAY` filings a day; what adds nothing is kept all the same, and a report that weighs nothing is traced last;
    * a report that a trace has closed opens again when the same answer was seen *after* that trace had ended (`reported_at`). An older
      filing, however late it arrives, tells what was judged already;
    * a question or an answer of nothing but spaces and invisible characters, and a time that lies ahead, are refused; what is longer
      than is kept is cut, and the filing says so. One character, or "yes", is an answer.

What it does not do: know who a reporter is. The name is whatever the exporting system says; ten thousand invented names move a report to
the front of the queue, where it costs one trace. Texts lie in the ledger and nowhere else; no message and no event holds one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.corpus import retrieval_log
from corpus_guard.domain import sha256_text
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import REPORT_STATES, filings, reports, traces
from corpus_guard.traceback._reports_filing import OUTPUT, QUERY, Filing, checked
from corpus_guard.traceback._reports_weight import Weighing
from corpus_guard.traceback.suspects import Complaint

__all__ = [
    "OUTPUT",
    "QUERY",
    "Added",
    "Desk",
    "Filing",
    "Report",
    "add",
    "checked",
    "close",
    "filings_of",
    "find_report",
    "listed",
    "open_reports",
]

SHORTEST_PREFIX = 6  # characters of a report's id


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a filing."""

    report_id: str
    filing_id: str
    new_report: bool
    new_filing: bool  # false: it was there already
    counted: float  # what it adds to the report's weight
    reopened: bool  # the report had been closed by a trace
    cut: bool  # something was longer than is kept


@dataclass(frozen=True, slots=True)
class Report:
    """A wrong answer, with all that was filed about it."""

    report_id: str
    query_id: str
    query: str
    output: str
    correct: str | None
    state: str  # open, or how its last trace ended
    weight: float  # of those who filed it; the heaviest is traced first
    first_reported_at: datetime
    last_reported_at: datetime
    filings: int

    @property
    def complaint(self) -> Complaint:
        """What a trace follows."""
        return Complaint(self.query, self.output, self.correct, self.report_id)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        times = {name: getattr(self, name).isoformat() for name in ("first_reported_at", "last_reported_at")}
        return {**asdict(self), "weight": round(self.weight, 4), **times}


class Desk:
    """Takes filings in, a batch a transaction."""

    def __init__(self, ledger: Ledger, run_id: str, at: datetime | None = None) -> None:
        """Write to `ledger` in the name of `run_id`; `at` is now, where it is not the clock's."""
        self._ledger = ledger
        self._run_id = run_id
        self._at = at
        self._weighing = Weighing()

    def file(self, batch: Sequence[Filing]) -> list[Added]:
        """Take a batch in, whole or not at all.

        Args:
            batch: some hundreds at most.

        Returns:
            What became of each, in order.

        Raises:
            HostileInput: one of them cannot be taken (`checked`); none was.
            LedgerUnavailable: the ledger cannot be written.
        """
        at = self._at or now()
        entries = [_Entry(one.report_id, one.filing_id, one) for one in (checked(one, at) for one in batch)]
        # One at a time: what is counted depends on what was counted before.
        with self._ledger.exclusive("reports"), self._ledger.write() as connection:
            seen = _there(connection, filings.c.filing_id, [one.filing_id for one in entries])
            known = _there(connection, reports.c.report_id, [one.report_id for one in entries])
            closed = _closed(connection, known)
            new_filing = [_first(seen, one.filing_id) for one in entries]
            new_report = [_first(known, one.report_id) for one in entries]
            fresh = [one for one, new in zip(entries, new_filing, strict=True) if new]
            weighed = self._weighing.count(
                connection, [(one.report_id, one.filing.reporter, one.filing.reported_at) for one in fresh]
            )
            reopening = {
                one.filing_id
                for one, weight in zip(fresh, weighed, strict=True)
                if one.report_id in closed and not weight.over and one.filing.reported_at > closed[one.report_id]
            }
            first = [one for one, new in zip(entries, new_report, strict=True) if new]
            counted = {one.filing_id: weight.counted for one, weight in zip(fresh, weighed, strict=True)}
            self._insert(connection, fresh, first, counted, at)
            self._update(connection, fresh, counted, reopening)
        return [
            Added(
                report_id=one.report_id,
                filing_id=one.filing_id,
                new_report=report,
                new_filing=filing,
                counted=counted[one.filing_id] if filing else 0.0,
                reopened=filing and one.filing_id in reopening,
                cut=one.filing.cut,
            )
            for one, filing, report in zip(entries, new_filing, new_report, strict=True)
        ]

    def _insert(
        self,
        connection: sa.Connection,
        fresh: Sequence[_Entry],
        first: Sequence[_Entry],
        counted: Mapping[str, float],
        at: datetime,
    ) -> None:
        queries = [
            retrieval_log.note(self._ledger, connection, one.filing.query, "report", one.filing.reported_at)
            for one in fresh
        ]
        asked = {one.report_id: query for one, query in zip(fresh, queries, strict=True)}
        for one in first:
            self._tell(connection, "reported", one, query_id=asked[one.report_id])
        rows = [{**_report_row(one), "query_id": asked[one.report_id]} for one in first]
        self._ledger.insert_missing(connection, reports, rows)
        self._ledger.insert_missing(
            connection, filings, [{**_filing_row(one, at), "counted": counted[one.filing_id]} for one in fresh]
        )

    def _update(
        self,
        connection: sa.Connection,
        fresh: Sequence[_Entry],
        counted: Mapping[str, float],
        reopening: Collection[str],
    ) -> None:
        groups: dict[str, list[_Entry]] = {}
        for one in fresh:
            groups.setdefault(one.report_id, []).append(one)
        for report, group in groups.items():
            times = [one.filing.reported_at for one in group]
            earliest, latest = min(times), max(times)
            correct = next((one.filing.correct for one in group if one.filing.correct), None)
            values: dict[str, Any] = {
                "weight": reports.c.weight + sum(counted[one.filing_id] for one in group),
                "correct": sa.func.coalesce(reports.c.correct, correct),
                "first_reported_at": sa.case(
                    (reports.c.first_reported_at > earliest, earliest), else_=reports.c.first_reported_at
                ),
                "last_reported_at": sa.case(
                    (reports.c.last_reported_at < latest, latest), else_=reports.c.last_reported_at
                ),
            }
            again = [one for one in group if one.filing_id in reopening]
            if again:
                values["state"] = "open"
                self._tell(connection, "reopened", again[0], filings=len(again))
            connection.execute(reports.update().where(reports.c.report_id == report).values(**values))

    def _tell(self, connection: sa.Connection, kind: str, one: _Entry, **more: Any) -> None:
        told = {
            "query_sha256": sha256_text(one.filing.query),
            "output_sha256": sha256_text(one.filing.output),
            "query_characters": len(one.filing.query),
            "output_characters": len(one.filing.output),
        }
        self._ledger.event(connection, kind, one.report_id, self._run_id, **told, **more)


def add(ledger: Ledger, filing: Filing, run_id: str, at: datetime | None = None) -> Added:
    """Take one filing in; see `Desk.file`."""
    return Desk(ledger, run_id, at).file([filing])[0]


def close(connection: sa.Connection, report_id: str, state: str) -> None:
    """Set how a report's trace ended, in the transaction that records the trace.

    Args:
        connection: a writing one.
        report_id: whole.
        state: one of `REPORT_STATES`; ``open`` puts it back into the queue.

    Raises:
        UnknownSubject: there is no such report.
    """
    if state not in REPORT_STATES:
        raise ValueError(f"state {state!r}: expected one of {', '.join(REPORT_STATES)}")
    changed = connection.execute(reports.update().where(reports.c.report_id == report_id).values(state=state))
    if not changed.rowcount:
        raise UnknownSubject(f"report {report_id} is not in the ledger; see `guard report list`")


def open_reports(ledger: Ledger, limit: int = 100) -> list[Report]:
    """What waits to be traced: the heaviest first, and of equal weight the oldest."""
    return listed(ledger, state="open", limit=limit)[0]


def listed(ledger: Ledger, *, state: str | None = None, limit: int = 100) -> tuple[list[Report], int]:
    """Reports in `state` (None: any) in the order they are traced in, and how many there are in all."""
    condition = [reports.c.state == state] if state else []
    order = (reports.c.weight.desc(), reports.c.first_reported_at, reports.c.report_id)
    with ledger.read() as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(reports).where(*condition)) or 0
        rows = connection.execute(_reports().where(*condition).order_by(*order).limit(limit)).all()
    return [Report(**row._mapping) for row in rows], total


def find_report(ledger: Ledger, name: str) -> Report:
    """One report by its id or the beginning of it.

    Raises:
        UnknownSubject: there is none.
        Misuse: there are several, or `name` is too short.
    """
    if len(name) < SHORTEST_PREFIX:
        raise Misuse(f"report {name!r}: give at least {SHORTEST_PREFIX} characters of its id; see `guard report list`")
    prefix = reports.c.report_id.startswith(name.lower(), autoescape=True)
    with ledger.read() as connection:
        rows = connection.execute(_reports().where(prefix).limit(2)).all()
    if not rows:
        raise UnknownSubject(f"report {name!r} is not in the ledger; see `guard report list`")
    if len(rows) > 1:
        raise Misuse(f"report {name!r} could be {rows[0].report_id} or {rows[1].report_id}; give more of its id")
    return Report(**rows[0]._mapping)


def filings_of(ledger: Ledger, report_id: str, limit: int = 100) -> list[dict[str, Any]]:
    """Who filed a report, the newest first: rows of the table `filings` without their report."""
    columns = [column for column in filings.c if column.name != "report_id"]
    statement = sa.select(*columns).where(filings.c.report_id == report_id)
    with ledger.read() as connection:
        rows = connection.execute(statement.order_by(filings.c.reported_at.desc(), filings.c.filing_id).limit(limit))
        return [dict(row) for row in rows.mappings()]


@dataclass(frozen=True, slots=True)
class _Entry:
    report_id: str
    filing_id: str
    filing: Filing


def _first(known: set[str], key: str) -> bool:
    """Whether `key` is seen for the first time; from now on it is not."""
    new = key not in known
    known.add(key)
    return new


def _there(connection: sa.Connection, column: sa.Column[str], keys: Sequence[str]) -> set[str]:
    return set(connection.scalars(sa.select(column).where(column.in_(set(keys)))))


def _closed(connection: sa.Connection, known: Collection[str]) -> dict[str, datetime]:
    """Reports that are not open → when their last trace ended; the beginning of time where none did."""
    statement = (
        sa.select(reports.c.report_id, sa.func.max(traces.c.finished_at).label("ended"))
        .join(traces, traces.c.report_id == reports.c.report_id, isouter=True)
        .where(reports.c.report_id.in_(known), reports.c.state != "open")
        .group_by(reports.c.report_id)
    )
    beginning = datetime.min.replace(tzinfo=UTC)
    return {row.report_id: row.ended or beginning for row in connection.execute(statement)}


def _reports() -> sa.Select[Any]:
    columns = [column for column in reports.c if column.name in Report.__dataclass_fields__]
    filed = sa.select(sa.func.count()).where(filings.c.report_id == reports.c.report_id).scalar_subquery()
    return sa.select(*columns, filed.label("filings"))


def _report_row(one: _Entry) -> dict[str, Any]:
    filing = one.filing
    return {
        "report_id": one.report_id,
        "query": filing.query,
        "output": filing.output,
        "correct": filing.correct,
        "state": "open",
        "weight": 0.0,
        "first_reported_at": filing.reported_at,
        "last_reported_at": filing.reported_at,
    }


def _filing_row(one: _Entry, at: datetime) -> dict[str, Any]:
    filing = one.filing
    return {
        "filing_id": one.filing_id,
        "report_id": one.report_id,
        "reporter": filing.reporter,
        "reported_at": filing.reported_at,
        "received_at": at,
        "session": filing.session,
        "served": list(filing.served),
        "correct": filing.correct,
        "origin": filing.origin,
    }
