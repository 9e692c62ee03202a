"""Reports: wrong answers that people reported.

Rules
    * the same question with the same wrong answer is one report, however often it is filed; Unicode form,
      case, spacing and closing punctuation make no difference. Each filing is stored once: importing twice
      adds nothing;
    * filings decide in which order reports are traced, and nothing else: a report alone never removes a text.
      A reporter adds to a report's weight once, less if earlier reports of theirs turned out not to be
      poisoning (`reporter_trust`), and nothing beyond `FILINGS_PER_DAY` filings a day. Filings that add
      nothing are stored all the same, and a report without weight is traced last;
    * a report that a trace has closed opens again if the same answer was seen *after* that trace had ended
      (`reported_at`). An older filing, however late it arrives, is about what was judged already;
    * a question or an answer of nothing but spaces and invisible characters, and a time in the future, are
      refused; texts that are too long are cut, and the filing says so. One character, or "yes", is an answer.

What it does not do: know who a reporter is. The name is whatever the exporting system says; ten thousand
invented names move a report to the front of the queue, where it costs one trace. Texts are in the ledger and
nowhere else; no message and no event holds one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import TypedDict, cast

import sqlalchemy as sa

from corpus_guard.corpus import retrieval_log
from corpus_guard.domain import JsonRecord, first_of_each, sha256_text
from corpus_guard.errors import UnknownSubject, require_one_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import insert_missing
from corpus_guard.ledger.short_ids import find_id
from corpus_guard.ledger.states import REPORT_STATES, QueryOrigin, ReportState
from corpus_guard.ledger.tables import filings, reports, traces
from corpus_guard.traceback.filings import Filing, FilingWeigher, validate_filing
from corpus_guard.traceback.retrieval import Complaint


@dataclass(frozen=True, slots=True)
class FilingReceipt:
    """Outcome of a filing."""

    report_id: str
    filing_id: str
    new_report: bool
    new_filing: bool  # false: it was stored before
    counted: float  # what it adds to the report's weight
    reopened: bool  # the report had been closed by a trace
    cut: bool  # something was longer than is stored


@dataclass(frozen=True, slots=True)
class Report(JsonRecord):
    """Wrong answer, with a summary of its filings."""

    report_id: str
    query_id: str
    query: str
    output: str
    correct: str | None
    state: ReportState
    weight: float  # of those who filed it; the heaviest is traced first
    first_reported_at: datetime
    last_reported_at: datetime
    filings: int

    @property
    def complaint(self) -> Complaint:
        """The complaint that a trace follows."""
        return Complaint(self.query, self.output, self.correct, self.report_id)

    def as_dict(self) -> dict[str, object]:
        """Return the report as JSON-ready values."""
        return {**JsonRecord.as_dict(self), "weight": round(self.weight, 4)}


class FilingRow(TypedDict):
    """Row of the table `filings`, without its report."""

    filing_id: str
    reporter: str
    reported_at: datetime
    received_at: datetime
    session: str
    served: list[str]  # chunk ids
    correct: str | None
    origin: str
    counted: float  # added to the report's weight


@dataclass(frozen=True, slots=True)
class _IncomingFiling:
    """Valid filing with its ids, which are computed once."""

    report_id: str
    filing_id: str
    filing: Filing


class ReportInbox:
    """Inbox of filings; takes one batch per transaction."""

    def __init__(self, ledger: Ledger, run_id: str, at: datetime | None = None) -> None:
        """Write to `ledger` in the name of `run_id`; `at` replaces the current time."""
        self._ledger = ledger
        self._run_id = run_id
        self._at = at
        self._weigher = FilingWeigher()

    def file(self, batch: Sequence[Filing]) -> list[FilingReceipt]:
        """Store a batch, whole or not at all, and return the outcome of each filing, in order.

        Args:
            batch: some hundreds at most.

        Raises:
            HostileInput: a filing is invalid (`validate_filing`); none was stored.
            LedgerUnavailable: the ledger cannot be written.
        """
        at = self._at or now()
        valid = [validate_filing(filing, at) for filing in batch]
        incoming = [_IncomingFiling(filing.report_id, filing.filing_id, filing) for filing in valid]
        # One batch at a time: what is counted depends on what was counted before.
        with self._ledger.exclusive("reports"), self._ledger.write() as connection:
            new = _new_by_key(connection, filings.c.filing_id, incoming)
            new_reports = _new_by_key(connection, reports.c.report_id, incoming)
            weights = self._weigher.count(
                connection, [(each.report_id, each.filing.reporter, each.filing.reported_at) for each in new.values()]
            )
            counted = {filing_id: weight.counted for filing_id, weight in zip(new, weights, strict=True)}
            closed = _closed_reports(connection, {entry.report_id for entry in incoming})
            reopening = {
                entry.filing_id
                for entry, weight in zip(new.values(), weights, strict=True)
                if entry.report_id in closed
                and not weight.over_limit
                and entry.filing.reported_at > closed[entry.report_id]
            }
            self._insert(connection, new.values(), new_reports.values(), counted, at)
            self._update(connection, new.values(), counted, reopening)
        return [
            FilingReceipt(
                report_id=entry.report_id,
                filing_id=entry.filing_id,
                new_report=new_reports.get(entry.report_id) is entry,
                new_filing=(new_filing := new.get(entry.filing_id) is entry),
                counted=counted[entry.filing_id] if new_filing else 0.0,
                reopened=new_filing and entry.filing_id in reopening,
                cut=entry.filing.cut,
            )
            for entry in incoming
        ]

    def _insert(
        self,
        connection: sa.Connection,
        new: Collection[_IncomingFiling],
        new_reports: Collection[_IncomingFiling],
        counted: Mapping[str, float],
        at: datetime,
    ) -> None:
        query_ids = {
            entry.report_id: retrieval_log.count_query(
                connection, entry.filing.query, QueryOrigin.REPORT, entry.filing.reported_at
            )
            for entry in new
        }
        for entry in new_reports:
            self._log(connection, "reported", entry, query_id=query_ids[entry.report_id])
        report_rows = [{**_report_row(entry), "query_id": query_ids[entry.report_id]} for entry in new_reports]
        insert_missing(connection, reports, report_rows)
        filing_rows = [{**_filing_row(entry, at), "counted": counted[entry.filing_id]} for entry in new]
        insert_missing(connection, filings, filing_rows)

    def _update(
        self,
        connection: sa.Connection,
        new: Collection[_IncomingFiling],
        counted: Mapping[str, float],
        reopening: Collection[str],
    ) -> None:
        groups: dict[str, list[_IncomingFiling]] = {}
        for entry in new:
            groups.setdefault(entry.report_id, []).append(entry)
        for report_id, group in groups.items():
            times = [entry.filing.reported_at for entry in group]
            earliest, latest = min(times), max(times)
            correct = next((entry.filing.correct for entry in group if entry.filing.correct), None)
            values: dict[str, object] = {
                "weight": reports.c.weight + sum(counted[entry.filing_id] for entry in group),
                "correct": sa.func.coalesce(reports.c.correct, correct),
                "first_reported_at": sa.case(
                    (reports.c.first_reported_at > earliest, earliest), else_=reports.c.first_reported_at
                ),
                "last_reported_at": sa.case(
                    (reports.c.last_reported_at < latest, latest), else_=reports.c.last_reported_at
                ),
            }
            reopened_by = [entry for entry in group if entry.filing_id in reopening]
            if reopened_by:
                values["state"] = ReportState.OPEN
                self._log(connection, "reopened", reopened_by[0], filings=len(reopened_by))
            connection.execute(reports.update().where(reports.c.report_id == report_id).values(**values))

    def _log(self, connection: sa.Connection, kind: str, entry: _IncomingFiling, **details: object) -> None:
        append_event(
            connection,
            kind,
            entry.report_id,
            self._run_id,
            query_sha256=sha256_text(entry.filing.query),
            output_sha256=sha256_text(entry.filing.output),
            query_characters=len(entry.filing.query),
            output_characters=len(entry.filing.output),
            **details,
        )


def file_report(ledger: Ledger, filing: Filing, run_id: str, at: datetime | None = None) -> FilingReceipt:
    """Store one filing; see `ReportInbox.file`."""
    return ReportInbox(ledger, run_id, at).file([filing])[0]


def close_report(connection: sa.Connection, report_id: str, state: str) -> None:
    """Set how a report's trace ended, in the transaction that records the trace.

    Args:
        report_id: the whole id.
        state: a `ReportState`; ``open`` puts the report back into the queue.

    Raises:
        UnknownSubject: there is no such report.
        ValueError: there is no such state.
    """
    values = {"state": ReportState(state)}
    changed = connection.execute(reports.update().where(reports.c.report_id == report_id).values(values))
    if not changed.rowcount:
        raise UnknownSubject(f"report {report_id} is not in the ledger; `guard report list` shows the reports")


def list_open_reports(ledger: Ledger, limit: int = 100) -> list[Report]:
    """Return the reports that wait to be traced: the heaviest first, and of equal weight the oldest."""
    return list_reports(ledger, state=ReportState.OPEN, limit=limit)[0]


def list_reports(ledger: Ledger, *, state: str | None = None, limit: int = 100) -> tuple[list[Report], int]:
    """Return the reports in `state` (None: any), and how many there are in all.

    The order is that of tracing: the heaviest first, and of equal weight the oldest.

    Raises:
        Misuse: there is no such state.
    """
    if state is not None:
        require_one_of("state", state, REPORT_STATES)
    condition = [reports.c.state == state] if state else []
    order = (reports.c.weight.desc(), reports.c.first_reported_at, reports.c.report_id)
    with ledger.read() as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(reports).where(*condition)) or 0
        rows = connection.execute(_select_reports().where(*condition).order_by(*order).limit(limit)).all()
    return [_report_from_row(row) for row in rows], total


def find_report(ledger: Ledger, prefix: str) -> Report:
    """Return a report by its id or the beginning of it.

    Raises:
        UnknownSubject, Misuse: as `find_id`.
    """
    with ledger.read() as connection:
        report_id = find_id(connection, sa.select(reports.c.report_id), prefix, "report", "see `guard report list`")
        return _report_from_row(connection.execute(_select_reports().where(reports.c.report_id == report_id)).one())


def list_filings(ledger: Ledger, report_id: str, limit: int = 100) -> list[FilingRow]:
    """Return the filings of a report, the newest first."""
    columns = [filings.c[name] for name in FilingRow.__annotations__]
    statement = sa.select(*columns).where(filings.c.report_id == report_id)
    with ledger.read() as connection:
        rows = connection.execute(statement.order_by(filings.c.reported_at.desc(), filings.c.filing_id).limit(limit))
        return [cast("FilingRow", dict(row)) for row in rows.mappings()]


def _new_by_key(
    connection: sa.Connection, column: sa.Column[str], incoming: Sequence[_IncomingFiling]
) -> dict[str, _IncomingFiling]:
    """Return the first filing of each filing or report that is not stored yet, by the key in `column`."""
    first = first_of_each(incoming, attrgetter(column.name))
    stored = set(connection.scalars(sa.select(column).where(column.in_(first))))
    return {key: entry for key, entry in first.items() if key not in stored}


def _closed_reports(connection: sa.Connection, report_ids: Collection[str]) -> dict[str, datetime]:
    """Return when the last trace of each closed report ended; the beginning of time if none did."""
    statement = (
        sa.select(reports.c.report_id, sa.func.max(traces.c.finished_at).label("ended"))
        .join(traces, traces.c.report_id == reports.c.report_id, isouter=True)
        .where(reports.c.report_id.in_(report_ids), reports.c.state != ReportState.OPEN)
        .group_by(reports.c.report_id)
    )
    beginning = datetime.min.replace(tzinfo=UTC)
    return {row.report_id: row.ended or beginning for row in connection.execute(statement)}


def _select_reports() -> sa.Select[tuple[object, ...]]:
    columns = [reports.c[column.name] for column in fields(Report) if column.name != "filings"]
    filed = sa.select(sa.func.count()).where(filings.c.report_id == reports.c.report_id).scalar_subquery()
    return sa.select(*columns, filed.label("filings"))


def _report_from_row(row: sa.Row[tuple[object, ...]]) -> Report:
    return Report(**{**row._mapping, "state": ReportState(row.state)})


def _report_row(entry: _IncomingFiling) -> dict[str, object]:
    filing = entry.filing
    return {
        "report_id": entry.report_id,
        "query": filing.query,
        "output": filing.output,
        "correct": filing.correct,
        "state": ReportState.OPEN,
        "weight": 0.0,
        "first_reported_at": filing.reported_at,
        "last_reported_at": filing.reported_at,
    }


def _filing_row(entry: _IncomingFiling, at: datetime) -> dict[str, object]:
    filing = entry.filing
    return {
        "filing_id": entry.filing_id,
        "report_id": entry.report_id,
        "reporter": filing.reporter,
        "reported_at": filing.reported_at,
        "received_at": at,
        "session": filing.session,
        "served": list(filing.served),
        "correct": filing.correct,
        "origin": filing.origin,
    }
