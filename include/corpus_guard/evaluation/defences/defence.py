"""What a defence is, what it is given, and what it is built from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from corpus_guard.traceback.suspects import Suspect

if TYPE_CHECKING:
    from corpus_guard.corpus.filterrag import Filter
    from corpus_guard.models import Models
    from corpus_guard.traceback.asking import Answers


class Retrieve(Protocol):
    """What one question retrieves; `Suspects.retrieve` with its question filled in."""

    def __call__(self, k: int, without: Collection[str] = ()) -> Sequence[Suspect]:
        """The `k` nearest texts whose ids are not among `without`, nearest first; fewer where there are no more."""


@dataclass(frozen=True, slots=True)
class Played:
    """A question under attack, traced."""

    question: str
    correct: tuple[str, ...]  # spellings of the right answer; the first is told to those who need one
    incorrect: tuple[str, ...]  # of the attacker's
    retrieve: Retrieve
    traced: frozenset[str] = frozenset()  # ids that the traceback accused
    k: int = 5  # texts the application retrieves


class Defence(Protocol):
    """How an application answers."""

    def __call__(self, played: Played, answers: Answers) -> str:
        """The answer that a user sees.

        Raises:
            JudgeFailed: the RAG model gives none.
        """


@dataclass(frozen=True, slots=True)
class Means:
    """What defences are built from."""

    perplexities: Callable[[Sequence[str]], Sequence[float]]  # of each text, >= 1
    ordinary: Sequence[str]  # random texts of the corpus: what is perplexing is measured against them
    filterrag: Filter
    ml_filterrag: Filter
    prompted: Answers | None = None  # the RAG model under `trigger.system_prompt`; None: it follows no prompt

    @classmethod
    def of(cls, models: Models, ordinary: Sequence[str], prompted: Answers | None = None) -> Means:
        """From the deployment's models; loads none yet.

        Args:
            models: the embedder and the language model.
            ordinary: random texts of the corpus; the paper takes 1,000.
            prompted: see `Means`.
        """
        from corpus_guard.corpus.filterrag import FeatureExtractor, FilterRAG, MLFilterRAG
        from corpus_guard.corpus.filterrag.learned import shipped

        def perplexities(texts: Sequence[str]) -> list[float]:
            import numpy as np

            return [float(np.exp(one.mean())) if len(one) else 1.0 for one in models.language_model.surprise(texts)]

        extractor = FeatureExtractor(models)
        return cls(perplexities, ordinary, FilterRAG(extractor), MLFilterRAG(extractor, shipped()), prompted)


def texts_of(suspects: Sequence[Suspect]) -> list[str]:
    """Their texts, in their order."""
    return [one.text for one in suspects]
