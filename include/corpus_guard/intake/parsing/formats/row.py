"""A row of a row file: its text as it is. `corpus_guard.intake.sources.rows` made it, as canonical JSON."""

from __future__ import annotations

import orjson

from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.parsed import Parsed, declare


def read(content: bytes) -> Parsed:
    """The row's text and what it declares."""
    try:
        row = orjson.loads(content)
        return Parsed(str(row["text"]), declared=declare(row.get("declared", {})))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise Unreadable("parsing.broken_row", "the row is no JSON object with a text") from None


def refuse(media_type: str) -> Unreadable:
    """Why a broken row is not read; its line comes as a parameter of the media type."""
    line = media_type.partition("line=")[2]
    where = f"line {int(line)}" if line.isascii() and line.isdigit() and len(line) < 12 else "a line"
    return Unreadable("parsing.broken_row", f"{where} of the file is no row that can be read; correct it at the source")
