"""Embedder and language model: found, verified, and loaded once, on first use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from corpus_guard.models.weights import (
    BUILTIN_EMBEDDER,
    Weights,
    builtin_embedder,
    builtin_language_model,
    builtin_pair_encoder,
    identify_language_model,
    prepare_embedder,
    prepare_language_model,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from corpus_guard.models.chat_cache import AnswerCache
    from corpus_guard.models.contradiction_judge import ContradictionJudge
    from corpus_guard.models.contradiction_reader import ContradictionReader
    from corpus_guard.models.embedder import Embedder
    from corpus_guard.models.language_model import LanguageModel
    from corpus_guard.settings import Settings


class TextEmbedder(Protocol):
    """Interface of `corpus_guard.models.embedder.Embedder` that callers need."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return shape (len(texts), dimensions), rows of length 1."""


class Models:
    """Models of a deployment. A digest or the tokenizer can be read without importing torch."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __getstate__(self) -> dict[str, object]:
        """Return the settings alone: a process that gets a copy loads the models it needs."""
        return {"_settings": self._settings}

    @cached_property
    def embedder_weights(self) -> Weights:
        """Verified files of the embedder."""
        return prepare_embedder(self._settings)

    @cached_property
    def language_model_weights(self) -> Weights:
        """Verified, converted files of the language model."""
        return prepare_language_model(self._settings)

    @cached_property
    def pair_encoder_weights(self) -> Weights:
        """Verified files of the encoder that reads pairs of texts, put together from their parts."""
        return builtin_pair_encoder(self._settings)

    @cached_property
    def word_weights(self) -> Weights:
        """Files of all-MiniLM-L6-v2 for FilterRAG, whatever embedder is configured."""
        return builtin_embedder()

    @property
    def tokenizer_file(self) -> Path:
        """The embedder's ``tokenizer.json``: chunk sizes are counted in its tokens."""
        return self.embedder_weights.folder / "tokenizer.json"

    @cached_property
    def frequency_vocabulary(self) -> Path:
        """``tokenizer.json`` of a vocabulary ordered by frequency, whatever embedder is configured."""
        return builtin_embedder().folder / "tokenizer.json"

    @cached_property
    def language_model_digest(self) -> str:
        """Identity of the language model, known without converting or loading it."""
        return identify_language_model(self._settings)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder; the first access imports torch and sentence-transformers (several seconds)."""
        from corpus_guard.models.embedder import Embedder

        return Embedder(self.embedder_weights)

    @cached_property
    def question_embedder(self) -> TextEmbedder:
        """Embedder of a question, in the embedder's space; for the built-in one it does without torch."""
        is_builtin = type(self).embedder is Models.embedder and self._settings.embedder == BUILTIN_EMBEDDER
        if "embedder" in self.__dict__ or not is_builtin:
            return self.embedder
        from corpus_guard.models.question_embedder import QuestionEmbedder

        return QuestionEmbedder(self.embedder_weights)

    @cached_property
    def word_embedder(self) -> Embedder:
        """The embedder of `word_weights`; the configured one where the two are the same."""
        from corpus_guard.models.embedder import Embedder

        return self.embedder if self.embedder_weights == self.word_weights else Embedder(self.word_weights)

    @cached_property
    def language_model(self) -> LanguageModel:
        """The language model; the first access imports torch and transformers."""
        from corpus_guard.models.language_model import LanguageModel

        return LanguageModel(self.language_model_weights)

    @cached_property
    def contradiction_reader(self) -> ContradictionReader:
        """The reader of contradictions, whatever models are configured; torch is imported when it first reads."""
        from corpus_guard.models.contradiction_reader import ContradictionReader

        return ContradictionReader(
            builtin_embedder, lambda: self.pair_encoder_weights, lambda: builtin_language_model(self._settings)
        )

    def contradiction_judge(self, model: str, most: int, cache: AnswerCache | None = None) -> ContradictionJudge:
        """Return what asks a model at the settings' endpoint about contradictions. Nothing is asked yet.

        Args:
            cache: of answers; None: one that lives as long as the judge.

        Raises:
            SettingsError: the endpoint's address is missing.
        """
        from corpus_guard.models.chat import ChatEndpoint
        from corpus_guard.models.contradiction_judge import ContradictionJudge

        return ContradictionJudge(ChatEndpoint.from_settings(self._settings, cache, model), most)
