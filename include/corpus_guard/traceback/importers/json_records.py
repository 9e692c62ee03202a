"""Records of a JSON file: one per line, the elements of one array, or objects in a row.

A value that is no JSON object is a broken record and does not affect the others. Only strings and brackets
are read to find where a value of an array ends. Memory holds one record of at most `MAX_RECORD_BYTES`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO

from corpus_guard.intake.sources.row_files import read_lines
from corpus_guard.traceback.importers.record import MAX_RAW_LENGTH, MAX_RECORD_BYTES, Record

READ_BYTES = 2**16  # bytes read at a time
_BOM = b"\xef\xbb\xbf"
_STRUCTURAL = re.compile(rb'\\.|["{}\[\],\n]', re.DOTALL)


def line_records(stream: IO[bytes]) -> Iterator[Record]:
    """Yield one record per line; blank lines are skipped."""
    for number, (offset, length, line) in enumerate(read_lines(stream, MAX_RECORD_BYTES), start=1):
        if length > MAX_RECORD_BYTES:
            yield _too_large(number)
        elif stripped := (line.removeprefix(_BOM) if offset == 0 else line).strip():
            yield _record(number, stripped)


def value_records(stream: IO[bytes]) -> Iterator[Record]:
    """Yield one record per element if the file is an array, else one per object."""
    for number, value in _values(stream):
        yield _too_large(number) if value is None else _record(number, value)


def _record(line: int, raw: bytes) -> Record:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        values = None
    if isinstance(values, dict):
        return Record(line, values)
    return Record(
        line,
        None,
        raw[:MAX_RAW_LENGTH].decode(errors="replace"),
        "report.broken_json",
        "the record is no JSON object; expected one per record",
    )


def _too_large(line: int) -> Record:
    return Record(line, None, "", "report.too_large", f"the record has more than {MAX_RECORD_BYTES:,} bytes")


class _Value:
    """Value that is being read."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.depth = 0  # open brackets
        self._bytes = bytearray()
        self._large = False
        self._line = 0

    def add(self, part: bytes, line: int) -> None:
        """Append bytes of line number `line`."""
        if not self:
            part = part.lstrip()
            self._line = line
        if len(self._bytes) + len(part) > MAX_RECORD_BYTES:
            self._large = True
            self._bytes.clear()
        elif not self._large:
            self._bytes += part

    def take(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the value, if there is one, and start the next."""
        if self:
            yield self._line, None if self._large else bytes(self._bytes).rstrip()
        self._reset()

    def __bool__(self) -> bool:
        return self._large or bool(self._bytes)


def _values(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Yield the line that each value begins in, and its bytes; None if it is too large."""
    value, line, quoted = _Value(), 1, False
    array: bool | None = None  # unknown before the first character
    for before, mark in _segments(stream):
        value.add(before, line)
        if array is None and (value or mark not in {b"", b"\n"}):
            array = not value and mark == b"["
            if array:
                continue
        inside = quoted or value.depth > 0
        if not inside and (mark in {b",", b"]"} if array else mark == b"\n"):
            yield from value.take()
            line += mark == b"\n"
            continue
        value.add(mark, line)
        line += mark.count(b"\n")
        if mark == b'"':
            quoted = not quoted
        elif not quoted and mark in {b"{", b"["}:
            value.depth += 1
        elif not quoted and mark in {b"}", b"]"}:
            value.depth = max(value.depth - 1, 0)
            if value.depth == 0 and not array:
                yield from value.take()
    yield from value.take()


def _segments(stream: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes before each structural character, and it; a backslash includes the next one."""
    rest, first = b"", True
    while piece := stream.read(READ_BYTES):
        piece = rest + (piece.removeprefix(_BOM) if first else piece)
        rest, first, at = b"", False, 0
        for match in _STRUCTURAL.finditer(piece):
            yield piece[at : match.start()], match[0]
            at = match.end()
        if at < len(piece) and piece.endswith(b"\\"):  # its successor comes with the next piece
            piece, rest = piece[:-1], b"\\"
        yield piece[at:], b""
    yield rest, b""
