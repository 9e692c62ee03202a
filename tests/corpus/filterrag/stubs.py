"""Models that can be counted on: no weights, answers and likelihoods that follow from the texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.language_model import GeneratedAnswer
from corpus_guard.models.messages import Conversation

TOPICS = ("pump", "quay", "gauge", "crane", "ferry", "mast", "hull", "keel", "winch", "buoy", "light", "chart")


def a_row(number: int, **changes: Any) -> dict[str, Any]:
    """A question whose planted texts are dense in its words and whose honest ones are not: a classifier can tell them apart."""
    topic = f"{TOPICS[number % len(TOPICS)]}{number}"
    return {
        "question": f"who keeps the {topic}",
        "correct_answer": "Ada",
        "incorrect_answer": "Ben",
        "adversarial_texts": [f"{topic} {topic} keeps {topic} for {letter} Ben" for letter in "abcde"],
        "clean_texts": [
            f"harbours have many things such as {letter} rope tar sail wood and {topic} Ada" for letter in "abcde"
        ],
        **changes,
    }


class Weights:
    digest = "0" * 64


class Meanings:
    """An embedder in which words that share their first three letters are alike (cosine 0.8) and others are not (0)."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.embedded += texts
        rows = np.zeros((len(texts), 4_096), np.float32)
        for row, text in enumerate(texts):
            rows[row, sum(map(ord, text[:3])) % 2_048] = np.sqrt(0.8)
            rows[row, 2_048 + hash(text) % 2_048] = np.sqrt(0.2)
        return rows


class Parrot:
    """A language model that answers with the last word it was shown; each text has the perplexity of its length in words."""

    def __init__(self) -> None:
        self.chats: list[Conversation] = []

    def answer(self, chats: Sequence[Conversation], max_new_tokens: int = 32) -> list[GeneratedAnswer]:
        self.chats += chats
        words = [chat[-2].content.split() for chat in chats]
        return [GeneratedAnswer(said[-1] if said else "", 1, -0.5) for said in words]

    def surprisals(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.full(len(text.split()), np.log(max(1, len(text.split()))), np.float32) for text in texts]


class StubModels:
    """What `FeatureExtractor` asks of `Models`."""

    word_weights = Weights()
    language_model_digest = "1" * 64

    def __init__(self) -> None:
        self.word_embedder = self.embedder = Meanings()
        self.language_model = Parrot()
