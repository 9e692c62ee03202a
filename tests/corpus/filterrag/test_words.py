"""Freq-Density by hand, and words that try to cost more than a page."""

from __future__ import annotations

import pytest
from stubs import Meanings

from corpus_guard.corpus.filterrag.words import (
    MAX_CACHED_WORDS,
    MAX_WORD_CHARS,
    MAX_WORDS,
    FreqDensity,
    WordMatcher,
    count_words,
)
from corpus_guard.models import Models


def test_words_are_runs_of_letters_and_digits_of_any_script() -> None:
    counted = count_words("The Pump's pump—24 times, ПОМПА помпа; ｐｕｍｐ! don’t snake_case")

    assert counted == {
        "the": 1, "pump's": 1, "pump": 2, "24": 1, "times": 1, "помпа": 2, "don't": 1, "snake": 1, "case": 1,
    }  # fmt: skip


def test_the_density_is_shared_occurrences_a_unique_word() -> None:
    text = "The pump pumped: a pump in the quay, the gauge and a quay."
    # unique: the pump pumped a in quay gauge and; shared with the question: pump (2) and, being alike, pumped (1)
    (density,) = WordMatcher(Meanings()).densities([("the pump and", text)], tau=0.6)

    assert density == FreqDensity(frequencies=3, unique=8)
    assert density.value == 3 / 8


@pytest.mark.parametrize(("tau", "shared"), [(0.6, 3), (0.79, 3), (0.81, 2), (1.0, 2)])
def test_words_are_shared_above_tau(tau: float, shared: int) -> None:
    (density,) = WordMatcher(Meanings()).densities([("pump", "pump pump pumped quay")], tau)

    assert density.frequencies == shared


def test_the_answer_counts_like_the_question() -> None:
    matcher = WordMatcher(Meanings())

    without, with_answer = matcher.densities([("who opens", "Ada opens"), ("who opens Ada", "Ada opens")], 0.6)

    assert (without.frequencies, with_answer.frequencies) == (1, 2)


def test_function_words_are_never_shared_but_make_a_text_longer() -> None:
    (density,) = WordMatcher(Meanings()).densities([("what is the of", "what is the of in it")], 0.6)

    assert density == FreqDensity(0, 6)


@pytest.mark.parametrize("text", ["", "...", "\x00\u200b", "🚢🚢"])
def test_a_text_without_words_has_no_density(text: str) -> None:
    matcher = WordMatcher(Meanings())

    assert [one.value for one in matcher.densities([("pump", text), (text, "pump")], 0.6)] == [0, 0]
    assert matcher.densities([], 0.6) == []


def test_vectors_are_remembered_and_the_oldest_forgotten() -> None:
    embedder = Meanings()
    matcher = WordMatcher(embedder, max_cached=3)

    matcher.densities([("pump", "quay gauge")], 0.6)
    matcher.densities([("pump", "quay gauge")], 0.6)
    assert embedder.embedded == ["pump", "quay", "gauge"]

    matcher.densities([("pump", "crane")], 0.6)  # quay is now the one not asked for the longest
    assert len(matcher._vectors) == 3
    matcher.densities([("pump", "gauge")], 0.6)
    assert embedder.embedded == ["pump", "quay", "gauge", "crane"]
    matcher.densities([("pump", "quay")], 0.6)
    assert embedder.embedded[-1] == "quay"


def test_more_words_at_once_than_are_kept_are_all_compared() -> None:
    matcher = WordMatcher(Meanings(), max_cached=2)

    (density,) = matcher.densities([("alpha", "alphabet bravo charlie delta echo")], 0.6)

    assert density == FreqDensity(1, 5)


def test_a_long_line_costs_no_more_than_a_page() -> None:
    many = count_words(" ".join(f"w{number}" for number in range(100_000)))
    long = count_words("a" * 5_000_000)

    assert sum(many.values()) == MAX_WORDS
    assert sum(long.values()) <= MAX_WORDS
    assert max(map(len, long)) == MAX_WORD_CHARS
    assert MAX_CACHED_WORDS * 384 * 4 < 32 * 2**20


def test_the_real_embedder_knows_synonyms(models: Models) -> None:
    alike, other = WordMatcher(models.word_embedder).densities(
        [("automobile", "the car"), ("automobile", "the teapot")], 0.6
    )

    assert (alike.frequencies, other.frequencies) == (1, 0)
