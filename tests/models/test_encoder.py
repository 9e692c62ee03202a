"""The built-in encoders as what readers are trained on, the small one beside the embedder itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from corpus_guard.models import Models
from corpus_guard.models.bert import HIDDEN
from corpus_guard.models.encoder import MAX_TOKENS, MINILM_ENCODER, MPNET_ENCODER, OpenEncoder
from corpus_guard.models.weights import builtin_embedder

TEXTS = [
    "How deep is the harbour?",
    "The harbour of Norrin is eleven metres deep at low tide, and fourteen at high tide.",
]


@pytest.fixture(scope="module")
def encoder() -> OpenEncoder:
    return MINILM_ENCODER.open(builtin_embedder())


def test_the_mean_of_the_states_is_the_embedding(encoder: OpenEncoder, models: Models) -> None:
    states = encoder.read_states(encoder.read_tokens(TEXTS)).numpy()
    means = states[:, :HIDDEN] / np.linalg.norm(states[:, :HIDDEN], axis=1, keepdims=True)

    assert (means * models.embedder.embed(TEXTS)).sum(1) == pytest.approx([1, 1], abs=0.001)
    assert (states[:, HIDDEN:] >= states[:, :HIDDEN]).all()


def test_the_first_layers_alone_give_other_states(encoder: OpenEncoder) -> None:
    two = replace(MINILM_ENCODER, layers=2)

    states = two.open(builtin_embedder()).read_states(encoder.read_tokens(TEXTS))

    assert len(list(two.changed)) * 3 == len(list(MINILM_ENCODER.changed))
    assert states.shape == (2, two.width)
    assert not np.allclose(states, encoder.read_states(encoder.read_tokens(TEXTS)), atol=0.5)


@pytest.fixture(scope="module")
def pair_encoder(models: Models) -> OpenEncoder:
    return MPNET_ENCODER.open(models.pair_encoder_weights)


@pytest.mark.parametrize("name", ["encoder", "pair_encoder"])
def test_padding_changes_nothing(name: str, request: pytest.FixtureRequest) -> None:
    encoder: OpenEncoder = request.getfixturevalue(name)
    short, long = encoder.read_tokens(TEXTS)

    together, alone = encoder.read_states([short, long])[0], encoder.read_states([short])[0]

    assert len(short) < len(long)
    np.testing.assert_allclose(together, alone, atol=0.05)


def test_the_first_line_and_what_follows_are_a_pair(pair_encoder: OpenEncoder) -> None:
    (ids,) = pair_encoder.read_tokens(["How deep?\nEleven metres.\nOr more."])

    read = pair_encoder.tokenizer.convert_ids_to_tokens(ids)
    assert read == ["<s>", *["how", "deep", "?"], "</s>", "</s>", *["eleven", "metres", ".", "or", "more", "."], "</s>"]


@pytest.mark.parametrize("name", ["encoder", "pair_encoder"])
@pytest.mark.parametrize(
    "text",
    ["word " * 5_000, "a\nb" * 5_000, "\ud800[SEP][CLS][PAD][MASK]" * 50, "</s><s>\n<pad></s></s> no <mask>" * 50],
)
def test_a_long_or_hostile_text_has_few_tokens_and_none_that_controls(
    name: str, text: str, request: pytest.FixtureRequest
) -> None:
    encoder: OpenEncoder = request.getfixturevalue(name)
    marks = encoder.read_tokens(["\n"])[0]
    (ids,) = encoder.read_tokens([text])

    controls = set(encoder.tokenizer.all_special_ids) - {encoder.tokenizer.unk_token_id}
    assert len(marks) < len(ids) <= MAX_TOKENS
    assert [token for token in ids if token in controls] == marks
