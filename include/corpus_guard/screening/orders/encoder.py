"""What the built-in sentence encoder knows of a sentence before it turns to the topic.

The last layers of a sentence embedder forget mood and grammar for the sake of the topic; after the fourth of its six
layers they are still there. With the third of the families left out, layer 6 catches 16 % of their orders at 3 % of
honest look-alikes, layer 4 35 %, and together with the words and concepts 46 %.

Only sentences that the words leave open are read here: about 10 ms each, on numpy alone.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.question_embedder import QuestionEmbedder
from corpus_guard.models.weights import MINILM, builtin_embedder

LAYERS_READ: Final = 4
"""Of six."""
MAX_TOKENS: Final = 64
WIDTH: Final = 2 * 384
"""Mean and maximum of the tokens' states."""
ENCODER_DIGEST: Final = MINILM["model.safetensors"]


def read_state(sentence: str) -> NDArray[np.float32]:
    """Return mean and maximum of a sentence's token states, shape (`WIDTH`,)."""
    states = _encoder().states(sentence.encode("utf-8", "replace").decode(), LAYERS_READ, MAX_TOKENS)
    return np.concatenate([states.mean(axis=0), states.max(axis=0)])


@cache
def _encoder() -> QuestionEmbedder:
    return QuestionEmbedder(builtin_embedder())
