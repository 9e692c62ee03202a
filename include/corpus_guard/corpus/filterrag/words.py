"""Words, and which of them two texts share in meaning.

Two words are shared when the cosine of their all-MiniLM-L6-v2 embeddings, each word embedded alone, exceeds tau (FilterRAG,
section III-B1 and IV-B2). The paper does not say what a word is; here:

* a run of letters and digits of any script (apostrophes inside belong to it), after NFKC and case folding;
* English function words (`FUNCTION_WORDS`) are never shared, but count among the unique words. With them shared, epsilon 0.2 drops
  97 % of the clean passages retrieved for PoisonedRAG's questions instead of 61 %, and the paper's own table over epsilon, which falls
  from ATR 0.77 at 0.5 to 0.005 at 0.1, cannot come about; ML-FilterRAG is as accurate either way (0.90 to 0.92);
* of a text the first 2,000 words count, and of a word the first 40 characters: a page of noise costs no more than a page.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

WORDS_OF_A_TEXT = 2_000
LETTERS_OF_A_WORD = 40
KEPT = 20_000  # words whose vectors stay in memory: 30 MB
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")

_FUNCTION_WORDS = """
a about after again against all also am an and any are as at be because been before being below between both but by
can could did do does doing down during each few for from further had has have having he her here hers herself him
himself his how i if in into is it its itself just me more most my myself no nor not now of off on once only or other
our ours ourselves out over own same she should so some such than that the their theirs them themselves then there
these they this those through to too under until up very was we were what when where which while who whom why will
with would you your yours yourself yourselves
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())


class Embeds(Protocol):
    """Texts to unit vectors, as `corpus_guard.models.embedder.Embedder` does."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dimensions), rows of length 1."""


def count_words(text: str) -> Counter[str]:
    """How often each word stands in a text."""
    folded = unicodedata.normalize("NFKC", text[: WORDS_OF_A_TEXT * LETTERS_OF_A_WORD]).casefold()
    words = (match.group().replace("’", "'")[:LETTERS_OF_A_WORD] for match in _WORD.finditer(folded))
    counted: Counter[str] = Counter()
    for number, word in enumerate(words):
        if number == WORDS_OF_A_TEXT:
            break
        counted[word] += 1
    return counted


@dataclass(frozen=True, slots=True)
class Density:
    """How full a text is of a question and its answer."""

    frequencies: int  # occurrences in the text of words it shares with question and answer
    unique: int  # different words of the text

    @property
    def value(self) -> float:
        """Freq-Density, equation 4; 0 for a text without words."""
        return self.frequencies / self.unique if self.unique else 0.0


class WordMatcher:
    """Finds shared words; remembers the vectors of the words seen last."""

    def __init__(self, embedder: Embeds, kept: int = KEPT) -> None:
        """Match by `embedder`, keeping the vectors of at most `kept` words."""
        self._embedder = embedder
        self._kept = kept
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def densities(self, readings: Sequence[tuple[str, str]], tau: float) -> list[Density]:
        """The Freq-Density of each text.

        Args:
            readings: (question and answer joined, text) pairs.
            tau: cosine above which two words are shared, -1..1; at 1 only equal words are.
        """
        counted = [(count_words(asked), count_words(text)) for asked, text in readings]
        meant = (word for pair in counted for words in pair for word in words if word not in FUNCTION_WORDS)
        vectors = self._embed(meant) if tau < 1 else {}
        return [self._density(asked, words, vectors, tau) for asked, words in counted]

    @staticmethod
    def _density(
        asked: Counter[str], words: Counter[str], vectors: dict[str, NDArray[np.float32]], tau: float
    ) -> Density:
        meant = [word for word in asked if word not in FUNCTION_WORDS]
        shared = [word for word in words if word in asked and word not in FUNCTION_WORDS]
        others = [word for word in words if word not in asked and word not in FUNCTION_WORDS]
        if others and meant and tau < 1:
            cosines = np.stack([vectors[word] for word in others]) @ np.stack([vectors[word] for word in meant]).T
            shared += [word for word, cosine in zip(others, cosines.max(axis=1), strict=True) if cosine > tau]
        return Density(sum(words[word] for word in shared), len(words))

    def _embed(self, words: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        wanted = dict.fromkeys(words)
        missing = [word for word in wanted if word not in self._vectors]
        found = {word: self._vectors[word] for word in wanted if word in self._vectors}
        if missing:
            found.update(zip(missing, self._embedder.embed(missing), strict=True))
        for word in wanted:  # the least recently asked for are forgotten first
            self._vectors[word] = found[word]
            self._vectors.move_to_end(word)
        while len(self._vectors) > self._kept:
            self._vectors.popitem(last=False)
        return found
