"""Import of an export into the ledger, whatever tool wrote it.

Rules
    * a row is a filing, or a record without one; rows = new + known + aside + unmarked + outside, or the
      import fails;
    * a row that cannot be taken is put aside with its line, the reason and its beginning, in a file below
      ``reports/aside`` that is named after its own content; this does not depend on the window of time, so
      importing a year day by day writes the same file;
    * the window is half-open, [since, until), over `reported_at`: adjacent windows share nothing and lose
      nothing;
    * rows are stored in batches, one transaction each; killed anywhere and run again, nothing is stored twice
      (`ReportInbox`).

Memory holds one batch. Exports are untrusted: no message quotes what they say.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import IO

from corpus_guard.batches import Storage
from corpus_guard.domain import JsonRecord, Progress, canonical_json, no_progress
from corpus_guard.errors import HostileInput, Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.settings import Settings
from corpus_guard.traceback.filings import Filing, validate_filing
from corpus_guard.traceback.importers.record import DEFAULT_MARK, MAX_RAW_LENGTH, Mark, Record
from corpus_guard.traceback.importers.source import Export, exports
from corpus_guard.traceback.reports import ReportInbox

FILINGS_PER_TRANSACTION = 500
SPOOL_BYTES = 2**20  # of rows put aside, held in memory


@dataclass(frozen=True, slots=True)
class ImportSummary(JsonRecord):
    """Counts of an import, its source, and where the rows are that it could not take."""

    source: str  # without passwords
    rows: int
    new: int  # filings that were not in the ledger
    known: int  # filings that were
    aside: int  # rows that cannot be taken
    unmarked: int  # records that nobody marked as wrong
    outside: int  # of the window of time
    reports: int  # new reports; the other new filings belong to existing ones
    reopened: int  # reports that a trace had closed
    cut: int  # new filings with something longer than is stored
    formats: tuple[str, ...]
    aside_file: str | None  # storage name of the rows that were put aside
    reasons: Mapping[str, int]  # why rows were put aside → how many


def import_reports(
    ledger: Ledger,
    storage: Storage,
    settings: Settings,
    source: str,
    run_id: str,
    *,
    file_format: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    mark: Mark | None = None,
    columns: Mapping[str, str] | None = None,
    progress: Progress = no_progress,
) -> ImportSummary:
    """Import the reports of a source.

    Args:
        source: a file, a pattern, an fsspec URL, or ``mlflow:EXPERIMENT``.
        file_format: one of `FORMATS`; None: recognised.
        since: beginning of the window; None: no beginning.
        until: end of the window, exclusive; None: no end.
        mark: what makes a record of a tool a report; None: ``reported_wrong=true``.
        columns: field of a report → column of a table that names it differently.

    Raises:
        Misuse: the source, the format or the mark is wrong.
        SourceUnavailable: the source cannot be read; what was stored stays, and running again continues.
        LedgerUnavailable: the ledger cannot be written.
    """
    mark = Mark.parse(DEFAULT_MARK) if mark is None else mark
    with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as aside:
        work = _Import(ReportInbox(ledger, run_id), mark, (since, until), aside)
        formats, places = set(), []
        for export in exports(settings, source, mark, file_format, columns):
            formats.add(export.dialect.name)
            places.append(export.place)
            for record in export.records:
                work.take(export, record)
                progress("rows", work.counts["rows"], None)
        work.flush()
        counts = work.counts
        parts = ("new", "known", "aside", "unmarked", "outside")
        if counts["rows"] != sum(counts[part] for part in parts):
            raise Inconsistent(f"{places[0]}: {counts['rows']} rows, but {dict(counts)}; please report this as a bug")
        aside_file = None
        if counts["aside"]:
            aside.seek(0)
            aside_file = storage.write_lines("reports/aside", _stripped(aside), ".jsonl")[0]
    return ImportSummary(
        source=places[0] if len(places) == 1 else f"{len(places)} files",
        formats=tuple(sorted(formats)),
        aside_file=aside_file,
        reasons=dict(work.reasons.most_common()),
        **{name: counts[name] for name in ("rows", *parts, "reports", "reopened", "cut")},
    )


class _Import:
    """Import in progress."""

    def __init__(
        self, inbox: ReportInbox, mark: Mark, window: tuple[datetime | None, datetime | None], aside: IO[bytes]
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self._inbox = inbox
        self._mark = mark
        self._since, self._until = window
        self._aside = aside
        self._at = now()
        self._batch: list[Filing] = []

    def take(self, export: Export, record: Record) -> None:
        """Count a record's rows, and batch those that are valid and inside the window."""
        try:
            filings = self._read(export, record)
        except HostileInput as error:
            self._put_aside(export, record, error)
            return
        if not filings:
            self.counts.update(rows=1, unmarked=1)
        origin = f"{export.place}:{record.place or record.line}"
        for filing in filings:
            try:
                valid = validate_filing(replace(filing, origin=origin), self._at)
            except HostileInput as error:
                self._put_aside(export, record, error)
                continue
            self.counts["rows"] += 1
            if not self._is_inside(valid.reported_at):
                self.counts["outside"] += 1
                continue
            self._batch.append(valid)
            if len(self._batch) >= FILINGS_PER_TRANSACTION:
                self.flush()

    def flush(self) -> None:
        """Store the batch."""
        if not self._batch:
            return
        receipts = self._inbox.file(self._batch)
        self._batch = []
        self.counts.update(
            new=sum(receipt.new_filing for receipt in receipts),
            known=sum(not receipt.new_filing for receipt in receipts),
            reports=sum(receipt.new_report for receipt in receipts),
            reopened=len({receipt.report_id for receipt in receipts if receipt.reopened}),
            cut=sum(receipt.cut and receipt.new_filing for receipt in receipts),
        )

    def _read(self, export: Export, record: Record) -> list[Filing]:
        if record.values is None:
            raise HostileInput(record.code, record.message)
        return export.dialect.filings(record.values, self._mark)

    def _is_inside(self, at: datetime) -> bool:
        return (self._since is None or at >= self._since) and (self._until is None or at < self._until)

    def _put_aside(self, export: Export, record: Record, error: HostileInput) -> None:
        self.counts.update(rows=1, aside=1)
        self.reasons[f"{error.code}: {error}"] += 1
        raw = record.raw or json.dumps(record.values, default=str)[:MAX_RAW_LENGTH]
        row = {"source": export.place, "line": record.line, "code": error.code, "message": str(error), "raw": raw}
        self._aside.write(canonical_json(row) + b"\n")


def _stripped(lines: IO[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line.removesuffix(b"\n")
