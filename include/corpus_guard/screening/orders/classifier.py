"""How likely each sentence of a text gives an order to whoever answers with it.

Words rule out most sentences (`corpus_guard.screening.orders.model`). The rest is read by a trained encoder of a hundred languages
(`corpus_guard.models.order_reader`): the sum of both log-odds decides, each with the weight that suits sentences of kinds that
neither was shown in training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.errors import SettingsError
from corpus_guard.models.order_reader import ORDERS, OrderReader
from corpus_guard.models.trained_reader import ReaderWeights
from corpus_guard.models.weights import builtin_multilingual_encoder
from corpus_guard.screening.orders.model import MAX_SENTENCES, OrdersModel, load_orders, orders_digest

SUM: Final = "sum"
"""Entry of the reader's data sheet that holds `WeightedSum`."""


class SentenceReader(Protocol):
    """Interface of `corpus_guard.models.order_reader.OrderReader` that screening needs."""

    @property
    def weights(self) -> ReaderWeights:
        """Return what was trained."""

    def log_odds(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the log-odds that each sentence is an order, shape (sentences,)."""


@dataclass(frozen=True, slots=True)
class WeightedSum:
    """How the log-odds of both are added."""

    words: float  # weight of those of words, above 0
    reader: float  # weight of those of the reader, above 0
    added: float

    def of(self, words: float, reader: float) -> float:
        """Return the log-odds of both."""
        return self.words * words + self.reader * reader + self.added

    def to_record(self) -> dict[str, float]:
        """Return the entry of the data sheet."""
        return asdict(self)

    @classmethod
    def from_sheet(cls, sheet: Mapping[str, Any]) -> WeightedSum:
        """Read the entry of a data sheet.

        Raises:
            SettingsError: it is missing, or is no sum.
        """
        expected = f"expected finite numbers for {', '.join(cls.__slots__)}; train it again with `guard train orders`"
        try:
            numbers = {name: float(value) for name, value in sheet[SUM].items()}
            read = cls(**numbers)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SettingsError(f"weights of the reader of orders: got no weighted sum, {expected}") from error
        if not all(map(math.isfinite, numbers.values())):
            raise SettingsError(f"weights of the reader of orders: got {numbers}, {expected}")
        return read


class OrderClassifier:
    """Words and reader together."""

    def __init__(self, model: OrdersModel, reader: Callable[[], SentenceReader]) -> None:
        """Keep the models.

        Args:
            model: says which sentences are read.
            reader: returns what reads them; called when the first is read.
        """
        self._model = model
        self._find_reader = reader
        self._known: dict[str, float] = {}

    def opens(self, text: str) -> bool:
        """Return True if the words of a text, or of a sentence, may belong to an order."""
        return self._model.opens(text)

    def doubts(self, sentence: str) -> bool:
        """Return True for a sentence that its words do not rule out."""
        return self._model.judge(sentence) > -math.inf

    def probabilities(self, sentences: Sequence[str]) -> list[float]:
        """Return how likely each sentence in doubt is an order, 0..1. What was read before is not read again."""
        unread = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._known]
        if unread:
            if len(self._known) + len(unread) > MAX_SENTENCES:
                self._known.clear()
                unread = list(dict.fromkeys(sentences))
            for sentence, log_odds in zip(unread, self._reader.log_odds(unread).tolist(), strict=True):
                self._known[sentence] = self._sum.of(self._model.judge(sentence), log_odds)
        return [1 / (1 + math.exp(-self._known[sentence])) for sentence in sentences]

    @cached_property
    def _reader(self) -> SentenceReader:
        return self._find_reader()

    @cached_property
    def _sum(self) -> WeightedSum:
        return WeightedSum.from_sheet(self._reader.weights.sheet)


def load_classifier() -> OrderClassifier:
    """Return the package's own classifier, one for a process: what one check has read is not read again by another.

    The reader's files are read, and torch is imported, when the first sentence is read.
    """
    return _load(*classifier_digests())


def classifier_digests() -> tuple[str, str]:
    """Return the digests of what words and reader of the package's own classifier know."""
    return orders_digest(), ORDERS.digest()


@lru_cache(maxsize=1)
def _load(_words: str, _reader: str) -> OrderClassifier:
    reader = OrderReader(builtin_multilingual_encoder, lambda: ReaderWeights.load(ORDERS))
    return OrderClassifier(load_orders(), lambda: reader)
