"""Text of any length in which hardly a sentence stands twice, as in a corpus that people wrote.

The sentences are those of pages that were written for the training of a reader (`corpus_guard.detectors.contradictions`), and their rare
words are exchanged for those of a topic: chunks of one topic share some words and hardly ever a statement.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

from corpus_guard.detectors.contradictions.pairs import load_pairs
from corpus_guard.screening.wording import Wording

SENTENCES: Final = 7  # of a chunk: about 100 tokens
RARE_BITS: Final = 12.5  # of a word that is exchanged
TOPIC_BITS: Final = 13  # of a word that a topic may have
_WORD: Final = re.compile(r"[^\W\d_]+")


class MadeUpText:
    """Chunks about topics."""

    def __init__(self, wording: Wording) -> None:
        """Read the sentences and the vocabulary."""
        self._sentences = sorted({sentence for pair in load_pairs() for sentence in pair.page})
        self._rarity = wording.rarity
        bits = wording.bits.items()
        self._rare = sorted(word for word, b in bits if b >= TOPIC_BITS and word.isalpha() and word.isascii())

    def topic(self, number: int, words: int) -> Sequence[str]:
        """Return some words of a topic; the same number has the same words."""
        return random.Random(number).sample(self._rare, words)

    def chunk(self, chance: random.Random, topic: Sequence[str]) -> str:
        """Return some sentences about a topic."""

        def exchange(match: re.Match[str]) -> str:
            word = match.group()
            if self._rarity(word.lower()) < RARE_BITS:
                return word
            chosen = topic[chance.randrange(len(topic))]
            return chosen.capitalize() if word[0].isupper() else chosen

        return _WORD.sub(exchange, " ".join(chance.sample(self._sentences, SENTENCES)))
