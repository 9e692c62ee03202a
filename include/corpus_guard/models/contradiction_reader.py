"""The reader of contradictions: says whether a post contradicts a page.

It is two models of one base: the first reads an excerpt of the page, the second reads its sentences one by one, where the first
is in doubt. Their mean errs less often than either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.cut_language_model import CutLanguageModel
from corpus_guard.models.trained_reader import ReaderKind, ReaderWeights, TrainedReader
from corpus_guard.models.weights import Weights

EXCERPTS: Final = ReaderKind("contradictions", "contradictions", CutLanguageModel(layers=18), outputs=3, rank=32)
SENTENCES: Final = ReaderKind(
    "contradiction-sentences", "contradictions --sentences", CutLanguageModel(layers=18), outputs=3
)
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
    def prompt(self) -> str:
        """What the model reads."""
        page = f"{' '.join(self.title.split())[:TITLE_CHARS]}: {self.excerpt[:EXCERPT_CHARS]}"
        return f"Page: {page}\nPost: {self.post[:POST_CHARS]}\nDoes the post contradict the page? Answer:"


class ContradictionReader:
    """Says how likely a post contradicts an excerpt or a sentence of a page."""

    def __init__(
        self,
        language_model: Callable[[], Weights],
        excerpts: Callable[[], ReaderWeights],
        sentences: Callable[[], ReaderWeights],
    ) -> None:
        """Keep where the models come from; the arguments are those of two `TrainedReader`s of one language model."""
        self._excerpts = TrainedReader(language_model, excerpts)
        self._sentences = TrainedReader(language_model, sentences)

    def log_odds(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its excerpt, shape (pairs,)."""
        return self._excerpts.log_odds([pair.prompt for pair in pairs], CONTRADICTS)

    def log_odds_alone(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        """Return the log-odds that each post contradicts its excerpt of a single sentence, shape (pairs,)."""
        return self._sentences.log_odds([pair.prompt for pair in pairs], CONTRADICTS)
