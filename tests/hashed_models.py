"""Models for tests of rules rather than of meanings: vectors from words, in microseconds and without torch.

The same text always has the same vector, texts that share words are near each other, and texts that share none are nearly orthogonal.
What a model understands is tested with the real one (tests/models, tests/screening, tests/evaluation).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models import Models
from corpus_guard.models.weights import Weights, builtin_embedder

DIMENSIONS = 384
SHORTEST_WORD = 4  # letters: "the" and "and" would make all texts alike


@lru_cache(maxsize=20_000)
def _direction(word: str) -> NDArray[np.float64]:
    seed = int.from_bytes(hashlib.sha256(word.encode("utf-8", "replace")).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(DIMENSIONS)


class HashedEmbedder:
    """The interface of `corpus_guard.models.embedder.Embedder` over a bag of hashed words."""

    dtype = "float32"
    dimensions = DIMENSIONS

    def __init__(self, weights: Weights) -> None:
        self.weights = weights

    @property
    def digest(self) -> str:
        """Identity of the vector space."""
        return f"{self.weights}/{self.dtype}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, float32, shape (len(texts), 384)."""
        vectors = np.empty((len(texts), DIMENSIONS), np.float64)
        for row, text in enumerate(texts):
            words = [word for word in re.findall(r"\w+", text.lower()) if len(word) >= SHORTEST_WORD] or [text]
            vectors[row] = sum(count * _direction(word) for word, count in sorted(Counter(words).items()))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32)


class HashedModels(Models):
    """The real tokenizer and vocabulary, the real language model where a check asks for it, and hashed vectors."""

    @cached_property
    def embedder_weights(self) -> Weights:
        """The real tokenizer, under another name: these vectors belong to no other space."""
        return replace(builtin_embedder(), name="hashed-words", digest="0" * 64)

    @cached_property
    def embedder(self) -> HashedEmbedder:  # type: ignore[override]
        """Hashed words."""
        return HashedEmbedder(self.embedder_weights)

    @cached_property
    def word_embedder(self) -> HashedEmbedder:  # type: ignore[override]
        """Hashed words."""
        return self.embedder
