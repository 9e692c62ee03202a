"""The RAG model as the baselines use it: it answers from texts, and can be asked about numbered texts in free words."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.settings import Settings
from corpus_guard.traceback._quoting import quoted, said
from corpus_guard.traceback.asking import ChatAnswers

if TYPE_CHECKING:
    from corpus_guard.corpus.filterrag import FeatureExtractor
    from corpus_guard.models.chat import ChatEndpoint

EMBEDDED_TOKENS = 48  # the small model rambles after that
CHAT_TOKENS = 300


class RagModel(Protocol):
    """Answers questions from texts."""

    @property
    def digest(self) -> str:
        """Which model; at most 100 characters."""

    @property
    def splits(self) -> bool:
        """Whether it can be trusted to sort texts into groups."""

    def answers(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Answers to questions from their texts; an empty one where there is none.

        Raises:
            JudgeFailed: the endpoint does not answer.
        """

    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        """What it says to `request`, shown the texts, numbered from 1.

        Raises:
            JudgeFailed: the endpoint does not answer.
        """


class EmbeddedRag:
    """The small language model that comes with the package; it answers, and hardly does more."""

    splits = False

    def __init__(self, models: Models) -> None:
        self._models = models

    @property
    def digest(self) -> str:
        """The model's weights."""
        return f"slm-{self._models.language_model_digest[:12]}"

    @cached_property
    def _extractor(self) -> FeatureExtractor:
        from corpus_guard.corpus.filterrag import FeatureExtractor

        return FeatureExtractor(self._models)

    def answers(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """Answers of at most 16 tokens."""
        return [answered.text for answered in self._extractor.answer(asked)]

    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        """Each text stands in a message of its own, which it cannot leave."""
        from corpus_guard.models.language_model import Message

        passages = [Message("user", f"Passage {number}:\n{text}") for number, text in enumerate(texts, 1)]
        chat = [Message("system", instruction), *passages, Message("user", request)]
        return self._models.language_model.answer([chat], EMBEDDED_TOKENS)[0].text


class ChatRag:
    """A model behind a chat endpoint."""

    splits = True

    def __init__(self, endpoint: ChatEndpoint) -> None:
        self._endpoint = endpoint
        self._answers = ChatAnswers(endpoint)

    @property
    def digest(self) -> str:
        """The model's name and where it is."""
        return self._endpoint.digest

    def answers(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
        """All at once."""
        return self._answers.answers(asked)

    def say(self, instruction: str, texts: Sequence[str], request: str) -> str:
        """Each text stands between lines that it cannot forge."""
        from corpus_guard.models.chat import Turn

        passages = quoted([(f"passage {number}", text) for number, text in enumerate(texts, 1)])
        chat = [Turn("system", instruction), Turn("user", f"{passages}\n\n{request}")]
        return said(self._endpoint.ask(chat, CHAT_TOKENS).text)


def make_rag(settings: Settings, models: Models, ledger: Ledger | None = None) -> RagModel:
    """The RAG model that the settings name; see `corpus_guard.traceback.making`.

    Raises:
        SettingsError: the endpoint's address or key is none.
    """
    if settings.rag_model != "chat":
        return EmbeddedRag(models)
    from corpus_guard.models.chat import ChatEndpoint
    from corpus_guard.models.chat_cache import LedgerAnswers

    return ChatRag(ChatEndpoint.of(settings, LedgerAnswers(ledger) if ledger else None))
