"""Statements of arriving chunks, and what other documents state about the same thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corpus_guard.claims.comparison import Outcome
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Span, TrustLevel


@dataclass(frozen=True, slots=True)
class SentencePlace:
    """Where a sentence of another document stands: ids and places, never its words."""

    doc_id: str
    version_id: str
    chunk_id: str
    span: Span  # of the sentence, in the text of the version
    values: tuple[Span, ...] = ()  # of the values that agree or are at odds, in the same text


@dataclass(frozen=True, slots=True)
class RelatedStatement:
    """A sentence of an arriving version, and one of another document that agrees with it or contradicts it."""

    ordinal: int  # which chunk of the arriving version
    outcome: Outcome  # AGREE or CONFLICT
    span: Span  # of the arriving sentence, in the text of its version
    values: tuple[Span, ...]  # of its values that agree or are at odds
    other: SentencePlace
    trust: TrustLevel  # of the other document: that of the arriving one, or higher
    kind: Kind | None  # of the first value; NEGATION: one says what the other denies; None: no value is stated
    is_near_copy: bool  # the chunks are the same but for a few words
    is_served: bool  # the other is in a collection; False: it arrives in the same run

    def to_record(self) -> list[object]:
        """Return a JSON-ready form."""
        other = self.other
        return [
            self.ordinal,
            self.outcome.value,
            _numbers(self.span, *self.values),
            [other.doc_id, other.version_id, other.chunk_id, _numbers(other.span, *other.values)],
            self.trust.value,
            self.kind.value if self.kind else "",
            self.is_near_copy,
            self.is_served,
        ]

    @classmethod
    def from_record(cls, record: list[Any]) -> RelatedStatement:
        """Read the output of `to_record`. A wrong shape raises TypeError or ValueError."""
        ordinal, outcome, places, (doc_id, version_id, chunk_id, other_places), trust, kind, copy, served = record
        span, *values = _spans(places)
        other_span, *other_values = _spans(other_places)
        other = SentencePlace(doc_id, version_id, chunk_id, other_span, tuple(other_values))
        return cls(
            int(ordinal),
            Outcome(outcome),
            span,
            tuple(values),
            other,
            TrustLevel(trust),
            Kind(kind) if kind else None,
            bool(copy),
            bool(served),
        )


@dataclass(frozen=True, slots=True)
class Related:
    """Related statements of a run, by version id."""

    statements: Mapping[str, tuple[RelatedStatement, ...]]
    not_compared: Mapping[str, int]
    """Chunks of a version that state something and were not compared: the budget of the run was reached."""


def _numbers(*spans: Span) -> list[int]:
    return [number for span in spans for number in (span.start, span.end)]


def _spans(numbers: list[int]) -> list[Span]:
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [Span(int(start), int(end)) for start, end in pairs]
