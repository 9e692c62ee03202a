"""Shares of texts with intervals that are drawn by question.

Rules
    * the texts of one question are judged alike: an error seldom comes alone. So whole questions are drawn, with
      repetition, and the interval holds the middle 95 % of the shares (the percentile bootstrap of clusters;
      Davison and Hinkley 1997, sections 3.8 and 5.3). The draws have a fixed seed;
    * a question without a text to count is not drawn;
    * where every question has the same share, all draws are alike and say nothing. If that share is 0 or 1, the
      interval is Wilson's of the questions, each counted once; otherwise it is Wilson's of the texts.

An interval of few questions is rough: with fewer than about 20 the bootstrap is too narrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from corpus_guard.screening.calibration import wilson_interval
from corpus_guard.tracking.measures import CountedShare

DRAWS: Final = 4_000
SEED: Final = 0
BLOCK: Final = 500  # draws at a time; they take 8 bytes a question each


@dataclass(frozen=True, slots=True)
class QuestionShare(CountedShare):
    """Share of the texts of several questions."""

    questions: tuple[tuple[int, int], ...]  # hits and texts of each question that has texts

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval, drawn by question."""
        if len({hits / texts for hits, texts in self.questions}) > 1:
            return _draw_interval(self.questions)
        if self.hits in {0, self.n}:
            return wilson_interval(sum(hits > 0 for hits, _ in self.questions), len(self.questions))
        return wilson_interval(self.hits, self.n)


def share_by_question(counts: Iterable[tuple[int, int]]) -> QuestionShare:
    """Return the share of all questions together.

    Args:
        counts: hits and texts of each question.
    """
    questions = tuple((hits, texts) for hits, texts in counts if texts)
    return QuestionShare(sum(hits for hits, _ in questions), sum(texts for _, texts in questions), questions)


def _draw_interval(questions: tuple[tuple[int, int], ...]) -> tuple[float, float]:
    import numpy as np

    counts = np.array(questions, np.float64)
    draw = np.random.default_rng(SEED)
    shares = []
    for _ in range(DRAWS // BLOCK):
        drawn = draw.multinomial(len(counts), np.full(len(counts), 1 / len(counts)), BLOCK) @ counts
        shares.append(drawn[:, 0] / drawn[:, 1])
    low, high = np.quantile(np.concatenate(shares), (0.025, 0.975))
    return float(low), float(high)
