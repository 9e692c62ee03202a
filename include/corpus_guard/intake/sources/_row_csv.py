"""CSV and TSV: the first record names the columns; a record is found again by byte offset."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import IO

from corpus_guard.intake.sources._row import Place, Row, lines


class SeparatedValues:
    """A reader (`RowFile`) of UTF-8 files.

    A quote that never closes swallows the records after it; they come as one broken row, never as silence. A record
    may span lines and is bounded by the limit for one document.
    """

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[Row]:
        header, records = None, self._records(stream, limit)
        for place, cells, text_is_utf8 in records:
            if header is None:
                header = _header(cells, columns)
                continue
            if cells == []:  # a blank line
                continue
            yield _row(place, header, cells, text_is_utf8)
        if header is None:
            raise ValueError("is empty: expected a first line that names the columns")

    def read(self, stream: IO[bytes], places: Sequence[Place], columns: Sequence[str], limit: int) -> Iterator[Row]:
        _, cells, _ = next(self._records(stream, limit), (None, None, True))
        header = _header(cells, columns)
        for place in places:
            stream.seek(place.at)
            raw = stream.read(place.extent)
            record = next(self._records(io.BytesIO(raw), limit), None)
            yield _row(place, header, record[1] if record else None, bool(record and record[2]), raw)

    def _records(self, stream: IO[bytes], limit: int) -> Iterator[tuple[Place, list[str] | None, bool]]:
        csv.field_size_limit(max(limit, 131_072))  # the default refuses cells above 128 KiB
        feed = _Feed(stream, limit)
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
                yield feed.place(), cells, feed.text_is_utf8


class _RecordTooLargeError(Exception):
    """A record spans more bytes than a document may have."""


class _Feed(Iterator[str]):
    """Lines for `csv.reader`, counting the bytes it has taken: it takes no line before it needs it."""

    def __init__(self, stream: IO[bytes], limit: int) -> None:
        self._lines = lines(stream, limit)
        self._limit = limit
        self._line = 0  # number of the line taken last
        self._start = self._end = 0  # bytes
        self._first_line = 1
        self.text_is_utf8 = True
        self.ended = False

    def start_record(self) -> None:
        self._start, self._first_line, self.text_is_utf8 = self._end, self._line + 1, True

    def place(self) -> Place:
        return Place(self._start, self._end - self._start, self._first_line)

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
        text, utf8 = _decode(raw)
        self.text_is_utf8 &= utf8
        return text.removeprefix("\ufeff") if offset == 0 else text


def _decode(raw: bytes) -> tuple[str, bool]:
    try:
        return raw.decode(), True
    except UnicodeDecodeError:
        return raw.decode(errors="replace"), False


def _header(cells: list[str] | None, columns: Sequence[str]) -> list[str]:
    header = [cell.strip() for cell in cells or ()]
    if missing := [column for column in columns if column not in header]:
        raise ValueError(f"has no column {', '.join(map(repr, missing))}; its first line names {len(header)} columns")
    return header


def _row(place: Place, header: list[str], cells: list[str] | None, text_is_utf8: bool, raw: bytes = b"") -> Row:
    if cells is None:
        return Row(place, None, raw, place.extent)
    return Row(
        place,
        dict(zip(header, cells, strict=False)),
        size=place.extent,
        misshapen=len(cells) != len(header) or not text_is_utf8,
    )
