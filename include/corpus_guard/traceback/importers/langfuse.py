"""Exports of Langfuse: traces or observations from a table (CSV, JSON, JSON Lines), from blob storage, or one trace's download.

Read here (Langfuse 3, documentation "Export from UI" and "Blob storage export field reference"): ``input`` and ``output``, ``timestamp``
or ``startTime``, ``userId``, ``sessionId``, ``metadata``, in camel or snake case; scores as columns of their own name, each with the
values it got, or as a list ``scores``. A row is a report when one of its scores is the mark. Times without a zone are UTC, as Langfuse
writes them.

The chunk ids served come from ``metadata`` (``chunk_ids`` or ``served``) and, in the download of one trace, from its observations of
type RETRIEVER; a table of traces does not hold them. Blob storage writes scores into files of their own: such a file has no questions,
so mark every row (an empty mark) only where the export was filtered to bad feedback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark
from corpus_guard.traceback.reports import Filing

_TIME = ("timestamp", "startTime", "start_time", "createdAt", "created_at")
_USER = ("userId", "user_id")
_SESSION = ("sessionId", "session_id")
_EXPECTED = ("expectedOutput", "expected_output", "correct", "correct_answer", "expected_response")
_SERVED = ("served", "chunk_ids", "chunkIds")
_SIGNS = ("sessionId", "userId", "traceId", "projectId", "project_id", "environment", "bookmarked", "release")


class Langfuse:
    """A dialect (`Dialect`)."""

    name = "langfuse"

    def knows(self, values: Mapping[str, Any]) -> bool:
        """An id, an input, an output, a time, and two more columns of a kind that only Langfuse has."""
        trace = _trace(values)
        return (
            {"id", "input", "output"} <= trace.keys()
            and any(name in trace for name in _TIME)
            and sum(name in trace for name in _SIGNS) >= 2
        )

    def filings(self, values: Mapping[str, Any], mark: Mark) -> list[Filing]:
        """One a score that is the mark; without a mark one a row."""
        trace = _trace(values)
        marks = list(_marks(values, mark)) if mark.name else [{}]
        if not marks:
            return []
        metadata = fields.parsed(trace.get("metadata"))
        metadata = metadata if isinstance(metadata, Mapping) else {}
        correct = fields.first(trace, _EXPECTED) or fields.first(metadata, _EXPECTED)
        query, output = fields.question(trace.get("input")), fields.answer(trace.get("output"))
        return [
            Filing(
                query=query,
                output=output,
                reported_at=fields.moment(fields.first(score, _TIME) or fields.first(trace, _TIME)),
                correct=None if correct is None else fields.answer(correct),
                reporter=fields.text(
                    fields.first(score, ("authorUserId", "author_user_id")) or fields.first(trace, _USER)
                ),
                session=fields.text(fields.first(trace, _SESSION)),
                served=fields.chunk_ids(fields.first(metadata, _SERVED)) or _retrieved(values),
            )
            for score in marks
        ]


def _trace(values: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = values.get("trace")
    return inner if isinstance(inner, Mapping) else values


def _marks(values: Mapping[str, Any], mark: Mark) -> Iterable[Mapping[str, Any]]:
    """Scores that are the mark; a column has no more to say than that it is."""
    column = fields.parsed(_trace(values).get(mark.name))
    if mark.fits(column):
        yield {}
        return
    for holder in (values, _trace(values)):
        scores = fields.parsed(holder.get("scores"))
        if isinstance(scores, Mapping) and mark.fits(fields.parsed(scores.get(mark.name))):
            yield {}
            return
        if isinstance(scores, list):
            found = [one for one in scores if isinstance(one, Mapping) and one.get("name") == mark.name]
            yield from (
                one
                for one in found
                if any(mark.fits(one.get(name)) for name in ("value", "stringValue", "string_value"))
            )
            return


def _retrieved(values: Mapping[str, Any]) -> tuple[str, ...]:
    observations = values.get("observations")
    if not isinstance(observations, list):
        return ()
    retrievers = [one for one in observations if isinstance(one, Mapping) and one.get("type") == "RETRIEVER"]
    return tuple(dict.fromkeys(found for one in retrievers for found in fields.chunk_ids(one.get("output"))))
