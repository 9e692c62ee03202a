"""Places of two sentences that state something about the same things: a chunk's, and another document's.

Ids and places are kept, never words: a sentence that is purged must not live on in another document's finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from corpus_guard.claims.outcome import Comparison, Outcome
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Span, TrustLevel
from corpus_guard.screening.survey.nearby_chunks import (
    PlacedChunk,
)

MAX_KEPT: Final = 12  # related statements of a version: a reviewer reads no more


@dataclass(frozen=True, slots=True)
class SentencePlace:
    """Place of a sentence of another document: ids and places, never its words."""

    doc_id: str
    version_id: str
    chunk_id: str
    span: Span  # of the sentence, in the text of the version
    values: tuple[Span, ...] = ()  # of the values that agree or are at odds, in the same text


@dataclass(frozen=True, slots=True)
class RelatedStatement:
    """A sentence of an arriving version, and one of another document that agrees with it or contradicts it."""

    ordinal: int  # which chunk of the arriving version
    outcome: Outcome  # AGREE, CONFLICT or LIKELY
    span: Span  # of the arriving sentence, in the text of its version
    values: tuple[Span, ...]  # of its values that agree or are at odds
    other: SentencePlace
    trust: TrustLevel  # of the other document: that of the arriving one, or higher
    kind: Kind | None  # of the first value; NEGATION: one says what the other denies; None: no value is stated
    is_near_copy: bool  # the chunks are the same but for a few words
    is_served: bool  # the other is in a collection; False: it arrives in the same run
    is_doubted: bool = False  # the rules see a contradiction, a trained reader is sure that there is none
    disputed_by: str = ""
    """Document, no less trusted than the other one, that disagrees with it about a contradiction. Empty: none."""

    @property
    def is_disputed(self) -> bool:
        """Return whether documents of the other one's trust disagree about a contradiction."""
        return bool(self.disputed_by)

    @property
    def is_noted_only(self) -> bool:
        """Return whether a contradiction is doubted or disputed: nothing waits for it."""
        return self.is_doubted or self.is_disputed

    @property
    def is_contradiction(self) -> bool:
        """Return whether the rules see a contradiction that is neither doubted nor disputed."""
        return self.outcome is Outcome.CONFLICT and not self.is_noted_only

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
            self.is_doubted,
            self.disputed_by,
        ]

    @classmethod
    def from_record(cls, record: list[Any]) -> RelatedStatement:
        """Read the output of `to_record`. A wrong shape raises TypeError or ValueError."""
        ordinal, outcome, places, (doc_id, version_id, chunk_id, other_places), trust, kind, *signs = record
        copy, served, doubted, disputed_by = signs
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
            bool(doubted),
            str(disputed_by),
        )


@dataclass(frozen=True, slots=True)
class RelatedStatements:
    """Related statements of a run, by version id."""

    statements: Mapping[str, tuple[RelatedStatement, ...]]
    not_compared: Mapping[str, int]
    """Chunks of a version that were not compared with all they should: the budget of the run was reached."""
    contradicted: Mapping[str, tuple[RelatedStatement, ...]]
    """By trusted version, its sentences that contradict served ones of lower trust: they came before it."""


def place_comparison(
    own: PlacedChunk, comparison: Comparison, other: PlacedChunk, is_copy: bool, is_served: bool
) -> RelatedStatement:
    """Return what a comparison of two chunks found, at its places in their versions."""
    ours, theirs = ([pair[side] for pair in comparison.values] for side in (0, 1))
    place = SentencePlace(
        other.doc_id,
        other.version_id,
        other.chunk_id,
        shift(comparison.other.span, other.start),
        tuple(shift(value.span, other.start) for value in theirs),
    )
    return RelatedStatement(
        own.ordinal,
        comparison.outcome,
        shift(comparison.statement.span, own.start),
        tuple(shift(value.span, own.start) for value in ours),
        place,
        other.trust,
        comparison.kind,
        is_copy,
        is_served,
    )


def place_likely(
    own: PlacedChunk, sentences: tuple[Span, Span], other: PlacedChunk, *, is_served: bool, disputed_by: str = ""
) -> RelatedStatement:
    """Return a contradiction that the reader sees between two sentences, by their places in their chunks."""
    span, theirs = sentences
    return RelatedStatement(
        own.ordinal,
        Outcome.LIKELY,
        shift(span, own.start),
        (),
        SentencePlace(other.doc_id, other.version_id, other.chunk_id, shift(theirs, other.start)),
        other.trust,
        None,
        False,
        is_served,
        disputed_by=disputed_by,
    )


def shift(span: Span, start: int) -> Span:
    """Return a place that lies so many characters further on."""
    return Span(start + span.start, start + span.end)


def worst_first(related: Iterable[RelatedStatement]) -> tuple[RelatedStatement, ...]:
    """Return the worst of a version's statements, at most `MAX_KEPT`."""
    return tuple(sorted(related, key=_severity_order)[:MAX_KEPT])


_WORST: Final = (Outcome.CONFLICT, Outcome.LIKELY, Outcome.AGREE)


def _severity_order(related: RelatedStatement) -> tuple[bool, bool, bool, int, int, bool, int, int, str]:
    return (
        related.outcome is Outcome.AGREE,
        related.is_noted_only,
        # Nothing waits because two open texts contradict each other, and so it must not hide that one contradicts a trusted text.
        related.trust is TrustLevel.OPEN,
        _WORST.index(related.outcome),
        -related.trust.rank,
        not related.is_near_copy,
        related.ordinal,
        related.span.start,
        related.other.chunk_id,
    )


def _numbers(*spans: Span) -> list[int]:
    return [number for span in spans for number in (span.start, span.end)]


def _spans(numbers: list[int]) -> list[Span]:
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [Span(int(start), int(end)) for start, end in pairs]
