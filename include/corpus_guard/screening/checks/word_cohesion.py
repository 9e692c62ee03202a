"""Cohesion of words: whether the words of a passage are about something, from the embedder's vectors of single tokens.

What a person writes is about something, so its words lie near each other. An optimiser chooses each word for what the whole passage
becomes, and its words are strangers. This costs hardly anything, so the language model need not read the passages that cohere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

COHESION_WINDOW: Final = 20  # tokens
_TABLE: Final = "embeddings.word_embeddings.weight"  # of a BERT model


class WordCohesion:
    """Cosine of the tokens of a passage with each other."""

    def __init__(self, weights: Path) -> None:
        """Keep the path of a BERT model's ``model.safetensors``; loads nothing."""
        self._weights = weights

    def lowest(self, tokens: Sequence[int]) -> float:
        """Return the mean cosine of different tokens with each other in the window where it is lowest.

        A window has `COHESION_WINDOW` tokens, or all of a shorter passage. Vectors are taken from the mean of the vocabulary. Fewer
        than two tokens have a cohesion of 1.
        """
        if len(tokens) < 2:
            return 1.0
        ids = np.asarray(tokens, np.int64)
        vectors = self._vectors[ids].astype(np.float32)
        cosines = vectors @ vectors.T
        cosines[ids[:, None] == ids[None, :]] = 0.0
        width = min(COHESION_WINDOW, len(ids))
        windows = (cosines[start : start + width, start : start + width] for start in range(len(ids) - width + 1))
        return float(min(window.sum() for window in windows)) / (width * (width - 1))

    @cached_property
    def _vectors(self) -> NDArray[np.float16]:
        """Centred vectors of length 1; shape (tokens of the vocabulary, dimensions)."""
        from safetensors import safe_open

        with safe_open(self._weights, "numpy") as file:
            table: NDArray[np.float32] = file.get_tensor(_TABLE)
        table = table - table.mean(axis=0)
        lengths: NDArray[np.float32] = np.linalg.norm(table, axis=1, keepdims=True)
        vectors: NDArray[np.float16] = (table / np.maximum(lengths, 1e-9)).astype(np.float16)
        return vectors
