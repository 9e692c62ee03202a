"""Sentences of arriving chunks that a trained reader takes for contradictions of a trusted document.

`corpus_guard.claims` sees another value for the same thing. Who says the opposite in words of their own is seen by a
small language model, `corpus_guard.models.contradiction_reader`, which reads pairs of sentences.

Rules
- Chunks of open sources are read beside the `NEAREST_READ` trusted chunks that lie nearest to them.
- Of all their pairs of sentences those are read that have most in common: the sum of the rarity of their common words, words of the
  page's title at a quarter. Of 4,000 contradictions the right sentence of a page is the first in 68 of 100, one of the first two
  in 79; in 15 they have no word in common.
- An arriving sentence is read with those before it; a short chunk is read whole.
- Pairs that the rules decided are not read, nor what two documents say of themselves: "in this guide we cover May to June".
- A document of n chunks must be surer by log n: else the longest honest documents would wait most often.

What it does not do: compare trusted documents that arrive later with what is served; the rules alone do that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.claims.passages import StatedPassage
from corpus_guard.domain import Span
from corpus_guard.models.contradiction_reader import PagePost

NEAREST_READ: Final = 2  # trusted chunks beside which a chunk is read
SHORT_CHUNK: Final = 300  # characters, up to which a chunk is read whole
MAX_BEFORE: Final = 2  # sentences before an arriving one that are read with it, if they fit into as many characters
TITLE_SHARE: Final = 0.25  # of the weight of a word that stands in the page's title: all its sentences are about it
MIN_WORDS: Final = 2  # of an arriving sentence that states something


class PairReader(Protocol):
    """Interface of `corpus_guard.models.contradiction_reader.ContradictionReader` that screening needs."""

    def log_odds(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its page, shape (pairs,)."""


@dataclass(frozen=True, slots=True)
class TrustedPassage:
    """A trusted chunk beside which an arriving one is read."""

    passage: StatedPassage
    title: str
    decided: Set[tuple[Span, Span]] = frozenset()
    """Sentences of the arriving chunk and of this one that the rules found to agree or to contradict each other."""


@dataclass(frozen=True, slots=True)
class ChosenPair:
    """A sentence of an arriving chunk, and one of a trusted chunk beside it."""

    beside: int  # number of the trusted chunk
    span: Span  # of the arriving sentence, in its chunk
    other: Span  # of the trusted one, in its chunk
    shown: PagePost


@dataclass(frozen=True)
class LikelyContradictions:
    """A reader, and what it reads of a chunk."""

    reader: PairReader
    pairs: int
    """Read of a chunk, at least one."""
    log_odds: float
    """From which a pair of a document of one chunk is taken for a contradiction."""

    def find(self, chosen: Sequence[ChosenPair], chunks: Sequence[int]) -> list[bool]:
        """Return which pairs the reader takes for contradictions.

        Args:
            chosen: pairs.
            chunks: of the arriving document of each.
        """
        scores = self.reader.log_odds([pair.shown for pair in chosen]).tolist()
        return [score >= self.log_odds + math.log(number) for score, number in zip(scores, chunks, strict=True)]


def choose_pairs(own: StatedPassage, trusted: Sequence[TrustedPassage], count: int) -> list[ChosenPair]:
    """Return the pairs of a chunk that are read.

    Args:
        own: an arriving chunk.
        trusted: chunks beside it, the nearest first.
        count: of pairs at most.
    """
    posts = list(_posts(own))
    chosen: list[ChosenPair] = []
    for _, beside, number, rival in sorted(_weigh(own, posts, trusted)):
        other, (post, sentences) = trusted[beside], posts[number]
        # Of a chunk that is read whole, the finding names the sentence that has most in common.
        words = other.passage.outlines[rival]
        nearest = max(sentences, key=lambda sentence: _shared(own.outlines[sentence], words))
        spans = own.span(nearest), other.passage.span(rival)
        present_themselves = own.presents_itself(nearest) and other.passage.presents_itself(rival)
        if spans not in other.decided and not present_themselves:
            shown = PagePost(other.title, other.passage.sentence(rival), post)
            chosen.append(ChosenPair(beside, *spans, shown))
            if len(chosen) == count:
                break
    return chosen


def _weigh(
    own: StatedPassage, posts: Sequence[tuple[str, Sequence[int]]], trusted: Sequence[TrustedPassage]
) -> Iterator[tuple[float, int, int, int]]:
    """Yield for each pair with something in common its weight, negative, and the numbers of chunk, post and sentence."""
    for number, (_, sentences) in enumerate(posts):
        words = {word: weight for sentence in sentences for word, weight in own.outlines[sentence].items()}
        for beside, other in enumerate(trusted):
            named = other.passage.named
            for rival, others in enumerate(other.passage.outlines):
                common = words.keys() & others.keys()
                if common:
                    weight = sum(words[word] * (TITLE_SHARE if word in named else 1.0) for word in common)
                    yield -weight, beside, number, rival


def _posts(own: StatedPassage) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield what is read of an arriving chunk at a time, and the sentences that it states."""
    numbers = range(len(own.outlines))
    if not numbers:
        return
    if len(whole := own.joined(0, numbers[-1])) <= SHORT_CHUNK:
        yield whole, numbers
        return
    for number in numbers:
        if len(own.outlines[number]) >= MIN_WORDS:
            first = number
            while first > max(0, number - MAX_BEFORE) and len(own.joined(first - 1, number)) <= SHORT_CHUNK:
                first -= 1
            yield own.joined(first, number), [number]


def _shared(words: Mapping[str, float], others: Mapping[str, float]) -> float:
    return sum(words[word] for word in words.keys() & others.keys())
