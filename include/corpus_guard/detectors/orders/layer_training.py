"""Training of the lower layers of the sentence encoder, so that they keep what tells an order from a remark on it.

Mean and maximum of the last of these layers' states feed one logistic unit; layers and unit are trained together. The
embedding of tokens stays as it is.

They are trained several times from the same weights, with other batches and other dropout, and the weights of these
trainings are averaged: single trainings are sure of their errors, and of different ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from corpus_guard.domain import Progress, no_progress
from corpus_guard.models.weights import builtin_embedder, silence_libraries
from corpus_guard.screening.orders.encoder import LAYERS, MAX_TOKENS, TRAINED_SHAPES, WIDTH, Tensors, pack_changes

if TYPE_CHECKING:
    import torch

EPOCHS: Final = 3
BATCH: Final = 32
LEARNING_RATE: Final = 1.2e-4
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
class TrainedLayers:
    """The layers, and the logistic unit that reads them."""

    steps: Tensors
    """Change of each weight, in steps."""
    sizes: Tensors
    """Size of a step, for each row."""
    reading: NDArray[np.float32]
    """Weights of mean and maximum, shape (`WIDTH`,)."""
    intercept: float


def train_layers(
    sentences: Sequence[str],
    labels: NDArray[np.bool_],
    *,
    runs: int,
    seed: int = 0,
    progress: Progress = no_progress,
) -> TrainedLayers:
    """Train the layers `runs` times and return the mean of their weights.

    The same sentences, seed and runs give the same layers on the same kind of processor.

    Args:
        sentences: texts.
        labels: True for orders.
        runs: trainings, at least one. All start from the same weights.
        seed: of weights, batches and dropout.
        progress: told after each batch.
    """
    tokens = _read_tokens(sentences)
    sums: dict[str, NDArray[np.float64]] = {}
    for run in range(runs):
        for name, tensor in _train_once(tokens, labels, seed, run, progress).items():
            sums[name] = sums.get(name, 0.0) + tensor.astype(np.float64)
    means = {name: (total / runs).astype(np.float32) for name, total in sums.items()}
    return TrainedLayers(*pack_changes(means), means[_READING][0], float(means[_INTERCEPT][0]))


_READING, _INTERCEPT = "weight", "bias"


def _train_once(
    tokens: Sequence[Sequence[int]], labels: NDArray[np.bool_], seed: int, run: int, progress: Progress
) -> dict[str, NDArray[np.float32]]:
    """Return the tensors of the layers after one training, and those of the logistic unit."""
    silence_libraries()
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits, dropout
    from transformers import AutoModel

    from corpus_guard.models.cpu import number_format

    torch.manual_seed(seed)
    encoder = AutoModel.from_pretrained(builtin_embedder().folder, dtype=torch.float32)
    embeddings, layers = encoder.embeddings.eval(), encoder.encoder.layer[:LAYERS].train()
    unit = torch.nn.Linear(WIDTH, 1)
    # Until here all runs are the same: weights that start apart have no mean that is of use.
    choice = np.random.default_rng([seed, run])
    torch.manual_seed(int(choice.integers(1 << 32)))
    optimizer = torch.optim.AdamW(
        [{"params": layers.parameters(), "lr": LEARNING_RATE}, {"params": unit.parameters(), "lr": UNIT_LEARNING_RATE}],
        weight_decay=WEIGHT_DECAY,
    )
    steps = EPOCHS * -(-len(tokens) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (WARM_UP * steps)) * max(0.0, 1 - step / steps)
    )
    targets = torch.tensor(labels.astype(np.float32))
    for epoch in range(EPOCHS):
        for done, batch in enumerate(_batches([len(ids) for ids in tokens], choice)):
            progress(f"training layers, run {run + 1}", epoch * -(-len(tokens) // BATCH) + done, steps)
            ids, mask = _pad([tokens[row] for row in batch])
            with torch.no_grad():
                state = embeddings(input_ids=ids)
            with torch.autocast("cpu", torch.bfloat16, enabled=number_format() == "bfloat16"):
                for layer in layers:
                    output = layer(state, (1 - mask)[:, None, None, :] * UNSEEN)
                    state = output[0] if isinstance(output, tuple) else output
            seen = state.float()
            mean = (seen * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            highest = seen.masked_fill(mask[..., None] == 0, UNSEEN).amax(1)
            log_odds = unit(dropout(torch.cat([mean, highest], 1), DROPOUT))[:, 0]
            loss = binary_cross_entropy_with_logits(log_odds, targets[batch])
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_([*layers.parameters(), *unit.parameters()], 1.0)
            optimizer.step()
            schedule.step()
    trained = {name: tensor for name, tensor in encoder.state_dict().items() if name in TRAINED_SHAPES}
    return {name: tensor.detach().numpy() for name, tensor in (trained | unit.state_dict()).items()}


def _read_tokens(sentences: Sequence[str]) -> list[list[int]]:
    """Return the tokens of sentences, as the encoder cuts them."""
    tokenizer = Tokenizer.from_file(str(builtin_embedder().folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return [tokenizer.encode(text.encode("utf-8", "replace").decode()).ids[:MAX_TOKENS] for text in sentences]


def _batches(lengths: Sequence[int], choice: np.random.Generator) -> Iterator[list[int]]:
    """Yield batches of sentences of similar length, in a random order."""
    rows = choice.permutation(len(lengths)).tolist()
    pools = [sorted(rows[start : start + POOL], key=lengths.__getitem__) for start in range(0, len(rows), POOL)]
    batches = [pool[start : start + BATCH] for pool in pools for start in range(0, len(pool), BATCH)]
    for number in choice.permutation(len(batches)):
        yield batches[number]


def _pad(tokens: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and mask, shape (sentences, longest)."""
    import torch

    longest = max(map(len, tokens))
    ids = np.zeros((len(tokens), longest), np.int64)
    mask = np.zeros((len(tokens), longest), np.float32)
    for row, own in enumerate(tokens):
        ids[row, : len(own)] = own
        mask[row, : len(own)] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)
