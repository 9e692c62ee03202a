"""Which words carry what a text is about, from the order of a vocabulary alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.models.weights import builtin_embedder
from corpus_guard.screening.wording import (
    COMMON_BITS,
    MAX_WORDS,
    NUMBER_BITS,
    UNKNOWN_BITS,
    Wording,
    load_wording,
    prose_share,
    shingles,
    split_words,
    stem,
)

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=200)


@pytest.fixture(scope="module")
def wording() -> Wording:
    return load_wording(builtin_embedder().folder / "tokenizer.json")


def test_what_is_rare_weighs_more_than_what_is_common(wording: Wording) -> None:
    assert wording.rarity("the") < wording.rarity("harbour") < wording.rarity("lighthouse") < wording.rarity("veldmoor")
    assert wording.rarity("veldmoor") == UNKNOWN_BITS
    assert wording.rarity("1934") == NUMBER_BITS
    assert wording.rarity("7") == 0.0


def test_a_text_is_about_its_rare_words(wording: Wording) -> None:
    content = wording.content("Who built the lighthouses at Veldmoor in 1934, and when?")

    assert content.keys() == {"lighthous", "veldmoor", "1934"}
    assert content["veldmoor"] == UNKNOWN_BITS - 10
    assert content["1934"] == NUMBER_BITS - 10
    assert all(weight >= COMMON_BITS - 10 for weight in content.values())


def test_a_text_of_common_words_is_about_nothing(wording: Wording) -> None:
    assert wording.content("It was the one that they had, and then she was there with him. 7 8 9") == {}
    assert wording.content("") == {}


def test_the_vocabulary_is_read_once_and_knows_words_by_their_place(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"model": {"vocab": {"für": 4_000, "a": 3}}}, ensure_ascii=False), encoding="utf-8")

    assert load_wording(file) is load_wording(file)
    assert 11 < load_wording(file).rarity("für") < 13
    assert load_wording(file).rarity("a") == UNKNOWN_BITS  # the first thousand places are no words
    file.unlink()
    assert load_wording(file).rarity("für") < 13


@pytest.mark.parametrize(
    ("word", "bare"),
    [
        ("played", "play"),
        ("playing", "play"),
        ("plays", "play"),
        ("churches", "church"),
        ("harbours", "harbour"),
        ("does", "does"),  # what would be left is too short to tell anything
        ("sing", "sing"),
        ("häuser", "häuser"),
        ("", ""),
    ],
)
def test_endings_that_say_nothing_are_left_out(word: str, bare: str) -> None:
    assert stem(word) == bare


def test_words_are_runs_of_letters_and_digits_in_lower_case() -> None:
    assert split_words("The pier's 2nd lamp_post: OFF, größe!") == [
        "the",
        "pier",
        "s",
        "2nd",
        "lamp",
        "post",
        "off",
        "größe",
    ]
    assert len(split_words("a " * 1_000_000)) == MAX_WORDS


def test_phrases_are_compared_three_words_at_a_time() -> None:
    assert len(shingles("one two three four")) == 2
    assert shingles("One, two; THREE!") == shingles("one two three")
    assert shingles("one two") == set()


def test_prose_is_letters_and_spaces() -> None:
    assert prose_share("The gauge is read at noon and noted.") > 0.95
    assert prose_share("x = f(a[1], b[2]); # {3: 4}") < 0.6
    assert prose_share("") == 0.0


@given(anything)
def test_no_text_raises(wording: Wording, text: str) -> None:
    assert all(weight >= 0.5 for weight in wording.content(text).values())
    assert 0.0 <= prose_share(text) <= 1.0
    assert len(shingles(text)) <= max(0, len(split_words(text)) - 2)
    assert all(word == word.lower() and word for word in split_words(text))


@given(anything)
def test_case_and_marks_do_not_matter_to_what_a_text_is_about(wording: Wording, text: str) -> None:
    ascii_only = text.encode("ascii", "ignore").decode()

    assert wording.content(ascii_only.upper()) == wording.content(ascii_only.lower())
    assert wording.content(f"... {text} !!!") == wording.content(text)


def test_one_huge_word_is_one_word(wording: Wording) -> None:
    assert wording.content("a" * 5_000_000).values().__len__() == 1
    assert split_words("a" * 5_000_000) == ["a" * 5_000_000]


def test_of_words_with_one_stem_the_last_weighs_whatever_the_process(wording: Wording) -> None:
    words = "harbour sailor winch anchor kettle ladder island chapel basin lamp crane ferry buoy"
    pairs = [
        (word, f"{word}s")
        for word in words.split()
        if stem(word) == stem(f"{word}s") and wording.rarity(word) != wording.rarity(f"{word}s")
    ]
    assert len(pairs) > 7, "a set would have the right order by chance in one process of 128"

    content = wording.content(" ".join(f"{one} {other}" for one, other in pairs))

    assert content == {stem(one): wording.rarity(other) - 10.0 for one, other in pairs}
