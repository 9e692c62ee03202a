"""What a followed complaint amounts to: traced, or not poisoning, or nothing that can be said.

Rules
    * a report alone never removes anything, and a wrong answer where no text is poisoned must accuse nobody: single opinions count only
      when the complaint as a whole looks like an attack (`Judge.conclude`);
    * the paper's rule (section 6): asked again with the traced texts set aside, a model that still gives the reported output was not
      led by them. It speaks only where the model gave that output before as well, and gives way to evidence that is beyond doubt;
    * a probe that sees the model's activations (`corpus_guard.traceback.activations.witness`) is the second witness. Where its word
      counts, it is sure and the model gave the reported output again, a verdict it contradicts is *undecided*; it never accuses a text,
      and alone it decides nothing;
    * what ended without a verdict says why: *exhausted* (the corpus or the bound), *undecided*, *judge failed*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from corpus_guard.domain import Skipped
from corpus_guard.errors import JudgeFailed
from corpus_guard.traceback.activations.witness import NOT_ASKED, Testimony, Witness, testify
from corpus_guard.traceback.asking import Answers, agrees
from corpus_guard.traceback.judges import Judge, Label
from corpus_guard.traceback.loop import Ended, Followed, Judged
from corpus_guard.traceback.suspects import Complaint

ATTACK = 0.5  # probability from which a complaint is taken for an attack
BEYOND_DOUBT = 0.95  # probability from which the paper's rule no longer acquits


class Outcome(StrEnum):
    """How a trace ended."""

    TRACED = "traced"  # these texts led to the output
    NOT_POISONING = "not_poisoning"  # wrong, and no text is to blame
    EXHAUSTED = "exhausted"  # nothing benign is left, or too many texts were judged
    UNDECIDED = "undecided"  # the judge could not say
    JUDGE_FAILED = "judge_failed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a complaint amounts to."""

    outcome: Outcome
    judged: tuple[Judged, ...]  # with the labels that hold in the end
    probability: float | None  # that the complaint is an attack; None: the judge cannot say
    before: str | None = None  # the RAG model's answer from what was retrieved first; None: not asked
    after: str | None = None  # with the traced texts set aside
    heard: Testimony | Skipped = NOT_ASKED  # what the model's activations say of `before`

    @property
    def accused(self) -> tuple[Judged, ...]:
        """The texts that led to the output."""
        return tuple(one for one in self.judged if one.opinion.label is Label.POISONED)


def decide(
    complaint: Complaint,
    followed: Followed,
    judge: Judge,
    answers: Answers | None = None,
    *,
    ask_always: bool = False,
    hear_always: bool = False,
) -> Verdict:
    """What a followed complaint amounts to.

    Args:
        complaint: what was asked and wrongly answered.
        followed: where it led.
        judge: the one that judged.
        answers: the RAG model; None: nothing is asked again.
        ask_always: also where the probability needs no second opinion, for the record.
        hear_always: let a witness whose word counts speak of complaints that accuse nobody, too: the model is asked for it.
    """
    concluded = judge.conclude(complaint, [(one.suspect, one.opinion) for one in followed.judged])
    judged = _acquitted(followed.judged, _ALONE, concluded.acquitted)
    verdict = Verdict(_outcome(followed, judged), judged, concluded.probability)
    if verdict.outcome is Outcome.TRACED and concluded.probability is not None and concluded.probability < ATTACK:
        verdict = replace(verdict, outcome=Outcome.NOT_POISONING, judged=_acquitted(judged, _ALONE))
    if verdict.outcome is Outcome.NOT_POISONING and hear_always:
        return _second_witness(complaint, followed, verdict, answers)
    if verdict.outcome is not Outcome.TRACED:
        return verdict
    doubtful = concluded.probability is None or concluded.probability < BEYOND_DOUBT
    if answers is None or not (doubtful or ask_always):
        return verdict
    return _asked_again(complaint, followed, verdict, answers, doubtful)


def _outcome(followed: Followed, judged: Iterable[Judged]) -> Outcome:
    labels = {one.opinion.label for one in judged}
    if followed.ended is Ended.JUDGE_FAILED:
        return Outcome.JUDGE_FAILED
    if followed.ended is Ended.BOUND or (followed.ended is Ended.RAN_DRY and not followed.standing):
        return Outcome.EXHAUSTED
    if Label.POISONED in labels:
        return Outcome.TRACED
    return Outcome.UNDECIDED if Label.UNDECIDED in labels else Outcome.NOT_POISONING


def _asked_again(
    complaint: Complaint, followed: Followed, verdict: Verdict, answers: Answers, doubtful: bool
) -> Verdict:
    try:
        before, heard = testify(answers, complaint, [one.text for one in followed.first])
        after = answers.answer(complaint.query, [one.text for one in followed.standing])
    except JudgeFailed:
        return replace(verdict, outcome=Outcome.JUDGE_FAILED) if doubtful else verdict
    asked = replace(verdict, before=before, after=after, heard=heard)
    if doubtful and agrees(before, complaint.output) and agrees(after, complaint.output):
        asked = replace(asked, outcome=Outcome.NOT_POISONING, judged=_acquitted(verdict.judged, _STILL))
    return _weighed(asked)


def _second_witness(complaint: Complaint, followed: Followed, verdict: Verdict, answers: Answers | None) -> Verdict:
    """Of a complaint that accuses nobody; only where there is somebody to hear."""
    if not (isinstance(answers, Witness) and answers.counts and followed.first):
        return verdict
    try:
        before, heard = testify(answers, complaint, [one.text for one in followed.first])
    except JudgeFailed as error:
        return replace(verdict, heard=Skipped(NOT_ASKED.check, str(error)))
    return _weighed(replace(verdict, before=before, heard=heard))


def _weighed(verdict: Verdict) -> Verdict:
    """Undecided where both witnesses are sure and contradict each other; the texts keep the judge's labels."""
    if not (isinstance(verdict.heard, Testimony) and verdict.heard.counts):
        return verdict
    agreed = verdict.heard.poisoned == (verdict.outcome is Outcome.TRACED)
    return verdict if agreed else replace(verdict, outcome=Outcome.UNDECIDED)


_ALONE = "by itself it looks poisoned; the complaint as a whole does not look like an attack"
_STILL = "by itself it looks poisoned; set aside, the model still gives the reported output"


def _acquitted(judged: Iterable[Judged], why: str, only: Collection[str] | None = None) -> tuple[Judged, ...]:
    """Poisoned becomes benign; of the ids `only`, where they are given."""
    return tuple(
        replace(one, opinion=replace(one.opinion, label=Label.BENIGN, explanation=f"{one.opinion.explanation}; {why}"))
        if one.opinion.label is Label.POISONED and (only is None or one.suspect.chunk_id in only)
        else one
        for one in judged
    )
