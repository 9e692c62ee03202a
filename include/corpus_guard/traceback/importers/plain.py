"""CSV and JSON Lines with fields of our own names, or of common ones.

``query``, ``output`` and ``reported_at`` are required; ``correct``, ``reporter``, ``session`` and ``served``
(a list, or chunk ids separated by ``;``) are optional. Case, spaces and hyphens of a name make no difference;
of two names for the same field, the first in the list below wins. Every record is a report.
"""

from __future__ import annotations

from collections.abc import Mapping

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


class Plain:
    """Dialect of records without a tool (`Dialect`)."""

    name = "plain"

    def knows(self, values: Mapping[str, object]) -> bool:
        """Return True: it reads whatever no tool claims."""
        return True

    def filings(self, values: Mapping[str, object], mark: Mark) -> list[Filing]:
        """Return one filing per record."""
        named: dict[str, object] = {}
        for key, value in values.items():
            named.setdefault(_normalise_name(key), value)
        correct = fields.first_value(named, CORRECT)
        return [
            Filing(
                query=fields.extract_question(_first_present(named, QUERY)),
                output=fields.extract_answer(_first_present(named, OUTPUT)),
                reported_at=fields.parse_time(fields.first_value(named, REPORTED_AT)),
                correct=None if correct is None else fields.extract_answer(correct),
                reporter=fields.text_or_empty(fields.first_value(named, REPORTER)),
                session=fields.text_or_empty(fields.first_value(named, SESSION)),
                served=fields.extract_chunk_ids(fields.first_value(named, SERVED)),
            )
        ]


def _first_present(named: Mapping[str, object], names: tuple[str, ...]) -> object:
    """Return the value of `fields.first_value`, but "" instead of None if a field is present and empty."""
    value = fields.first_value(named, names)
    return "" if value is None and any(name in named for name in names) else value


def _normalise_name(key: str) -> str:
    return key.strip().casefold().replace(" ", "_").replace("-", "_")
