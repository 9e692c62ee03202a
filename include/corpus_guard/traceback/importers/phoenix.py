"""Exports of Arize Phoenix: spans as JSON Lines or JSON, or a data frame of spans as CSV.

Read here (Phoenix 12 and OpenInference's semantic conventions): the attributes ``input.value``, ``output.value``, ``session.id``,
``user.id`` and ``retrieval.documents.N.document``, nested or with dots, with or without ``attributes.`` before them; annotations among the
attributes (``annotations.N.annotation.name``, also of the trace), as a list ``annotations`` with ``result``, or as the columns that a
data frame of annotations adds when it is joined. A span is a report when one of its annotations is the mark.

The chunk ids served are those the annotated span itself holds: export the spans that people annotate with their documents, or name the
chunks in another way. OpenTelemetry's own JSON is not read; export Phoenix's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark
from corpus_guard.traceback.reports import Filing

MOST_VALUES = 20_000  # of one span
_TIME = ("created_at", "updated_at")
_SPAN_TIME = ("end_time", "start_time")
_EXPECTED = (
    "metadata.expected_response",
    "metadata.correct",
    "metadata.expected_output",
    "expected_response",
    "correct",
)
_ANNOTATED = re.compile(
    r"(?:(?:trace|session)\.)?(?:annotations|evaluations)\.(\d{1,4})\.(?:annotation\.|evaluation\.)?(.+)"
)
_DOCUMENT = re.compile(r"retrieval\.documents\.(\d{1,4})\.document\.(metadata\.chunk_id|id)")


class Phoenix:
    """A dialect (`Dialect`)."""

    name = "phoenix"

    def knows(self, values: Mapping[str, Any]) -> bool:
        """A span's kind or context, and attributes."""
        names = {str(key).split(".")[0] for key in values}
        return bool({"span_kind", "context"} & names) and "attributes" in names

    def filings(self, values: Mapping[str, Any], mark: Mark) -> list[Filing]:
        """One an annotation that is the mark; without a mark one a span."""
        span = dict(_flat(values))
        marks = [one for one in _annotations(span) if _is(one, mark)] if mark.name else [{}]
        if not marks:
            return []
        correct = fields.first(span, _EXPECTED)
        query, output = fields.question(span.get("input.value")), fields.answer(span.get("output.value"))
        return [
            Filing(
                query=query,
                output=output,
                reported_at=fields.moment(fields.first(one, _TIME) or fields.first(span, _SPAN_TIME)),
                correct=None if correct is None else fields.answer(correct),
                reporter=fields.text(fields.first(one, ("user_id", "identifier")) or span.get("user.id")),
                session=fields.text(span.get("session.id")),
                served=_served(span),
            )
            for one in marks
        ]


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Objects and lists as names with dots; text that is JSON of one, too, except for what people wrote."""
    waiting: list[tuple[str, Any, int]] = [("", values, 0)]
    given = 0
    while waiting and given < MOST_VALUES:
        name, value, depth = waiting.pop()
        if name not in {"input.value", "output.value"}:
            value = fields.parsed(value)
        inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
        if inner is None or depth > fields.DEEPEST:
            given += 1
            yield name, value
            continue
        waiting += [(_joined(name, str(key)), one, depth + 1) for key, one in inner][:MOST_VALUES]


def _joined(before: str, key: str) -> str:
    return (f"{before}.{key}" if before else key).removeprefix("attributes.").removeprefix("attributes")


def _annotations(span: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name, value in span.items():
        if matched := _ANNOTATED.fullmatch(name):
            place = name[: matched.start(1)] + matched[1]
            found.setdefault(place, {})[matched[2].removeprefix("result.")] = value
    joined = {
        name: fields.first(span, (f"annotation.{name}", f"annotation_{name}", f"result.{name}", name))
        for name in ("label", "score", "identifier", "user_id", "created_at")
    }
    named = fields.first(span, ("annotation_name", "annotation.name"))
    return [*found.values(), *([{**joined, "name": named}] if named else [])]


def _is(annotation: Mapping[str, Any], mark: Mark) -> bool:
    return annotation.get("name") == mark.name and (
        mark.fits(annotation.get("label")) or mark.fits(annotation.get("score"))
    )


def _served(span: Mapping[str, Any]) -> tuple[str, ...]:
    documents: dict[int, str] = {}
    for name, value in span.items():
        matched = _DOCUMENT.fullmatch(name)
        if matched and (matched[2] != "id" or int(matched[1]) not in documents):
            documents[int(matched[1])] = fields.text(value)
    return tuple(documents[place] for place in sorted(documents) if documents[place])
