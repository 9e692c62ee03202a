"""Embedding of a question without torch: half a second to the first vector, where torch takes ten.

It computes the built-in embedder, all-MiniLM-L6-v2, with numpy: the encoder of Devlin et al. (2019), BERT,
section 3, mean pooling and unit length. One text at a time, so nothing is padded. Documents are embedded with
`corpus_guard.models.embedder`, which is faster for many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from corpus_guard.domain import replace_surrogates
from corpus_guard.models.weights import Weights

LAYERS = 6
HEADS = 12
MAX_TOKENS = 256
NORM_EPSILON = 1e-12

Floats = NDArray[np.float32]


class QuestionEmbedder:
    """all-MiniLM-L6-v2 for a few short texts; its vectors are the embedder's (cosine at least 0.9995)."""

    def __init__(self, weights: Weights) -> None:
        """Read the weights of the built-in embedder, 90 MB."""
        self._tensors: dict[str, Floats] = load_file(weights.folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(weights.folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Embed texts.

        Returns:
            float32 array, shape (len(texts), 384); every row has length 1.
        """
        rows = [self._embed(replace_surrogates(text)) for text in texts]
        return np.stack(rows) if rows else np.empty((0, 384), np.float32)

    def _embed(self, text: str) -> Floats:
        ids = self._tokenizer.encode(text).ids
        state = (
            self._tensors["embeddings.word_embeddings.weight"][ids]
            + self._tensors["embeddings.position_embeddings.weight"][: len(ids)]
            + self._tensors["embeddings.token_type_embeddings.weight"][0]
        )
        state = self._normalise(state, "embeddings")
        for number in range(LAYERS):
            layer = f"encoder.layer.{number}"
            attended = self._dense(self._attend(state, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
            state = self._normalise(state + attended, f"{layer}.attention.output")
            inner = self._dense(state, f"{layer}.intermediate.dense")
            inner *= 0.5 * (1 + _erf(inner * np.float32(math.sqrt(0.5))))
            state = self._normalise(state + self._dense(inner, f"{layer}.output.dense"), f"{layer}.output")
        mean: Floats = state.mean(axis=0)
        return mean / np.linalg.norm(mean)

    def _attend(self, state: Floats, name: str) -> Floats:
        """Return the heads' attention over `state`, side by side: shape (tokens, width)."""
        tokens, width = state.shape
        query, key, value = (
            self._dense(state, f"{name}.{part}").reshape(tokens, HEADS, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(1, 2) / np.sqrt(np.float32(width // HEADS))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        attended: Floats = (weights @ value).swapaxes(0, 1).reshape(tokens, width)
        return attended

    def _dense(self, state: Floats, name: str) -> Floats:
        product: Floats = state @ self._tensors[f"{name}.weight"].T + self._tensors[f"{name}.bias"]
        return product

    def _normalise(self, state: Floats, name: str) -> Floats:
        centred = state - state.mean(axis=-1, keepdims=True)
        scale = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
        scaled: Floats = centred / scale
        return scaled * self._tensors[f"{name}.LayerNorm.weight"] + self._tensors[f"{name}.LayerNorm.bias"]


def _erf(x: Floats) -> Floats:
    """Return the error function, to 4e-7: Abramowitz and Stegun, 7.1.26. (scipy's takes a third of a second to import.)"""
    size = np.abs(x)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf: Floats = np.copysign(1 - series * np.exp(-size * size), x).astype(np.float32, copy=False)
    return erf
