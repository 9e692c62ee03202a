"""FilterRAG and ML-FilterRAG as defences: of the 2K nearest texts, the K nearest that the filter lets pass."""

from __future__ import annotations

from corpus_guard.corpus.filterrag import Filter
from corpus_guard.corpus.retriever import CANDIDATES
from corpus_guard.evaluation.defences.defence import Played, texts_of
from corpus_guard.traceback.asking import Answers


class Filtering:
    """A filter before the RAG model."""

    def __init__(self, poison_filter: Filter) -> None:
        """Drop what `poison_filter` takes for poisoned."""
        self._filter = poison_filter

    def __call__(self, played: Played, answers: Answers) -> str:
        """From what passes; where nothing does, from nothing."""
        texts = texts_of(played.retrieve(CANDIDATES * played.k))
        opinions = self._filter.judge(played.question, texts)
        passed = [text for text, opinion in zip(texts, opinions, strict=True) if not opinion.poisoned]
        return answers.answer(played.question, passed[: played.k])
