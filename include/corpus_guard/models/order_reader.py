"""The readers of orders: say whether a sentence tells an assistant what to do.

One knows a hundred languages. The other, with four times its layers' weights, reads English only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.encoder import MPNET_TEXT_ENCODER, OpenEncoder
from corpus_guard.models.multilingual_encoder import MultilingualEncoder
from corpus_guard.models.trained_reader import ReaderKind, ReaderWeights, TrainedReader
from corpus_guard.models.weights import Weights

ORDERS: Final = ReaderKind("order-reader", "orders", MultilingualEncoder(), outputs=2)
ENGLISH_ORDERS: Final = ReaderKind("english-order-reader", "orders", MPNET_TEXT_ENCODER, outputs=2)
IS_ORDER: Final = 1
"""Output of the unit that says so."""
SENTENCE_CHARS: Final = 400
"""Read of a sentence."""
ENGLISH_LETTERS: Final = 0.98
"""Least share of an English sentence's letters that are a to z."""
BROKEN_WORDS: Final = 0.25
"""Highest share of an English sentence's pieces that go on with a word which the larger model's vocabulary does not hold whole."""
BROKEN_RARE_WORDS: Final = 0.45
"""The same where common English words are frequent: "no afflicting dispensation has visited our country"."""
COMMON_SHARE: Final = 0.25
"""Least share of these among all words."""
COMMON_WORDS: Final = frozenset(
    (
        "the", "and", "to", "that", "have", "has", "with", "this", "these", "those", "from", "which", "for", "are", "were", "been",
        "not", "your", "our", "his", "its", "their", "it", "be", "would", "should", "will", "they", "by", "as",
    )
)  # fmt: skip
"""Common English words that other languages hardly have."""
_LETTERS: Final = re.compile(r"[^\W\d_]")
_A_TO_Z: Final = re.compile(r"[a-zA-Z]")
_WORD: Final = re.compile(r"[a-z]+")


class OrderReader:
    """Says how likely a sentence is an order to whoever answers with it."""

    def __init__(self, encoder: Callable[[], Weights], weights: Callable[[], ReaderWeights]) -> None:
        """Keep where the models come from; the arguments are those of `TrainedReader`."""
        self._reader = TrainedReader(encoder, weights)

    @property
    def weights(self) -> ReaderWeights:
        """Trained weights; their sheet says how the answer is weighed (`corpus_guard.screening.orders.classifier`)."""
        return self._reader.weights

    def log_odds(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the log-odds that each sentence is an order, shape (sentences,)."""
        return self._reader.log_odds(list(map(shorten, sentences)), IS_ORDER)


def shorten(sentence: str) -> str:
    """Return what is read of a sentence."""
    return sentence[:SENTENCE_CHARS]


class EnglishSentences:
    """Tells English sentences by the vocabulary of the larger model, which holds English words whole, and others in pieces."""

    def __init__(self, encoder: Callable[[], Weights]) -> None:
        """Keep where the model comes from; only its vocabulary is read."""
        self._find_encoder = encoder

    def __contains__(self, sentence: str) -> bool:
        """Return True for an English sentence; names and code may hide one."""
        read = shorten(sentence)
        letters = len(_LETTERS.findall(read))
        if not letters or len(_A_TO_Z.findall(read)) < ENGLISH_LETTERS * letters:
            return False
        (pieces,) = self._encoder.read_tokens([read])
        broken = sum(piece in self._going_on for piece in pieces) / max(1, len(pieces) - 2)  # without start and end
        return broken <= BROKEN_WORDS or (broken <= BROKEN_RARE_WORDS and _has_common_words(read))

    @cached_property
    def _encoder(self) -> OpenEncoder:
        return MPNET_TEXT_ENCODER.open(self._find_encoder())

    @cached_property
    def _going_on(self) -> frozenset[int]:
        """Numbers of the pieces that go on with a word."""
        vocabulary = self._encoder.tokenizer.get_vocab()
        return frozenset(
            number for piece, number in vocabulary.items() if piece.startswith("##") and _LETTERS.search(piece)
        )


def _has_common_words(sentence: str) -> bool:
    """Return whether at least `COMMON_SHARE` of the words are common English ones."""
    words = _WORD.findall(sentence.lower())
    return sum(word in COMMON_WORDS for word in words) >= COMMON_SHARE * len(words)


class EnglishOrderReader(OrderReader):
    """The larger reader, for English sentences alone."""

    def __init__(self, encoder: Callable[[], Weights], weights: Callable[[], ReaderWeights]) -> None:
        """Keep where the models come from; the arguments are those of `TrainedReader`."""
        super().__init__(encoder, weights)
        self._english = EnglishSentences(encoder)

    def log_odds(self, sentences: Sequence[str]) -> NDArray[np.float32]:
        """Return the log-odds that each sentence is an order, NaN for those in other languages; shape (sentences,)."""
        log_odds = np.full(len(sentences), np.nan, np.float32)
        english = [place for place, sentence in enumerate(sentences) if sentence in self._english]
        log_odds[english] = super().log_odds([sentences[place] for place in english])
        return log_odds
