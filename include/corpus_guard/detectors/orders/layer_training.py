"""Training of one layer of the sentence encoder, so that it keeps what tells an order from a remark on it.

The layers below stay as they are, and their output is an input here. Mean and maximum of the trained layer's states
feed one logistic unit; layer and unit are trained together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.models.weights import builtin_embedder, silence_libraries
from corpus_guard.screening.orders.encoder import HIDDEN, LAYERS_KEPT, WIDTH, Layer

if TYPE_CHECKING:
    import torch

EPOCHS: Final = 3
BATCH: Final = 32
LEARNING_RATE: Final = 3e-4
UNIT_LEARNING_RATE: Final = 3e-3
WEIGHT_DECAY: Final = 0.05
DROPOUT: Final = 0.2
WARM_UP: Final = 0.06
"""Share of the steps until the learning rate is reached; then it falls to zero."""
POOL: Final = 20 * BATCH
"""Sentences among which those of similar length form a batch."""
UNSEEN: Final = -1e4
"""Added to the attention that a token pays to padding."""


@dataclass(frozen=True)
class TrainedLayer:
    """The layer, and the logistic unit that reads it."""

    layer: Layer
    reading: NDArray[np.float32]
    """Weights of mean and maximum, shape (`WIDTH`,)."""
    intercept: float


def train_layer(tokens: Sequence[NDArray[np.float16]], labels: NDArray[np.bool_], seed: int = 0) -> TrainedLayer:
    """Train the layer.

    Args:
        tokens: of each sentence, its token states before the layer, shape (tokens, `HIDDEN`).
        labels: True for orders.
        seed: of weights, batches and dropout.
    """
    silence_libraries()
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, dropout
    from transformers import AutoModel

    from corpus_guard.models.cpu import number_format

    torch.manual_seed(seed)
    choice = np.random.default_rng(seed)
    layer = AutoModel.from_pretrained(builtin_embedder().folder, dtype=torch.float32).encoder.layer[LAYERS_KEPT].train()
    unit = torch.nn.Linear(WIDTH, 1)
    optimizer = torch.optim.AdamW(
        [{"params": layer.parameters(), "lr": LEARNING_RATE}, {"params": unit.parameters(), "lr": UNIT_LEARNING_RATE}],
        weight_decay=WEIGHT_DECAY,
    )
    steps = EPOCHS * -(-len(tokens) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (WARM_UP * steps)) * max(0.0, 1 - step / steps)
    )
    targets = torch.tensor(labels.astype(np.float32))
    for _ in range(EPOCHS):
        for batch in _batches([len(states) for states in tokens], choice):
            states, mask = _pad([tokens[row] for row in batch])
            with torch.autocast("cpu", torch.bfloat16, enabled=number_format() == "bfloat16"):
                output = layer(states, (1 - mask)[:, None, None, :] * UNSEEN)
            seen = (output[0] if isinstance(output, tuple) else output).float()
            mean = (seen * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            highest = seen.masked_fill(mask[..., None] == 0, UNSEEN).amax(1)
            log_odds = unit(dropout(torch.cat([mean, highest], 1), DROPOUT))[:, 0]
            loss = binary_cross_entropy_with_logits(log_odds, targets[batch])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_([*layer.parameters(), *unit.parameters()], 1.0)
            optimizer.step()
            schedule.step()
    weights = {name: tensor.detach().numpy().astype(np.float16) for name, tensor in layer.state_dict().items()}
    return TrainedLayer(weights, unit.weight.detach().numpy()[0].astype(np.float32), float(unit.bias.detach()))


def _batches(lengths: Sequence[int], choice: np.random.Generator) -> Iterator[list[int]]:
    """Yield batches of sentences of similar length, in a random order."""
    rows = choice.permutation(len(lengths)).tolist()
    pools = [sorted(rows[start : start + POOL], key=lengths.__getitem__) for start in range(0, len(rows), POOL)]
    batches = [pool[start : start + BATCH] for pool in pools for start in range(0, len(pool), BATCH)]
    for number in choice.permutation(len(batches)):
        yield batches[number]


def _pad(tokens: Sequence[NDArray[np.float16]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return states and mask, shapes (sentences, longest, `HIDDEN`) and (sentences, longest)."""
    import torch

    longest = max(map(len, tokens))
    states = np.zeros((len(tokens), longest, HIDDEN), np.float32)
    mask = np.zeros((len(tokens), longest), np.float32)
    for row, own in enumerate(tokens):
        states[row, : len(own)] = own
        mask[row, : len(own)] = 1
    return torch.from_numpy(states), torch.from_numpy(mask)
