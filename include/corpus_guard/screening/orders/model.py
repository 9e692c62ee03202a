"""Logistic model over the features of a sentence: how likely it gives an order to whoever answers with it.

Two steps, because nearly all sentences are plain: a smaller model over the words and their pieces opens a sentence,
and only then its pairs and concepts are read. The weights are numbers in an ``.npz`` file, read without pickle.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import digest, sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.screening.orders.concepts import lexicon_digest, normalise, split_words
from corpus_guard.screening.orders.features import (
    BUCKETS,
    FEATURES_VERSION,
    MAX_CHARS,
    Buckets,
    Group,
    hash_feature,
    hash_pieces,
    read_features,
)

MODEL_FILE: Final = Path(__file__).parents[1] / "learned" / "orders.npz"


@dataclass(frozen=True)
class OrdersModel:
    """Weights of the features."""

    weights: NDArray[np.float16]
    """Shape (groups, `BUCKETS`)."""
    intercept: float
    opening: NDArray[np.float16]
    """Weights of words and of pieces in the smaller model; shape (2, `BUCKETS`)."""
    opens_at: float
    """Sum of the smaller model from which a sentence is read in full."""
    sheet: dict[str, Any]
    """Data sheet: what it was trained on."""

    def probability(self, sentence: str) -> float:
        """Return how likely a sentence is an order, 0..1; 0 where its words do not open it."""
        return 1 / (1 + math.exp(-self.log_odds(read_features(sentence)))) if self.opens(sentence) else 0.0

    def log_odds(self, features: Buckets) -> float:
        """Return the log-odds of features."""
        return self.intercept + sum(self._sum(group, features[group]) for group in Group)

    def opens(self, sentence: str) -> bool:
        """Return True if the words of a sentence may belong to an order."""
        return self.word_log_odds(sentence) >= self.opens_at

    def word_log_odds(self, sentence: str) -> float:
        """Return the sum of the smaller model."""
        words = set(split_words(normalise(sentence[:MAX_CHARS])))
        weight = piece_weight = 0.0
        number_of_pieces = 0
        for of_word, of_pieces, count in map(self._of_word, words):
            weight += of_word
            piece_weight += of_pieces
            number_of_pieces += count
        return weight / math.sqrt(len(words) or 1) + piece_weight / math.sqrt(number_of_pieces or 1)

    @cached_property
    def _of_word(self) -> Callable[[str], tuple[float, float, int]]:
        of_words, of_pieces = self.opening.astype(np.float64).tolist()

        @lru_cache(maxsize=100_000)
        def weights(word: str) -> tuple[float, float, int]:
            buckets = hash_pieces(word)
            return of_words[hash_feature(word)], sum(of_pieces[bucket] for bucket in buckets), len(buckets)

        return weights

    @cached_property
    def _table(self) -> list[list[float]]:
        table: list[list[float]] = self.weights.astype(np.float64).tolist()
        return table

    def _sum(self, group: Group, buckets: frozenset[int]) -> float:
        weights = self._table[group]
        return sum(weights[bucket] for bucket in buckets) / math.sqrt(len(buckets) or 1)

    def save(self, path: Path) -> None:
        """Write the model."""
        sheet = json.dumps({**self.sheet, "features": FEATURES_VERSION, "lexicon": lexicon_digest()}, sort_keys=True)
        np.savez_compressed(
            path,
            allow_pickle=False,
            weights=self.weights,
            opening=self.opening,
            numbers=np.array([self.intercept, self.opens_at]),
            sheet=np.array(sheet),
        )


def load_orders(path: Path = MODEL_FILE) -> OrdersModel:
    """Read a model.

    Raises:
        SettingsError: the file is missing, damaged, or for other features or another lexicon.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; expected a model that `guard train orders` wrote") from error
    return _load(path, sha256_bytes(content))


def orders_digest(path: Path = MODEL_FILE) -> str:
    """Return the digest of the model's file and of the lexicon."""
    return digest("orders/v1", [sha256_bytes(path.read_bytes()), lexicon_digest(), FEATURES_VERSION])


@lru_cache(maxsize=2)
def _load(path: Path, _digest: str) -> OrdersModel:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            weights, opening, numbers = arrays["weights"], arrays["opening"], arrays["numbers"]
            sheet = json.loads(str(arrays["sheet"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise SettingsError(f"{path}: not a model of orders; train it again with `guard train orders`") from error
    wanted = {"features": FEATURES_VERSION, "lexicon": lexicon_digest()}
    if any(sheet.get(key) != value for key, value in wanted.items()):
        raise SettingsError(f"{path}: was trained with other features or another lexicon; train it again")
    shapes = (weights.shape, opening.shape, numbers.shape)
    expected = ((len(Group), BUCKETS), (2, BUCKETS), (2,))
    if shapes != expected or not all(np.isfinite(array).all() for array in (weights, opening, numbers)):
        raise SettingsError(f"{path}: holds arrays of shapes {shapes}, expected finite ones of {expected}")
    return OrdersModel(weights, float(numbers[0]), opening, float(numbers[1]), sheet)
