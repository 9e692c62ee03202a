"""DACC, FPR and FNR over judged texts (appendix 8.2 of RAGForensics), and what else is counted.

Readings
    * only texts that were retrieved and judged count; ``poisoned`` and ``benign`` say how many of them are so *in truth*;
    * the labels are those that hold once the complaint as a whole was decided, not the judge's first ones;
    * *undecided* is wrong: a poisoned text that stands undecided is missed (it counts in FNR), a benign one is no false accusation but
      not recognised either (it lowers DACC and not FPR);
    * a share of nothing is 0. Every rate is a fraction from 0 to 1, and stands with its counts and Wilson's 95 % interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corpus_guard.evaluation.measures import wilson
from corpus_guard.evaluation.traceback.playing import Played, accused
from corpus_guard.traceback import Ended, Label
from corpus_guard.traceback.verdict import Outcome


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    hits: int
    n: int

    @property
    def rate(self) -> float:
        """0..1; 0 of nothing."""
        return self.hits / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson, 95 %."""
        return wilson(self.hits, self.n)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        low, high = self.interval
        return {
            "hits": self.hits,
            "n": self.n,
            "rate": round(self.rate, 5),
            "low": round(low, 5),
            "high": round(high, 5),
        }


@dataclass(frozen=True, slots=True)
class Figures:
    """What some played questions come to."""

    labels: Counter[tuple[bool, Label]]  # (poisoned in truth, label)
    outcomes: Counter[Outcome]
    ended: Counter[Ended]
    iterations: int
    judge_seconds: float
    queries: int
    accusing: int  # questions in which a text is held to be poisoned in the end
    reached: int  # questions that retrieve a planted text among their first K
    leaking: int  # questions that still do with the accused set aside
    embedding_seconds: float = 0.0  # waited for vectors; no part of `judge_seconds`

    def count(self, poisoned: bool, *labels: Label) -> int:
        """Judged texts of this truth with one of these labels; any label where none is named."""
        return sum(self.labels[poisoned, label] for label in labels or Label)

    @property
    def judged(self) -> int:
        """Texts."""
        return self.labels.total()

    @property
    def dacc(self) -> Share:
        """Texts labelled as they are."""
        return Share(self.labels[True, Label.POISONED] + self.labels[False, Label.BENIGN], self.judged)

    @property
    def fpr(self) -> Share:
        """Benign texts that are accused."""
        return Share(self.labels[False, Label.POISONED], self.count(False))

    @property
    def fnr(self) -> Share:
        """Poisoned texts that are not accused."""
        return Share(self.count(True, Label.BENIGN, Label.UNDECIDED), self.count(True))

    def as_dict(self, *, honest: bool) -> dict[str, Any]:
        """JSON-ready.

        Args:
            honest: nothing was planted, so that every complaint is an honest one.
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
            "outcomes": {outcome.value: self.outcomes[outcome] for outcome in Outcome},
            "seconds_per_suspect": self.judge_seconds / self.judged if self.judged else 0.0,
            "embedding_seconds_per_suspect": self.embedding_seconds / self.judged if self.judged else 0.0,
            "honest_reports": {
                "reports": self.queries if honest else 0,
                "accused": self.accusing if honest else 0,
            },
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
            "ended": {end.value: self.ended[end] for end in Ended},
            "queries_reached": self.reached,
            "queries_still_reached": self.leaking,
        }


def figures(played: Sequence[Played]) -> Figures:
    """Count."""
    labels = Counter(
        (one.suspect.chunk_id in game.poisoned, one.opinion.label) for game in played for one in game.verdict.judged
    )
    return Figures(
        labels=labels,
        outcomes=Counter(game.verdict.outcome for game in played),
        ended=Counter(game.followed.ended for game in played),
        iterations=sum(game.followed.iterations for game in played),
        judge_seconds=sum(game.judge_seconds for game in played),
        embedding_seconds=sum(game.embedding_seconds for game in played),
        queries=len(played),
        accusing=sum(bool(accused(game.verdict.judged)) for game in played),
        reached=sum(any(one.chunk_id in game.poisoned for one in game.followed.first) for game in played),
        leaking=sum(any(one.chunk_id in game.poisoned for one in game.standing) for game in played),
    )
