"""Second witness of a trace: a probe of the RAG model's activations as it answers again.

Rules
    * the probe votes only where the RAG model is asked anyway, and only for a model whose states are
      accessible: a chat endpoint shows none;
    * its vote counts if three conditions hold: the probe's own figures reach the minimum, its margin exceeds
      the calibrated threshold, and the model gave the reported output again, because the report is about that
      answer. Otherwise the vote is shown and changes nothing;
    * where there is no vote, a `Skipped` gives the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from corpus_guard.corpus.filterrag.features import MAX_ANSWER_TOKENS, FeatureExtractor, build_chat
from corpus_guard.domain import Skipped
from corpus_guard.errors import GuardError
from corpus_guard.models import Models
from corpus_guard.traceback.activations.probe import Probe, Vote
from corpus_guard.traceback.activations.recording import PROMPT_VERSION
from corpus_guard.traceback.judges import report_as_judge_failure
from corpus_guard.traceback.rag_model import EmbeddedRagModel, RagModel, agrees
from corpus_guard.traceback.retrieval import Complaint

CHECK_NAME: Final = "activations"
NOT_ASKED: Final = Skipped(CHECK_NAME, "the RAG model was not asked again")
NO_ACTIVATIONS: Final = Skipped(CHECK_NAME, "the RAG model is behind an endpoint, which shows no activations")


class TestimonyRecord(TypedDict):
    """Testimony as the ledger stores it."""

    vote: str  # a `Vote`, or "skipped"
    margin: float | None
    probe: str | None  # beginning of its digest
    counts: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Testimony:
    """Vote of a probe on the activations of one answer."""

    vote: Vote
    margin: float  # -1 surely clean .. 1 surely poisoned
    probe: str  # beginning of its digest
    shortfalls: tuple[str, ...]  # of the probe's own figures
    repeated: bool  # the model gave the reported output again

    @property
    def counts(self) -> bool:
        """True if no conclusion may contradict this vote."""
        return self.vote is not Vote.UNSURE and self.repeated and not self.shortfalls

    @property
    def poisoned(self) -> bool:
        """True if the vote says that the answer was forced."""
        return self.vote is Vote.POISONED

    @property
    def reason(self) -> str:
        """Reason why the vote counts or does not."""
        if self.shortfalls:
            return f"shown only, the probe is too weak to count: {'; '.join(self.shortfalls)}"
        if self.vote is Vote.UNSURE:
            return "unsure"
        return "counts" if self.repeated else "shown only: asked again, the model does not give the reported output"


class ActivationWitness:
    """Embedded RAG model with a probe on its states; it answers exactly as without the probe."""

    name = "embedded"

    def __init__(self, models: Models, probe: Probe) -> None:
        """Answer with the language model of `models`, which is loaded by the first question."""
        self._models = models
        self._probe = probe

    @property
    def counts(self) -> bool:
        """Return whether the probe's vote can count at all."""
        return not self._probe.shortfalls

    def answer(self, question: str, texts: Sequence[str]) -> str:
        """Return the answer, a phrase of at most 16 tokens.

        Raises:
            JudgeFailed: the model cannot be loaded or run.
        """
        with report_as_judge_failure("the embedded RAG model"):
            return FeatureExtractor(self._models).answer([(question, list(texts))])[0].text

    def testify(self, complaint: Complaint, texts: Sequence[str]) -> tuple[str, Testimony]:
        """Return the answer to the question from `texts` and the probe's vote on it, from one forward pass.

        Raises:
            JudgeFailed: the model cannot be loaded or run, or its states are not finite.
            SettingsError: the model gives no states, or states of another shape than the probe expects.
        """
        with report_as_judge_failure("the embedded RAG model"):
            prompts = [build_chat(complaint.query, texts)]
            (read,) = self._models.language_model.answer_with_states(prompts, MAX_ANSWER_TOKENS)
            margin = float(self._probe.margins(read.states[None])[0])
        answer = read.answered.text
        testimony = Testimony(
            vote=self._probe.vote(margin),
            margin=margin,
            probe=self._probe.digest[:16],
            shortfalls=self._probe.shortfalls,
            repeated=agrees(answer, complaint.output),
        )
        return answer, testimony


def testify(rag_model: RagModel, complaint: Complaint, texts: Sequence[str]) -> tuple[str, Testimony | Skipped]:
    """Return the answer to a complaint's question from `texts`, and its testimony or why there is none.

    Raises:
        JudgeFailed: the model gives no answer.
    """
    if isinstance(rag_model, ActivationWitness):
        try:
            return rag_model.testify(complaint, texts)
        except GuardError as error:  # a probe that does not fit must not keep the judge's trace from ending
            return rag_model.answer(complaint.query, texts), Skipped(CHECK_NAME, str(error))
    reason = rag_model.no_probe_reason if isinstance(rag_model, EmbeddedRagModel) else NO_ACTIVATIONS.reason
    return rag_model.answer(complaint.query, texts), Skipped(CHECK_NAME, reason)


def probe_mismatch(probe: Probe, models: Models) -> Skipped | None:
    """Return why the probe does not fit the language model of `models`; None: it fits. Loads no model."""
    if f"@sha256:{models.language_model_digest[:12]}" not in probe.model:
        return Skipped(
            CHECK_NAME,
            f"the probe was trained on {probe.model}, the RAG model is another one; train a probe for it "
            "with `guard train activations`",
        )
    if probe.prompt != PROMPT_VERSION:
        return Skipped(
            CHECK_NAME,
            f"the probe was trained on prompt {probe.prompt}, this version uses prompt {PROMPT_VERSION}; "
            "train it again with `guard train activations`",
        )
    return None


def as_testimony_record(testimony: Testimony | Skipped) -> TestimonyRecord:
    """Return the testimony as the ledger stores it."""
    if isinstance(testimony, Skipped):
        return TestimonyRecord(vote="skipped", margin=None, probe=None, counts=False, reason=testimony.reason)
    return TestimonyRecord(
        vote=testimony.vote.value,
        margin=round(testimony.margin, 4),
        probe=testimony.probe,
        counts=testimony.counts,
        reason=testimony.reason,
    )
