"""JSON Lines: one object a line, found again by byte offset."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, Any

import orjson

from corpus_guard.intake.sources._row import Place, Row, lines

_BOM = b"\xef\xbb\xbf"


class JsonLines:
    """A reader (`RowFile`). Blank lines are no rows; a line that is no JSON object is a broken one."""

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[Row]:
        for number, (offset, length, line) in enumerate(lines(stream, limit), start=1):
            if line.strip() or length > limit:
                yield _row(Place(offset, length, number), line)

    def read(self, stream: IO[bytes], places: Sequence[Place], columns: Sequence[str], limit: int) -> Iterator[Row]:
        for place in places:
            stream.seek(place.at)
            yield _row(place, stream.read(place.extent))


def _row(place: Place, line: bytes) -> Row:
    values = _object(line.removeprefix(_BOM) if place.at == 0 else line)
    return Row(place, values, raw=b"" if values is not None else line, size=place.extent)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        # orjson refuses lone surrogates (\ud800); Python's parser takes them, and the row is read, with a finding.
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None
