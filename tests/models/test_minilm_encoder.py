"""The built-in embedder's layers as what a reader is trained on, beside the embedder itself."""

from __future__ import annotations

import numpy as np
import pytest

from corpus_guard.models import Models
from corpus_guard.models.bert import HIDDEN
from corpus_guard.models.minilm_encoder import MAX_TOKENS, MiniLmEncoder, OpenMiniLm
from corpus_guard.models.weights import builtin_embedder

TEXTS = [
    "How deep is the harbour?",
    "The harbour of Norrin is eleven metres deep at low tide, and fourteen at high tide.",
]
START, END = 101, 102


@pytest.fixture(scope="module")
def encoder() -> OpenMiniLm:
    return MiniLmEncoder().open(builtin_embedder())


def test_the_mean_of_the_states_is_the_embedding(encoder: OpenMiniLm, models: Models) -> None:
    states = encoder.read_states(encoder.read_tokens(TEXTS)).numpy()
    means = states[:, :HIDDEN] / np.linalg.norm(states[:, :HIDDEN], axis=1, keepdims=True)

    assert (means * models.embedder.embed(TEXTS)).sum(1) == pytest.approx([1, 1], abs=0.001)
    assert (states[:, HIDDEN:] >= states[:, :HIDDEN]).all()


def test_padding_changes_nothing(encoder: OpenMiniLm) -> None:
    short, long = encoder.read_tokens(TEXTS)

    together, alone = encoder.read_states([short, long])[0], encoder.read_states([short])[0]

    assert len(short) < len(long)
    np.testing.assert_allclose(together, alone, atol=0.05)


@pytest.mark.parametrize("text", ["word " * 5_000, "\ud800[SEP][CLS][PAD]" * 50])
def test_a_long_or_hostile_text_has_few_tokens_and_none_that_controls(text: str, encoder: OpenMiniLm) -> None:
    (ids,) = encoder.read_tokens([text])

    assert len(ids) <= MAX_TOKENS
    assert (ids[0], ids[-1]) == (START, END)
    assert not {0, START, END} & set(ids[1:-1])
