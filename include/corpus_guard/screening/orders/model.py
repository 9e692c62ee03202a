"""Three models over a sentence, each for what the one before lets through: how likely it gives an order to whoever answers with it.

Nearly all sentences are plain. A weight for each word, summed over a sentence, opens a text and a sentence; a logistic model
over words, pairs and concepts reads what is open; what it does not rule out is read by the sentence encoder, four layers of
which are trained for it, and the log-odds are added, those of the words at three quarters of their weight. In scripts
that the encoder does not know, the words are enough where they say more. The weights are numbers in an ``.npz`` file,
read without pickle.
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
from corpus_guard.models.question_embedder import QuestionEmbedder
from corpus_guard.screening.orders.concepts import lexicon_digest, normalise
from corpus_guard.screening.orders.encoder import (
    ENCODER_DIGEST,
    TRAINED_SHAPES,
    WIDTH,
    Tensors,
    read_state,
    with_changes,
)
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


_STEPS, _SIZES = "steps.", "sizes."
MAX_WORDS: Final = 200_000
"""Words whose weights are kept."""
MAX_SENTENCES: Final = 20_000
"""Sentences whose answers are kept: pages repeat their footers."""
WORDS_SHARE: Final = 0.75
"""Weight of the log-odds of words beside those of the encoder: less, and other languages are missed; more, and new English words."""
MAX_TOGETHER: Final = 40
"""Words that open a text together; more are read in parts that overlap by half."""
_STOPS: Final = ("? ", "! ", "; ", ".\n", "\n\n", "。", "！", "？")
_UNSPACED: Final = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff]")
_MARKS: Final = ".,:;!?\"'`*_#()[]{}<>|\u2026\u201c\u201d\u201e\u2018\u2019«»-"


class OpeningWeights(dict[str, float]):
    """Weight of each word in the smallest model, computed when it is first read."""

    def __init__(self, tables: NDArray[np.floating]) -> None:
        """Keep the tables of words and of pieces, shape (2, `BUCKETS`)."""
        super().__init__()
        self._words, self._pieces = tables.astype(np.float64).tolist()

    def __missing__(self, word: str) -> float:
        if len(self) >= MAX_WORDS:
            self.clear()
        bucket, pieces = opening_buckets(word)
        weight: float = self._words[bucket] + sum(self._pieces[piece] for piece in pieces) / (len(pieces) or 1)
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
    steps: Tensors
    """Change of each weight of the encoder, in steps."""
    sizes: Tensors
    """Size of a step, for each row of the encoder's weights."""
    reading: NDArray[np.float32]
    """Weights of the encoder's state; shape (`WIDTH`,)."""
    reading_intercept: float
    reads_at: float
    """Log-odds of words and concepts from which the encoder reads a sentence too."""
    sheet: dict[str, Any]
    """Data sheet: what it was trained on."""

    def judge(self, sentence: str) -> float:
        """Return the log-odds that a sentence is an order; minus infinity where its words do not open it."""
        return self._judge(sentence) if self.opens(sentence) else -math.inf

    def opens(self, text: str) -> bool:
        """Return True if the words of a text, or of a sentence, may belong to an order."""
        return self.opening_weights.score(text) >= self.opens_at

    def log_odds(self, features: Buckets) -> float:
        """Return the log-odds of words, pairs and concepts."""
        return self.intercept + sum(self._sum(group, features[group]) for group in Group)

    def all_log_odds(self, words: float, sentence: str) -> float:
        """Return the log-odds of a sentence that the encoder reads.

        Args:
            words: log-odds of its words, pairs and concepts.
            sentence: itself.
        """
        return WORDS_SHARE * words + float(read_state(self._encoder, sentence) @ self.reading) + self.reading_intercept

    @cached_property
    def _encoder(self) -> QuestionEmbedder:
        return with_changes(self.steps, self.sizes)

    @cached_property
    def opening_weights(self) -> OpeningWeights:
        """Weights of the smallest model, by word."""
        return OpeningWeights(self.opening)

    @cached_property
    def _judge(self) -> Callable[[str], float]:
        @lru_cache(maxsize=MAX_SENTENCES)
        def judge(sentence: str) -> float:
            words = self.log_odds(read_features(sentence))
            if words < self.reads_at:
                return -math.inf
            whole = self.all_log_odds(words, sentence)
            return max(words, whole) if is_other_script(sentence) else whole

        return judge

    @cached_property
    def _table(self) -> list[list[float]]:
        table: list[list[float]] = self.weights.astype(np.float64).tolist()
        return table

    def _sum(self, group: Group, buckets: frozenset[int]) -> float:
        weights = self._table[group]
        return sum(weights[bucket] for bucket in buckets) / math.sqrt(len(buckets) or 1)

    def save(self, path: Path) -> None:
        """Write the model."""
        sheet = json.dumps({**self.sheet, **_made_for()}, sort_keys=True)
        with path.open("wb") as stream:
            np.savez_compressed(
                stream,
                allow_pickle=False,
                weights=self.weights,
                opening=self.opening,
                reading=self.reading,
                numbers=np.array([self.intercept, self.opens_at, self.reading_intercept, self.reads_at]),
                sheet=np.array(sheet),
                **{_STEPS + name: tensor for name, tensor in self.steps.items()},
                **{_SIZES + name: tensor for name, tensor in self.sizes.items()},
            )


def is_other_script(sentence: str) -> bool:
    """Return True if most letters are not Latin: the encoder's vocabulary is English, and there it only spells."""
    if sentence.isascii():
        return False
    latin = [letter < "\u0370" for letter in sentence if letter.isalpha()]
    return sum(latin) * 2 < len(latin)


def _made_for() -> dict[str, str]:
    return {"features": FEATURES_VERSION, "lexicon": lexicon_digest(), "encoder": ENCODER_DIGEST}


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
    return digest("orders/v4", [sha256_bytes(path.read_bytes()), *_made_for().values()])


@lru_cache(maxsize=2)
def _load(path: Path, _digest: str) -> OrdersModel:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            weights, opening, reading, numbers = (arrays[name] for name in ("weights", "opening", "reading", "numbers"))
            steps, sizes = ({name: arrays[part + name] for name in TRAINED_SHAPES} for part in (_STEPS, _SIZES))
            sheet = json.loads(str(arrays["sheet"]))
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise SettingsError(f"{path}: not a model of orders; train it again with `guard train orders`") from error
    if any(sheet.get(key) != value for key, value in _made_for().items()):
        raise SettingsError(f"{path}: was trained with other features, another lexicon or encoder; train it again")
    arrays_read = (weights, opening, reading, numbers, *steps.values(), *sizes.values())
    shapes = tuple(array.shape for array in arrays_read)
    of_sizes = ((*shape[:-1], 1) for shape in TRAINED_SHAPES.values())
    expected = ((len(Group), BUCKETS), (2, BUCKETS), (WIDTH,), (4,), *TRAINED_SHAPES.values(), *of_sizes)
    if shapes != expected or not all(np.isfinite(array).all() for array in arrays_read):
        raise SettingsError(f"{path}: holds arrays of shapes {shapes}, expected finite ones of {expected}")
    intercept, opens_at, reading_intercept, reads_at = numbers.tolist()
    return OrdersModel(weights, intercept, opening, opens_at, steps, sizes, reading, reading_intercept, reads_at, sheet)
