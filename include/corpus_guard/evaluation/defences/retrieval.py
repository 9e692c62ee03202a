"""Defences that change which texts the RAG model reads.

Sources: knowledge expansion from "PoisonedRAG" (Zou and others, USENIX Security 2025), as the traceback paper
compares with it (appendix 8.4); perplexity thresholds from section 5.1.3 of the traceback paper: the maximum
(PPL-100) or the 90th percentile (PPL-90) of random texts of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.filters import RetrievalFilter
from corpus_guard.corpus.retriever import CANDIDATES_PER_ANSWER
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.defences.interface import AttackedQuestion, DefenceResources, texts_of
from corpus_guard.traceback.rag_model import RagModel

MAX_TEXTS_PER_QUESTION = 100  # read by the perplexity defence; it stops there even if all were removed


class NoDefence:
    """Baseline: the K nearest texts as they are."""

    def __call__(self, attacked: AttackedQuestion, rag_model: RagModel) -> str:
        """Answer from whatever is retrieved."""
        return rag_model.answer(attacked.question, texts_of(attacked.retrieve(attacked.k)))


class KnowledgeExpansion:
    """KE-x: more texts are retrieved, so that honest ones outnumber the planted ones."""

    def __init__(self, count: int) -> None:
        """Retrieve `count` texts."""
        self._count = count

    def __call__(self, attacked: AttackedQuestion, rag_model: RagModel) -> str:
        """Answer from all retrieved texts."""
        return rag_model.answer(attacked.question, texts_of(attacked.retrieve(self._count)))


class TracedRemoval:
    """PTR: the texts that the traceback accused are removed, and the next nearest move up."""

    def __call__(self, attacked: AttackedQuestion, rag_model: RagModel) -> str:
        """Answer from the K nearest of the remaining texts."""
        return rag_model.answer(attacked.question, texts_of(attacked.retrieve(attacked.k, attacked.traced)))


class Filtering:
    """FilterRAG or ML-FilterRAG: of the 2K nearest texts, the K nearest that the filter passes."""

    def __init__(self, retrieval_filter: RetrievalFilter) -> None:
        """Drop the texts that `retrieval_filter` considers poisoned."""
        self._filter = retrieval_filter

    def __call__(self, attacked: AttackedQuestion, rag_model: RagModel) -> str:
        """Answer from the texts that pass, even if none does."""
        texts = texts_of(attacked.retrieve(CANDIDATES_PER_ANSWER * attacked.k))
        opinions = self._filter.judge(attacked.question, texts)
        passed = [text for text, opinion in zip(texts, opinions, strict=True) if not opinion.poisoned]
        return rag_model.answer(attacked.question, passed[: attacked.k])


class PerplexityRemoval:
    """PPL-x: texts that surprise a language model more than the corpus's own texts do are removed."""

    def __init__(
        self, threshold: float, perplexities: Callable[[Sequence[str]], Sequence[float] | NDArray[np.float64]]
    ) -> None:
        """Remove texts with a perplexity above `threshold`."""
        self.threshold = threshold
        self._perplexities = perplexities

    @classmethod
    def beyond(cls, percentile: float, resources: DefenceResources) -> PerplexityRemoval:
        """Take a percentile (0..100) of the corpus's own texts as the threshold.

        Raises:
            Misuse: the corpus has no texts.
        """
        if not resources.ordinary:
            raise Misuse("perplexity: no texts of the corpus to take a threshold from; give some")
        scores = resources.perplexities(resources.ordinary)
        return cls(float(np.percentile(scores, percentile)), resources.perplexities)

    def __call__(self, attacked: AttackedQuestion, rag_model: RagModel) -> str:
        """Answer from the K nearest remaining texts; the next nearest replace removed ones."""
        removed: set[str] = set()
        read: set[str] = set()
        while True:
            retrieved = attacked.retrieve(attacked.k, frozenset(removed))
            new = [item for item in retrieved if item.chunk_id not in read]
            read |= {item.chunk_id for item in new}
            scores = self._perplexities(texts_of(new)) if new else []
            odd = {item.chunk_id for item, score in zip(new, scores, strict=True) if not score <= self.threshold}
            removed |= odd
            if not odd or len(read) > MAX_TEXTS_PER_QUESTION:
                remaining = [item for item in retrieved if item.chunk_id not in removed]
                return rag_model.answer(attacked.question, texts_of(remaining))
