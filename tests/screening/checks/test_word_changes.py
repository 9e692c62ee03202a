"""A word-by-word comparison that is right for all texts, and done in time for hostile ones."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.screening.checks._changes import TokenisedText, WordChange, find_changes

words = st.lists(st.sampled_from("abcdefgh"), max_size=30)


@given(words, words)
def test_applied_to_the_old_text_the_changes_give_the_new_one(old: list[str], new: list[str]) -> None:
    made: list[str] = []
    at = 0
    for change in find_changes(old, new):
        made += old[at : change.old_start] + new[change.new_start : change.new_end]
        at = change.old_end
        assert change.size > 0
    assert made + old[at:] == new


@given(words)
def test_equal_texts_have_none(text: list[str]) -> None:
    assert find_changes(text, text) == []


@given(words, words, words, words)
def test_neighbours_never_touch(a: list[str], b: list[str], c: list[str], d: list[str]) -> None:
    found = find_changes([*a, *b, *c], [*a, *d, *c])
    assert all(one.old_end < two.old_start or one.new_end < two.new_start for one, two in pairwise(found))


def test_changes_are_as_small_as_a_reader_would_mark_them() -> None:
    old = TokenisedText.of("the east pump lifts 40 litres , the west pump lifts 40 litres and the old one none")
    new = TokenisedText.of("the east pump lifts 90 litres , the west pump lifts 40 litres and the new one none")

    assert find_changes(old.words, new.words) == [WordChange(4, 5, 4, 5), WordChange(15, 16, 15, 16)]


def test_what_is_inserted_is_one_change() -> None:
    assert find_changes(list("bbbcbb"), list("bbbdbb")) == [WordChange(3, 4, 3, 4)]
    assert find_changes(list("abcd"), list("abxyxcd")) == [WordChange(2, 2, 2, 5)]


def test_addresses_dates_and_numbers_are_one_word() -> None:
    text = TokenisedText.of(
        "Write to a.b@port.example by 2026-03-01, pay 1,250.50 (see https://port.example/pay?x=1); don't wait"
    )

    assert {"a.b@port.example", "2026-03-01", "1,250.50", "https://port.example/pay?x=1", "don't"} <= set(text.words)
    assert all(text.text[start:end] == word for word, (start, end) in zip(text.words, text.places, strict=True))


def test_the_place_of_something_taken_away_is_the_word_before_it() -> None:
    text = TokenisedText.of("Do open the valve")

    assert text.text[text.span(1, 1).start : text.span(1, 1).end] == "Do"
    assert text.text[text.span(0, 0).start : text.span(0, 0).end] == "Do"
    assert text.text[text.span(4, 4).start : text.span(4, 4).end] == "valve"
    assert TokenisedText.of("").span(0, 0).end == 0


def nested(count: int) -> list[str]:
    """Words that stand once only after each cut: as deep as a diff can be made to go."""
    text = ["x"]
    for number in range(count):
        text = [f"q{number}", *text, f"p{number}", f"q{number}"] if number < 400 else text
    return text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["a"] * 100_000, ["a"] * 99_000 + ["b"]),
        (["a", "b"] * 50_000, ["b", "a"] * 50_001),
        ([f"w{n}" for n in range(100_000)], [f"w{n}" for n in range(100_000)][::-1]),
        (nested(400), ["z", *nested(400), "z"]),
    ],
    ids=["one word", "two words", "turned around", "nested"],
)
def test_hostile_texts_are_compared(old: list[str], new: list[str]) -> None:
    found = find_changes(old, new)

    assert found
    assert found[-1].new_end <= len(new)
