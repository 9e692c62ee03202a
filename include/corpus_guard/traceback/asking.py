"""The RAG model: what answers a question from the texts retrieved for it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from corpus_guard.corpus.filterrag import FeatureExtractor


class Answers(Protocol):
    """Answers a question from texts."""

    @property
    def name(self) -> str:
        """As settings call it."""

    def answer(self, question: str, texts: Sequence[str]) -> str:
        """The answer, a phrase or a few sentences.

        Raises:
            JudgeFailed: no answer can be had.
        """


class EmbeddedAnswers:
    """The small language model that comes with the package; the same answer every time."""

    name = "embedded"

    def __init__(self, extractor: FeatureExtractor) -> None:
        self._extractor = extractor

    def answer(self, question: str, texts: Sequence[str]) -> str:
        """The answer, a phrase of at most 16 tokens."""
        return self._extractor.answer([(question, list(texts))])[0].text


def agrees(answer: str, output: str) -> bool:
    """Whether one answer says the other: the shorter one stands in the longer, word for word.

    The papers compare by substring; here whole words are compared, after NFKC and case folding and without articles, so that "no" does
    not stand in "Norway". Nothing agrees with an empty answer.
    """
    one, other = sorted((_words(answer), _words(output)), key=len)
    return bool(one) and f" {' '.join(one)} " in f" {' '.join(other)} "


def _words(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for word in re.findall(r"[^\W_]+", folded) if word not in {"a", "an", "the"}]
