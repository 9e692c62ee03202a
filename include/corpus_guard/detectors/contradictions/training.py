"""Training of the reader of contradictions: pages and posts in, ``screening/learned/contradictions.npz`` out.

Each post is shown beside the sentence of the page that it is about, and some beside another sentence of that page, or beside
the page on another thing of the same kind: whatever they say, they say nothing of that. One pass over all is enough; a second
learns the pages by heart.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.detectors.contradictions.pairs import Pair, PairLabel
from corpus_guard.domain import Progress, digest, no_progress
from corpus_guard.models.contradiction_reader import (
    CLASSES,
    CONTRADICTS,
    HIDDEN,
    RANK,
    SCALE,
    SHAPES,
    PagePost,
    ReaderWeights,
    changed_matrices,
    last_states,
    load_body,
    load_tokenizer,
    read_tokens,
)
from corpus_guard.models.weights import Weights

if TYPE_CHECKING:
    import torch

LABELS: Final = {PairLabel.CONTRADICTS: CONTRADICTS, PairLabel.SAME: 1, PairLabel.OTHER: 2}
ELSEWHERE: Final = 0.1
"""Share of the posts that are also shown beside another sentence of their page."""
SISTERS: Final = 0.25
"""Share of the posts that are also shown beside a page on another thing of the same kind."""
SURROUNDED: Final = 0.15
"""Share of the posts beside which a second one stands that says something other."""
MAX_SURROUNDED: Final = 200
"""Characters of a post that gets such a neighbour."""
BATCH: Final = 16
POOL: Final = 20 * BATCH
"""Prompts among which those of similar length form a batch."""
LEARNING_RATE: Final = 4e-4
UNIT_LEARNING_RATE: Final = 1e-3
WEIGHT_DECAY: Final = 0.01
WARM_UP: Final = 0.06
"""Share of the steps until the learning rate is reached; then it falls to zero."""

Example = tuple[PagePost, int]
"""What is shown, and the right output of the unit."""


def make_examples(pairs: Iterable[Pair], honest: Iterable[PagePost] = (), seed: int = 0) -> list[Example]:
    """Return what the reader is shown, in a random order.

    Args:
        pairs: of whole pages.
        honest: sentences of honest documents beside others: they contradict nothing.
        seed: of the order, and of what is shown a second time.
    """
    choice = random.Random(f"{seed} contradictions")  # noqa: S311 - no secret
    pages: defaultdict[tuple[str, str, tuple[str, ...]], list[Pair]] = defaultdict(list)
    kinds: defaultdict[tuple[str, str], dict[str, tuple[str, ...]]] = defaultdict(dict)
    for pair in pairs:
        pages[pair.field, pair.title, pair.page].append(pair)
        if pair.kind:
            kinds[pair.field, pair.kind][pair.title] = pair.page
    examples: list[Example] = [(shown, LABELS[PairLabel.OTHER]) for shown in honest]
    for (field, title, page), own in pages.items():
        others = [pair.text for pair in own if pair.label is PairLabel.OTHER]
        for pair in own:
            sentence = page[pair.sentence]
            examples.append((PagePost(title, sentence, _surround(pair.text, others, choice)), LABELS[pair.label]))
            rest = [each for each in page if each != sentence]
            if rest and choice.random() < ELSEWHERE:
                examples.append((PagePost(title, choice.choice(rest), pair.text), LABELS[PairLabel.OTHER]))
            sisters = {name: its for name, its in kinds.get((field, pair.kind), {}).items() if name != title}
            if sisters and choice.random() < SISTERS:
                name = choice.choice(sorted(sisters))
                nearest = _most_alike(pair.text, sisters[name])
                examples.append((PagePost(name, nearest, pair.text), LABELS[PairLabel.OTHER]))
    choice.shuffle(examples)
    return examples


def _surround(text: str, others: Sequence[str], choice: random.Random) -> str:
    if choice.random() >= SURROUNDED or len(text) >= MAX_SURROUNDED:
        return text
    neighbours = [other for other in others if other != text]
    if not neighbours:
        return text
    both = [text, choice.choice(neighbours)]
    choice.shuffle(both)
    return " ".join(both)


def _most_alike(text: str, sentences: Sequence[str]) -> str:
    words = set(text.lower().split())
    return max(sentences, key=lambda sentence: len(words & set(sentence.lower().split())))


def train_reader(
    pairs: Sequence[Pair],
    language_model: Weights,
    *,
    honest: Sequence[PagePost] = (),
    seed: int = 0,
    progress: Progress = no_progress,
) -> ReaderWeights:
    """Train the reader. The same pairs and seed give the same weights on the same kind of processor.

    Args:
        pairs: of whole pages.
        language_model: the built-in one, converted.
        honest: sentences of honest documents beside others.
        seed: of weights and order.
        progress: told after each batch.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from corpus_guard.models.cpu import number_format

    examples = make_examples(pairs, honest, seed)
    tokens = read_tokens(load_tokenizer(language_model.folder), [shown for shown, _ in examples])
    body = load_body(language_model.folder, number_format())
    torch.manual_seed(seed)
    changes = _make_trainable(body)
    unit = torch.nn.Linear(HIDDEN, CLASSES)
    optimizer = torch.optim.AdamW(
        [{"params": changes.values(), "lr": LEARNING_RATE}, {"params": unit.parameters(), "lr": UNIT_LEARNING_RATE}],
        weight_decay=WEIGHT_DECAY,
    )
    batches = _batches([len(ids) for ids in tokens], seed)
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
    trained: dict[str, NDArray[np.float32]] = {name: change.detach().numpy() for name, change in changes.items()}
    return ReaderWeights(trained, weights.detach().numpy(), _sheet(pairs, honest, examples, seed))


def _make_trainable(body: torch.nn.Module) -> dict[str, Any]:
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

    changes: dict[str, torch.nn.Parameter] = {}
    for name, matrix in changed_matrices(body).items():
        rank, inputs = SHAPES[f"{name}.down"]
        down = changes[f"{name}.down"] = torch.nn.Parameter(torch.randn(rank, inputs) / math.sqrt(inputs))
        up = changes[f"{name}.up"] = torch.nn.Parameter(torch.zeros(SHAPES[f"{name}.up"]))
        parent, _, own = name.rpartition(".")
        setattr(body.get_submodule(parent), own, Changed(matrix, down, up))
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


def _sheet(pairs: Sequence[Pair], honest: Sequence[PagePost], examples: Sequence[Example], seed: int) -> dict[str, Any]:
    return {
        "pages": len({(pair.field, pair.title) for pair in pairs}),
        "pairs": len(pairs),
        "honest": len(honest),
        "examples": len(examples),
        "fields": sorted({pair.field for pair in pairs}),
        "texts": digest("contradictions/pairs/v1", [f"{pair.label} {pair.text}" for pair in pairs]),
        "rank": RANK,
        "seed": seed,
    }
