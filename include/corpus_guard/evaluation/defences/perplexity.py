"""Removal by perplexity (PPL): texts that surprise a language model more than the corpus's own do are taken out.

The threshold is the maximum (PPL-100) or the 90th percentile (PPL-90) of random texts of the corpus (section 5.1.3 of the traceback paper).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.defences.defence import Means, Played, texts_of
from corpus_guard.traceback.asking import Answers

MOST = 100  # texts read for one question at most: where all are removed, the search ends


class PerplexityRemoval:
    """PPL-x."""

    def __init__(self, threshold: float, perplexities: Callable[[Sequence[str]], Sequence[float]]) -> None:
        """Remove what has a perplexity above `threshold`."""
        self.threshold = threshold
        self._perplexities = perplexities

    @classmethod
    def beyond(cls, percentile: float, means: Means) -> PerplexityRemoval:
        """With a percentile (0..100) of the corpus's own texts as threshold.

        Raises:
            Misuse: there are none.
        """
        import numpy as np

        if not means.ordinary:
            raise Misuse("perplexity: no texts of the corpus to take a threshold from; give some")
        own = means.perplexities(list(means.ordinary))
        return cls(float(np.percentile(np.asarray(own), percentile)), means.perplexities)

    def __call__(self, played: Played, answers: Answers) -> str:
        """From the K nearest that are left; others move up for what is removed."""
        removed: set[str] = set()
        seen: set[str] = set()
        while True:
            found = played.retrieve(played.k, frozenset(removed))
            new = [one for one in found if one.chunk_id not in seen]
            seen |= {one.chunk_id for one in new}
            scores = self._perplexities(texts_of(new)) if new else []
            odd = {one.chunk_id for one, score in zip(new, scores, strict=True) if not score <= self.threshold}
            removed |= odd
            if not odd or len(seen) > MOST:
                left = [one for one in found if one.chunk_id not in removed]
                return answers.answer(played.question, texts_of(left))
