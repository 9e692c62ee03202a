"""The second witness of a trace: the RAG model answers again, and its activations say whether the answer was forced.

Rules
    * it speaks only where the model is asked anyway, and only of a model whose states can be had: a chat endpoint shows none;
    * its word counts where three things hold: the probe's own figures passed the floor, its margin is over the calibrated threshold, and
      the model gave the reported output again, for it is that answer the report is about. Otherwise it is shown and changes nothing;
    * that it was not heard is a `Skipped` with the reason, never a missing vote.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.domain import Skipped
from corpus_guard.errors import GuardError
from corpus_guard.traceback._failing import as_failure
from corpus_guard.traceback.activations.probe import Probe, Vote
from corpus_guard.traceback.activations.recording import PROMPT_VERSION
from corpus_guard.traceback.asking import Answers, EmbeddedAnswers, agrees
from corpus_guard.traceback.suspects import Complaint

if TYPE_CHECKING:
    from corpus_guard.models import Models

NAME: Final = "activations"
NOT_ASKED: Final = Skipped(NAME, "the RAG model was not asked again")
UNSEEN: Final = Skipped(NAME, "the RAG model is behind an endpoint, which shows no activations")


@dataclass(frozen=True, slots=True)
class Testimony:
    """What the activations of an answer say."""

    vote: Vote
    margin: float  # -1 surely clean .. 1 surely poisoned
    probe: str  # its digest
    shortfalls: tuple[str, ...]  # of the probe's own figures
    repeated: bool  # the model gave the reported output again

    @property
    def counts(self) -> bool:
        """Whether a verdict must not contradict it."""
        return self.vote is not Vote.UNSURE and self.repeated and not self.shortfalls

    @property
    def poisoned(self) -> bool:
        """Whether it says that the answer was forced."""
        return self.vote is Vote.POISONED

    @property
    def reason(self) -> str:
        """Why its word does not count, or that it does."""
        if self.shortfalls:
            return f"shown only, the probe is too weak to count: {'; '.join(self.shortfalls)}"
        if self.vote is Vote.UNSURE:
            return "unsure"
        return "counts" if self.repeated else "shown only: asked again, the model does not give the reported output"


class Witness:
    """The embedded RAG model with a probe on its states; the same answers as without."""

    name = "embedded"

    def __init__(self, models: Models, probe: Probe) -> None:
        """Loads the language model when it is first asked."""
        self._models = models
        self._probe = probe

    @property
    def counts(self) -> bool:
        """Whether the probe's word can count at all."""
        return not self._probe.shortfalls

    def answer(self, question: str, texts: Sequence[str]) -> str:
        """The answer, a phrase of at most 16 tokens.

        Raises:
            JudgeFailed: the model cannot be loaded or run.
        """
        from corpus_guard.corpus.filterrag.features import FeatureExtractor

        with as_failure("the embedded RAG model"):
            return FeatureExtractor(self._models).answer([(question, list(texts))])[0].text

    def testify(self, complaint: Complaint, texts: Sequence[str]) -> tuple[str, Testimony]:
        """The answer to the question from `texts`, and what its activations say; one forward pass for both.

        Raises:
            JudgeFailed: the model cannot be loaded or run, or its states are no numbers.
            SettingsError: the model gives no states, or of another shape than the probe knows.
        """
        from corpus_guard.corpus.filterrag.features import ANSWER_TOKENS, question_to

        with as_failure("the embedded RAG model"):
            (read,) = self._models.language_model.activations([question_to(complaint.query, texts)], ANSWER_TOKENS)
            margin = float(self._probe.margins(read.states[None])[0])
        repeated = agrees(read.answered.text, complaint.output)
        heard = Testimony(self._probe.vote(margin), margin, self._probe.digest[:16], self._probe.shortfalls, repeated)
        return read.answered.text, heard


def testify(answers: Answers, complaint: Complaint, texts: Sequence[str]) -> tuple[str, Testimony | Skipped]:
    """The answer to a complaint's question from `texts`, and what the activations say of it, where they can be seen.

    Raises:
        JudgeFailed: no answer can be had.
    """
    if not isinstance(answers, Witness):
        return answers.answer(complaint.query, texts), _unheard(answers)
    try:
        return answers.testify(complaint, texts)
    except GuardError as error:  # a probe that does not fit must not keep the judge's trace from ending
        return answers.answer(complaint.query, texts), Skipped(NAME, str(error))


def _unheard(answers: Answers) -> Skipped:
    return Skipped(NAME, answers.unheard) if isinstance(answers, EmbeddedAnswers) else UNSEEN


def fits(probe: Probe, models: Models) -> str:
    """Why the probe cannot be asked of this guard's language model; empty: it can. Loads no model."""
    if f"@sha256:{models.language_model_digest[:12]}" not in probe.model:
        return f"the probe was trained on {probe.model}, the RAG model is another one; `guard train activations` makes one for it"
    if probe.prompt != PROMPT_VERSION:
        return (
            f"the probe was trained on prompt {probe.prompt}, this guard words it as {PROMPT_VERSION}; train it again"
        )
    return ""


def told(heard: Testimony | Skipped) -> dict[str, Any]:
    """JSON-ready, as the ledger keeps it."""
    if isinstance(heard, Skipped):
        return {"vote": "skipped", "margin": None, "probe": None, "counts": False, "reason": heard.reason}
    return {
        "vote": heard.vote.value,
        "margin": round(heard.margin, 4),
        "probe": heard.probe,
        "counts": heard.counts,
        "reason": heard.reason,
    }
