"""How likely each sentence of a text gives an order to whoever answers with it.

The models of `corpus_guard.screening.orders.model` judge every sentence. What they doubt is read by the language model too
(`corpus_guard.models.order_reader`): the sum of both log-odds decides, each with the weight that suits sentences of
kinds that neither was shown in training. In scripts that the language model cannot read it is not asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.errors import SettingsError
from corpus_guard.models.trained_reader import ReaderWeights
from corpus_guard.screening.orders.model import MAX_SENTENCES, OrdersModel, is_other_script

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

    encoder: float  # weight of those of words and encoder, above 0
    reader: float  # weight of those of the language model, above 0
    added: float
    asks_at: float  # log-odds of words and encoder from which the language model is asked

    def of(self, encoder: float, reader: float) -> float:
        """Return the log-odds of both."""
        return self.encoder * encoder + self.reader * reader + self.added

    def to_record(self) -> dict[str, float]:
        """Return the entry of the data sheet."""
        return asdict(self)

    @classmethod
    def from_sheet(cls, sheet: Mapping[str, Any]) -> WeightedSum:
        """Read the entry of a data sheet.

        Raises:
            SettingsError: it is missing, or is no sum.
        """
        expected = (
            f"expected finite numbers for {', '.join(cls.__slots__)}; train it again with `guard train order-reader`"
        )
        try:
            numbers = {name: float(value) for name, value in sheet[SUM].items()}
            read = cls(**numbers)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SettingsError(f"weights of the reader of orders: got no weighted sum, {expected}") from error
        if not all(map(math.isfinite, numbers.values())):
            raise SettingsError(f"weights of the reader of orders: got {numbers}, {expected}")
        return read


class OrderClassifier:
    """Words, encoder and language model together."""

    def __init__(self, model: OrdersModel, reader: Callable[[], SentenceReader] | None = None) -> None:
        """Keep the models.

        Args:
            model: judges every sentence.
            reader: returns what reads those in doubt; None: nobody does.
        """
        self._model = model
        self._find_reader = reader
        self._known: dict[str, float] = {}

    def opens(self, text: str) -> bool:
        """Return True if the words of a text, or of a sentence, may belong to an order."""
        return self._model.opens(text)

    def doubts(self, sentence: str) -> bool:
        """Return True for a sentence that its words do not rule out: the encoder reads it."""
        return self._model.judge(sentence) > -math.inf

    def probabilities(self, sentences: Sequence[str]) -> list[float]:
        """Return how likely each sentence in doubt is an order, 0..1."""
        if self._find_reader and sentences:
            self._read(sentences)
        return [1 / (1 + math.exp(-self._known.get(sentence, self._model.judge(sentence)))) for sentence in sentences]

    @cached_property
    def _reader(self) -> SentenceReader:
        assert self._find_reader is not None  # noqa: S101 - asked by `probabilities` only
        return self._find_reader()

    @cached_property
    def _sum(self) -> WeightedSum:
        return WeightedSum.from_sheet(self._reader.weights.sheet)

    def _read(self, sentences: Sequence[str]) -> None:
        """Let the language model read the sentences in doubt that it has not read before."""
        if len(self._known) + len(sentences) > MAX_SENTENCES:
            self._known.clear()
        doubtful = [
            sentence
            for sentence in dict.fromkeys(sentences)
            if sentence not in self._known
            and not is_other_script(sentence)
            and self._model.judge(sentence) >= self._sum.asks_at
        ]
        for sentence, log_odds in zip(doubtful, self._reader.log_odds(doubtful).tolist(), strict=True):
            self._known[sentence] = self._sum.of(self._model.judge(sentence), log_odds)
