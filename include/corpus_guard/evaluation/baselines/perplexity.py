"""PPL-100 and PPL-90: a text is poisoned if its perplexity exceeds that of texts of the corpus.

The threshold is the highest perplexity, or the 90th percentile, of 1,000 texts of the corpus, chosen by a
seed. The paper measures with Llama-2-7b; here the small language model measures. Perplexity misses texts that
were written to read well, which is the paper's point. Scoring the sample takes about three minutes on one
core.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import digest
from corpus_guard.errors import JudgeFailed
from corpus_guard.evaluation.baselines.interface import UncalibratedJudge
from corpus_guard.ledger.states import Label
from corpus_guard.models import Models
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

SAMPLE_SIZE = 1_000  # texts


class Perplexities:
    """Perplexity of texts, and of a `sample` of the corpus."""

    def __init__(self, models: Models, texts: Sequence[str], seed: int = 0, sample: int = SAMPLE_SIZE) -> None:
        """Measure with the language model of `models`, and take a sample of `texts` by `seed`."""
        self._models = models
        distinct = sorted(set(texts))  # neither order nor copies change the sample
        chance = random.Random(seed)  # noqa: S311 - a sample, no secret
        self.sample = chance.sample(distinct, min(sample, len(distinct)))
        self._scored: dict[str, float] = {}

    @property
    def digest(self) -> str:
        """Model, and hash of the sample."""
        return f"slm-{self._models.language_model_digest[:12]}/{digest('sample/v1', self.sample)[:12]}"

    @cached_property
    def of_the_corpus(self) -> NDArray[np.float64]:
        """Perplexities of the sample, ascending.

        Raises:
            JudgeFailed: the corpus has no text.
        """
        if not self.sample:
            raise JudgeFailed(
                "perplexity: the corpus has no texts, expected at least one to take a threshold from; index "
                "a corpus first"
            )
        return np.sort(self.of(self.sample))

    def of(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return perplexities, shape (len(texts),), at least 1; 1 for a text of fewer than two tokens."""
        missing = [text for text in dict.fromkeys(texts) if text not in self._scored]
        for text, nll in zip(missing, self._models.language_model.surprisals(missing) if missing else [], strict=True):
            self._scored[text] = float(np.exp(nll.mean())) if len(nll) else 1.0
        return np.array([self._scored[text] for text in texts], np.float64)


class PPL(UncalibratedJudge):
    """Judge that compares each text with the corpus."""

    def __init__(self, perplexities: Perplexities, percentile: int) -> None:
        """Take the `percentile` of the corpus, 0..100, as the threshold."""
        self._perplexities = perplexities
        self._percentile = percentile

    @property
    def name(self) -> str:
        """Name with the percentile."""
        return f"ppl-{self._percentile}"

    @property
    def digest(self) -> str:
        """Percentile, model, and hash of the sample."""
        return f"{self.name}/{self._perplexities.digest}"

    @cached_property
    def threshold(self) -> float:
        """Perplexity that a poisoned text exceeds."""
        return float(np.percentile(self._perplexities.of_the_corpus, self._percentile))

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return an opinion of each new text, scored by the share of the corpus with a lower perplexity."""
        corpus = self._perplexities.of_the_corpus
        return [
            Opinion(
                Label.POISONED if value > self.threshold else Label.BENIGN,
                float(np.searchsorted(corpus, value) / len(corpus)),
                f"perplexity {value:.1f}, threshold {self.threshold:.1f}",
            )
            for value in self._perplexities.of([text.text for text in new])
        ]
