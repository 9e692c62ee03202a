"""What the lower half of the built-in sentence encoder knows of a sentence, trained to tell orders from remarks on them.

The upper layers of a sentence embedder forget mood and grammar for the sake of the topic. The first four of its six layers
are kept and trained for this task; the mean and the maximum of the tokens' states after them are read. Only the change of
each weight is stored, in steps of a size of its row: a few bits a weight.

Only sentences that the words leave open are read here: about 10 ms each, on numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from corpus_guard.models.question_embedder import QuestionEmbedder
from corpus_guard.models.weights import MINILM, builtin_embedder

LAYERS: Final = 4
"""Layers that are kept and trained, of six."""
HIDDEN: Final = 384
INNER: Final = 1536
MAX_TOKENS: Final = 64
WIDTH: Final = 2 * HIDDEN
"""Mean and maximum of the tokens' states."""
STEPS: Final = 15
"""Steps in either direction in which the change of a weight is stored."""
ENCODER_DIGEST: Final = MINILM["model.safetensors"]
_LAYER_SHAPES: Final = {
    **{
        f"attention.{part}.{name}": shape
        for part in ("self.query", "self.key", "self.value", "output.dense")
        for name, shape in (("weight", (HIDDEN, HIDDEN)), ("bias", (HIDDEN,)))
    },
    "intermediate.dense.weight": (INNER, HIDDEN),
    "intermediate.dense.bias": (INNER,),
    "output.dense.weight": (HIDDEN, INNER),
    "output.dense.bias": (HIDDEN,),
    **{
        f"{part}LayerNorm.{name}": (HIDDEN,) for part in ("attention.output.", "output.") for name in ("weight", "bias")
    },
}
TRAINED_SHAPES: Final[dict[str, tuple[int, ...]]] = {
    f"encoder.layer.{layer}.{name}": shape for layer in range(LAYERS) for name, shape in _LAYER_SHAPES.items()
}
"""Shapes of the trained tensors, by their names in the encoder."""

Tensors: TypeAlias = dict[str, NDArray[Any]]
"""Tensors by the names of `TRAINED_SHAPES`."""


def pack_changes(trained: Mapping[str, NDArray[np.floating]]) -> tuple[Tensors, Tensors]:
    """Return how far trained tensors are from the encoder's own.

    Args:
        trained: by the names of `TRAINED_SHAPES`.

    Returns:
        steps of each weight, int8, and the size of a step for each row, float16.
    """
    steps, sizes = {}, {}
    for name, own in _own_tensors().items():
        change = trained[name] - own
        size = np.maximum(np.abs(change).max(axis=-1, keepdims=True) / STEPS, 1e-7).astype(np.float16)
        sizes[name] = size
        steps[name] = np.clip(np.round(change / size.astype(np.float32)), -STEPS, STEPS).astype(np.int8)
    return steps, sizes


def with_changes(steps: Mapping[str, NDArray[Any]], sizes: Mapping[str, NDArray[Any]]) -> QuestionEmbedder:
    """Return the encoder with the changes that `pack_changes` returned."""
    own = _own_tensors()
    return _builtin().replacing(
        {name: own[name] + steps[name] * sizes[name].astype(np.float32) for name in TRAINED_SHAPES if name in steps}
    )


def read_state(encoder: QuestionEmbedder, sentence: str) -> NDArray[np.float32]:
    """Return mean and maximum of a sentence's token states after the trained layers, shape (`WIDTH`,)."""
    states = encoder.states(sentence.encode("utf-8", "replace").decode(), LAYERS, MAX_TOKENS)
    return np.concatenate([states.mean(axis=0), states.max(axis=0)])


def _own_tensors() -> dict[str, NDArray[np.float32]]:
    """Return the tensors as the embedder has them."""
    with safe_open(builtin_embedder().folder / "model.safetensors", "np") as file:
        return {name: file.get_tensor(name) for name in TRAINED_SHAPES}


@cache
def _builtin() -> QuestionEmbedder:
    return QuestionEmbedder(builtin_embedder())
