"""Interface of a defence, its input, and the resources that defences are built from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.corpus.filterrag.filters import FilterRAG, MLFilterRAG, RetrievalFilter
from corpus_guard.corpus.filterrag.learned import load_shipped
from corpus_guard.traceback.retrieval import RetrievedText

if TYPE_CHECKING:
    from corpus_guard.models import Models
    from corpus_guard.traceback.rag_model import RagModel


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

    perplexities: Callable[[Sequence[str]], Sequence[float]]  # of each text, >= 1
    ordinary: Sequence[str]  # random texts of the corpus that perplexity thresholds are taken from
    filterrag: RetrievalFilter
    ml_filterrag: RetrievalFilter
    prompted: RagModel | None = None  # the RAG model under `trigger.system_prompt`; None: it does not follow prompts

    @classmethod
    def of(cls, models: Models, ordinary: Sequence[str], prompted: RagModel | None = None) -> DefenceResources:
        """Use the deployment's models; none is loaded yet.

        Args:
            ordinary: random texts of the corpus; the paper takes 1,000.
            prompted: see `DefenceResources`.
        """

        def perplexities(texts: Sequence[str]) -> list[float]:
            surprise = models.language_model.surprisals(texts)
            return [float(np.exp(values.mean())) if len(values) else 1.0 for values in surprise]

        extractor = FeatureExtractor(models)
        return cls(perplexities, ordinary, FilterRAG(extractor), MLFilterRAG(extractor, load_shipped()), prompted)


def texts_of(retrieved: Sequence[RetrievedText]) -> list[str]:
    """Return the texts in the same order."""
    return [item.text for item in retrieved]
