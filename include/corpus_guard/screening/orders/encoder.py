"""What the built-in sentence encoder knows of a sentence before it turns to the topic.

The last layers of a sentence embedder forget mood and grammar for the sake of the topic; after the third of its six
layers they are still there. The fourth layer is trained for this task, and the state after it is read.

Only sentences that the words leave open are read here: about 10 ms each, on numpy alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.question_embedder import QuestionEmbedder
from corpus_guard.models.weights import MINILM, builtin_embedder

LAYERS_KEPT: Final = 3
"""Layers as the embedder has them, of six."""
TRAINED_LAYER: Final = f"encoder.layer.{LAYERS_KEPT}."
"""Beginning of the names of the trained layer's tensors."""
HIDDEN: Final = 384
INNER: Final = 1536
MAX_TOKENS: Final = 64
WIDTH: Final = 2 * HIDDEN
"""Mean and maximum of the tokens' states."""
ENCODER_DIGEST: Final = MINILM["model.safetensors"]
LAYER_SHAPES: Final = {
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
"""Shapes of the trained layer's tensors."""

Layer: TypeAlias = dict[str, NDArray[Any]]
"""Tensors by the names of `LAYER_SHAPES`."""


def read_tokens(sentence: str) -> NDArray[np.float32]:
    """Return the states of a sentence's tokens before the trained layer, shape (tokens, `HIDDEN`)."""
    return _builtin().states(_valid(sentence), LAYERS_KEPT, MAX_TOKENS)


def read_state(encoder: QuestionEmbedder, sentence: str) -> NDArray[np.float32]:
    """Return mean and maximum of a sentence's token states after the trained layer, shape (`WIDTH`,)."""
    states = encoder.states(_valid(sentence), LAYERS_KEPT + 1, MAX_TOKENS)
    return np.concatenate([states.mean(axis=0), states.max(axis=0)])


def with_layer(layer: Mapping[str, NDArray[Any]]) -> QuestionEmbedder:
    """Return the encoder with a trained layer in place of its own."""
    return _builtin().replacing({TRAINED_LAYER + name: tensor for name, tensor in layer.items()})


def _valid(sentence: str) -> str:
    return sentence.encode("utf-8", "replace").decode()


@cache
def _builtin() -> QuestionEmbedder:
    return QuestionEmbedder(builtin_embedder())
