"""Sketches of embeddings: 128 signs, enough to group questions by topic, too few to give a text back.

A sign says on which side of a random plane the embedding lies (SimHash, Charikar 2002): two embeddings at an angle
differ in angle / π of the signs. The planes are fixed, so sketches of different days and processes can be compared;
those of different embedders cannot. A sketch is still a hint: who guesses a question can test the guess against it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

BITS = 128
_SEED = 20_261_123


def sketch(vectors: NDArray[np.float32]) -> list[str]:
    """Return the sketch of each row, 32 hexadecimal digits."""
    signs = np.asarray(vectors, np.float32) @ _planes(vectors.shape[1]) > 0
    return [row.tobytes().hex() for row in np.packbits(signs, axis=1)]


def unpack_sketches(sketches: list[str]) -> NDArray[np.float32]:
    """Return a row of 128 signs, +1 or -1, for each sketch.

    Raises:
        ValueError: a sketch is not 32 hexadecimal digits.
    """
    packed = np.frombuffer(bytes.fromhex("".join(sketches)), np.uint8).reshape(len(sketches), BITS // 8)
    return np.unpackbits(packed, axis=1).astype(np.float32) * 2 - 1


@cache
def _planes(dimensions: int) -> NDArray[np.float32]:
    return np.random.default_rng(_SEED).standard_normal((dimensions, BITS)).astype(np.float32)
