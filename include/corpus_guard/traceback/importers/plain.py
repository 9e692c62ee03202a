"""CSV and JSON Lines with fields of our own names, or of those that people commonly use.

``query``, ``output`` and ``reported_at`` must be there; ``correct``, ``reporter``, ``session`` and ``served`` (a list, or chunk ids with
``;`` between them) may be. Case, spaces and hyphens of a name make no difference; of two that mean the same the first in the list
below wins. Every record is a report.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark
from corpus_guard.traceback.reports import Filing

QUERY = ("query", "question", "input", "prompt", "user_query", "user_input")
OUTPUT = ("output", "answer", "response", "wrong_answer", "wrong_output", "prediction", "completion")
CORRECT = ("correct", "correct_answer", "expected", "expected_response", "expected_output", "reference", "ground_truth")
REPORTER = ("reporter", "reported_by", "user", "user_id", "userid", "email", "author")
REPORTED_AT = ("reported_at", "timestamp", "created_at", "time", "date", "datetime")
SESSION = ("session", "session_id", "sessionid", "conversation_id", "conversation", "thread_id", "trace_id")
SERVED = ("served", "chunk_ids", "chunks", "retrieved", "retrieved_ids")


class Plain:
    """A dialect (`Dialect`)."""

    name = "plain"

    def knows(self, values: Mapping[str, Any]) -> bool:
        """It takes what no tool claims."""
        return True

    def filings(self, values: Mapping[str, Any], mark: Mark) -> list[Filing]:
        """One a record."""
        named: dict[str, Any] = {}
        for key, value in values.items():
            named.setdefault(_name(key), value)
        correct = fields.first(named, CORRECT)
        return [
            Filing(
                query=fields.question(_given(named, QUERY)),
                output=fields.answer(_given(named, OUTPUT)),
                reported_at=fields.moment(fields.first(named, REPORTED_AT)),
                correct=None if correct is None else fields.answer(correct),
                reporter=fields.text(fields.first(named, REPORTER)),
                session=fields.text(fields.first(named, SESSION)),
                served=fields.chunk_ids(fields.first(named, SERVED)),
            )
        ]


def _given(named: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Like `fields.first`, but what is there and empty is told apart from what is not there."""
    found = fields.first(named, names)
    return "" if found is None and any(name in named for name in names) else found


def _name(key: str) -> str:
    return key.strip().casefold().replace(" ", "_").replace("-", "_")
