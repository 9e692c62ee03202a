"""Records of a CSV or TSV file, one at a time; the first line names the columns.

A quote that never closes swallows the records after it: they come as one broken record, never as silence. Records may span lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from corpus_guard.intake.sources._row import Row
from corpus_guard.intake.sources._row_csv import SeparatedValues
from corpus_guard.traceback.importers.record import LARGEST, RAW, Record

_CODES = {
    "report.broken_csv": "a quote is open, or the record is too large; expected RFC 4180",
    "report.row_shape": "the record is no UTF-8, or its cells do not match the columns",
}


def csv_records(stream: IO[bytes], delimiter: str) -> Iterator[Record]:
    """Every record below the line that names the columns.

    Raises:
        ValueError: there is no such line.
    """
    for row in SeparatedValues(delimiter).scan(stream, (), LARGEST):
        if row.values is None or row.misshapen:
            code = "report.broken_csv" if row.values is None else "report.row_shape"
            yield Record(row.place.line, None, _again(stream, row), code, _CODES[code])
        else:
            yield Record(row.place.line, row.values)


def _again(stream: IO[bytes], row: Row) -> str:
    """The beginning of a record that was read, as it is written; where the file goes on does not change."""
    here = stream.tell()
    stream.seek(row.place.at)
    raw = stream.read(min(row.place.extent, RAW))
    stream.seek(here)
    return raw.decode(errors="replace").rstrip("\r\n")
