"""Importing an export into the ledger, whatever tool wrote it.

Rules
    * a row is a filing that was found, or a record that gives none; rows = new + known + aside + unmarked + outside, or the import fails;
    * a row that cannot be taken is put aside, with its line, the reason and its beginning, in a file below ``reports/aside`` that is named
      after its own content; it does not depend on the window of time, so that importing a year day by day writes the same file;
    * the window is half-open, [since, until), and of `reported_at`: windows that touch share nothing and lose nothing;
    * rows are taken in batches, a transaction each; killed anywhere and run again, nothing is there twice (`Desk`).

Memory holds one batch. Files and traces are other people's: no message holds what they say.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import IO, Any

from corpus_guard.domain import canonical_json
from corpus_guard.errors import HostileInput, Inconsistent
from corpus_guard.guard import Guard
from corpus_guard.ledger.ledger import now
from corpus_guard.traceback.importers.record import RAW, REPORTED, Mark, Record
from corpus_guard.traceback.importers.source import Export, exports
from corpus_guard.traceback.reports import Desk, Filing, checked

BATCH = 500  # filings of one transaction
SPOOL = 2**20  # bytes of rows put aside that are held in memory

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did; all but the first and the last two are counts."""

    source: str  # without passwords
    rows: int
    new: int  # filings that were not in the ledger
    known: int  # filings that were
    aside: int  # rows that cannot be taken
    unmarked: int  # records that nobody called wrong
    outside: int  # of the window of time
    reports: int  # new ones; the other new filings are of reports that were there
    reopened: int  # reports that a trace had closed
    cut: int  # new filings of which something was longer than is kept
    formats: tuple[str, ...]
    aside_file: str | None  # storage name of the rows that were put aside

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def import_reports(
    guard: Guard,
    source: str,
    run_id: str,
    *,
    said: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    mark: Mark | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Imported:
    """Import what `source` names.

    Args:
        guard: whose ledger and storage are written.
        source: a file, a pattern, an fsspec URL, or ``mlflow:EXPERIMENT``.
        run_id: in whose name.
        said: the format (`FORMATS`); None: found out.
        since: from when on; None: from the beginning.
        until: this moment and later are left out; None: to the end.
        mark: what makes a record of a tool a report; None: ``reported_wrong=true``.
        progress: told how many rows were read.

    Raises:
        Misuse: the source, the format or the mark is wrong.
        SourceUnavailable: the source cannot be read; what was taken until then stays, and running again goes on.
        LedgerUnavailable: the ledger cannot be written.
    """
    mark = Mark.parse(REPORTED) if mark is None else mark
    with tempfile.SpooledTemporaryFile(max_size=SPOOL) as aside:
        work = _Import(Desk(guard.ledger, run_id), mark, (since, until), aside)
        formats, places = set(), []
        for export in exports(guard.settings, source, mark, said):
            formats.add(export.dialect.name)
            places.append(export.place)
            for record in export.records:
                work.take(export, record)
                progress("rows", work.counts["rows"], None)
        work.flush()
        counts = work.counts
        parts = ("new", "known", "aside", "unmarked", "outside")
        if counts["rows"] != sum(counts[part] for part in parts):
            raise Inconsistent(f"{places[0]}: {counts['rows']} rows, but {dict(counts)}; this is a defect, report it")
        kept = None
        if counts["aside"]:
            aside.seek(0)
            kept = guard.storage.write_lines("reports/aside", _stripped(aside), ".jsonl")[0]
    named = {name: counts[name] for name in ("rows", *parts, "reports", "reopened", "cut")}
    place = places[0] if len(places) == 1 else f"{len(places)} files"
    return Imported(source=place, formats=tuple(sorted(formats)), aside_file=kept, **named)


class _Import:
    """An import under way."""

    def __init__(
        self, desk: Desk, mark: Mark, window: tuple[datetime | None, datetime | None], aside: IO[bytes]
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._desk = desk
        self._mark = mark
        self._since, self._until = window
        self._aside = aside
        self._at = now()
        self._batch: list[Filing] = []

    def take(self, export: Export, record: Record) -> None:
        """Count a record's rows, and take what can be taken."""
        try:
            found = self._read(export, record)
        except HostileInput as error:
            self._put_aside(export, record, error)
            return
        if not found:
            self.counts.update(rows=1, unmarked=1)
        for filing in found:
            try:
                taken = checked(replace(filing, origin=f"{export.place}:{record.place or record.line}"), self._at)
            except HostileInput as error:
                self._put_aside(export, record, error)
                continue
            self.counts["rows"] += 1
            if not self._inside(taken.reported_at):
                self.counts["outside"] += 1
                continue
            self._batch.append(taken)
            if len(self._batch) >= BATCH:
                self.flush()

    def flush(self) -> None:
        """Write the batch."""
        if not self._batch:
            return
        added = self._desk.file(self._batch)
        self._batch = []
        self.counts.update(
            new=sum(one.new_filing for one in added),
            known=sum(not one.new_filing for one in added),
            reports=sum(one.new_report for one in added),
            reopened=len({one.report_id for one in added if one.reopened}),
            cut=sum(one.cut and one.new_filing for one in added),
        )

    def _read(self, export: Export, record: Record) -> list[Filing]:
        if record.values is None:
            raise HostileInput(record.code, record.message)
        return export.dialect.filings(record.values, self._mark)

    def _inside(self, at: datetime) -> bool:
        return (self._since is None or at >= self._since) and (self._until is None or at < self._until)

    def _put_aside(self, export: Export, record: Record, error: HostileInput) -> None:
        self.counts.update(rows=1, aside=1)
        raw = record.raw or json.dumps(record.values, default=str)[:RAW]
        told = {"source": export.place, "line": record.line, "code": error.code, "message": str(error), "raw": raw}
        self._aside.write(canonical_json(told) + b"\n")


def _stripped(lines: IO[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line.removesuffix(b"\n")
