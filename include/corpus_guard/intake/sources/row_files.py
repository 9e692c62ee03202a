"""Readers of files of rows: JSON Lines, CSV, TSV and Parquet, one row (Parquet: one small batch) at a time.

A row is found again by its `RowPlace`: a byte offset, or for Parquet a row group and an index.

Parquet containers are read in this process, by native code: accept Parquet only from a writer whose code you
would run. What its cells say is hostile all the same and is treated so.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

Values = Mapping[str, object]
"""The cells of a row by column."""

_BOM = b"\xef\xbb\xbf"
_SCAN_ROWS = 8_192  # Parquet rows in a batch while listing: only ids are read, never texts
_READ_ROWS = 64  # while fetching: 64 of the largest documents fit into memory


@dataclass(frozen=True, slots=True)
class RowPlace:
    """A row's place in its file: enough to seek to it, nothing of its content."""

    at: int  # JSONL and CSV: byte offset; Parquet: number of the row group
    extent: int  # JSONL and CSV: length in bytes; Parquet: index inside the row group
    line: int  # 1-based: line of the file, for Parquet the row of the file


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row, readable or not."""

    place: RowPlace
    values: Values | None  # None: broken, or too large to look at
    raw: bytes = b""  # the bytes of a broken row
    size: int | None = None  # bytes, where known
    flaw: str = ""  # of a row that is read, but not as it is written, in words


class RowReader(Protocol):
    """A reader of one file format. Both methods keep memory flat."""

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[FileRow]:
        """Yield every row, in order, with the columns after the first: the first holds texts, unused in listing.

        Raises:
            ValueError: the file as a whole cannot be read as this format; the message fits after "the file".
        """
        ...

    def read(
        self, stream: IO[bytes], places: Sequence[RowPlace], columns: Sequence[str], limit: int
    ) -> Iterator[FileRow]:
        """Yield the rows at `places`, in their order, none above `limit` bytes; raise ValueError as `scan` does."""
        ...


def read_lines(stream: IO[bytes], limit: int) -> Iterator[tuple[int, int, bytes]]:
    """Yield (offset, length, bytes) of each line from where `stream` stands; a line above `limit` comes empty.

    Offsets count from the start of the file. The memory used is one line of at most `limit` bytes.
    """
    offset = stream.tell()
    while line := stream.readline(limit + 1):
        length = len(line)
        if length > limit and not line.endswith(b"\n"):
            while rest := stream.readline(2**16):
                length += len(rest)
                if rest.endswith(b"\n"):
                    break
            line = b""
        yield offset, length, line
        offset += length


class JsonLines:
    """Reader of JSON Lines. Blank lines are skipped; a line that is not a JSON object is a broken row."""

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[FileRow]:
        """Yield every row with all its values (see `RowReader`)."""
        for number, (offset, length, line) in enumerate(read_lines(stream, limit), start=1):
            if line.strip() or length > limit:
                yield _json_row(RowPlace(offset, length, number), line)

    def read(
        self, stream: IO[bytes], places: Sequence[RowPlace], columns: Sequence[str], limit: int
    ) -> Iterator[FileRow]:
        """Yield the rows at `places` (see `RowReader`)."""
        for place in places:
            stream.seek(place.at)
            yield _json_row(place, stream.read(place.extent))


def _json_row(place: RowPlace, line: bytes) -> FileRow:
    is_twofold = False

    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal is_twofold
        built = dict(pairs)
        is_twofold |= len(built) < len(pairs)
        return built

    try:
        # Not orjson: it takes a key that stands twice in silence, gives long integers as floats, and refuses lone surrogates.
        values = json.loads(line.removeprefix(_BOM) if place.at == 0 else line, object_pairs_hook=build)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return FileRow(place, None, line, place.extent)
    flaw = "a key stands twice in the row, and its last value was read" if is_twofold else ""
    return FileRow(place, values, size=place.extent, flaw=flaw)


class SeparatedValues:
    """Reader of UTF-8 files of CSV or TSV, whose first record names the columns.

    A quote that never closes swallows the records after it; they come as one broken row, never as silence. A
    record may span lines and is bounded by the limit for one document.
    """

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[FileRow]:
        """Yield every record below the header with all its values (see `RowReader`)."""
        header = None
        for place, cells, is_utf8 in self._records(stream, limit):
            if header is None:
                header = _parse_header(cells, columns)
                continue
            if cells == []:  # a blank line
                continue
            yield _csv_row(place, header, cells, is_utf8)
        if header is None:
            raise ValueError("is empty: expected a first line that names the columns")

    def read(
        self, stream: IO[bytes], places: Sequence[RowPlace], columns: Sequence[str], limit: int
    ) -> Iterator[FileRow]:
        """Yield the records at `places` (see `RowReader`)."""
        _, cells, _ = next(self._records(stream, limit), (None, None, True))
        header = _parse_header(cells, columns)
        for place in places:
            stream.seek(place.at)
            raw = stream.read(place.extent)
            record = next(self._records(io.BytesIO(raw), limit), None)
            yield _csv_row(place, header, record[1] if record else None, bool(record and record[2]), raw)

    def _records(self, stream: IO[bytes], limit: int) -> Iterator[tuple[RowPlace, list[str] | None, bool]]:
        """Yield (place, cells or None where the record is broken, is UTF-8) of each record."""
        csv.field_size_limit(max(limit, 131_072))  # the default refuses cells above 128 KiB
        feed = _LineFeed(stream, limit)
        while not feed.ended:
            reader = csv.reader(feed, delimiter=self._delimiter, strict=True)
            while True:
                feed.start_record()
                try:
                    cells = next(reader)
                except StopIteration:
                    break
                except (csv.Error, _RecordTooLargeError):
                    yield feed.place(), None, True
                    break  # the reader's state is lost with its record; a new one goes on at the next line
                yield feed.place(), cells, feed.is_utf8


class _RecordTooLargeError(Exception):
    """A record spans more bytes than a document may have."""


class _LineFeed(Iterator[str]):
    """Lines for `csv.reader` with a count of the bytes taken: the reader takes no line before it needs it."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._lines = read_lines(stream, limit)
        self._limit = limit
        self._line = 0  # number of the line taken last
        self._start = self._end = 0  # bytes
        self._first_line = 1
        self.is_utf8 = True
        self.ended = False

    def start_record(self) -> None:
        self._start, self._first_line, self.is_utf8 = self._end, self._line + 1, True

    def place(self) -> RowPlace:
        return RowPlace(self._start, self._end - self._start, self._first_line)

    def __next__(self) -> str:
        try:
            offset, length, raw = next(self._lines)
        except StopIteration:
            self.ended = True
            raise
        self._line += 1
        self._end = offset + length
        if self._end - self._start > self._limit:
            raise _RecordTooLargeError
        text, is_utf8 = _decode_line(raw)
        self.is_utf8 &= is_utf8
        return text.removeprefix("\ufeff") if offset == 0 else text


def _decode_line(raw: bytes) -> tuple[str, bool]:
    try:
        return raw.decode(), True
    except UnicodeDecodeError:
        return raw.decode(errors="replace"), False


def _parse_header(cells: list[str] | None, columns: Sequence[str]) -> list[str]:
    if cells is None:
        raise ValueError("has a first line that cannot be read as names of columns")
    header = [cell.strip() for cell in cells]
    _require_once(columns, header, f"; its first line names {len(header)} columns")
    return header


def _require_once(columns: Sequence[str], present: Sequence[str], detail: str = "") -> None:
    """Raise ValueError where a column is missing or not the only one of its name."""
    if missing := [column for column in columns if column not in present]:
        raise ValueError(f"has no column {', '.join(map(repr, missing))}{detail}")
    if twofold := [column for column in columns if present.count(column) > 1]:
        raise ValueError(
            f"has more than one column {', '.join(map(repr, twofold))}: which of them is meant is not certain"
        )


def _csv_row(place: RowPlace, header: list[str], cells: list[str] | None, is_utf8: bool, raw: bytes = b"") -> FileRow:
    if cells is None:
        return FileRow(place, None, raw, place.extent)
    flaw = "" if is_utf8 else "the row is not UTF-8"
    if len(cells) != len(header):
        flaw = f"expected {len(header)} cells in the row, got {len(cells)}"
    return FileRow(place, dict(zip(header, cells, strict=False)), size=place.extent, flaw=flaw)


class Parquet:
    """Reader of Parquet, by pyarrow, a small batch at a time."""

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[FileRow]:
        """Yield every row with the columns after the first (see `RowReader`)."""
        file = _open_parquet(stream, columns)
        number = 0
        for group in range(file.num_row_groups):
            for index, (values, flaw) in enumerate(_read_columns(file, group, columns[1:])):
                number += 1
                yield FileRow(RowPlace(group, index, number), values, flaw=flaw)

    def read(
        self, stream: IO[bytes], places: Sequence[RowPlace], columns: Sequence[str], limit: int
    ) -> Iterator[FileRow]:
        """Yield the rows at `places` (see `RowReader`)."""
        file = _open_parquet(stream, ())
        present = [column for column in columns if column in file.schema_arrow.names]
        group, position, batches = -1, 0, iter(())  # the open row group, and the index its next batch starts at
        batch: Sequence[tuple[Values, str]] = ()
        for place in places:
            if place.at != group or place.extent < position - len(batch):
                group, position, batch = place.at, 0, ()
                batches = file.iter_batches(
                    batch_size=_READ_ROWS, row_groups=[group], columns=present, use_threads=False
                )
            while place.extent >= position:
                batch = _to_rows(next(batches))
                position += len(batch)
            values, flaw = batch[place.extent - (position - len(batch))]
            yield FileRow(place, values, flaw=flaw)


def _read_columns(file: ParquetFile, group: int, columns: Sequence[str]) -> Iterator[tuple[Values, str]]:
    if not columns:
        yield from (({}, "") for _ in range(file.metadata.row_group(group).num_rows))
        return
    # Without threads: one that still holds memory of Python when the interpreter ends aborts the process (pyarrow 25.0.1).
    for batch in file.iter_batches(batch_size=_SCAN_ROWS, row_groups=[group], columns=list(columns), use_threads=False):
        yield from _to_rows(batch)


def _to_rows(batch: RecordBatch) -> Sequence[tuple[Values, str]]:
    """Return the rows of a batch, each with its flaw; a cell that Python cannot hold is empty."""
    try:
        return [(values, "") for values in batch.to_pylist()]
    except (ValueError, OverflowError):  # text that is not UTF-8, a date beyond the year 9999: of one row, not of all
        return [_read_cells(batch, index) for index in range(batch.num_rows)]


def _read_cells(batch: RecordBatch, index: int) -> tuple[Values, str]:
    values: dict[str, object] = {}
    flaw = ""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values[name] = column[index].as_py()
        except (ValueError, OverflowError) as error:
            flaw = f"a cell of the row cannot be read ({type(error).__name__}), and counts as empty"
    return values, flaw


def _open_parquet(stream: IO[bytes], columns: Sequence[str]) -> ParquetFile:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"is not a Parquet file that can be read ({type(error).__name__})") from error
    _require_once(columns, file.schema_arrow.names)
    return file


READERS: Mapping[str, RowReader] = {
    ".jsonl": JsonLines(),
    ".ndjson": JsonLines(),
    ".csv": SeparatedValues(","),
    ".tsv": SeparatedValues("\t"),
    ".parquet": Parquet(),
}
"""The reader of each suffix."""


def reader_for(path: str) -> RowReader:
    """Return the reader of a file by its suffix; raise ValueError where there is none, as `RowReader.scan` does."""
    suffix = PurePosixPath(path).suffix
    if suffix not in READERS:
        raise ValueError(f"has an unknown format; expected one of {', '.join(READERS)}")
    return READERS[suffix]
