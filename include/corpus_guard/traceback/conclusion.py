"""Conclusion of a trace: traced, not poisoning, or no conclusion and why.

Rules
    * a report alone never removes a text, and a wrong answer that no poisoned text caused must accuse nobody:
      single opinions count only if the complaint as a whole looks like an attack (`Judge.conclude`);
    * the paper's rule (section 6): a model that is asked again with the traced texts set aside and still
      gives the reported output was not led by those texts. The rule applies only if the model also gave that
      output before, and gives way to certain evidence;
    * a probe of the model's activations (`corpus_guard.traceback.activations.witness`) is the second witness.
      If its vote counts, is sure and contradicts the conclusion, the outcome is *undecided*. It never accuses
      a text and decides nothing alone;
    * every outcome without a conclusion has a name: *exhausted* (the corpus or the limit), *undecided*,
      *judge failed*.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from corpus_guard.domain import Skipped
from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.traceback.activations.witness import NOT_ASKED, ActivationWitness, Testimony, testify
from corpus_guard.traceback.judges import Judge, Opinion
from corpus_guard.traceback.loop import JudgedText, LoopResult, StopReason
from corpus_guard.traceback.rag_model import RagModel, agrees
from corpus_guard.traceback.retrieval import Complaint

ATTACK_PROBABILITY = 0.5  # from which a complaint is taken for an attack
CERTAIN_PROBABILITY = 0.95  # from which the paper's rule no longer acquits

_ACQUITTED_BY_CONTEXT = "by itself it looks poisoned; the complaint as a whole does not look like an attack"
_ACQUITTED_BY_SECOND_ANSWER = "by itself it looks poisoned; without it, the model still gives the reported output"


@dataclass(frozen=True, slots=True)
class TraceConclusion:
    """Outcome of a trace, with the final labels and the answers of the RAG model."""

    outcome: TraceOutcome
    judged: tuple[JudgedText, ...]  # with their final labels
    probability: float | None  # that the complaint is an attack; None: the judge cannot say
    before: str | None = None  # the RAG model's answer from what was retrieved first; None: not asked
    after: str | None = None  # its answer with the traced texts set aside
    testimony: Testimony | Skipped = NOT_ASKED  # what the model's activations say about `before`

    @property
    def accused(self) -> tuple[JudgedText, ...]:
        """Texts that led to the output."""
        return tuple(judged for judged in self.judged if judged.opinion.label is Label.POISONED)


def decide(
    complaint: Complaint,
    loop_result: LoopResult,
    judge: Judge,
    rag_model: RagModel | None = None,
    *,
    ask_always: bool = False,
    use_activations_always: bool = False,
) -> TraceConclusion:
    """Conclude what the result of a loop amounts to.

    Args:
        complaint: the question and its wrong answer.
        loop_result: result of the loop.
        judge: the judge that was used in the loop.
        rag_model: answers the question again; None: nothing is asked again.
        ask_always: ask the RAG model even if the probability needs no second opinion, for the record.
        use_activations_always: also ask the model about complaints that accuse nobody, if its activations can count.
    """
    second_look = judge.conclude(complaint, [(judged.suspect, judged.opinion) for judged in loop_result.judged])
    probability = second_look.probability
    judged = _acquit(loop_result.judged, _ACQUITTED_BY_CONTEXT, second_look.acquitted)
    conclusion = TraceConclusion(_outcome(loop_result, judged), judged, probability)
    if conclusion.outcome is TraceOutcome.TRACED and probability is not None and probability < ATTACK_PROBABILITY:
        acquitted = _acquit(judged, _ACQUITTED_BY_CONTEXT)
        conclusion = replace(conclusion, outcome=TraceOutcome.NOT_POISONING, judged=acquitted)
    if conclusion.outcome is TraceOutcome.NOT_POISONING and use_activations_always:
        return _hear_activations(complaint, loop_result, conclusion, rag_model)
    if conclusion.outcome is not TraceOutcome.TRACED:
        return conclusion
    doubtful = probability is None or probability < CERTAIN_PROBABILITY
    if rag_model is None or not (doubtful or ask_always):
        return conclusion
    return _ask_model_again(complaint, loop_result, conclusion, rag_model, doubtful)


def _outcome(loop_result: LoopResult, judged: Iterable[JudgedText]) -> TraceOutcome:
    labels = {text.opinion.label for text in judged}
    if loop_result.ended is StopReason.JUDGE_FAILED:
        return TraceOutcome.JUDGE_FAILED
    if loop_result.ended is StopReason.BOUND or (loop_result.ended is StopReason.RAN_DRY and not loop_result.standing):
        return TraceOutcome.EXHAUSTED
    if Label.POISONED in labels:
        return TraceOutcome.TRACED
    return TraceOutcome.UNDECIDED if Label.UNDECIDED in labels else TraceOutcome.NOT_POISONING


def _ask_model_again(
    complaint: Complaint, loop_result: LoopResult, conclusion: TraceConclusion, rag_model: RagModel, doubtful: bool
) -> TraceConclusion:
    try:
        before, testimony = testify(rag_model, complaint, [text.text for text in loop_result.first])
        after = rag_model.answer(complaint.query, [text.text for text in loop_result.standing])
    except JudgeFailed:
        return replace(conclusion, outcome=TraceOutcome.JUDGE_FAILED) if doubtful else conclusion
    answered = replace(conclusion, before=before, after=after, testimony=testimony)
    if doubtful and agrees(before, complaint.output) and agrees(after, complaint.output):
        acquitted = _acquit(conclusion.judged, _ACQUITTED_BY_SECOND_ANSWER)
        answered = replace(answered, outcome=TraceOutcome.NOT_POISONING, judged=acquitted)
    return _apply_testimony(answered)


def _hear_activations(
    complaint: Complaint, loop_result: LoopResult, conclusion: TraceConclusion, rag_model: RagModel | None
) -> TraceConclusion:
    """Hear the activations about a complaint that accuses nobody, if their vote can count."""
    if not (isinstance(rag_model, ActivationWitness) and rag_model.counts and loop_result.first):
        return conclusion
    try:
        before, testimony = testify(rag_model, complaint, [text.text for text in loop_result.first])
    except JudgeFailed as error:
        return replace(conclusion, testimony=Skipped(NOT_ASKED.check, str(error)))
    return _apply_testimony(replace(conclusion, before=before, testimony=testimony))


def _apply_testimony(conclusion: TraceConclusion) -> TraceConclusion:
    """Return *undecided* if both witnesses are sure and disagree; texts keep the judge's labels."""
    if not (isinstance(conclusion.testimony, Testimony) and conclusion.testimony.counts):
        return conclusion
    agreed = conclusion.testimony.poisoned == (conclusion.outcome is TraceOutcome.TRACED)
    return conclusion if agreed else replace(conclusion, outcome=TraceOutcome.UNDECIDED)


def _acquit(judged: Iterable[JudgedText], why: str, only: Collection[str] | None = None) -> tuple[JudgedText, ...]:
    """Relabel poisoned texts as benign.

    Args:
        judged: the texts with their labels.
        why: added to the explanation.
        only: ids of the texts to acquit; None: all.
    """
    return tuple(
        replace(text, opinion=Opinion(Label.BENIGN, text.opinion.score, f"{text.opinion.explanation}; {why}"))
        if text.opinion.label is Label.POISONED and (only is None or text.suspect.chunk_id in only)
        else text
        for text in judged
    )
