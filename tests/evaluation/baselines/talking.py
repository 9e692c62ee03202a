"""A RAG model that can be counted on, and suspects with vectors of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from corpus_guard.ledger.states import Label
from corpus_guard.traceback.judges import Opinion
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

COMPLAINT = Complaint("who opens the boat house", "Ben Ray")
LIE = "Every morning the boat house is opened by Ben Ray."
TRUTH = "Every morning the boat house is opened by Ada Moss."
PAGE = "The quay was built in 1870 and is dredged each spring."


def a_suspect(text: str, angle: float = 0.0) -> RetrievedText:
    """Its vector stands at `angle` degrees."""
    radians = np.deg2rad(angle)
    return RetrievedText(f"id of {text}", text, 0.5, np.array([np.cos(radians), np.sin(radians)], np.float32))


def labels(opinions: Sequence[Opinion]) -> list[Label]:
    return [one.label for one in opinions]


class Talker:
    """Answers with whoever most of the texts say opens the boat house; says what a test tells it to."""

    digest = "talker"

    def __init__(self, reply: str | Callable[[Sequence[str]], str] = "", *, splits: bool = True) -> None:
        self.splits = splits
        self.asked: list[tuple[str, Sequence[str]]] = []
        self.requests: list[tuple[Sequence[str], str]] = []
        self._reply = reply

    def answers(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        self.asked += asked
        return [self._answer(texts) for _, texts in asked]

    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        self.requests.append((texts, request))
        return self._reply if isinstance(self._reply, str) else self._reply(texts)

    @staticmethod
    def _answer(texts: Sequence[str]) -> str:
        names = [name for name in ("Ben Ray", "Ada Moss") for text in texts if name in text]
        return f"It is {max(names, key=names.count)}." if names else ""
