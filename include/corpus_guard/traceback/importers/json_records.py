"""Records of a JSON file one at a time: one a line, the elements of one array, or objects that follow each other.

What is no JSON object is a broken record and spoils no other. To find where a value of an array ends only strings and brackets are looked
at. Memory holds one record of at most `LARGEST` bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO

from corpus_guard.intake.sources._row import lines
from corpus_guard.traceback.importers.record import LARGEST, RAW, Record

PIECE = 2**16  # bytes read at a time
_BOM = b"\xef\xbb\xbf"
_TELLING = re.compile(rb'\\.|["{}\[\],\n]', re.DOTALL)


def line_records(stream: IO[bytes]) -> Iterator[Record]:
    """One a line; blank lines are none."""
    for number, (offset, length, line) in enumerate(lines(stream, LARGEST), start=1):
        if length > LARGEST:
            yield _too_large(number)
        elif stripped := (line.removeprefix(_BOM) if offset == 0 else line).strip():
            yield _record(number, stripped)


def value_records(stream: IO[bytes]) -> Iterator[Record]:
    """One an element, where the file is an array; else one an object."""
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
        line, None, raw[:RAW].decode(errors="replace"), "report.broken_json", "no JSON object; expected one a record"
    )


def _too_large(line: int) -> Record:
    return Record(line, None, "", "report.too_large", f"the record has more than {LARGEST:,} bytes")


class _Value:
    """The value that is being read."""

    def __init__(self) -> None:
        self.depth = 0  # open brackets
        self._held = bytearray()
        self._large = False
        self._line = 0

    def add(self, part: bytes, line: int) -> None:
        if not self:
            part = part.lstrip()
            self._line = line
        if len(self._held) + len(part) > LARGEST:
            self._large = True
            self._held.clear()
        elif not self._large:
            self._held += part

    def take(self) -> Iterator[tuple[int, bytes | None]]:
        if self:
            yield self._line, None if self._large else bytes(self._held).rstrip()
        self.__init__()  # type: ignore[misc]

    def __bool__(self) -> bool:
        return self._large or bool(self._held)


def _values(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """(line it begins in, bytes) of each; None for one that is too large."""
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
    """What lies before each telling character, and that character; a backslash takes its successor along."""
    rest, first = b"", True
    while piece := stream.read(PIECE):
        piece = rest + (piece.removeprefix(_BOM) if first else piece)
        rest, first, at = b"", False, 0
        for found in _TELLING.finditer(piece):
            yield piece[at : found.start()], found[0]
            at = found.end()
        if at < len(piece) and piece.endswith(b"\\"):  # its successor comes with the next piece
            piece, rest = piece[:-1], b"\\"
        yield piece[at:], b""
    yield rest, b""
