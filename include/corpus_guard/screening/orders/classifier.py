"""Probability that each sentence of a text gives an order to whoever answers with it.

Words rule out most sentences (`corpus_guard.screening.orders.model`). The rest is read by a trained encoder of a hundred languages.
What may still be an order then is read by a larger one too, where it is English (`corpus_guard.models.order_reader`).
The sum of the log-odds decides, each with the weight that suits sentences of kinds that none of them was shown in training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.errors import SettingsError
from corpus_guard.models.order_reader import ENGLISH_ORDERS, ORDERS, EnglishOrderReader, OrderReader
from corpus_guard.models.trained_reader import ReaderWeights
from corpus_guard.models.weights import Weights, builtin_multilingual_encoder, builtin_pair_encoder
from corpus_guard.screening.orders.model import MAX_SENTENCES, OrdersModel, load_orders, orders_digest
from corpus_guard.settings import load_settings

PART_LOG_ODDS: Final = -1.0
"""Log-odds by its words from which a part of a longer sentence is read: a seventh of those that words do not rule out."""
SUM: Final = "sum"
"""Entry of a reader's data sheet that holds `WeightedSum`."""


class SentenceReader(Protocol):
    """Interface of `corpus_guard.models.order_reader.OrderReader` that screening needs."""

    @property
    def weights(self) -> ReaderWeights:
        """Return what was trained."""

    def log_odds(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the log-odds that each sentence is an order, NaN where it does not know the language; shape (sentences,)."""


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """Weighted sum of the log-odds of words and readers."""

    weights: tuple[float, ...]  # of the words', the first reader's, and of those of the larger one where it reads
    added: float
    read_on_from: float = math.inf  # sum from which the larger reader reads too

    def of(self, *log_odds: float) -> float:
        """Return the log-odds of all of them."""
        return sum((weight * each for weight, each in zip(self.weights, log_odds, strict=True)), self.added)

    def to_record(self) -> dict[str, object]:
        """Return the entry of the data sheet."""
        record = {"weights": list(self.weights), "added": self.added}
        return record if self.read_on_from == math.inf else {**record, "read_on_from": self.read_on_from}

    @classmethod
    def from_sheet(cls, sheet: Mapping[str, Any], parts: int) -> WeightedSum:
        """Read the entry of a data sheet.

        Raises:
            SettingsError: it is missing, or is no sum of so many.
        """
        expected = f"expected finite numbers, {parts} of them weights; train it again with `guard train orders`"
        try:
            record = sheet[SUM]
            weights = tuple(map(float, record["weights"]))
            others = {name: float(record[name]) for name in ("added", "read_on_from") if name in record}
            read = cls(weights, **others)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SettingsError(f"weights of the reader of orders: got no weighted sum, {expected}") from error
        if len(weights) != parts or not all(map(math.isfinite, (*weights, *others.values()))):
            raise SettingsError(f"weights of the reader of orders: got {record}, {expected}")
        return read


class OrderClassifier:
    """Words and readers together."""

    def __init__(self, model: OrdersModel, reader: SentenceReader, english: SentenceReader) -> None:
        """Keep the models.

        Args:
            english: reads what may still be an order.
        """
        self._model, self._reader, self.english = model, reader, english
        self._known: dict[str, float] = {}

    def opens(self, text: str) -> bool:
        """Return True if the words of a text, or of a sentence, may belong to an order."""
        return self._model.opens(text)

    def doubts(self, sentence: str) -> bool:
        """Return True for a sentence that its words do not rule out."""
        return self._model.judge(sentence) > -math.inf

    def suspects(self, part: str) -> bool:
        """Return True for a part of a longer sentence whose words are nearly those of an order: there are many parts."""
        return self._model.judge(part) >= PART_LOG_ODDS

    def probabilities(self, sentences: Sequence[str]) -> list[float]:
        """Return how likely each sentence in doubt is an order, 0..1. What was read before is not read again."""
        unread = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        if unread:
            if len(self._known) + len(unread) > MAX_SENTENCES:
                self._known.clear()
                unread = list(dict.fromkeys(sentences))
            self._known |= self._read(unread)
        return [1 / (1 + math.exp(-self._known[sentence])) for sentence in sentences]

    def _read(self, sentences: Sequence[str]) -> dict[str, float]:
        """Return the log-odds of each sentence."""
        words = {sentence: self._model.judge(sentence) for sentence in sentences}
        first = dict(zip(sentences, self._reader.log_odds(sentences).tolist(), strict=True))
        read = {sentence: self._sum.of(words[sentence], first[sentence]) for sentence in sentences}
        likely = [sentence for sentence in sentences if read[sentence] >= self._sum.read_on_from]
        for sentence, second in zip(likely, self.english.log_odds(likely).tolist(), strict=True):
            if not math.isnan(second):
                read[sentence] = self._english_sum.of(words[sentence], first[sentence], second)
        return read

    @cached_property
    def _sum(self) -> WeightedSum:
        return WeightedSum.from_sheet(self._reader.weights.sheet, parts=2)

    @cached_property
    def _english_sum(self) -> WeightedSum:
        return WeightedSum.from_sheet(self.english.weights.sheet, parts=3)


def installed_pair_encoder() -> Weights:
    """Return the built-in encoder of pairs, in the folder of models that the environment names."""
    return builtin_pair_encoder(load_settings())


def load_classifier(encoder: Callable[[], Weights] = installed_pair_encoder) -> OrderClassifier:
    """Return the package's own classifier, one for a process: what one check has read is not read again by another.

    The readers' files are read, and torch is imported, when the first sentence is read.

    Args:
        encoder: returns the files of the larger reader's model; those of a process' first call are used.
    """
    digests = classifier_digests()
    if digests not in _loaded:
        _loaded.clear()
        _loaded[digests] = OrderClassifier(
            load_orders(),
            OrderReader(builtin_multilingual_encoder, lambda: ReaderWeights.load(ORDERS)),
            EnglishOrderReader(encoder, lambda: ReaderWeights.load(ENGLISH_ORDERS)),
        )
    return _loaded[digests]


def classifier_digests() -> tuple[str, str, str]:
    """Return the digests of what words and readers of the package's own classifier know."""
    return orders_digest(), ORDERS.digest(), ENGLISH_ORDERS.digest()


_loaded: Final[dict[tuple[str, ...], OrderClassifier]] = {}
