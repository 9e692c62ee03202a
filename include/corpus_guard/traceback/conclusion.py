"""Conclusion of a trace: traced, not poisoning, or no conclusion and why.

Rules
    * a report alone never removes a text, and a wrong answer that no poisoned text caused must accuse nobody:
      single opinions count only if the complaint as a whole looks like an attack (`Judge.conclude`);
    * a text that states something else about what was asked, and does not state the reported claim, is innocent; so is one
      that denies the claim wherever it speaks of it, or makes it about another thing;
    * trust is a prior: a text of a trusted or reviewed source is accused only if a sentence of it states the claim,
      and no text of lower trust does (`RetrievedText.trust`);
    * so is what people decided (`Prior`): a text that was restored counts as reviewed; a text that was withdrawn and
      states the claim is accused again, wherever it is found;
    * *undecided*: texts that looked poisoned and state the claim, where in the end no threshold is reached. They are
      named, and nobody is accused;
    * the paper's rule (section 6): a model that is asked again with the traced texts set aside and still
      gives the reported output was not led by those texts. The rule applies only if the model also gave that
      output before, and gives way to certain evidence;
    * a probe of the model's activations (`corpus_guard.traceback.activations.witness`) is the second witness.
      If its vote counts, is sure and contradicts the conclusion, the outcome is *undecided*. It never accuses
      a text and decides nothing alone;
    * the sentence that carries each accusation is masked, and the question asked again, retrieval included: whether
      the answer still makes the claim is recorded, and decides nothing;
    * every outcome without a conclusion has a name: *exhausted* (the corpus or the limit), *undecided*,
      *judge failed*.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from corpus_guard.domain import Skipped, Span, TrustLevel
from corpus_guard.errors import JudgeFailed
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.traceback.activations.witness import NOT_ASKED, ActivationWitness, Testimony, testify
from corpus_guard.traceback.judges import Judge, JudgeConclusion, Opinion
from corpus_guard.traceback.loop import JudgedText, LoopResult, StopReason
from corpus_guard.traceback.rag_model import RagModel, repeats
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

ATTACK_PROBABILITY = 0.5  # from which a complaint is taken for an attack
CERTAIN_PROBABILITY = 0.95  # from which the paper's rule no longer acquits

_ACQUITTED_BY_CONTEXT = "by itself it looks poisoned; the complaint as a whole does not look like an attack"
MAX_MASKED_TEXTS = 3
"""Accused texts whose sentence is masked, the most suspicious first: each costs one answer of the model."""

_ACQUITTED_BY_CLAIM = "it states something else about what was asked"
_ACQUITTED_BY_DENIAL = "it denies the reported claim, or makes it about another thing"
_ACQUITTED_BY_TRUST = "its source is trusted, and it does not state the reported claim"
_ACQUITTED_BY_LOWER_TRUST = "its source is trusted, and a text of a less trusted source states the reported claim"
_ACCUSED_BEFORE = "a person withdrew this text before, and it states the reported claim"
_UNDECIDED = "it states the reported claim, but too little else speaks against it"
_ACQUITTED_BY_SECOND_ANSWER = "by itself it looks poisoned; without it, the model still gives the reported output"


Mask = Callable[[RetrievedText, int], list[RetrievedText]]
"""Return this many texts that the question retrieves, with the given text in place of the stored one of the same id."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Earlier decision of people about a text."""

    withdrawn: bool = False  # and not restored since
    restored: bool = False  # after the newest withdrawal


@dataclass(frozen=True, slots=True)
class Carrier:
    """Sentence of a text that states the reported claim."""

    span: Span  # in the text
    changes_answer: bool | None = None  # the model no longer gives the output without it; None: not asked


@dataclass(frozen=True, slots=True)
class TraceConclusion:
    """Outcome of a trace, with the final labels and the answers of the RAG model."""

    outcome: TraceOutcome
    judged: tuple[JudgedText, ...]  # with their final labels
    probability: float | None  # that the complaint is an attack; None: the judge cannot say
    before: str | None = None  # the RAG model's answer from what was retrieved first; None: not asked
    after: str | None = None  # its answer with the traced texts set aside
    testimony: Testimony | Skipped = NOT_ASKED  # what the model's activations say about `before`
    reproduced: bool | None = None  # `before` makes the reported claim; None: not asked
    carriers: Mapping[str, Carrier] = field(default_factory=dict)  # by id, of accused and undecided texts

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
    priors: Mapping[str, Prior] | None = None,
    mask: Mask | None = None,
) -> TraceConclusion:
    """Conclude what the result of a loop amounts to.

    Args:
        ask_always: ask the RAG model even if the probability needs no second opinion, for the record.
        use_activations_always: also ask the model about complaints that accuse nobody, if its activations can count.
        priors: what people decided before, by SHA-256 of a text.
        mask: retrieves with a text changed; None: no sentence is masked.
    """
    second_look = judge.conclude(complaint, [(judged.suspect, judged.opinion) for judged in loop_result.judged])
    probability = second_look.probability
    judged = _acquit(loop_result.judged, _ACQUITTED_BY_CONTEXT, second_look.acquitted)
    judged = tuple(
        replace(text, opinion=replace(text.opinion, label=Label.POISONED))
        if text.suspect.chunk_id in second_look.accused
        else text
        for text in judged
    )
    judged = _weigh_claims(judged, second_look, priors or {})
    conclusion = TraceConclusion(_outcome(loop_result, judged), judged, probability)
    withdrawn_before = any(text.opinion.explanation == _ACCUSED_BEFORE for text in conclusion.accused)
    doubted = probability is not None and probability < ATTACK_PROBABILITY and not withdrawn_before
    if conclusion.outcome is TraceOutcome.TRACED and doubted:
        acquitted = _acquit(judged, _ACQUITTED_BY_CONTEXT)
        conclusion = replace(conclusion, outcome=TraceOutcome.NOT_POISONING, judged=acquitted)
    if conclusion.outcome is TraceOutcome.NOT_POISONING:
        conclusion = _name_undecided(conclusion, loop_result, second_look)
    if conclusion.outcome is TraceOutcome.NOT_POISONING and use_activations_always:
        return _hear_activations(complaint, loop_result, conclusion, rag_model)
    if conclusion.outcome is TraceOutcome.TRACED and rag_model is not None:
        doubtful = probability is None or probability < CERTAIN_PROBABILITY
        if doubtful or ask_always:
            conclusion = _ask_model_again(complaint, loop_result, conclusion, rag_model, doubtful)
    conclusion = replace(conclusion, carriers=_find_carriers(conclusion, second_look))
    if mask is None or rag_model is None or not conclusion.reproduced:
        return conclusion
    return _ask_without_carriers(complaint, loop_result, conclusion, rag_model, mask)


def _weigh_claims(
    judged: Sequence[JudgedText], second_look: JudgeConclusion, priors: Mapping[str, Prior]
) -> tuple[JudgedText, ...]:
    """Acquit texts by what they state, by the trust in their source, and by what people decided before."""
    support = second_look.support
    earlier = {text.suspect.chunk_id: priors.get(text.suspect.text_sha256, Prior()) for text in judged}

    def states(text: JudgedText) -> bool:
        read = support.get(text.suspect.chunk_id)
        return read.supports if read else text.opinion.label is Label.POISONED

    def rank(text: JudgedText) -> int:
        restored = earlier[text.suspect.chunk_id].restored
        return max(text.suspect.trust.rank, TrustLevel.REVIEWED.rank) if restored else text.suspect.trust.rank

    lowest = min((rank(text) for text in judged if states(text)), default=TrustLevel.TRUSTED.rank)

    def weigh(text: JudgedText) -> JudgedText:
        read = support.get(text.suspect.chunk_id)
        if read is not None and read.opposes and not read.supports:
            text = _acquit_text(text, _ACQUITTED_BY_CLAIM)
        elif read is not None and read.disowns:
            text = _acquit_text(text, _ACQUITTED_BY_DENIAL)
        elif rank(text) > TrustLevel.OPEN.rank and not states(text):
            text = _acquit_text(text, _ACQUITTED_BY_TRUST)
        elif rank(text) > lowest:
            text = _acquit_text(text, _ACQUITTED_BY_LOWER_TRUST)
        if earlier[text.suspect.chunk_id].withdrawn and states(text) and support:
            return replace(text, opinion=Opinion(Label.POISONED, text.opinion.score, _ACCUSED_BEFORE))
        return text

    return tuple(map(weigh, judged))


def _name_undecided(
    conclusion: TraceConclusion, loop_result: LoopResult, second_look: JudgeConclusion
) -> TraceConclusion:
    """Return *undecided* if texts looked poisoned in the loop and state the claim; they are labelled so."""
    suspicious = {text.suspect.chunk_id for text in loop_result.labelled(Label.POISONED)}
    named = {
        chunk_id for chunk_id, read in second_look.support.items() if read.supports and not read.opposes
    } & suspicious
    if not named:
        return conclusion
    judged = tuple(
        replace(text, opinion=Opinion(Label.UNDECIDED, text.opinion.score, f"{_UNDECIDED}; {text.opinion.explanation}"))
        if text.suspect.chunk_id in named
        else text
        for text in conclusion.judged
    )
    return replace(conclusion, outcome=TraceOutcome.UNDECIDED, judged=judged)


def _find_carriers(conclusion: TraceConclusion, second_look: JudgeConclusion) -> dict[str, Carrier]:
    """Return the sentences that state the claim, of accused and undecided texts."""
    carriers = {}
    for text in conclusion.judged:
        read = second_look.support.get(text.suspect.chunk_id)
        if text.opinion.label is not Label.BENIGN and read is not None and read.span is not None:
            carriers[text.suspect.chunk_id] = Carrier(read.span)
    return carriers


def _ask_without_carriers(
    complaint: Complaint, loop_result: LoopResult, conclusion: TraceConclusion, rag_model: RagModel, mask: Mask
) -> TraceConclusion:
    """Mask the carrying sentence of one accused text after the other, and ask again."""
    carriers = dict(conclusion.carriers)
    by_suspicion = sorted(conclusion.accused, key=lambda text: -text.opinion.score)
    for text in [text.suspect for text in by_suspicion if text.suspect.chunk_id in carriers][:MAX_MASKED_TEXTS]:
        span = carriers[text.chunk_id].span
        masked = replace(text, text=text.text[: span.start] + text.text[span.end :])
        try:
            answer = rag_model.answer(
                complaint.query, [retrieved.text for retrieved in mask(masked, len(loop_result.first))]
            )
        except JudgeFailed:
            break
        carriers[text.chunk_id] = Carrier(span, not repeats(answer, complaint))
    return replace(conclusion, carriers=carriers)


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
    reproduced = repeats(before, complaint)
    answered = replace(conclusion, before=before, after=after, testimony=testimony, reproduced=reproduced)
    if doubtful and reproduced and repeats(after, complaint):
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
    """Relabel poisoned texts as benign: all of them, or `only` those with these ids."""
    return tuple(_acquit_text(text, why) if only is None or text.suspect.chunk_id in only else text for text in judged)


def _acquit_text(text: JudgedText, why: str) -> JudgedText:
    opinion = text.opinion
    if opinion.label is not Label.POISONED:
        return text
    return replace(text, opinion=Opinion(Label.BENIGN, opinion.score, f"{why}; {opinion.explanation}"))
