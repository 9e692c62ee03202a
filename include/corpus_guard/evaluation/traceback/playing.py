"""One question played: users complain of the wrong answer, the complaint is followed, and a verdict falls.

What is true
    a text is poisoned for a question if it was planted for it: for this row, or for another row that asks the same question and wants the
    same wrong answer. What was planted for other questions is benign here, as it does not lead to this answer. A text that is planted and
    also stands among the clean ones is poisoned.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from corpus_guard.domain import sha256_text
from corpus_guard.evaluation.traceback.corpus import AttackedCorpus
from corpus_guard.evaluation.traceback.targets import Target
from corpus_guard.traceback import Complaint, Conclusion, Followed, Judge, Judged, Label, Opinion, Suspect, follow
from corpus_guard.traceback.asking import Answers
from corpus_guard.traceback.verdict import Verdict, decide


@dataclass(frozen=True, slots=True)
class Played:
    """A question, where its complaint led, and what is true."""

    target: Target
    poisoned: frozenset[str]  # ids of the texts planted for it
    followed: Followed
    verdict: Verdict
    standing: tuple[Suspect, ...]  # what the question retrieves with the accused set aside
    judge_seconds: float  # without the vectors it had made
    embedding_seconds: float = 0.0  # of those

    def lines(self) -> Iterator[dict[str, object]]:
        """One JSON-ready row a judged text, with the label that holds in the end, in the order they were judged."""
        for one in self.verdict.judged:
            yield {
                "query_id": self.target.id,
                "text": one.suspect.text,
                "label": one.opinion.label.value,
                "score": round(one.opinion.score, 6),
                "iteration": one.iteration,
            }


@runtime_checkable
class HasVectorsMade(Protocol):
    """A judge that knows how long it waited for vectors."""

    embedding_seconds: float  # since it was made


class Timed:
    """A judge with a stopwatch."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.seconds = 0.0  # in all
        self._before = self._embedding()

    @property
    def embedding_seconds(self) -> float:
        """How much of it was waiting for vectors."""
        return self._embedding() - self._before

    def _embedding(self) -> float:
        return self._judge.embedding_seconds if isinstance(self._judge, HasVectorsMade) else 0.0

    @property
    def name(self) -> str:
        """Of the judge."""
        return self._judge.name

    @property
    def digest(self) -> str:
        """Of the judge."""
        return self._judge.digest

    def judge(self, complaint: Complaint, new: Sequence[Suspect], seen: Sequence[Suspect]) -> list[Opinion]:
        """As the judge does."""
        began = time.perf_counter()
        try:
            return self._judge.judge(complaint, new, seen)
        finally:
            self.seconds += time.perf_counter() - began

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[Suspect, Opinion]]) -> Conclusion:
        """As the judge does."""
        began = time.perf_counter()
        try:
            return self._judge.conclude(complaint, judged)
        finally:
            self.seconds += time.perf_counter() - began


@runtime_checkable
class Prepares(Protocol):
    """A judge that reads many complaints at once faster than one by one."""

    def prepare(self, complaints: Sequence[Complaint]) -> None:
        """Read them."""


def prepare(judge: Judge, targets: Sequence[Target]) -> None:
    """Let a judge that can do so read all complaints before the first is followed; no part of its time for a text."""
    if isinstance(judge, Prepares):
        judge.prepare([complaint_of(target) for target in targets])


def complaint_of(target: Target) -> Complaint:
    """What users report: the first incorrect answer."""
    return Complaint(target.question, target.incorrect[0])


def planted_for(planted: Sequence[tuple[Target, Sequence[str]]]) -> Mapping[tuple[str, str], frozenset[str]]:
    """Ids of the texts that poison each question, by `Target.key`."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for target, texts in planted:
        found[target.key].update(map(sha256_text, texts))
    return {key: frozenset(ids) for key, ids in found.items()}


def play(
    target: Target,
    poisoned: frozenset[str],
    corpus: AttackedCorpus,
    judge: Judge,
    *,
    k: int,
    answers: Answers | None = None,
) -> Played:
    """Complain of a target's wrong answer.

    Args:
        target: whose question is asked.
        poisoned: ids of the texts planted for it.
        corpus: asked.
        judge: of the texts.
        k: texts the RAG application retrieves.
        answers: the RAG model, asked again where the verdict is in doubt; None: not asked.
    """
    complaint = complaint_of(target)
    timed = Timed(judge)
    followed = follow(complaint, corpus, timed, k=k)
    verdict = decide(complaint, followed, timed, answers)
    standing = tuple(corpus.retrieve(complaint.query, k, accused(verdict.judged)))
    waited = timed.embedding_seconds
    return Played(target, poisoned, followed, verdict, standing, timed.seconds - waited, waited)


def accused(judged: Sequence[Judged]) -> set[str]:
    """Ids of the texts that are held to be poisoned."""
    return {one.suspect.chunk_id for one in judged if one.opinion.label is Label.POISONED}
