"""Common parts of encoders of BERT's build (Devlin et al. 2019) on which a reader is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

HIDDEN: Final = 384
INNER: Final = 1536
WIDTH: Final = 2 * HIDDEN
"""Numbers that a reader's unit sees: mean and maximum over the tokens."""
MATRICES: Final = {
    "attention.self.query": (HIDDEN, HIDDEN),
    "attention.self.key": (HIDDEN, HIDDEN),
    "attention.self.value": (HIDDEN, HIDDEN),
    "attention.output.dense": (HIDDEN, HIDDEN),
    "intermediate.dense": (INNER, HIDDEN),
    "output.dense": (HIDDEN, INNER),
}
"""Matrices of a layer, by their names in transformers → outputs and inputs."""
UNSEEN: Final = -1e4
"""State of padding, where the highest is looked for."""


def changed_matrices(
    layers: int, matrices: Mapping[str, tuple[int, int]] = MATRICES
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name of each matrix of the first layers, with its outputs and inputs."""
    for layer in range(layers):
        for name, shape in matrices.items():
            yield f"encoder.layer.{layer}.{name}", shape


def pool_states(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return mean and maximum of the states of each text's tokens.

    Args:
        states: shape (texts, tokens, numbers).
        mask: 1 for tokens, 0 for padding, shape (texts, tokens).

    Returns:
        float32, shape (texts, twice the numbers).
    """
    import torch

    floats = states.float()
    mean = (floats * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return torch.cat([mean, floats.masked_fill(mask[..., None] == 0, UNSEEN).amax(1)], 1)
