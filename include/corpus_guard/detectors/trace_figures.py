"""DACC, FPR and FNR over judged texts (appendix 8.2 of RAGForensics), and other counts.

Rules
    * only texts that were retrieved and judged count; ``poisoned`` and ``benign`` are their numbers *in
      truth*;
    * the labels are the final ones, after the conclusion about the whole complaint, not the judge's first
      ones;
    * *undecided* is wrong: an undecided poisoned text is missed (it counts in FNR); an undecided benign text
      is not falsely accused, but not recognised either (it lowers DACC, not FPR);
    * a share of no cases is 0. Every rate is a fraction from 0 to 1, with its counts and a 95 % interval that is
      drawn by question (`corpus_guard.detectors.question_shares`): the texts of one question are no independent
      cases. Reports of several wrong answers to one question are one question here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from corpus_guard.detectors.question_shares import DRAWS, QuestionShare, share_by_question
from corpus_guard.detectors.traced_questions import TracedQuestion, accused_ids
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.traceback.loop import StopReason

LabelCounts = Counter[tuple[bool, Label]]
"""Number of judged texts by (poisoned in truth, label)."""


@dataclass(frozen=True, slots=True)
class TraceFigures:
    """Counts and rates of several traced questions."""

    labels: LabelCounts
    labels_by_question: tuple[LabelCounts, ...]
    outcomes: Counter[TraceOutcome]
    ended: Counter[StopReason]
    iterations: int
    judge_seconds: float
    queries: int
    accusing: int  # questions with an accused text in the end
    reached: int  # questions whose first K texts hold a planted one
    leaking: int  # questions whose first K texts still do with the accused set aside
    embedding_seconds: float = 0.0  # waiting for vectors; not part of `judge_seconds`

    def count(self, poisoned: bool, *labels: Label) -> int:
        """Return the number of judged texts with this truth and one of these labels (default: any)."""
        return _count(self.labels, poisoned, *labels)

    @property
    def judged(self) -> int:
        """Return the number of judged texts."""
        return self.labels.total()

    @property
    def dacc(self) -> QuestionShare:
        """Return the share of correctly labelled texts."""
        return share_by_question(
            (labels[True, Label.POISONED] + labels[False, Label.BENIGN], labels.total())
            for labels in self.labels_by_question
        )

    @property
    def fpr(self) -> QuestionShare:
        """Return the share of benign texts that are accused."""
        return share_by_question(
            (labels[False, Label.POISONED], _count(labels, False)) for labels in self.labels_by_question
        )

    @property
    def fnr(self) -> QuestionShare:
        """Return the share of poisoned texts that are not accused."""
        return share_by_question(
            (_count(labels, True, Label.BENIGN, Label.UNDECIDED), _count(labels, True))
            for labels in self.labels_by_question
        )

    def as_dict(self, *, honest: bool) -> dict[str, object]:
        """Return all figures for JSON.

        Args:
            honest: nothing was planted, so every complaint is honest.
        """
        return {
            "dacc": self.dacc.rate,
            "fpr": self.fpr.rate,
            "fnr": self.fnr.rate,
            "judged": self.judged,
            "poisoned": self.count(True),
            "benign": self.count(False),
            "queries": self.queries,
            "iterations_mean": self.iterations / self.queries if self.queries else 0.0,
            "outcomes": {outcome.value: self.outcomes[outcome] for outcome in TraceOutcome},
            "seconds_per_suspect": self.judge_seconds / self.judged if self.judged else 0.0,
            "embedding_seconds_per_suspect": self.embedding_seconds / self.judged if self.judged else 0.0,
            "honest_reports": {"reports": self.queries if honest else 0, "accused": self.accusing if honest else 0},
            "counts": {
                "tp": self.labels[True, Label.POISONED],
                "fp": self.labels[False, Label.POISONED],
                "tn": self.labels[False, Label.BENIGN],
                "fn": self.labels[True, Label.BENIGN],
                "undecided_poisoned": self.labels[True, Label.UNDECIDED],
                "undecided_benign": self.labels[False, Label.UNDECIDED],
            },
            "intervals": {
                name: [round(end, 5) for end in share.interval]
                for name, share in (("dacc", self.dacc), ("fpr", self.fpr), ("fnr", self.fnr))
            },
            "intervals_drawn_by": {"unit": "question", "draws": DRAWS},
            "ended": {end.value: self.ended[end] for end in StopReason},
            "queries_reached": self.reached,
            "queries_still_reached": self.leaking,
        }


def count_figures(traced: Sequence[TracedQuestion]) -> TraceFigures:
    """Count labels, outcomes and times of traced questions."""
    by_question: dict[str, LabelCounts] = defaultdict(Counter)
    for question in traced:
        by_question[question.target.key[0]].update(
            (judged.suspect.chunk_id in question.poisoned, judged.opinion.label)
            for judged in question.conclusion.judged
        )
    return TraceFigures(
        labels=sum(by_question.values(), LabelCounts()),
        labels_by_question=tuple(by_question.values()),
        outcomes=Counter(question.conclusion.outcome for question in traced),
        ended=Counter(question.loop.ended for question in traced),
        iterations=sum(question.loop.iterations for question in traced),
        judge_seconds=sum(question.judge_seconds for question in traced),
        embedding_seconds=sum(question.embedding_seconds for question in traced),
        queries=len(traced),
        accusing=sum(bool(accused_ids(question.conclusion.judged)) for question in traced),
        reached=sum(any(text.chunk_id in question.poisoned for text in question.loop.first) for question in traced),
        leaking=sum(any(text.chunk_id in question.poisoned for text in question.remaining) for question in traced),
    )


def _count(counts: LabelCounts, poisoned: bool, *labels: Label) -> int:
    return sum(counts[poisoned, label] for label in labels or Label)
