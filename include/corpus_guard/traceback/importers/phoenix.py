"""Exports of Arize Phoenix: spans as JSON Lines or JSON, or a data frame of spans as CSV.

Fields (Phoenix 12 and OpenInference's semantic conventions): the attributes ``input.value``,
``output.value``, ``session.id``, ``user.id`` and ``retrieval.documents.N.document``, nested or with dots,
with or without ``attributes.`` before them; annotations among the attributes
(``annotations.N.annotation.name``, also of the trace), as a list ``annotations`` with ``result``, or as the
columns that a data frame of annotations adds when it is joined. A span is a report if one of its annotations
is the mark.

The ids of served chunks are those that the annotated span itself holds: export annotated spans with their
documents, or name the chunks in another way. OpenTelemetry's own JSON is not read; export Phoenix's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from corpus_guard.traceback.filings import Filing
from corpus_guard.traceback.importers import fields
from corpus_guard.traceback.importers.record import Mark

MAX_SPAN_VALUES = 20_000  # of one span
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
    """Dialect of Phoenix (`Dialect`)."""

    name = "phoenix"

    def knows(self, values: Mapping[str, object]) -> bool:
        """Return whether the record has a span's kind or context, and attributes."""
        names = {str(key).split(".")[0] for key in values}
        return bool({"span_kind", "context"} & names) and "attributes" in names

    def filings(self, values: Mapping[str, object], mark: Mark) -> list[Filing]:
        """Return one filing per annotation that is the mark; without a mark, one per span."""
        span = dict(_flat(values))
        marked = (
            [annotation for annotation in _annotations(span) if _is_marked(annotation, mark)] if mark.name else [{}]
        )
        if not marked:
            return []
        correct = fields.first_value(span, _EXPECTED)
        query, output = (
            fields.extract_question(span.get("input.value")),
            fields.extract_answer(span.get("output.value")),
        )
        return [
            Filing(
                query=query,
                output=output,
                reported_at=fields.parse_time(
                    fields.first_value(annotation, _TIME) or fields.first_value(span, _SPAN_TIME)
                ),
                correct=None if correct is None else fields.extract_answer(correct),
                reporter=fields.text_or_empty(
                    fields.first_value(annotation, ("user_id", "identifier")) or span.get("user.id")
                ),
                session=fields.text_or_empty(span.get("session.id")),
                served=_served(span),
            )
            for annotation in marked
        ]


def _flat(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield nested values, also in JSON text, as names with dots; question and answer are not parsed."""
    waiting: list[tuple[str, object, int]] = [("", values, 0)]
    count = 0
    while waiting and count < MAX_SPAN_VALUES:
        name, value, depth = waiting.pop()
        if name not in {"input.value", "output.value"}:
            value = fields.parse_json(value)
        inner = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else None
        if inner is None or depth > fields.MAX_DEPTH:
            count += 1
            yield name, value
            continue
        waiting += [(_joined(name, str(key)), element, depth + 1) for key, element in inner][:MAX_SPAN_VALUES]


def _joined(before: str, key: str) -> str:
    return (f"{before}.{key}" if before else key).removeprefix("attributes.").removeprefix("attributes")


def _annotations(span: Mapping[str, object]) -> list[dict[str, object]]:
    by_place: dict[str, dict[str, object]] = {}
    for name, value in span.items():
        if matched := _ANNOTATED.fullmatch(name):
            place = name[: matched.start(1)] + matched[1]
            by_place.setdefault(place, {})[matched[2].removeprefix("result.")] = value
    joined = {
        name: fields.first_value(span, (f"annotation.{name}", f"annotation_{name}", f"result.{name}", name))
        for name in ("label", "score", "identifier", "user_id", "created_at")
    }
    named = fields.first_value(span, ("annotation_name", "annotation.name"))
    return [*by_place.values(), *([{**joined, "name": named}] if named else [])]


def _is_marked(annotation: Mapping[str, object], mark: Mark) -> bool:
    return annotation.get("name") == mark.name and (
        mark.fits(annotation.get("label")) or mark.fits(annotation.get("score"))
    )


def _served(span: Mapping[str, object]) -> tuple[str, ...]:
    documents: dict[int, str] = {}
    for name, value in span.items():
        matched = _DOCUMENT.fullmatch(name)
        if matched and (matched[2] != "id" or int(matched[1]) not in documents):
            documents[int(matched[1])] = fields.text_or_empty(value)
    return tuple(documents[place] for place in sorted(documents) if documents[place])
