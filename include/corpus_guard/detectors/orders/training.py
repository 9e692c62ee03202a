"""Training of the classifier of orders: labelled sentences in, three files of ``screening/learned`` out.

They are what words know (``orders.npz``) and both readers (``order_reader.npz``, ``english_order_reader.npz``). All are trained
twice: without a quarter of the families, and with all. The first training shows how the log-odds of words and readers are best
added for sentences of kinds that none of them has seen, and where the thresholds lie.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.detectors.orders.honest_texts import read_honest
from corpus_guard.detectors.orders.texts import OrderText, generate_texts, read_texts, texts_digest
from corpus_guard.detectors.reader_training import Recipe, train_reader
from corpus_guard.domain import Progress, digest, no_progress
from corpus_guard.models.order_reader import (
    ENGLISH_ORDERS,
    ORDERS,
    EnglishOrderReader,
    EnglishSentences,
    OrderReader,
    shorten,
)
from corpus_guard.models.trained_reader import ReaderWeights
from corpus_guard.models.weights import Weights, builtin_multilingual_encoder
from corpus_guard.screening.orders.classifier import SUM, WeightedSum, installed_pair_encoder
from corpus_guard.screening.orders.features import BUCKETS, Buckets, Group, read_features
from corpus_guard.screening.orders.model import MODEL_FILE, OrdersModel, load_orders, opening_buckets, opening_words

SCALES: Final = {Group.WORDS: 3.0, Group.PAIRS: 3.0, Group.PIECES: 3.0, Group.CONCEPTS: 3.0, Group.SIGNS: 1.0}
"""Weight of a group before the fit: signs alone are no evidence."""
INVERSE_PENALTY: Final = 0.5
OPENING_SCALE: Final = 6.0
OPENED, READ, READ_ON = 0.99, 0.98, 0.99
"""Shares of the orders caught which the smallest model must open, words must leave to the first reader, and that to the larger one."""
ALARMS: Final = 0.01
"""Share of honest look-alikes of kinds left out that lie above `CERTAIN`."""
CERTAIN: Final = math.log(0.96 / 0.04)
"""Log-odds of 0.96, which thresholds are placed by."""
FRAMES: Final = 2_000
"""Sentences of each label put together from parts."""
MAX_TRANSLATIONS: Final = 10_000
"""Translations at most: with ten times as many, words tell the sentences of manuals less well from orders."""
HONEST_SENTENCES: Final = 1_500
"""Honest sentences of pages and manuals that the reader is trained with, drawn at random."""
HARD_SENTENCES: Final = 3_000
"""Honest sentences of pages, manuals and translations that words alone take for orders most: the reader is trained with them too."""
TRANSLATION_SENTENCES: Final = 500
"""Translations that the reader is trained with, drawn at random."""
FRAME_SENTENCES: Final = 600
"""Frames of each label that the reader is trained with."""
FOLDS: Final = 4
"""Parts of the families; without the first, a model is trained that the threshold is placed with."""
NOT_OWN: Final = frozenset({"background", "frames"})
RECIPE: Final = Recipe(epochs=2, batch=32, learning_rate=1e-3, unit_learning_rate=3e-3, weight_decay=0.05, dropout=0.2)
ENGLISH_RECIPE: Final = replace(RECIPE, batch=64, learning_rate=6e-4, unit_learning_rate=2e-3)


@dataclass(frozen=True)
class TrainedOrders:
    """The parts of the classifier."""

    model: OrdersModel
    reader: ReaderWeights
    english: ReaderWeights

    def save(self, folder: Path) -> None:
        """Write them into a folder, under the names of the package's own."""
        folder.mkdir(parents=True, exist_ok=True)
        self.model.save(folder / MODEL_FILE.name)
        for reader in (self.reader, self.english):
            reader.save(folder / reader.kind.file.name)

    @classmethod
    def load(cls, folder: Path) -> TrainedOrders:
        """Read them from a folder.

        Raises:
            SettingsError: a file is missing, damaged, or for other models.
        """
        reader, english = (ReaderWeights.load(kind, folder / kind.file.name) for kind in (ORDERS, ENGLISH_ORDERS))
        return cls(load_orders(folder / MODEL_FILE.name), reader, english)


@dataclass(frozen=True)
class Sums:
    """Sums of the log-odds: of words and the first reader, and of all three."""

    both: WeightedSum
    three: WeightedSum

    def of(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-odds of each sentence, shape (sentences,).

        Args:
            answers: log-odds of words and readers, shape (3, sentences); NaN where the larger reader knows not the language.
        """
        both, three = _add(self.both, answers[:2]), _add(self.three, answers)
        return np.where((both >= self.both.read_on_from) & ~np.isnan(three), three, both)


def read_training_texts(
    honest: Sequence[Path], translations: Sequence[Path], number: int, seed: int = 0
) -> list[OrderText]:
    """Return the package's own sentences, those of its frames, and honest ones of the tuning half of files.

    Args:
        translations: folders of message catalogues; used whole, nothing is measured on them.
        number: of honest sentences at most; half as many translations are added, up to `MAX_TRANSLATIONS`.
    """
    own = [*read_texts(seed=seed), *generate_texts(FRAMES, seed=seed)]
    translated = min(number // 2, MAX_TRANSLATIONS)
    return [*own, *read_honest(honest, number, seed), *read_honest(translations, translated, seed, half=None)]


class OrdersData:
    """Labelled sentences with their features."""

    def __init__(
        self,
        texts: Sequence[OrderText],
        *,
        recipes: tuple[Recipe, Recipe] = (RECIPE, ENGLISH_RECIPE),
        runs: int = 1,
        encoder: Callable[[], Weights] = installed_pair_encoder,
        seed: int = 0,
        progress: Progress = no_progress,
    ) -> None:
        """Read the features.

        Args:
            runs: trainings of each whose weights are averaged.
        """
        from scipy.sparse import csr_matrix

        self._seed, self._progress = seed, progress
        self._recipes = [replace(recipe, runs=runs) for recipe in recipes]
        self._encoders = (builtin_multilingual_encoder, encoder)
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
    def read_by_reader(self) -> NDArray[np.bool_]:
        """True for the sentences that the reader learns from.

        They are the package's own, some of the others, and those most like orders.
        """
        families = np.array([text.family for text in self.texts])
        background, frames = families == "background", families == "frames"
        translated = np.array([text.source == "translations" for text in self.texts])
        chosen = self.is_own.copy()
        for kind, number in (
            (background & ~translated, HONEST_SENTENCES),
            (background & translated, TRANSLATION_SENTENCES),
            (frames & self.labels, FRAME_SENTENCES),
            (frames & ~self.labels, FRAME_SENTENCES),
        ):
            chosen[np.flatnonzero(kind)[:number]] = True
        others = np.flatnonzero(background & ~chosen)
        weights, _ = _fit(self._matrix, self.labels)
        chosen[others[np.argsort(-(self._matrix[others] @ weights), kind="stable")[:HARD_SENTENCES]]] = True
        return chosen

    @cached_property
    def _read_by_larger(self) -> NDArray[np.bool_]:
        """True for the English ones among `read_by_reader`."""
        english = EnglishSentences(self._encoders[1])
        chosen = self.read_by_reader.copy()
        chosen[chosen] = [self.texts[row].text in english for row in np.flatnonzero(chosen)]
        return chosen

    @cached_property
    def quarter(self) -> NDArray[np.bool_]:
        """True for a quarter of the families, and of the lines of other languages."""
        names = [text.line if text.family in {*NOT_OWN, "languages"} else text.family for text in self.texts]
        return np.array([zlib.crc32(name.encode("utf-8", "replace")) % FOLDS == 0 for name in names])

    def train(self) -> TrainedOrders:
        """Train words and readers, and place the thresholds."""
        model, judged, answers = self._judge_quarter
        labels, sums = self.labels[judged], self.sums
        raised = sums.of(answers) >= CERTAIN
        opening = np.array([model.opening_weights.score(self.texts[row].text) for row in judged])
        opens_at, reads_at = _lowest(opening[labels & raised], OPENED), _lowest(answers[0][labels & raised], READ)
        raised &= (opening >= opens_at) & (answers[0] >= reads_at)
        left_out = {
            "orders": int(labels.sum()),
            "caught": int((raised & labels).sum()),
            "honest": int((~labels).sum()),
            "alarms": int((raised & ~labels).sum()),
        }
        rows = np.ones(len(self.texts), bool)
        trained = replace(
            self._train_words(rows), opens_at=opens_at, reads_at=reads_at, sheet={**self._sheet(), "left_out": left_out}
        )
        reader, english = (
            replace(weights, sheet={**weights.sheet, SUM: added.to_record()})
            for weights, added in zip(self._train_readers(rows), (sums.both, sums.three), strict=True)
        )
        return TrainedOrders(trained, reader, english)

    @cached_property
    def sums(self) -> Sums:
        """Sums of the log-odds, fitted to the quarter that nothing was trained on."""
        _, judged, answers = self._judge_quarter
        return fit_sums(answers, self.labels[judged])

    def log_odds_without(self, left_out: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the log-odds of the sentences left out of training."""
        return self.sums.of(self._judge(~left_out, np.flatnonzero(left_out))[1])

    @cached_property
    def _judge_quarter(self) -> tuple[OrdersModel, NDArray[np.intp], NDArray[np.float64]]:
        """Model of words that did not see the quarter, the rows of its own sentences, and their log-odds."""
        self._progress("training without a quarter of the families", 0, 1)
        judged = np.flatnonzero(self.quarter & self.is_own)
        model, answers = self._judge(~self.quarter, judged)
        return model, judged, answers

    def _judge(
        self, trained_on: NDArray[np.bool_], judged: NDArray[np.intp]
    ) -> tuple[OrdersModel, NDArray[np.float64]]:
        """Return what words know after a training, and the log-odds of other sentences as `Sums.of` takes them."""
        model = self._train_words(trained_on)
        answers = np.empty((3, len(judged)))
        answers[0] = [model.log_odds(self.features[row]) for row in judged]
        read = [self.texts[row].text for row in judged]
        first, second = self._train_readers(trained_on)
        answers[1] = OrderReader(self._encoders[0], lambda: first).log_odds(read)
        answers[2] = EnglishOrderReader(self._encoders[1], lambda: second).log_odds(read)
        return model, answers

    def _train_words(self, rows: NDArray[np.bool_]) -> OrdersModel:
        weights, intercept = _fit(self._matrix[rows], self.labels[rows])
        scales = np.array([[SCALES[group]] for group in Group])
        opening, _ = _fit(self._opening[rows], self.labels[rows])
        return OrdersModel(
            (weights.reshape(len(Group), BUCKETS) * scales).astype(np.float16),
            intercept,
            (opening.reshape(2, BUCKETS) * OPENING_SCALE).astype(np.float16),
            -np.inf,
            -np.inf,
            {},
        )

    def _train_readers(self, rows: NDArray[np.bool_]) -> list[ReaderWeights]:
        """Train each reader with those of the rows that it reads."""
        trained = []
        kinds = ((ORDERS, self.read_by_reader), (ENGLISH_ORDERS, self._read_by_larger))
        for (kind, chosen), encoder, recipe in zip(kinds, self._encoders, self._recipes, strict=True):
            order = np.random.default_rng(self._seed).permutation(np.flatnonzero(rows & chosen))
            examples = [(shorten(self.texts[row].text), int(self.labels[row])) for row in order]
            orders = int(self.labels[order].sum())
            sheet = {"texts": texts_digest(), "orders": orders, "honest": len(order) - orders}
            trained.append(
                train_reader(kind, examples, encoder(), sheet, recipe, seed=self._seed, progress=self._progress)
            )
        return trained

    def _sheet(self) -> dict[str, Any]:
        texts = self.texts
        return {
            "texts": texts_digest(),
            "sentences": digest("orders/sentences/v1", [f"{text.is_order:d} {text.text}" for text in texts]),
            "seed": self._seed,
            "orders": sum(text.is_order for text in texts),
            "honest": sum(not text.is_order for text in texts),
            "sources": dict(sorted(Counter(text.source for text in texts).items())),
            "families": dict(sorted(Counter(text.family for text in texts).items())),
            "languages": dict(sorted(Counter(text.language for text in texts).items())),
        }


def fit_sums(answers: NDArray[np.float64], labels: NDArray[np.bool_]) -> Sums:
    """Return how the log-odds are added, so that `ALARMS` of the honest sentences lie above `CERTAIN`.

    The sum of words and first reader decides alone about other languages than English, and is placed by them.

    Args:
        answers: as `Sums.of` takes them, of sentences of kinds that nothing was trained with.
        labels: True for orders.
    """
    is_english = ~np.isnan(answers[2])
    both = _fit_sum(answers[:2], labels, placed_by=~is_english)
    answers, labels = answers[:, is_english], labels[is_english]
    three = _fit_sum(answers, labels, placed_by=np.ones(len(labels), bool))
    caught = labels & (_add(three, answers) >= CERTAIN)
    read_on_from = _lowest(_add(both, answers[:2])[caught], READ_ON) if caught.any() else 0.0
    return Sums(replace(both, read_on_from=read_on_from), three)


def _fit_sum(answers: NDArray[np.float64], labels: NDArray[np.bool_], placed_by: NDArray[np.bool_]) -> WeightedSum:
    """Return weights that suit all sentences, and what is added for those that place the sum; for all if none of them is honest."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=1.0).fit(answers.T, labels)
    weights = WeightedSum(tuple(map(float, fitted.coef_[0])), 0.0)
    honest = ~labels & placed_by if (~labels & placed_by).any() else ~labels
    return replace(weights, added=float(CERTAIN - np.quantile(_add(weights, answers[:, honest]), 1 - ALARMS)))


def _add(weighted: WeightedSum, answers: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array([weighted.of(*each) for each in answers.T])


def _fit(features: Any, labels: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
    """Fit a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear", max_iter=200, random_state=0)
    fitted.fit(features, labels)
    return fitted.coef_[0], float(fitted.intercept_[0])


def _lowest(scores: NDArray[np.float64], share: float) -> float:
    """Return the score that this share of them reaches."""
    return float(np.quantile(scores, 1 - share)) if len(scores) else -np.inf
