"""Exports of Langfuse: traces or observations from a table, from blob storage, or one trace's download.

Fields (Langfuse 3, documentation "Export from UI" and "Blob storage export field reference"): ``input`` and
``output``, ``timestamp`` or ``startTime``, ``userId``, ``sessionId``, ``metadata``, in camel or snake case;
scores as columns of their own name, each with the values it got, or as a list ``scores``. A row is a report
if one of its scores is the mark. Times without a zone are UTC, as Langfuse writes them.

The ids of served chunks come from ``metadata`` (``chunk_ids`` or ``served``) and, in the download of one
trace, from its observations of type RETRIEVER; a table of traces does not hold them. Blob storage writes
scores into separate files, which have no questions: use an empty mark (every row) only if the export was
filtered to bad feedback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark

_TIME = ("timestamp", "startTime", "start_time", "createdAt", "created_at")
_USER = ("userId", "user_id")
_SESSION = ("sessionId", "session_id")
_EXPECTED = ("expectedOutput", "expected_output", "correct", "correct_answer", "expected_response")
_SERVED = ("served", "chunk_ids", "chunkIds")
_SIGNS = ("sessionId", "userId", "traceId", "projectId", "project_id", "environment", "bookmarked", "release")


class Langfuse:
    """Dialect of Langfuse (`Dialect`)."""

    name = "langfuse"

    def knows(self, values: Mapping[str, object]) -> bool:
        """Return whether the record has id, input, output, time, and two columns that only Langfuse has."""
        trace = _trace(values)
        return (
            {"id", "input", "output"} <= trace.keys()
            and any(name in trace for name in _TIME)
            and sum(name in trace for name in _SIGNS) >= 2
        )

    def filings(self, values: Mapping[str, object], mark: Mark) -> list[Filing]:
        """Return one filing per score that is the mark; without a mark, one per row."""
        trace = _trace(values)
        marks = list(_marks(values, mark)) if mark.name else [{}]
        if not marks:
            return []
        metadata = fields.parse_json(trace.get("metadata"))
        metadata = metadata if isinstance(metadata, Mapping) else {}
        correct = fields.first_value(trace, _EXPECTED) or fields.first_value(metadata, _EXPECTED)
        query, output = fields.extract_question(trace.get("input")), fields.extract_answer(trace.get("output"))
        return [
            Filing(
                query=query,
                output=output,
                reported_at=fields.parse_time(fields.first_value(score, _TIME) or fields.first_value(trace, _TIME)),
                correct=None if correct is None else fields.extract_answer(correct),
                reporter=fields.text_or_empty(
                    fields.first_value(score, ("authorUserId", "author_user_id")) or fields.first_value(trace, _USER)
                ),
                session=fields.text_or_empty(fields.first_value(trace, _SESSION)),
                served=fields.extract_chunk_ids(fields.first_value(metadata, _SERVED)) or _retrieved(values),
            )
            for score in marks
        ]


def _trace(values: Mapping[str, object]) -> Mapping[str, object]:
    inner = values.get("trace")
    return inner if isinstance(inner, Mapping) else values


def _marks(values: Mapping[str, object], mark: Mark) -> Iterable[Mapping[str, object]]:
    """Yield the scores that are the mark; empty for a column, which holds no more than the value."""
    column = fields.parse_json(_trace(values).get(mark.name))
    if mark.fits(column):
        yield {}
        return
    for holder in (values, _trace(values)):
        scores = fields.parse_json(holder.get("scores"))
        if isinstance(scores, Mapping) and mark.fits(fields.parse_json(scores.get(mark.name))):
            yield {}
            return
        if isinstance(scores, list):
            for score in scores:
                if not isinstance(score, Mapping) or score.get("name") != mark.name:
                    continue
                if any(mark.fits(score.get(name)) for name in ("value", "stringValue", "string_value")):
                    yield score
            return


def _retrieved(values: Mapping[str, object]) -> tuple[str, ...]:
    observations = values.get("observations")
    if not isinstance(observations, list):
        return ()
    outputs = [
        observation.get("output")
        for observation in observations
        if isinstance(observation, Mapping) and observation.get("type") == "RETRIEVER"
    ]
    return tuple(dict.fromkeys(chunk_id for output in outputs for chunk_id in fields.extract_chunk_ids(output)))
