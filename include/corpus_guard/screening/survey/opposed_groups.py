"""Open chunks that together state what a more trusted document contradicts: two are a group.

Rules
- A group begins with a sentence of an arriving chunk that contradicts one of a higher trust level
  (`corpus_guard.screening.survey.statement_search`), doubted and disputed contradictions aside.
- It takes in other open documents, arriving and served, with a chunk near to it in which a sentence holds the value
  that is at odds and most of what the sentence is about. So a text that words the lie in a way that no comparison
  reads is seen beside one that is read.
- A sentence without a value (a denial) is shared only where nearly all of it is, and denied as well.

Not done here: deciding which statement is right. The more trusted document is believed until a person says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.claims.negation import read_negations
from corpus_guard.claims.sentences import split_sentences
from corpus_guard.domain import TrustLevel
from corpus_guard.screening.survey.agreement import (
    LINK_COSINE,
    MAX_NAMED_DOCUMENTS,
    SAME_TEXT_COSINE,
    Agreement,
    FetchTexts,
    Passage,
    ServedChunks,
)
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk
from corpus_guard.screening.survey.related_statements import RelatedStatement
from corpus_guard.screening.wording import Wording, split_words, stem

HELD: Final = 0.5  # of the weight of the words that the sentence is about, in one sentence of another member
HELD_WITHOUT_VALUE: Final = 0.8  # the same where no value is at odds
SCORE: Final = 0.9  # of a member: two independent signs, each of which can be wrong


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sentence that is contradicted."""

    words: Mapping[str, float]  # what it is about → weight
    value: frozenset[str]  # words of the values that are at odds
    is_negated: bool

    @classmethod
    def of(cls, text: str, related: RelatedStatement, chunk: PlacedChunk, wording: Wording) -> _Claim:
        sentence = text[related.span.start - chunk.start : related.span.end - chunk.start]
        values = " ".join(text[value.start - chunk.start : value.end - chunk.start] for value in related.values)
        value = frozenset(stem(word) for word in split_words(values))
        words = {word: weight for word, weight in wording.content(sentence).items() if word not in value}
        return cls(words, value, _is_negated(sentence))

    def is_held_by(self, text: str) -> bool:
        """Return whether a sentence of a text holds the value and most of what the claim is about."""
        needed = (HELD if self.value else HELD_WITHOUT_VALUE) * sum(self.words.values())
        for start, end in split_sentences(text):
            sentence = text[start:end]
            sentence_stems = {stem(word) for word in split_words(sentence)}
            if (
                self.value <= sentence_stems
                and (self.value or _is_negated(sentence) == self.is_negated)
                and sum(weight for word, weight in self.words.items() if word in sentence_stems) >= needed > 0
            ):
                return True
        return False


def _is_negated(sentence: str) -> bool:
    return sum(1 for _ in read_negations(sentence)) % 2 == 1


def find_opposed_groups(
    passages: Sequence[Passage],
    chunks: Sequence[PlacedChunk],
    vectors: NDArray[np.float32],
    texts: FetchTexts,
    wording: Wording,
    related: Mapping[str, Sequence[RelatedStatement]],
    served: ServedChunks,
) -> Iterator[tuple[str, Agreement]]:
    """Yield (version id, agreement) of every arriving member; the same member may be in several groups.

    Args:
        passages: every new chunk, then background.
        chunks: the places of the new ones, in the same order.
        vectors: unit vectors of the passages, shape (passages, dimensions).
        related: what is stated elsewhere, by version id.
        served: open chunks that the collections hold already.
    """
    positions = {(chunk.version_id, chunk.ordinal): position for position, chunk in enumerate(chunks)}
    arriving = {passage.doc_id for passage in passages if passage.version_id}
    is_open = np.array([passage.open and bool(passage.version_id) for passage in passages], bool)
    for version_id, statements in related.items():
        conflicts = [
            statement
            for statement in statements
            if statement.is_contradiction and statement.trust is not TrustLevel.OPEN
        ]
        for ordinal in dict.fromkeys(conflict.ordinal for conflict in conflicts):
            position = positions.get((version_id, ordinal))
            if position is None or not is_open[position]:
                continue
            cosines = np.where(is_open, vectors @ vectors[position], -1.0)
            near = [int(other) for other in np.flatnonzero(cosines >= LINK_COSINE) if other != position]
            near = [other for other in near if passages[other].doc_id != passages[position].doc_id]
            own, *read = texts([position, *near])
            claims = [
                _Claim.of(own, conflict, chunks[position], wording)
                for conflict in conflicts
                if conflict.ordinal == ordinal
            ]
            members = [
                other for other, text in zip(near, read, strict=True) if any(claim.is_held_by(text) for claim in claims)
            ]
            (answer,) = served.near(vectors[position][None, :])
            holders = [
                document
                for document, text, cosine in answer
                if LINK_COSINE <= cosine <= SAME_TEXT_COSINE
                and document not in arriving
                and any(claim.is_held_by(text) for claim in claims)
            ]
            yield from _members(passages, [position, *members], list(dict.fromkeys(holders)), cosines)


def _members(
    passages: Sequence[Passage], members: Sequence[int], served: Sequence[str], cosines: NDArray[np.float32]
) -> Iterator[tuple[str, Agreement]]:
    documents = list(dict.fromkeys([*(passages[member].doc_id for member in members), *served]))
    if len(documents) < 2:
        return
    for member in members:
        passage = passages[member]
        others = tuple(document for document in documents if document != passage.doc_id)
        similarity = round(min(1.0, float(cosines[member])), 4)
        yield (
            passage.version_id,
            Agreement(
                passage.ordinal,
                SCORE,
                len(documents),
                similarity,
                others[:MAX_NAMED_DOCUMENTS],
                tuple(served),
                opposed=True,
            ),
        )
