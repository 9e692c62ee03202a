"""The reader of orders: says whether a sentence tells an assistant what to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.multilingual_encoder import MultilingualEncoder
from corpus_guard.models.trained_reader import ReaderKind, ReaderWeights, TrainedReader
from corpus_guard.models.weights import Weights

ORDERS: Final = ReaderKind("order-reader", "orders", MultilingualEncoder(), outputs=2)
IS_ORDER: Final = 1
"""Output of the unit that says so."""
SENTENCE_CHARS: Final = 400
"""Read of a sentence."""


class OrderReader:
    """Says how likely a sentence is an order to whoever answers with it."""

    def __init__(self, encoder: Callable[[], Weights], weights: Callable[[], ReaderWeights]) -> None:
        """Keep where the models come from; the arguments are those of `TrainedReader`."""
        self._reader = TrainedReader(encoder, weights)

    @property
    def weights(self) -> ReaderWeights:
        """What was trained; its sheet says how the answer is weighed (`corpus_guard.screening.orders.classifier`)."""
        return self._reader.weights

    def log_odds(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the log-odds that each sentence is an order, shape (sentences,)."""
        return self._reader.log_odds(list(map(shorten, sentences)), IS_ORDER)


def shorten(sentence: str) -> str:
    """Return what is read of a sentence."""
    return sentence[:SENTENCE_CHARS]
