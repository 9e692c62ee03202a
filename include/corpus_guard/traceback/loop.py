"""Algorithm 1 of RAGForensics: retrieve, judge, set aside, until what stands is benign.

Read literally the algorithm judges benign texts again in every round. Here

* every text is judged once a report; a copy of a judged text under another id is judged again, because it is another record;
* the loop ends when the K nearest of what is left were all judged and none of them is poisoned (`Ended.STANDS`), when the corpus has
  fewer than K texts left (`RAN_DRY`), at a bound on judged texts (`BOUND`), or when the judge fails (`JUDGE_FAILED`);
* a text the judge could not decide on stands where it is, and is never taken for benign;
* after each round what is new is handed to `keep`; a loop that was killed goes on with what was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from corpus_guard.errors import JudgeFailed
from corpus_guard.traceback.judges import Judge, Label, Opinion
from corpus_guard.traceback.suspects import Complaint, Suspect, Suspects

MOST_JUDGED = 500
"""Texts judged for one report at most. The paper's attackers plant up to 40 a question."""


class Ended(StrEnum):
    """Why a loop stopped."""

    STANDS = "stands"  # the K nearest of what is left are not poisoned
    RAN_DRY = "ran_dry"  # fewer than K texts are left
    BOUND = "bound"  # too many were judged
    JUDGE_FAILED = "judge_failed"


@dataclass(frozen=True, slots=True)
class Judged:
    """A suspect and what was said of it."""

    suspect: Suspect
    opinion: Opinion
    iteration: int  # 1-based: the round it was first retrieved in


@dataclass(frozen=True, slots=True)
class Followed:
    """Where a complaint led."""

    judged: tuple[Judged, ...]  # in the order they were judged
    first: tuple[Suspect, ...]  # what the question retrieved with nothing set aside
    standing: tuple[Suspect, ...]  # what it retrieves with the poisoned set aside
    iterations: int
    ended: Ended
    failure: str = ""  # what the judge died of

    def labelled(self, label: Label) -> tuple[Judged, ...]:
        """Those judged so, in the order they were judged."""
        return tuple(one for one in self.judged if one.opinion.label is label)


def follow(
    complaint: Complaint,
    corpus: Suspects,
    judge: Judge,
    *,
    k: int,
    most: int = MOST_JUDGED,
    before: Sequence[Judged] = (),
    keep: Callable[[Sequence[Judged]], None] = lambda new: None,
) -> Followed:
    """Follow a complaint to the texts that led to it.

    Args:
        complaint: what was asked and wrongly answered.
        corpus: where it was asked.
        judge: says of each text whether it leads to the output.
        k: how many texts the RAG application retrieves.
        most: texts judged at most.
        before: what an earlier attempt, which was killed, had judged already.
        keep: told what each round judged, before the next begins.

    Raises:
        StoreUnavailable, LedgerUnavailable: they do not answer.
    """
    judged = list(before)
    known = {one.suspect.chunk_id for one in judged}
    set_aside = {one.suspect.chunk_id for one in judged if one.opinion.label is Label.POISONED}
    iteration = max((one.iteration for one in judged), default=0)
    first = tuple(corpus.retrieve(complaint.query, k))
    while True:
        standing = tuple(corpus.retrieve(complaint.query, k, set_aside)) if set_aside else first
        new = [one for one in standing if one.chunk_id not in known]
        if not new:
            ended = Ended.STANDS if len(standing) == k else Ended.RAN_DRY
            return Followed(tuple(judged), first, standing, iteration, ended)
        if len(judged) + len(new) > most:
            return Followed(tuple(judged), first, standing, iteration, Ended.BOUND)
        iteration += 1
        seen = [*(one.suspect for one in judged), *new]
        try:
            opinions = judge.judge(complaint, new, seen)
        except JudgeFailed as error:
            return Followed(tuple(judged), first, standing, iteration, Ended.JUDGE_FAILED, str(error))
        fresh = [Judged(one, opinion, iteration) for one, opinion in zip(new, opinions, strict=True)]
        keep(fresh)
        judged += fresh
        known |= {one.chunk_id for one in new}
        set_aside |= {one.suspect.chunk_id for one in fresh if one.opinion.label is Label.POISONED}
