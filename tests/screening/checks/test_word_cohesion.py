"""Words about one thing cohere, words that have nothing to do with each other do not."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer

from corpus_guard.models import Models
from corpus_guard.screening.checks.word_cohesion import WordCohesion

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


def lowest(cohesion: WordCohesion, tokens: Tokenizer, words: str, width: int = 20) -> float:
    ids = np.array(tokens.encode(words, add_special_tokens=False).ids, np.int64)
    return float(cohesion.of_windows(ids, width).min(initial=1.0))


def test_words_about_one_thing_cohere(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    assert lowest(cohesion, tokens, TREES) > 0.1
    assert lowest(cohesion, tokens, STRANGERS) < 0.02


def test_the_window_of_strangers_is_found_among_others(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    assert lowest(cohesion, tokens, f"{TREES} {STRANGERS} {TREES}") <= lowest(cohesion, tokens, STRANGERS) + 1e-6


def test_a_mean_is_that_of_the_pairs(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    pairs = [lowest(cohesion, tokens, pair, 2) for pair in ("oak beech", "oak hymn", "beech hymn")]

    assert lowest(cohesion, tokens, "oak beech hymn", 3) == pytest.approx(sum(pairs) / 3, abs=1e-3)


def test_a_word_does_not_cohere_with_itself(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    assert lowest(cohesion, tokens, "oak " * 30) == 0.0


def test_fewer_tokens_than_a_window_have_none(cohesion: WordCohesion) -> None:
    assert cohesion.of_windows(np.arange(2000, 2019), 20).shape == (0,)
    assert cohesion.of_windows(np.array([], np.int64), 20).shape == (0,)


def test_two_tokens_that_are_marked_do_not_cohere(cohesion: WordCohesion, tokens: Tokenizer) -> None:
    ids = np.array(tokens.encode("oak elm willow", add_special_tokens=False).ids, np.int64)
    (all_of_them,) = cohesion.of_windows(ids, 3)

    (without_a_pair,) = cohesion.of_windows(ids, 3, np.array([True, True, False]))

    assert without_a_pair == pytest.approx(all_of_them - cohesion.of_windows(ids[:2], 2)[0] / 3, abs=1e-6)
