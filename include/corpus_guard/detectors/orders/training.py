"""Training of the classifier of orders: labelled sentences in, ``screening/learned/orders.npz`` out."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.detectors.orders.honest_texts import read_honest
from corpus_guard.detectors.orders.layer_training import train_layers
from corpus_guard.detectors.orders.texts import OrderText, generate_texts, read_texts, texts_digest
from corpus_guard.domain import Progress, digest, no_progress
from corpus_guard.screening.orders.features import BUCKETS, Buckets, Group, read_features
from corpus_guard.screening.orders.model import OrdersModel, opening_buckets, opening_words

SCALES: Final = {Group.WORDS: 3.0, Group.PAIRS: 3.0, Group.PIECES: 3.0, Group.CONCEPTS: 3.0, Group.SIGNS: 1.0}
"""Weight of a group before the fit: signs alone are no evidence."""
INVERSE_PENALTY: Final = 0.5
OPENING_SCALE: Final = 6.0
OPENED, READ = 0.98, 0.98
"""Shares of the orders caught which the smallest model must open, and which words must leave to the encoder."""
ALARMS: Final = 0.01
"""Share of honest look-alikes of kinds left out that lie above `CERTAIN`."""
CERTAIN: Final = math.log(0.96 / 0.04)
"""Log-odds of 0.96, which thresholds are placed by."""
FRAMES: Final = 2_000
"""Sentences of each label put together from parts."""
HONEST_STATES: Final = 1_500
"""Honest sentences of manuals that the encoder is trained with, drawn at random."""
HARD_STATES: Final = 2_000
"""Honest sentences of manuals and translations that words alone take for orders most: the encoder is trained with them too."""
TRANSLATION_STATES: Final = 500
"""Translations that the encoder is trained with, drawn at random."""
FRAME_STATES: Final = 600
"""Frames of each label that the encoder is trained with."""
FOLDS: Final = 4
"""Parts of the families; without the first, a model is trained that the threshold is placed with."""
NOT_OWN: Final = frozenset({"background", "frames"})


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

    def __init__(
        self, texts: Sequence[OrderText], *, runs: int, seed: int = 0, progress: Progress = no_progress
    ) -> None:
        """Read the features.

        Args:
            texts: labelled sentences.
            runs: trainings of the encoder's layers whose weights are averaged, wherever a model is trained.
            seed: of these trainings.
            progress: told while models are trained.
        """
        from scipy.sparse import csr_matrix

        self._seed, self._runs, self._progress = seed, runs, progress
        self.texts = list(texts)
        self.labels = np.array([text.is_order for text in texts])
        self.is_own = np.array([text.family not in NOT_OWN for text in texts])
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

    @cached_property
    def _opening(self) -> Any:
        """The features of the smallest model: words and their pieces."""
        from scipy.sparse import csr_matrix

        columns: list[int] = []
        values: list[float] = []
        ends = [0]
        for text in self.texts:
            words = [word for part in opening_words(text.text) for word in part]
            share = OPENING_SCALE / math.sqrt(len(words) or 1)
            for word in words:
                bucket, pieces = opening_buckets(word)
                columns += [bucket, *(BUCKETS + piece for piece in sorted(pieces))]
                values += [share, *([share / (len(pieces) or 1)] * len(pieces))]
            ends.append(len(columns))
        return csr_matrix((values, columns, ends), shape=(len(self.texts), 2 * BUCKETS))

    @cached_property
    def read_by_encoder(self) -> NDArray[np.bool_]:
        """True for the sentences that encoder and language model learn from.

        They are the package's own, some of the others, and those most like orders.
        """
        families = np.array([text.family for text in self.texts])
        background, frames = families == "background", families == "frames"
        translated = np.array([text.source == "translations" for text in self.texts])
        chosen = self.is_own.copy()
        for kind, number in (
            (background & ~translated, HONEST_STATES),
            (background & translated, TRANSLATION_STATES),
            (frames & self.labels, FRAME_STATES),
            (frames & ~self.labels, FRAME_STATES),
        ):
            chosen[np.flatnonzero(kind)[:number]] = True
        others = np.flatnonzero(background & ~chosen)
        weights, _ = _fit(self._matrix, self.labels)
        chosen[others[np.argsort(-(self._matrix[others] @ weights), kind="stable")[:HARD_STATES]]] = True
        return chosen

    @cached_property
    def quarter(self) -> NDArray[np.bool_]:
        """True for a quarter of the families, and of the lines of other languages."""
        names = [text.line if text.family in {*NOT_OWN, "languages"} else text.family for text in self.texts]
        return np.array([zlib.crc32(name.encode("utf-8", "replace")) % FOLDS == 0 for name in names])

    @cached_property
    def quarter_log_odds(self) -> NDArray[np.float64]:
        """Log-odds of the own sentences of the quarter, shifted, by words and an encoder that did not see them; else minus infinity."""
        return self._whole_of_quarter + self.shift

    @cached_property
    def _whole_of_quarter(self) -> NDArray[np.float64]:
        return self._judge_quarter(np.ones(len(self.texts), bool))[1]

    def train(self, chosen: NDArray[np.bool_] | None = None) -> OrdersModel:
        """Fit a model to the chosen sentences; None: to all."""
        rows = np.ones(len(self.texts), bool) if chosen is None else chosen
        words, whole, opening = self._judge_quarter(rows)
        shift = self._shift(rows, whole)
        judged, raised = rows & np.isfinite(whole), whole + shift >= CERTAIN
        caught = judged & self.labels & raised
        left_out = {
            "orders": int((judged & self.labels).sum()),
            "caught": int(caught.sum()),
            "honest": int((judged & ~self.labels).sum()),
            "alarms": int((judged & ~self.labels & raised).sum()),
        }
        self._progress("training", FOLDS - 1, FOLDS)
        model = self._train(rows)
        return replace(
            model,
            reading_intercept=model.reading_intercept + shift,
            opens_at=_lowest(opening[caught], OPENED),
            reads_at=_lowest(words[caught], READ),
            sheet={**self._sheet(rows), "left_out": left_out},
        )

    def _train(self, rows: NDArray[np.bool_]) -> OrdersModel:
        weights, intercept = _fit(self._matrix[rows], self.labels[rows])
        scales = np.array([[SCALES[group]] for group in Group])
        opening, _ = _fit(self._opening[rows], self.labels[rows])
        read = np.flatnonzero(rows & self.read_by_encoder)
        trained = train_layers(
            [self.texts[row].text for row in read],
            self.labels[read],
            runs=self._runs,
            seed=self._seed,
            progress=self._progress,
        )
        return OrdersModel(
            (weights.reshape(len(Group), BUCKETS) * scales).astype(np.float16),
            intercept,
            (opening.reshape(2, BUCKETS) * OPENING_SCALE).astype(np.float16),
            -np.inf,
            trained.steps,
            trained.sizes,
            trained.reading,
            trained.intercept,
            -np.inf,
            {},
        )

    def _judge_quarter(self, rows: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
        """Return log-odds of words, log-odds in all, and opening score of own sentences that a training did not see.

        They are a quarter of the families, and of the lines of other languages; the rest is minus infinity.
        """
        left_out = self.quarter
        results = np.full((3, len(self.texts)), -np.inf)
        if len(set(self.labels[rows & ~left_out].tolist())) < 2:
            return tuple(results)
        self._progress("training without a quarter of the families", 0, FOLDS)
        model = self._train(rows & ~left_out)
        judged = np.flatnonzero(rows & left_out & self.is_own)
        for done, row in enumerate(judged):
            self._progress("judging the quarter left out", done, len(judged))
            words = model.log_odds(self.features[row])
            sentence = self.texts[row].text
            results[:, row] = words, model.all_log_odds(words, sentence), model.opening_weights.score(sentence)
        return tuple(results)

    def _shift(self, rows: NDArray[np.bool_], whole: NDArray[np.float64]) -> float:
        """Return what to add to log-odds so that `ALARMS` of the honest look-alikes lie above `CERTAIN`."""
        honest = whole[rows & self.is_own & ~self.labels & np.isfinite(whole)]
        return float(CERTAIN - np.quantile(honest, 1 - ALARMS)) if len(honest) else 0.0

    def log_odds_without(self, left_out: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the log-odds of the sentences left out of training, not yet shifted."""
        model = self._train(~left_out)
        return np.array(
            [
                model.all_log_odds(model.log_odds(self.features[row]), self.texts[row].text)
                for row in np.flatnonzero(left_out)
            ]
        )

    @cached_property
    def shift(self) -> float:
        """What is added to log-odds, from a quarter of all sentences: one number, so that few honest look-alikes alarm."""
        return self._shift(np.ones(len(self.texts), bool), self._whole_of_quarter)

    def _sheet(self, rows: NDArray[np.bool_]) -> dict[str, Any]:
        texts = [self.texts[row] for row in np.flatnonzero(rows)]
        return {
            "texts": texts_digest(),
            "sentences": digest("orders/sentences/v1", [f"{text.is_order:d} {text.text}" for text in texts]),
            "seed": self._seed,
            "runs": self._runs,
            "orders": sum(text.is_order for text in texts),
            "honest": sum(not text.is_order for text in texts),
            "sources": dict(sorted(Counter(text.source for text in texts).items())),
            "families": dict(sorted(Counter(text.family for text in texts).items())),
            "languages": dict(sorted(Counter(text.language for text in texts).items())),
        }


def _fit(features: Any, labels: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Fit a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear", max_iter=200, random_state=0)
    fitted.fit(features, labels)
    return fitted.coef_[0], float(fitted.intercept_[0])


def _lowest(scores: NDArray[np.float64], share: float) -> float:
    """Return the score that this share of them reaches."""
    return float(np.quantile(scores, 1 - share)) if len(scores) else -np.inf
