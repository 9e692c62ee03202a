"""Cohesion of words: whether the words of a passage are about something, from the embedder's vectors of single tokens.

What a person writes is about something, so its words lie near each other. An optimiser chooses each word for what the whole passage
becomes, and its words are strangers. This costs hardly anything, so the language model need not read what coheres.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_TABLE: Final = "embeddings.word_embeddings.weight"  # of a BERT model


class WordCohesion:
    """Cosine of tokens with each other."""

    def __init__(self, weights: Path) -> None:
        """Keep the path of a BERT model's ``model.safetensors``; loads nothing."""
        self._weights = weights

    def of_windows(
        self, tokens: NDArray[np.int64], width: int, strangers: NDArray[np.bool_] | None = None
    ) -> NDArray[np.float64]:
        """Return for every `width` tokens in a row the mean cosine of different ones with each other.

        Vectors are taken from the mean of the vocabulary. A token and itself count as strangers: what is repeated coheres no more. So do
        two of the tokens that are marked. Fewer tokens have no window.
        """
        starts = np.arange(len(tokens) - width + 1)
        if not len(starts):
            return np.empty(0)
        vectors = self._vectors[tokens].astype(np.float32)
        cosines = vectors @ vectors.T
        cosines[tokens[:, None] == tokens[None, :]] = 0.0
        if strangers is not None:
            cosines[np.ix_(strangers, strangers)] = 0.0
        sums = np.zeros((len(tokens) + 1, len(tokens) + 1))  # of all cosines above and before
        np.cumsum(np.cumsum(cosines, axis=0, dtype=np.float64), axis=1, out=sums[1:, 1:])
        ends = starts + width
        inside = sums[ends, ends] - sums[starts, ends] - sums[ends, starts] + sums[starts, starts]
        means: NDArray[np.float64] = inside / (width * (width - 1))
        return means

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
