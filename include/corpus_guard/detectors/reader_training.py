"""Training of a reader: prompts with their right answers in, changes of the language model's lower layers out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from corpus_guard.domain import Progress, no_progress
from corpus_guard.models.trained_reader import (
    HIDDEN,
    SCALE,
    ReaderKind,
    ReaderWeights,
    last_states,
    load_body,
    load_tokenizer,
    read_tokens,
)
from corpus_guard.models.weights import Weights

if TYPE_CHECKING:
    import torch

BATCH: Final = 16
POOL: Final = 20 * BATCH
"""Prompts among which those of similar length form a batch."""
LEARNING_RATE: Final = 4e-4
UNIT_LEARNING_RATE: Final = 1e-3
WEIGHT_DECAY: Final = 0.01
WARM_UP: Final = 0.06
"""Share of the steps until the learning rate is reached; then it falls to zero."""


def train_reader(
    kind: ReaderKind,
    examples: Sequence[tuple[str, int]],
    language_model: Weights,
    sheet: Mapping[str, Any],
    *,
    epochs: int = 1,
    seed: int = 0,
    progress: Progress = no_progress,
) -> ReaderWeights:
    """Train a reader. The same examples and seed give the same weights on the same kind of processor.

    Args:
        kind: what is trained.
        examples: prompts and the right output of the unit, in the order in which they are shown.
        language_model: the built-in one, converted.
        sheet: data sheet that is kept with the weights.
        epochs: times that each prompt is shown.
        seed: of weights and batches.
        progress: told after each batch.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from corpus_guard.models.cpu import number_format

    tokens = read_tokens(load_tokenizer(language_model.folder), [prompt for prompt, _ in examples])
    body = load_body(language_model.folder, number_format(), kind.layers)
    torch.manual_seed(seed)
    changes = _make_trainable(kind, body)
    unit = torch.nn.Linear(HIDDEN, kind.outputs)
    optimizer = torch.optim.AdamW(
        [{"params": changes.values(), "lr": LEARNING_RATE}, {"params": unit.parameters(), "lr": UNIT_LEARNING_RATE}],
        weight_decay=WEIGHT_DECAY,
    )
    lengths = [len(ids) for ids in tokens]
    batches = [rows for epoch in range(epochs) for rows in _batches(lengths, seed + epoch)]
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer,
        lambda step: min(1.0, (step + 1) / (WARM_UP * len(batches))) * max(0.0, 1 - step / len(batches)),
    )
    for done, rows in enumerate(batches):
        progress("training the reader", done, len(batches))
        outputs = unit(last_states(body, [tokens[row] for row in rows]))
        loss = cross_entropy(outputs, torch.tensor([examples[row][1] for row in rows]))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_([*changes.values(), *unit.parameters()], 1.0)
        optimizer.step()
        schedule.step()
    weights = torch.cat([unit.weight, unit.bias[:, None]], 1)
    trained = {name: change.detach().numpy() for name, change in changes.items()}
    return ReaderWeights(kind, trained, weights.detach().numpy(), {**sheet, "examples": len(examples), "seed": seed})


def _make_trainable(kind: ReaderKind, body: torch.nn.Module) -> dict[str, Any]:
    """Add to each changed matrix two small ones whose product is zero, and return these."""
    import torch

    class Changed(torch.nn.Module):
        """A linear module, and what is added to its output."""

        def __init__(self, own: torch.nn.Module, down: torch.nn.Parameter, up: torch.nn.Parameter) -> None:
            super().__init__()
            self.own, self.down, self.up = own, down, up

        def forward(self, state: torch.Tensor) -> torch.Tensor:
            """Return the output of both."""
            added = state @ self.down.to(state.dtype).T @ self.up.to(state.dtype)
            output: torch.Tensor = self.own(state) + SCALE * added
            return output

    shapes = kind.shapes
    changes: dict[str, torch.nn.Parameter] = {}
    for name, _ in kind.changed:
        rank, inputs = shapes[f"{name}.down"]
        down = changes[f"{name}.down"] = torch.nn.Parameter(torch.randn(rank, inputs) / math.sqrt(inputs))
        up = changes[f"{name}.up"] = torch.nn.Parameter(torch.zeros(shapes[f"{name}.up"]))
        parent, _, own = name.rpartition(".")
        setattr(body.get_submodule(parent), own, Changed(body.get_submodule(name), down, up))
    return changes


def _batches(lengths: Sequence[int], seed: int) -> list[list[int]]:
    """Return batches of prompts of similar length, in a random order."""
    choice = np.random.default_rng(seed)
    pools = [range(start, min(start + POOL, len(lengths))) for start in range(0, len(lengths), POOL)]
    batches: list[list[int]] = []
    for pool in pools:
        rows = sorted(pool, key=lengths.__getitem__)
        own = [rows[start : start + BATCH] for start in range(0, len(rows), BATCH)]
        batches += [own[number] for number in choice.permutation(len(own))]
    return batches
