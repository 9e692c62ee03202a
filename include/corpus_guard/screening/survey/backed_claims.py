"""Claims of a group that more trusted documents state, too.

Rules
- A sentence is backed by a statement of a more trusted document that agrees with it, unless it holds a shared value
  that is not among those that agree: two claims may be joined to one sentence.
- A group's claim is backed when no sentence without backing holds part of it: neither a shared word that no backed
  sentence holds, nor `CLAIM_WORDS` shared words together. So true sentences beside a lie do not cover it, however long,
  while what one member alone adds does not count.

What it does not see: a name that is joined to a sentence whose values are true.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.statements import read_statements
from corpus_guard.claims.value import Kind
from corpus_guard.domain import Chunk, Span
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.wording import stem

CLAIM_WORDS: Final = 3  # shared words of one sentence that make a claim: fewer only name what it is about


def is_claim_backed(chunk: Chunk, shared: Sequence[Span], statements: Iterable[RelatedStatement]) -> bool:
    """Return whether more trusted documents state what a member shares with its group.

    Args:
        shared: places of the shared words, in the text of the chunk.
        statements: of more trusted documents, about the chunk.
    """
    agreeing = [statement for statement in statements if statement.outcome is Outcome.AGREE]
    backed: set[str] = set()
    open_claims: list[set[str]] = []
    for span, values in _sentences(chunk.text):
        inside = [place for place in shared if span.start <= place.start < span.end]
        words = {stem(chunk.text[place.start : place.end].lower()) for place in inside}
        agreed = [each for each in agreeing if _overlaps(_shifted(each.span, -chunk.start), span)]
        stated = [_shifted(value, -chunk.start) for each in agreed for value in each.values]
        unstated = [value for value in values if not any(_overlaps(value, place) for place in stated)]
        if agreed and not any(_overlaps(value, place) for value in unstated for place in inside):
            backed |= words
        else:
            open_claims.append(words)
    return bool(backed) and all(words <= backed and len(words) < CLAIM_WORDS for words in open_claims)


def _sentences(text: str) -> Iterator[tuple[Span, list[Span]]]:
    """Yield the place of each sentence, and of its values but for names and negations."""
    for statement in read_statements(text).statements:
        values = [value.span for value in statement.values if value.kind not in {Kind.NAME, Kind.NEGATION}]
        yield statement.span, values


def _overlaps(span: Span, other: Span) -> bool:
    return span.start < other.end and other.start < span.end


def _shifted(span: Span, by: int) -> Span:
    return Span(max(0, span.start + by), max(0, span.end + by))
