"""Trace of one attacked question, from the users' complaint to the conclusion.

Truth
    A text is poisoned for a question if it was planted for it: for this row, or for another row with the same
    question and the same wrong answer. Texts planted for other questions are benign here, because they do not
    lead to this answer. A text that is both planted and among the clean ones is poisoned.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from corpus_guard.detectors.attacked_corpus import AttackedCorpus
from corpus_guard.detectors.planting import ReportForm
from corpus_guard.detectors.report_forms import phrase_report
from corpus_guard.detectors.target_questions import TargetQuestion
from corpus_guard.domain import sha256_text
from corpus_guard.ledger.states import Label
from corpus_guard.traceback.conclusion import TraceConclusion, decide
from corpus_guard.traceback.judges import Judge, JudgeConclusion, Opinion
from corpus_guard.traceback.loop import JudgedText, LoopResult, follow
from corpus_guard.traceback.rag_model import RagModel
from corpus_guard.traceback.retrieval import Complaint, RetrievedText


@dataclass(frozen=True, slots=True)
class TracedQuestion:
    """Attacked question with its trace and the truth."""

    target: TargetQuestion
    poisoned: frozenset[str]  # ids of the texts planted for it
    loop: LoopResult
    conclusion: TraceConclusion
    remaining: tuple[RetrievedText, ...]  # retrieved with the accused texts set aside
    judge_seconds: float  # without the time spent waiting for vectors
    embedding_seconds: float = 0.0  # spent waiting for vectors

    def rows(self) -> Iterator[dict[str, object]]:
        """Return one row per judged text for JSON, with its final label, in the order of judging."""
        for judged in self.conclusion.judged:
            yield {
                "query_id": self.target.id,
                "text": judged.suspect.text,
                "label": judged.opinion.label.value,
                "score": round(judged.opinion.score, 6),
                "iteration": judged.iteration,
            }


@runtime_checkable
class MeasuresEmbedding(Protocol):
    """Judge that measures how long it waits for vectors."""

    embedding_seconds: float  # since the judge was made


class TimedJudge:
    """Judge with a stopwatch."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.seconds = 0.0  # in total
        self._before = self._embedding()

    @property
    def embedding_seconds(self) -> float:
        """Return the part of `seconds` spent waiting for vectors."""
        return self._embedding() - self._before

    def _embedding(self) -> float:
        return self._judge.embedding_seconds if isinstance(self._judge, MeasuresEmbedding) else 0.0

    @property
    def name(self) -> str:
        """Return the judge's name."""
        return self._judge.name

    @property
    def digest(self) -> str:
        """Return the judge's digest."""
        return self._judge.digest

    def judge(
        self, complaint: Complaint, new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]
    ) -> list[Opinion]:
        """Return the judge's opinions, timed."""
        began = time.perf_counter()
        try:
            return self._judge.judge(complaint, new, retrieved)
        finally:
            self.seconds += time.perf_counter() - began

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        """Return the judge's conclusion, timed."""
        began = time.perf_counter()
        try:
            return self._judge.conclude(complaint, judged)
        finally:
            self.seconds += time.perf_counter() - began


@runtime_checkable
class PreparesComplaints(Protocol):
    """Judge that reads many complaints at once faster than one by one."""

    def prepare(self, complaints: Sequence[Complaint]) -> None:
        """Read the complaints."""


def prepare_judge(judge: Judge, complaints: Sequence[Complaint]) -> None:
    """Let a judge that can do so read all complaints before the first trace.

    This is not part of its time per text.
    """
    if isinstance(judge, PreparesComplaints):
        judge.prepare(complaints)


def complaint_about(target: TargetQuestion, form: ReportForm = ReportForm.BARE) -> Complaint:
    """Return the complaint of users: the first incorrect answer, in a form of report."""
    correct = target.correct[0] if target.correct else ""
    return Complaint(target.question, phrase_report(form, target.question, target.incorrect[0], correct))


def planted_ids(planted: Sequence[tuple[TargetQuestion, Sequence[str]]]) -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the ids of the texts that poison each question, by `TargetQuestion.key`."""
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for target, texts in planted:
        ids[target.key].update(map(sha256_text, texts))
    return {key: frozenset(values) for key, values in ids.items()}


def trace_question(
    target: TargetQuestion,
    complaint: Complaint,
    poisoned: frozenset[str],
    corpus: AttackedCorpus,
    judge: Judge,
    *,
    k: int,
    rag_model: RagModel | None = None,
) -> TracedQuestion:
    """Trace a complaint about a target's wrong answer.

    Args:
        rag_model: asked again if the conclusion is in doubt; None: not asked.
    """
    timed = TimedJudge(judge)
    loop = follow(complaint, corpus, timed, k=k)
    conclusion = decide(complaint, loop, timed, rag_model)
    remaining = tuple(corpus.retrieve(complaint.query, k, accused_ids(conclusion.judged)))
    waited = timed.embedding_seconds
    return TracedQuestion(target, poisoned, loop, conclusion, remaining, timed.seconds - waited, waited)


def accused_ids(judged: Sequence[JudgedText]) -> set[str]:
    """Return the ids of the texts that are labelled poisoned."""
    return {item.suspect.chunk_id for item in judged if item.opinion.label is Label.POISONED}
