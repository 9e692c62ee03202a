"""Training of the classifier of orders: labelled sentences in, ``screening/learned/orders.npz`` out."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.detectors.orders.honest_texts import read_honest
from corpus_guard.detectors.orders.texts import OrderText, generate_texts, read_texts, texts_digest
from corpus_guard.screening.orders.features import BUCKETS, Buckets, Group, read_features
from corpus_guard.screening.orders.model import OrdersModel

SCALES: Final = {Group.WORDS: 3.0, Group.PAIRS: 3.0, Group.PIECES: 3.0, Group.CONCEPTS: 3.0, Group.SIGNS: 1.0}
"""Weight of a group before the fit: signs alone are no evidence."""
INVERSE_PENALTY: Final = 0.5
OPENED: Final = 0.98
"""Share of the orders above `SEEN` which the smaller model must open."""
FRAMES: Final = 2_000
"""Sentences of each label put together from parts."""
FOLDS: Final = 3
OPENING_GROUPS: Final = (Group.WORDS, Group.PIECES)
SEEN: Final = 1.7
"""Log-odds of 0.85."""


def read_training_texts(
    honest: Sequence[Path], translations: Sequence[Path], number: int, seed: int = 0
) -> list[OrderText]:
    """Return the package's own sentences, those of its frames, and honest ones of the tuning half of files.

    Args:
        honest: folders and files of honest texts.
        translations: folders of message catalogues; used whole, nothing is measured on them.
        number: of sentences at most, of texts and of translations each.
        seed: of the sample.
    """
    own = [*read_texts(seed=seed), *generate_texts(FRAMES, seed=seed)]
    return [*own, *read_honest(honest, number, seed), *read_honest(translations, number // 2, seed, half=None)]


class OrdersData:
    """Labelled sentences with their features."""

    def __init__(self, texts: Sequence[OrderText]) -> None:
        from scipy.sparse import csr_matrix

        self.texts = list(texts)
        self.labels = np.array([text.is_order for text in texts])
        self.features: list[Buckets] = [read_features(text.text) for text in texts]
        columns: list[int] = []
        values: list[float] = []
        ends = [0]
        for buckets in self.features:
            for group in Group:
                columns += [group * BUCKETS + bucket for bucket in sorted(buckets[group])]
                values += [SCALES[group] / np.sqrt(len(buckets[group]) or 1)] * len(buckets[group])
            ends.append(len(columns))
        self._matrix: Any = csr_matrix((values, columns, ends), shape=(len(self.texts), len(Group) * BUCKETS))

    def train(self, chosen: NDArray[np.bool_] | None = None) -> OrdersModel:
        """Fit a model to the chosen sentences; None: to all."""
        rows = np.ones(len(self.texts), bool) if chosen is None else chosen
        model = self._train(rows)
        return replace(model, opens_at=self._opening_limit(rows), sheet=self._sheet(rows))

    def _train(self, rows: NDArray[np.bool_]) -> OrdersModel:
        weights, intercept = self._fit(rows, tuple(Group))
        opening, _ = self._fit(rows, OPENING_GROUPS)
        return OrdersModel(weights, intercept, opening[list(OPENING_GROUPS)], -np.inf, {})

    def _opening_limit(self, rows: NDArray[np.bool_]) -> float:
        """Return the limit of the smaller model, from sentences that the models were not fitted to."""
        folds = np.array([zlib.crc32(text.line.encode("utf-8", "replace")) % FOLDS for text in self.texts])
        seen: list[float] = []
        for fold in range(FOLDS):
            model = self._train(rows & (folds != fold))
            seen += [
                model.word_log_odds(self.texts[row].text)
                for row in np.flatnonzero(rows & (folds == fold) & self.labels)
                if model.log_odds(self.features[row]) > SEEN
            ]
        return float(np.quantile(seen, 1 - OPENED)) if seen else -np.inf

    def _fit(self, rows: NDArray[np.bool_], groups: Sequence[Group]) -> tuple[NDArray[np.float16], float]:
        """Fit a logistic regression over some groups; the weights of the others are 0."""
        from sklearn.linear_model import LogisticRegression

        columns = np.concatenate([np.arange(group * BUCKETS, (group + 1) * BUCKETS) for group in groups])
        fitted = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear", max_iter=200, random_state=0)
        fitted.fit(self._matrix[rows][:, columns], self.labels[rows])
        weights = np.zeros((len(Group), BUCKETS))
        weights[list(groups)] = fitted.coef_[0].reshape(len(groups), BUCKETS)
        scales = np.array([[SCALES[group]] for group in Group])
        return (weights * scales).astype(np.float16), float(fitted.intercept_[0])

    def log_odds_without(self, left_out: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the log-odds of the sentences left out of training."""
        weights, intercept = self._fit(~left_out, tuple(Group))
        model = OrdersModel(weights, intercept, np.zeros((2, BUCKETS), np.float16), -np.inf, {})
        return np.array([model.log_odds(self.features[row]) for row in np.flatnonzero(left_out)])

    def _sheet(self, rows: NDArray[np.bool_]) -> dict[str, Any]:
        texts = [self.texts[row] for row in np.flatnonzero(rows)]
        return {
            "texts": texts_digest(),
            "orders": sum(text.is_order for text in texts),
            "honest": sum(not text.is_order for text in texts),
            "sources": dict(sorted(Counter(text.source for text in texts).items())),
            "families": dict(sorted(Counter(text.family for text in texts).items())),
            "languages": dict(sorted(Counter(text.language for text in texts).items())),
        }
