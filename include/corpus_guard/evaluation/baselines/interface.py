"""Shared parts of the baselines: RAG model, opinions, and the texts that a model is shown at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

from corpus_guard.corpus.filterrag.features import FeatureExtractor
from corpus_guard.ledger.states import Label
from corpus_guard.models import Models
from corpus_guard.models.chat import ChatEndpoint
from corpus_guard.models.messages import Message
from corpus_guard.models.quoting import quote_texts, strip_reasoning
from corpus_guard.settings import Settings
from corpus_guard.traceback.judges import JudgeConclusion, Opinion
from corpus_guard.traceback.rag_model import ChatRagModel
from corpus_guard.traceback.retrieval import Complaint, RetrievedText

EMBEDDED_TOKENS = 48  # of an answer; the small model rambles after that
CHAT_TOKENS = 300  # of an answer
MAX_SHOWN_TEXTS = 20  # that a model is shown at once; a small one takes no more
MAX_QUESTION_LENGTH = 2_000  # characters


class BaselineRagModel(ABC):
    """RAG model that answers questions from texts, and requests about numbered texts.

    It is asked each question once: every attack leaves the clean texts unchanged.
    """

    splits: ClassVar[bool]
    """True if the model can be trusted to sort texts into groups."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, tuple[str, ...]], str] = {}

    @property
    @abstractmethod
    def digest(self) -> str:
        """Identity of the model; at most 100 characters."""

    def answers(self, questions: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Return the first answers to these questions from their texts; empty where the model gives none.

        Raises:
            JudgeFailed: the endpoint does not answer.
        """
        keys = [(question, tuple(texts)) for question, texts in questions]
        new = list(dict.fromkeys(key for key in keys if key not in self._answers))
        if new:
            self._answers.update(zip(new, self._answer(new), strict=True))
        return [self._answers[key] for key in keys]

    @abstractmethod
    def _answer(self, questions: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Answer questions that were not asked before."""

    @abstractmethod
    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        """Return the reply to `request` about the texts, which are numbered from 1.

        Raises:
            JudgeFailed: the endpoint does not answer.
        """


class EmbeddedBaselineRag(BaselineRagModel):
    """Small language model of the package; it answers, and can do little else."""

    splits = False

    def __init__(self, models: Models) -> None:
        super().__init__()
        self._models = models

    @property
    def digest(self) -> str:
        """Hash of the model's weights."""
        return f"slm-{self._models.language_model_digest[:12]}"

    @cached_property
    def _extractor(self) -> FeatureExtractor:
        return FeatureExtractor(self._models)

    def _answer(self, questions: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Return answers of at most 16 tokens."""
        return [answer.text for answer in self._extractor.answer(questions)]

    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        """Return the reply. Each text is in a message of its own, which it cannot leave."""
        passages = [Message("user", f"Passage {number}:\n{text}") for number, text in enumerate(texts, 1)]
        chat = [Message("system", instruction), *passages, Message("user", request)]
        return self._models.language_model.answer([chat], EMBEDDED_TOKENS)[0].text


class ChatBaselineRag(BaselineRagModel):
    """Model behind a chat endpoint."""

    splits = True

    def __init__(self, endpoint: ChatEndpoint) -> None:
        super().__init__()
        self._endpoint = endpoint
        self._rag_model = ChatRagModel(endpoint)

    @property
    def digest(self) -> str:
        """Name of the model, and its address."""
        return self._endpoint.digest

    def _answer(self, questions: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Return the answers, requested at once."""
        return self._rag_model.answers(questions)

    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        """Return the reply. Each text stands between lines that it cannot forge."""
        passages = quote_texts([(f"passage {number}", text) for number, text in enumerate(texts, 1)])
        chat = [Message("system", instruction), Message("user", f"{passages}\n\n{request}")]
        return strip_reasoning(self._endpoint.ask(chat, CHAT_TOKENS).text)


def create_baseline_rag(settings: Settings, models: Models) -> BaselineRagModel:
    """Create the RAG model that the settings name.

    Raises:
        SettingsError: the endpoint's address or key is missing.
    """
    if settings.rag_model == "chat":
        return ChatBaselineRag(ChatEndpoint.from_settings(settings))
    return EmbeddedBaselineRag(models)


class UncalibratedJudge:
    """Base of judges whose opinions allow no conclusion about the complaint as a whole."""

    def conclude(self, complaint: Complaint, judged: Sequence[tuple[RetrievedText, Opinion]]) -> JudgeConclusion:
        """Conclude nothing."""
        return JudgeConclusion()


class AskingJudge(UncalibratedJudge):
    """Base of judges that ask a RAG model."""

    name: ClassVar[str]
    version: ClassVar[str]
    """Hash of the prompts, or a number."""

    def __init__(self, rag: BaselineRagModel) -> None:
        self._rag = rag

    @property
    def digest(self) -> str:
        """Version, and the model."""
        return f"{self.name}/{self.version}/{self._rag.digest}"


def opinion_of(poisoned: bool | None, why: str) -> Opinion:
    """Return an opinion without shades: poisoned, benign, or (None) undecided."""
    if poisoned is None:
        return Opinion(Label.UNDECIDED, 0.5, why)
    return Opinion(Label.POISONED, 1.0, why) if poisoned else Opinion(Label.BENIGN, 0.0, why)


def select_shown_texts(new: Sequence[RetrievedText], retrieved: Sequence[RetrievedText]) -> list[RetrievedText]:
    """Return as many earlier texts as there is room for, then the new ones, in order of retrieval."""
    new_ids = {text.chunk_id for text in new}
    earlier = [text for text in retrieved if text.chunk_id not in new_ids]
    return [*earlier[: max(0, MAX_SHOWN_TEXTS - len(new))], *new]
