"""Embedder and language model: found, checked, loaded once and only when something asks for them."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_guard.models.weights import (
    Weights,
    builtin_embedder,
    identify_language_model,
    prepare_embedder,
    prepare_language_model,
)
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.models.embedder import Embedder
    from corpus_guard.models.language_model import LanguageModel


class Models:
    """Both models behind one door. Importing this, or asking for a digest or the tokenizer, imports no torch."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def embedder_weights(self) -> Weights:
        """Verified files of the embedder."""
        return prepare_embedder(self._settings)

    @cached_property
    def language_model_weights(self) -> Weights:
        """Verified, converted files of the language model."""
        return prepare_language_model(self._settings)

    @cached_property
    def word_weights(self) -> Weights:
        """all-MiniLM-L6-v2, whatever embedder is configured: FilterRAG compares words in its space."""
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
        """Identity of the language model; known without converting or loading it."""
        return identify_language_model(self._settings)

    @cached_property
    def embedder(self) -> Embedder:
        """Loads on first use: imports torch and sentence-transformers (several seconds)."""
        from corpus_guard.models.embedder import Embedder

        return Embedder(self.embedder_weights)

    @cached_property
    def word_embedder(self) -> Embedder:
        """The embedder of `word_weights`; the configured one where it is the same."""
        from corpus_guard.models.embedder import Embedder

        return self.embedder if self.embedder_weights == self.word_weights else Embedder(self.word_weights)

    @cached_property
    def language_model(self) -> LanguageModel:
        """Loads on first use: imports torch and transformers."""
        from corpus_guard.models.language_model import LanguageModel

        return LanguageModel(self.language_model_weights)
