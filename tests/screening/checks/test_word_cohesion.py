"""Words about one thing cohere, words that have nothing to do with each other do not."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer

from corpus_guard.models import Models
from corpus_guard.screening.checks.word_cohesion import COHESION_WINDOW, WordCohesion

TREES = "oak beech birch maple elm willow poplar hazel pine spruce cedar walnut chestnut juniper cypress palm fig olive ash fir"
STRANGERS = (
    "vortex bishop carburetor malawi estuary monsoon synapse yorkist plumage tariff sprocket hymn glycol tehran lemur baroness "
    "quasi parapet dvd chlorine"
)


@pytest.fixture(scope="session")
def cohesion(models: Models) -> WordCohesion:
    return WordCohesion(models.frequency_vocabulary.with_name("model.safetensors"))


@pytest.fixture(scope="session")
def tokens(models: Models) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(models.frequency_vocabulary))
    tokenizer.no_padding()
    return tokenizer


def ids(tokens: Tokenizer, words: str) -> list[int]:
    return list(tokens.encode(words, add_special_tokens=False).ids)


def test_words_about_one_thing_cohere(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    assert cohesion.lowest(ids(tokens, TREES)) > 0.1
    assert cohesion.lowest(ids(tokens, STRANGERS)) < 0.02


def test_the_window_of_strangers_counts_wherever_it_stands(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    mixed = ids(tokens, f"{TREES} {STRANGERS} {TREES}")

    assert cohesion.lowest(mixed) <= cohesion.lowest(ids(tokens, STRANGERS)) + 1e-6
    assert len(mixed) > 2 * COHESION_WINDOW


def test_a_word_does_not_cohere_with_itself(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    assert cohesion.lowest(ids(tokens, "oak " * 30)) == 0.0


@pytest.mark.parametrize("words", ["", "oak"])
def test_what_has_no_pair_of_words_coheres(cohesion: WordCohesion, tokens: Tokenizer, words: str) -> None:
    assert cohesion.lowest(ids(tokens, words)) == 1.0


def test_a_passage_shorter_than_the_window_is_one(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    pair = ids(tokens, "oak beech")

    assert cohesion.lowest(pair) == pytest.approx(cohesion.lowest(pair[::-1]), abs=1e-3)
    assert cohesion.lowest(pair) > cohesion.lowest(ids(tokens, "oak synapse"))
