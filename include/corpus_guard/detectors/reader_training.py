"""Training of a reader: prompts with their right answers in, changes of a built-in model's layers out.

A GPU is used where torch finds one: what takes hours on two cores takes minutes there.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.models.reader_base import OpenBase
from corpus_guard.models.trained_reader import SCALE, ReaderKind, ReaderWeights
from corpus_guard.models.weights import Weights

if TYPE_CHECKING:
    import torch

WARM_UP: Final = 0.06
"""Share of the steps until the learning rate is reached; then it falls to zero."""
POOL: Final = 20
"""Batches among whose prompts those of similar length form a batch."""
TOKENS_AT_ONCE: Final = 256
"""Tokens, padding included, that are learned from at once on the CPU. For 2,000 of them the largest encoder needs 2 GB."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of a reader's training."""

    epochs: int = 1  # times that each prompt is shown
    runs: int = 1  # trainings from the same weights, with other batches, whose weights are averaged
    batch: int = 16
    learning_rate: float = 4e-4
    unit_learning_rate: float = 1e-3
    weight_decay: float = 0.01
    dropout: float = 0.0  # of what the unit sees


def train_reader(
    kind: ReaderKind,
    examples: Sequence[tuple[str, int]],
    base: Weights,
    sheet: Mapping[str, Any],
    recipe: Recipe,
    *,
    start: ReaderWeights | None = None,
    seed: int = 0,
    progress: Progress = no_progress,
) -> ReaderWeights:
    """Train a reader. The same examples, recipe and seed give the same weights on the same kind of processor.

    Args:
        examples: prompts and the right output of the unit, in the order in which they are shown.

    Raises:
        Misuse: training diverged.
    """
    tokens = kind.base.open(base).read_tokens([prompt for prompt, _ in examples])
    answers = [answer for _, answer in examples]
    sums: dict[str, NDArray[np.float64]] = {}
    for run in range(recipe.runs):
        # A body of its own for each: training changes it.
        trained = _train_once(kind, kind.base.open(base), tokens, answers, recipe, start, seed, run, progress)
        for name, array in trained.items():
            sums[name] = sums.get(name, 0.0) + array.astype(np.float64)
    means = {name: (total / recipe.runs).astype(np.float32) for name, total in sums.items()}
    unit = means.pop(_UNIT)
    return ReaderWeights(kind, means, unit, {**sheet, "examples": len(examples), "seed": seed, "runs": recipe.runs})


_UNIT: Final = "unit"


def _train_once(
    kind: ReaderKind,
    base: OpenBase,
    tokens: Sequence[Sequence[int]],
    answers: Sequence[int],
    recipe: Recipe,
    start: ReaderWeights | None,
    seed: int,
    run: int,
    progress: Progress,
) -> dict[str, NDArray[np.float32]]:
    """Return the changes after one training, and the unit with its constant."""
    import torch
    from torch.nn.functional import cross_entropy, dropout

    from corpus_guard.models.cpu import release_memory

    device = "cuda" if torch.cuda.is_available() else "cpu"
    base.body.to(device)
    torch.manual_seed(seed)
    changes = _make_trainable(kind, base.body, device)
    unit = torch.nn.Linear(kind.base.width, kind.outputs)
    if start:
        with torch.no_grad():
            for name, change in changes.items():
                change.copy_(torch.from_numpy(start.changes[name]))
            unit.weight.copy_(torch.from_numpy(start.unit[:, :-1]))
            unit.bias.copy_(torch.from_numpy(start.unit[:, -1]))
    unit = unit.to(device)
    # Until here all runs are the same: weights that start apart have no mean that is of use.
    torch.manual_seed(seed + run)
    optimizer = torch.optim.AdamW(
        [
            {"params": changes.values(), "lr": recipe.learning_rate},
            {"params": unit.parameters(), "lr": recipe.unit_learning_rate},
        ],
        weight_decay=recipe.weight_decay,
    )
    lengths = [len(ids) for ids in tokens]
    passes = range(recipe.epochs * run, recipe.epochs * (run + 1))
    batches = [rows for number in passes for rows in _batches(lengths, recipe.batch, seed, number)]
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (WARM_UP * len(batches))) * max(0.0, 1 - step / len(batches))
    )
    for done, rows in enumerate(batches):
        progress(
            f"training the reader, run {run + 1}" if recipe.runs > 1 else "training the reader", done, len(batches)
        )
        optimizer.zero_grad()
        for part in _parts(rows, lengths, TOKENS_AT_ONCE if device == "cpu" else math.inf):
            outputs = unit(dropout(base.read_states([tokens[row] for row in part]), recipe.dropout))
            right = torch.tensor([answers[row] for row in part], device=device)
            torch.autograd.backward(cross_entropy(outputs, right, reduction="sum") / len(rows))
        size = torch.nn.utils.clip_grad_norm_([*changes.values(), *unit.parameters()], 1.0)
        if not size.isfinite():  # one such step, and no weight is a number any more
            raise Misuse(
                f"training diverged at batch {done + 1} of {len(batches)}: its gradient is not finite, and nothing was written; "
                "start from other weights, or from none"
            )
        optimizer.step()
        schedule.step()
    trained = {name: change.detach().cpu().numpy() for name, change in changes.items()}
    weights = {**trained, _UNIT: torch.cat([unit.weight, unit.bias[:, None]], 1).detach().cpu().numpy()}
    del base, changes, unit, optimizer, schedule
    gc.collect()  # they lie in cycles, and the next training holds as much
    release_memory()
    return weights


def _make_trainable(kind: ReaderKind, body: torch.nn.Module, device: str) -> dict[str, Any]:
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
    for name, _ in kind.base.changed:
        rank, inputs = shapes[f"{name}.down"]
        # Drawn on the CPU, so that each device begins with the same.
        down = changes[f"{name}.down"] = torch.nn.Parameter((torch.randn(rank, inputs) / math.sqrt(inputs)).to(device))
        up = changes[f"{name}.up"] = torch.nn.Parameter(torch.zeros(shapes[f"{name}.up"], device=device))
        parent, _, own = name.rpartition(".")
        setattr(body.get_submodule(parent), own, Changed(body.get_submodule(name), down, up))
    return changes


def _parts(rows: Sequence[int], lengths: Sequence[int], most: float) -> Iterator[Sequence[int]]:
    """Yield parts of a batch: as many of its prompts as have `most` tokens with their padding, at least one."""
    start, longest = 0, 0
    for end, row in enumerate(rows):
        longest = max(longest, lengths[row])
        if end > start and longest * (end + 1 - start) > most:
            yield rows[start:end]
            start, longest = end, lengths[row]
    yield rows[start:]


def _batches(lengths: Sequence[int], batch: int, seed: int, number: int) -> list[list[int]]:
    """Return batches of prompts of similar length, in a random order; the first pass takes them from prompts as they stand."""
    choice = np.random.default_rng(seed + number)
    order = choice.permutation(len(lengths)).tolist() if number else list(range(len(lengths)))
    pool = POOL * batch
    batches: list[list[int]] = []
    for start in range(0, len(order), pool):
        rows = sorted(order[start : start + pool], key=lengths.__getitem__)
        own = [rows[first : first + batch] for first in range(0, len(rows), batch)]
        batches += [own[place] for place in choice.permutation(len(own))]
    return batches
