"""Records of a CSV or TSV file, one at a time; the first line names the columns.

A quote that is never closed swallows the records after it: they become one broken record and are not lost
silently. A record may span lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from corpus_guard.intake.sources.row_files import FileRow, SeparatedValues
from corpus_guard.traceback.importers.record import MAX_RAW_LENGTH, MAX_RECORD_BYTES, Record

_CODES = {
    "report.broken_csv": "a quote is open, or the record is too large; expected RFC 4180",
    "report.row_shape": "the record is no UTF-8, or its cells do not match the columns",
}


def csv_records(stream: IO[bytes], delimiter: str) -> Iterator[Record]:
    """Yield the records below the line that names the columns.

    Raises:
        ValueError: there is no such line.
    """
    for row in SeparatedValues(delimiter).scan(stream, (), MAX_RECORD_BYTES):
        if row.values is None or row.flaw:
            code = "report.broken_csv" if row.values is None else "report.row_shape"
            yield Record(row.place.line, None, _read_raw(stream, row), code, _CODES[code])
        else:
            yield Record(row.place.line, row.values)


def _read_raw(stream: IO[bytes], row: FileRow) -> str:
    """Return the beginning of a record as it is written; the position in the file does not change."""
    here = stream.tell()
    stream.seek(row.place.at)
    raw = stream.read(min(row.place.extent, MAX_RAW_LENGTH))
    stream.seek(here)
    return raw.decode(errors="replace").rstrip("\r\n")
