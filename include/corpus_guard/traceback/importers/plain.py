"""CSV and JSON Lines with fields of our own names, or of common ones.

``query``, ``output`` and ``reported_at`` are required; ``correct``, ``reporter``, ``session`` and ``served``
(a list, or chunk ids separated by ``;``) are optional. Case, spaces and hyphens of a name make no difference;
of two names for the same field, the first in the list below wins. A caller may name the column of a field itself. Every record is a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from corpus_guard.errors import Misuse
from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark

QUERY = ("query", "question", "input", "prompt", "user_query", "user_input")
OUTPUT = ("output", "answer", "response", "wrong_answer", "wrong_output", "prediction", "completion")
CORRECT = ("correct", "correct_answer", "expected", "expected_response", "expected_output", "reference", "ground_truth")
REPORTER = ("reporter", "reported_by", "user", "user_id", "userid", "email", "author")
REPORTED_AT = ("reported_at", "timestamp", "created_at", "time", "date", "datetime")
SESSION = ("session", "session_id", "sessionid", "conversation_id", "conversation", "thread_id", "trace_id")
SERVED = ("served", "chunk_ids", "chunks", "retrieved", "retrieved_ids")
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "query": QUERY,
    "output": OUTPUT,
    "reported_at": REPORTED_AT,
    "correct": CORRECT,
    "reporter": REPORTER,
    "session": SESSION,
    "served": SERVED,
}
"""Field → the columns that it is read from."""


def parse_columns(pairs: Sequence[str]) -> dict[str, str]:
    """Parse ``FIELD=COLUMN`` pairs.

    Raises:
        Misuse: a pair has no column, or names no field of a report.
    """
    columns = {}
    for pair in pairs:
        name, _, column = (part.strip() for part in pair.partition("="))
        if name not in COLUMNS or not column:
            raise Misuse(f"--map {pair}: expected FIELD=COLUMN with one of the fields {', '.join(COLUMNS)}")
        columns[name] = column
    return columns


class Plain:
    """Dialect of records without a tool (`Dialect`)."""

    name = "plain"

    def __init__(self, columns: Mapping[str, str] | None = None) -> None:
        """
        Args:
            columns: field → the column it is read from, for fields with an uncommon name.
        """
        named = {name: (_normalise_name(column),) for name, column in (columns or {}).items()}
        self._columns = {**COLUMNS, **named}

    def knows(self, values: Mapping[str, object]) -> bool:
        """Return True: it reads whatever no tool claims."""
        return True

    def filings(self, values: Mapping[str, object], mark: Mark) -> list[Filing]:
        """Return one filing per record."""
        named: dict[str, object] = {}
        for key, value in values.items():
            named.setdefault(_normalise_name(key), value)
        columns = self._columns
        correct = fields.first_value(named, columns["correct"])
        return [
            Filing(
                query=fields.extract_question(_first_present(named, columns["query"])),
                output=fields.extract_answer(_first_present(named, columns["output"])),
                reported_at=fields.parse_time(fields.first_value(named, columns["reported_at"])),
                correct=None if correct is None else fields.extract_answer(correct),
                reporter=fields.text_or_empty(fields.first_value(named, columns["reporter"])),
                session=fields.text_or_empty(fields.first_value(named, columns["session"])),
                served=fields.extract_chunk_ids(fields.first_value(named, columns["served"])),
            )
        ]


def _first_present(named: Mapping[str, object], names: tuple[str, ...]) -> object:
    """Return the value of `fields.first_value`, but "" instead of None if a field is present and empty."""
    value = fields.first_value(named, names)
    return "" if value is None and any(name in named for name in names) else value


def _normalise_name(key: str) -> str:
    return key.strip().casefold().replace(" ", "_").replace("-", "_")
