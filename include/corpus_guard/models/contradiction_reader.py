"""The reader of contradictions: says whether a post contradicts a page.

It is three models. A small encoder, the sieve, looks at all pairs and drops those that hardly contradict each other. What is left
is read by a larger encoder, beside an excerpt of the page; where that sees a contradiction rather than none, a language model reads the
sentences of the excerpt one by one. The two err on other texts, so that their weighted mean errs less often than either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.cut_language_model import CutLanguageModel
from corpus_guard.models.encoder import MINILM_ENCODER, MPNET_ENCODER
from corpus_guard.models.trained_reader import ReaderKind, ReaderWeights, TrainedReader
from corpus_guard.models.weights import Weights

SIEVE: Final = ReaderKind("contradiction-sieve", "contradictions --model sieve", MINILM_ENCODER, outputs=3)
EXCERPTS: Final = ReaderKind("contradictions", "contradictions", MPNET_ENCODER, outputs=3, rank=32)
SENTENCES: Final = ReaderKind(
    "contradiction-sentences", "contradictions --model sentences", CutLanguageModel(layers=18), outputs=3
)
KINDS: Final = (SIEVE, EXCERPTS, SENTENCES)
CONTRADICTS: Final = 0
"""Output of the unit that says so, before those for the same and for something other."""
TITLE_CHARS: Final = 120
EXCERPT_CHARS: Final = 600
POST_CHARS: Final = 400
"""Read of a title, of an excerpt and of a post."""


@dataclass(frozen=True, slots=True)
class PagePost:
    """Sentences of a page, and what somebody else wrote."""

    title: str
    excerpt: str
    post: str

    @property
    def page(self) -> str:
        """Part of the page that is read."""
        return f"{' '.join(self.title.split())[:TITLE_CHARS]}: {self.excerpt[:EXCERPT_CHARS]}"

    def prompt(self, kind: ReaderKind) -> str:
        """Return what a model reads."""
        post = self.post[:POST_CHARS]
        if kind is not EXCERPTS:
            texts = f"Page: {self.page}\nPost: {post}"
            return texts if kind is SIEVE else f"{texts}\nDoes the post contradict the page? Answer:"
        return f"{' '.join(self.page.removeprefix(': ').split())}\n{post}"


class ContradictionReader:
    """Says how likely a post contradicts an excerpt or a sentence of a page."""

    def __init__(
        self, small: Callable[[], Weights], large: Callable[[], Weights], language_model: Callable[[], Weights]
    ) -> None:
        """Keep where the models come from: none is loaded before something is read.

        Args:
            small: returns the files of the built-in embedder, which the sieve changes.
            large: returns the files of the built-in encoder of pairs.
            language_model: returns the files of the built-in one, converted.
        """
        self._sieve = TrainedReader(small, partial(ReaderWeights.load, SIEVE))
        self._excerpts = TrainedReader(large, partial(ReaderWeights.load, EXCERPTS))
        self._sentences = TrainedReader(language_model, partial(ReaderWeights.load, SENTENCES))

    def glance(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the sieve's log-odds that each post contradicts its excerpt, shape (pairs,)."""
        return self._sieve.log_odds([pair.prompt(SIEVE) for pair in pairs], CONTRADICTS)

    def log_odds(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its excerpt, shape (pairs,)."""
        return self._excerpts.log_odds([pair.prompt(EXCERPTS) for pair in pairs], CONTRADICTS)

    def log_odds_alone(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its excerpt of a single sentence, shape (pairs,)."""
        return self._sentences.log_odds([pair.prompt(SENTENCES) for pair in pairs], CONTRADICTS)
