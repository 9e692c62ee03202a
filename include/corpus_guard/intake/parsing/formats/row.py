"""A row of a row file, as canonical JSON: see `corpus_guard.intake.sources.row_documents`. Its text is kept as it is."""

from __future__ import annotations

import orjson

from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared


def read(content: bytes) -> ParsedDocument:
    """Return the row's text and its declared values."""
    try:
        row = orjson.loads(content)
        return ParsedDocument(str(row["text"]), declared=clean_declared(row.get("declared", {})))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise Unreadable("parsing.broken_row", "the row is not a JSON object with a text") from None
