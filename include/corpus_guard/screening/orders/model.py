"""Two models over the words of a sentence, each for what the one before lets through: may it give an order to whoever answers with it?

Nearly all sentences are plain. A weight for each word, summed over a sentence, opens a text and a sentence; a logistic model
over words, pairs and concepts reads what is open. What it does not rule out is read by an encoder
(`corpus_guard.screening.orders.classifier`). The weights are numbers in an ``.npz`` file, read without pickle.
"""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import digest, sha256_bytes
from corpus_guard.errors import SettingsError
from corpus_guard.screening.orders.concepts import UNSPACED_LETTERS, lexicon_digest, normalise
from corpus_guard.screening.orders.features import (
    BUCKETS,
    FEATURES_VERSION,
    Buckets,
    Group,
    hash_feature,
    hash_pieces,
    read_features,
)

MODEL_FILE: Final = Path(__file__).parents[1] / "learned" / "orders.npz"
MAX_WORDS: Final = 200_000
"""Words whose weights are kept."""
MAX_SENTENCES: Final = 20_000
"""Sentences whose answers are kept: pages repeat their footers."""
MAX_TOGETHER: Final = 24
"""Words that open a text together; more are read in parts that overlap by half."""
_STOPS: Final = ("? ", "! ", "; ", ".\n", "\n\n", "。", "！", "？")
_UNSPACED: Final = re.compile(f"[{UNSPACED_LETTERS}]")
_MARKS: Final = ".,:;!?\"'`*_#()[]{}<>|\u2026\u201c\u201d\u201e\u2018\u2019«»-"


class OpeningWeights(dict[str, float]):
    """Weight of each word in the smallest model, computed when it is first read."""

    def __init__(self, tables: NDArray[np.floating]) -> None:
        """Keep the tables of words and of pieces, shape (2, `BUCKETS`)."""
        super().__init__()
        self._words, self._pieces = _rows(tables)

    def __missing__(self, word: str) -> float:
        if len(self) >= MAX_WORDS:
            self.clear()
        bucket, pieces = opening_buckets(word)
        weight: float = self._words[bucket] + sum(map(self._pieces.__getitem__, pieces)) / (len(pieces) or 1)
        self[word] = weight
        return weight

    def score(self, text: str) -> float:
        """Return the highest sum of a sentence's words, each divided by the square root of how many there are."""
        return max(
            (sum(map(self.__getitem__, words)) / math.sqrt(len(words)) for words in opening_words(text)),
            default=-math.inf,
        )


def opening_words(text: str) -> Iterator[list[str]]:
    """Yield the words of each sentence, roughly cut, as white space parts them; at most `MAX_TOGETHER` words.

    Letters of scripts without spaces stand each for itself.
    """
    plain = text.lower() if text.isascii() else _UNSPACED.sub(r" \g<0> ", normalise(text))
    for mark in _STOPS:
        plain = plain.replace(mark, ". ")
    for part in plain.split(". "):
        words = part.split()
        if len(words) <= MAX_TOGETHER:
            if words:
                yield words
        else:
            yield from (words[start : start + MAX_TOGETHER] for start in range(0, len(words), MAX_TOGETHER // 2))


def _rows(tables: NDArray[np.floating]) -> list[memoryview[float]]:
    """Return each row, read without making a number of every weight first: most are never read."""
    return [memoryview(row) for row in tables.astype(np.float64)]


def opening_buckets(word: str) -> tuple[int, frozenset[int]]:
    """Return the bucket of a word without its marks, and those of its pieces."""
    bare = word.strip(_MARKS)
    return hash_feature(bare), hash_pieces(bare)


@dataclass(frozen=True)
class OrdersModel:
    """Weights of the features."""

    weights: NDArray[np.float16]
    """Shape (groups, `BUCKETS`)."""
    intercept: float
    opening: NDArray[np.float16]
    """Weights of words and of pieces in the smallest model; shape (2, `BUCKETS`)."""
    opens_at: float
    """Score of the smallest model from which a sentence is read."""
    reads_at: float
    """Log-odds of words and concepts from which a sentence is read by the encoder too."""
    sheet: dict[str, Any]
    """Data sheet: what it was trained on."""

    def judge(self, sentence: str) -> float:
        """Return the log-odds that a sentence is an order, by its words; minus infinity where they rule it out."""
        return self._judge(sentence) if self.opens(sentence) else -math.inf

    def opens(self, text: str) -> bool:
        """Return True if the words of a text, or of a sentence, may belong to an order."""
        return self.opening_weights.score(text) >= self.opens_at

    def log_odds(self, features: Buckets) -> float:
        """Return the log-odds of words, pairs and concepts."""
        return self.intercept + sum(self._sum(group, features[group]) for group in Group)

    @cached_property
    def opening_weights(self) -> OpeningWeights:
        """Weights of the smallest model, by word."""
        return OpeningWeights(self.opening)

    @cached_property
    def _judge(self) -> Callable[[str], float]:
        @lru_cache(maxsize=MAX_SENTENCES)
        def judge(sentence: str) -> float:
            words = self.log_odds(read_features(sentence))
            return words if words >= self.reads_at else -math.inf

        return judge

    @cached_property
    def _table(self) -> list[memoryview[float]]:
        return _rows(self.weights)

    def _sum(self, group: Group, buckets: frozenset[int]) -> float:
        return sum(map(self._table[group].__getitem__, buckets)) / math.sqrt(len(buckets) or 1)

    def save(self, path: Path) -> None:
        """Write the model."""
        sheet = json.dumps({**self.sheet, **_made_for()}, sort_keys=True)
        with path.open("wb") as stream:
            np.savez_compressed(
                stream,
                allow_pickle=False,
                weights=self.weights,
                opening=self.opening,
                numbers=np.array([self.intercept, self.opens_at, self.reads_at]),
                sheet=np.array(sheet),
            )


def _made_for() -> dict[str, str]:
    return {"features": FEATURES_VERSION, "lexicon": lexicon_digest()}


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


def orders_digest() -> str:
    """Return the digest of the model's file and of the lexicon."""
    return digest("orders/v5", [sha256_bytes(MODEL_FILE.read_bytes()), *_made_for().values()])


@lru_cache(maxsize=2)
def _load(path: Path, _digest: str) -> OrdersModel:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            weights, opening, numbers = (arrays[name] for name in ("weights", "opening", "numbers"))
            sheet = json.loads(str(arrays["sheet"]))
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise SettingsError(f"{path}: not a model of orders; train it again with `guard train orders`") from error
    if any(sheet.get(key) != value for key, value in _made_for().items()):
        raise SettingsError(f"{path}: was trained with other features or another lexicon; train it again")
    shapes = tuple(array.shape for array in (weights, opening, numbers))
    expected = ((len(Group), BUCKETS), (2, BUCKETS), (3,))
    if shapes != expected or not all(np.isfinite(array).all() for array in (weights, opening, numbers)):
        raise SettingsError(f"{path}: holds arrays of shapes {shapes}, expected finite ones of {expected}")
    intercept, opens_at, reads_at = numbers.tolist()
    return OrdersModel(weights, intercept, opening, opens_at, reads_at, sheet)
