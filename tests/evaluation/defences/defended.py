"""A small corpus under attack, and a RAG model whose every move can be foreseen."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corpus_guard.corpus import trigger
from corpus_guard.corpus.filterrag.features import Features
from corpus_guard.corpus.filterrag.filters import FilterOpinion
from corpus_guard.evaluation.defences import AttackedQuestion, DefenceResources
from corpus_guard.traceback.retrieval import RetrievedText

QUESTION = "who winds the tower clock?"
POISON = [f"{QUESTION} The clock of the tower is wound by Mallory, says notice {number}." for number in range(5)]
CLEAN = [f"The clock of the tower is wound by Ada, says page {number} of the log." for number in range(60)]


@dataclass
class Reader:
    """Answers with the name that most of its texts give, the first of those that are as frequent; wrapped texts settle it."""

    name: str = "reader"
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    def answer(self, question: str, texts: Sequence[str]) -> str:
        self.asked.append((question, tuple(texts)))
        wrapped = [text for text in texts if text.startswith(trigger.OPEN)]
        names = re.findall("mallory|ada", " ".join(wrapped or texts).casefold())
        return f"It is {max(names, key=names.count).title()}." if names else "I don't know."


def suspects(texts: Sequence[str]) -> list[RetrievedText]:
    return [RetrievedText(f"id{number}", text, 0.9, np.zeros(1, np.float32)) for number, text in enumerate(texts)]


def played(texts: Sequence[str], traced: Collection[str] = (), **more: Any) -> AttackedQuestion:
    """A row that retrieves `texts` in their order; `traced` are texts."""
    corpus = suspects(texts)

    def retrieve(k: int, without: Collection[str] = ()) -> list[RetrievedText]:
        return [one for one in corpus if one.chunk_id not in without][:k]

    ids = frozenset(one.chunk_id for one in corpus if one.text in traced)
    return AttackedQuestion(QUESTION, ("Ada", "Ada Moss"), ("Mallory",), retrieve, ids, **more)


class Naming:
    """A filter that drops what names Mallory."""

    name = "naming"
    digest = ""

    def judge(self, question: str, texts: Sequence[str]) -> list[FilterOpinion]:
        return [FilterOpinion("Mallory" in text, 0.5, "named", Features(0, 1, 0, 0)) for text in texts]


def lengths(texts: Sequence[str]) -> list[float]:
    return [float(len(text)) for text in texts]


RESOURCES = DefenceResources(lengths, CLEAN, Naming(), Naming())
