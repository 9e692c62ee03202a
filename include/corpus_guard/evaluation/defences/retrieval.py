"""Defences that change which texts the RAG model reads.

Sources: knowledge expansion from "PoisonedRAG" (Zou and others, USENIX Security 2025), as the traceback paper
compares with it (appendix 8.4); perplexity thresholds from section 5.1.3 of the traceback paper: the maximum
(PPL-100) or the 90th percentile (PPL-90) of random texts of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.filters import RetrievalFilter
from corpus_guard.corpus.retriever import CANDIDATES_PER_ANSWER
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.defences.interface import AttackedQuestion, Defence, DefenceResources, texts_of
from corpus_guard.traceback.rag_model import RagModel

MAX_TEXTS_PER_QUESTION = 100  # read by the perplexity defence; it stops there even if all were removed


def answer_from_nearest(attacked: AttackedQuestion, rag_model: RagModel) -> str:
    """Answer from the K nearest texts as they are: the baseline."""
    return rag_model.answer(attacked.question, texts_of(attacked.retrieve(attacked.k)))


def expand_knowledge(count: int, attacked: AttackedQuestion, rag_model: RagModel) -> str:
    """Answer from the `count` nearest texts (KE-x), so that honest ones outnumber the planted ones."""
    return rag_model.answer(attacked.question, texts_of(attacked.retrieve(count)))


def remove_traced(attacked: AttackedQuestion, rag_model: RagModel) -> str:
    """Answer from the K nearest texts without those that the traceback accused (PTR): the next nearest move up."""
    return rag_model.answer(attacked.question, texts_of(attacked.retrieve(attacked.k, attacked.traced)))


def filter_texts(retrieval_filter: RetrievalFilter, attacked: AttackedQuestion, rag_model: RagModel) -> str:
    """Answer from the K nearest that a filter passes of the 2K nearest texts (FilterRAG, ML-FilterRAG), even if none does."""
    texts = texts_of(attacked.retrieve(CANDIDATES_PER_ANSWER * attacked.k))
    opinions = retrieval_filter.judge(attacked.question, texts)
    passed = [text for text, opinion in zip(texts, opinions, strict=True) if not opinion.poisoned]
    return rag_model.answer(attacked.question, passed[: attacked.k])


def remove_perplexing(
    threshold: float,
    perplexities: Callable[[Sequence[str]], Sequence[float] | NDArray[np.float64]],
    attacked: AttackedQuestion,
    rag_model: RagModel,
) -> str:
    """Answer from the K nearest texts without those of a perplexity above `threshold`; the next nearest replace these."""
    removed: set[str] = set()
    read: set[str] = set()
    while True:
        retrieved = attacked.retrieve(attacked.k, frozenset(removed))
        new = [item for item in retrieved if item.chunk_id not in read]
        read |= {item.chunk_id for item in new}
        scores = perplexities(texts_of(new)) if new else []
        odd = {item.chunk_id for item, score in zip(new, scores, strict=True) if not score <= threshold}
        removed |= odd
        if not odd or len(read) > MAX_TEXTS_PER_QUESTION:
            remaining = [item for item in retrieved if item.chunk_id not in removed]
            return rag_model.answer(attacked.question, texts_of(remaining))


def perplexity_removal(percentile: float, resources: DefenceResources) -> Defence:
    """Return PPL-x: texts that surprise a language model more than so many per cent of the corpus's own texts are removed.

    Raises:
        Misuse: the corpus has no texts.
    """
    return partial(remove_perplexing, perplexity_threshold(percentile, resources), resources.perplexities)


def perplexity_threshold(percentile: float, resources: DefenceResources) -> float:
    """Return a percentile (0..100) of the perplexities of the corpus's own texts.

    Raises:
        Misuse: the corpus has no texts.
    """
    if not resources.ordinary:
        raise Misuse("perplexity: no texts of the corpus to take a threshold from; give some")
    return float(np.percentile(resources.perplexities(resources.ordinary), percentile))
