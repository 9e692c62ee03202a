"""Algorithm 1 of RAGForensics: retrieve, judge, set aside, until what remains is benign.

Read literally, the algorithm judges benign texts again in every round. Here

* each text is judged once per report; a copy of a judged text under another id is another record, and is
  judged too;
* the loop ends when the K nearest remaining texts were all judged and none is poisoned (`StopReason.STANDS`),
  when fewer than K texts are left (`RAN_DRY`), at the limit of judged texts (`BOUND`), or when the judge
  fails (`JUDGE_FAILED`);
* a text that the judge could not decide on stays in place and never counts as benign;
* after each round the new opinions are passed to `save`; a loop that was killed resumes from what was saved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger.states import Label
from corpus_guard.traceback.judges import Judge, Opinion
from corpus_guard.traceback.retrieval import Complaint, RetrievedText, SearchableCorpus

MAX_JUDGED_TEXTS = 500
"""Texts judged per report. The paper's attackers plant up to 40 for a question."""


class StopReason(StrEnum):
    """Reason why a loop stopped."""

    STANDS = "stands"  # the K nearest of what is left are not poisoned
    RAN_DRY = "ran_dry"  # fewer than K texts are left
    BOUND = "bound"  # too many texts were judged
    JUDGE_FAILED = "judge_failed"


@dataclass(frozen=True, slots=True)
class JudgedText:
    """Retrieved text with the judge's opinion of it."""

    suspect: RetrievedText
    opinion: Opinion
    iteration: int  # 1-based: the round it was first retrieved in


@dataclass(frozen=True, slots=True)
class LoopResult:
    """Texts that a complaint led to, and how the loop ended."""

    judged: tuple[JudgedText, ...]  # in the order they were judged
    first: tuple[RetrievedText, ...]  # what the question retrieved with nothing set aside
    standing: tuple[RetrievedText, ...]  # what it retrieves with the poisoned texts set aside
    iterations: int
    ended: StopReason
    failure: str = ""  # why the judge failed

    def labelled(self, label: Label) -> tuple[JudgedText, ...]:
        """Return the texts with this label, in the order they were judged."""
        return tuple(judged for judged in self.judged if judged.opinion.label is label)


def follow(
    complaint: Complaint,
    corpus: SearchableCorpus,
    judge: Judge,
    *,
    k: int,
    max_texts: int = MAX_JUDGED_TEXTS,
    before: Sequence[JudgedText] = (),
    save: Callable[[Sequence[JudgedText]], None] = lambda new: None,
) -> LoopResult:
    """Follow a complaint to the texts that led to it.

    Args:
        before: texts that an earlier, killed attempt has judged.
        save: receives the judged texts of each round before the next one begins.

    Raises:
        StoreUnavailable, LedgerUnavailable: the store or the ledger does not answer.
    """
    judged = list(before)
    judged_ids = {text.suspect.chunk_id for text in judged}
    set_aside = {text.suspect.chunk_id for text in judged if text.opinion.label is Label.POISONED}
    iteration = max((text.iteration for text in judged), default=0)
    first = tuple(corpus.retrieve(complaint.query, k))
    while True:
        standing = tuple(corpus.retrieve(complaint.query, k, set_aside)) if set_aside else first
        new = [text for text in standing if text.chunk_id not in judged_ids]
        if not new:
            ended = StopReason.STANDS if len(standing) == k else StopReason.RAN_DRY
            return LoopResult(tuple(judged), first, standing, iteration, ended)
        if len(judged) + len(new) > max_texts:
            return LoopResult(tuple(judged), first, standing, iteration, StopReason.BOUND)
        iteration += 1
        retrieved = [*(text.suspect for text in judged), *new]
        try:
            opinions = judge.judge(complaint, new, retrieved)
        except JudgeFailed as error:
            return LoopResult(tuple(judged), first, standing, iteration, StopReason.JUDGE_FAILED, str(error))
        newly_judged = [JudgedText(text, opinion, iteration) for text, opinion in zip(new, opinions, strict=True)]
        save(newly_judged)
        judged += newly_judged
        judged_ids |= {text.chunk_id for text in new}
        set_aside |= {text.suspect.chunk_id for text in newly_judged if text.opinion.label is Label.POISONED}
