"""Words of a text, and the words that two texts share in meaning.

Two words are shared when the cosine of their all-MiniLM-L6-v2 embeddings, each word embedded alone, exceeds
tau (FilterRAG, section III-B1 and IV-B2). The paper does not say what a word is; here:

* a word is a run of letters and digits of any script (apostrophes inside belong to it), after NFKC and case
  folding;
* English function words (`FUNCTION_WORDS`) are never shared, but count among the unique words. With them
  shared, epsilon 0.2 drops 97 % of the clean passages retrieved for PoisonedRAG's questions instead of 61 %,
  and the paper's own table over epsilon, which falls from ATR 0.77 at 0.5 to 0.005 at 0.1, cannot come about;
  ML-FilterRAG is as accurate either way (0.90 to 0.92);
* the first 2,000 words of a text count, and the first 40 characters of a word: a page of noise costs no more
  than a page.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models import TextEmbedder

MAX_WORDS = 2_000
MAX_WORD_CHARS = 40
MAX_CACHED_WORDS = 20_000  # words whose vectors stay in memory: 30 MB
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


def count_words(text: str) -> Counter[str]:
    """Count each word of a text."""
    folded = unicodedata.normalize("NFKC", text[: MAX_WORDS * MAX_WORD_CHARS]).casefold()
    words = (match.group().replace("’", "'")[:MAX_WORD_CHARS] for match in _WORD.finditer(folded))
    counted: Counter[str] = Counter()
    for number, word in enumerate(words):
        if number == MAX_WORDS:
            break
        counted[word] += 1
    return counted


@dataclass(frozen=True, slots=True)
class FreqDensity:
    """Density in a text of the words of a question and its answer."""

    frequencies: int  # occurrences in the text of words it shares with question and answer
    unique: int  # different words of the text

    @property
    def value(self) -> float:
        """Freq-Density, equation 4; 0 for a text without words."""
        return self.frequencies / self.unique if self.unique else 0.0


class WordMatcher:
    """Matcher of shared words, with a cache of the vectors used last."""

    def __init__(self, embedder: TextEmbedder, max_cached: int = MAX_CACHED_WORDS) -> None:
        """Match by `embedder`; cache the vectors of at most `max_cached` words."""
        self._embedder = embedder
        self._max_cached = max_cached
        self._vectors: OrderedDict[str, NDArray[np.float32]] = OrderedDict()

    def densities(self, readings: Sequence[tuple[str, str]], tau: float) -> list[FreqDensity]:
        """Return the Freq-Density of each text.

        Args:
            readings: (question and answer joined, text) pairs.
            tau: cosine above which two words are shared, -1..1; at 1 only equal words are.
        """
        counted = [(count_words(question), count_words(text)) for question, text in readings]
        content_words = (word for pair in counted for words in pair for word in words if word not in FUNCTION_WORDS)
        vectors = self._embed(content_words) if tau < 1 else {}
        return [self._density(question_words, words, vectors, tau) for question_words, words in counted]

    @staticmethod
    def _density(
        question_words: Counter[str], words: Counter[str], vectors: dict[str, NDArray[np.float32]], tau: float
    ) -> FreqDensity:
        wanted_words = [word for word in question_words if word not in FUNCTION_WORDS]
        shared = [word for word in words if word in question_words and word not in FUNCTION_WORDS]
        others = [word for word in words if word not in question_words and word not in FUNCTION_WORDS]
        if others and wanted_words and tau < 1:
            cosines = (
                np.stack([vectors[word] for word in others]) @ np.stack([vectors[word] for word in wanted_words]).T
            )
            shared += [word for word, cosine in zip(others, cosines.max(axis=1), strict=True) if cosine > tau]
        return FreqDensity(sum(words[word] for word in shared), len(words))

    def _embed(self, words: Iterable[str]) -> dict[str, NDArray[np.float32]]:
        distinct = dict.fromkeys(words)
        missing = [word for word in distinct if word not in self._vectors]
        vectors = {word: self._vectors[word] for word in distinct if word in self._vectors}
        if missing:
            vectors.update(zip(missing, self._embedder.embed(missing), strict=True))
        for word in distinct:  # the least recently used are forgotten first
            self._vectors[word] = vectors[word]
            self._vectors.move_to_end(word)
        while len(self._vectors) > self._max_cached:
            self._vectors.popitem(last=False)
        return vectors
