"""Training of a reader: a batch that is read in parts teaches the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from corpus_guard.detectors import reader_training
from corpus_guard.detectors.reader_training import Recipe, _parts, train_reader
from corpus_guard.errors import Misuse
from corpus_guard.models.encoder import MINILM_ENCODER
from corpus_guard.models.trained_reader import ReaderKind, ReaderWeights
from corpus_guard.models.weights import builtin_embedder

KIND = ReaderKind("harbours", "harbours", replace(MINILM_ENCODER, layers=2), outputs=2)
EXAMPLES = [
    (f"Berth {number} is closed{' until the crane is back' * (number % 5)}.", number % 2) for number in range(40)
]


def train() -> ReaderWeights:
    return train_reader(KIND, EXAMPLES, builtin_embedder(), {}, Recipe())


def test_parts_of_a_batch_teach_the_same_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = train()
    monkeypatch.setattr(reader_training, "TOKENS_AT_ONCE", 1)

    one_by_one = train()

    assert np.allclose(one_by_one.unit, whole.unit, atol=1e-3)
    assert all(np.allclose(one_by_one.changes[name], whole.changes[name], atol=1e-3) for name in KIND.shapes)


def test_training_that_diverges_is_named_and_gives_no_weights() -> None:
    whole = train()
    too_large = {name: rows + 1e30 for name, rows in whole.changes.items()}

    with pytest.raises(Misuse, match="diverged at batch 1 of 3"):
        train_reader(KIND, EXAMPLES, builtin_embedder(), {}, Recipe(), start=replace(whole, changes=too_large))


def test_a_part_holds_what_fits_and_at_least_one_prompt() -> None:
    lengths = [3, 4, 5, 30, 6, 6]

    assert list(_parts([5, 0, 1, 2, 3, 4], lengths, 12)) == [[5, 0], [1, 2], [3], [4]]
    assert list(_parts([2, 0], lengths, 1_000)) == [[2, 0]]
