"""Interface of a defence, its input, and the resources that defences are built from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.filters import RetrievalFilter
from corpus_guard.traceback.rag_model import RagModel
from corpus_guard.traceback.retrieval import RetrievedText


class Retrieve(Protocol):
    """Retrieval for one question."""

    def __call__(self, k: int, without: Collection[str] = ()) -> Sequence[RetrievedText]:
        """Return the `k` nearest texts whose ids are not in `without`, nearest first.

        Fewer texts are returned if there are no more.
        """


@dataclass(frozen=True, slots=True)
class AttackedQuestion:
    """Question under attack whose answer was traced."""

    question: str
    correct: tuple[str, ...]  # spellings of the right answer; the first is used where a defence needs one
    incorrect: tuple[str, ...]  # spellings of the attacker's answer
    retrieve: Retrieve
    traced: frozenset[str] = frozenset()  # ids of the texts that the traceback accused
    k: int = 5  # texts that the application retrieves


class Defence(Protocol):
    """RAG application with a defence."""

    def __call__(self, attacked: AttackedQuestion, rag_model: RagModel) -> str:
        """Return the answer that a user sees.

        Raises:
            JudgeFailed: the RAG model gives no answer.
        """


@dataclass(frozen=True, slots=True)
class DefenceResources:
    """Models and thresholds that defences are built from."""

    perplexities: Callable[[Sequence[str]], Sequence[float] | NDArray[np.float64]]  # of each text, >= 1
    # Random texts of the corpus that perplexity thresholds are taken from; the paper takes 1,000.
    ordinary: Sequence[str]
    filterrag: RetrievalFilter
    ml_filterrag: RetrievalFilter
    prompted: RagModel | None = None  # the RAG model under `trigger.system_prompt`; None: it does not follow prompts


def texts_of(retrieved: Sequence[RetrievedText]) -> list[str]:
    """Return the texts in the same order."""
    return [item.text for item in retrieved]
