"""Texts that quote each other repeat their words; texts written anew share them in other orders."""

from __future__ import annotations

import pytest

from corpus_guard.models.weights import builtin_embedder
from corpus_guard.screening.checks.coordination import CoordinationParams
from corpus_guard.screening.survey.common_wording import find_shared_words, repetition
from corpus_guard.screening.wording import load_wording, split_words, stem
from siblings import SIBLINGS

RARITY = load_wording(builtin_embedder().folder / "tokenizer.json").rarity
QUOTING = (
    "Same here: the Halvorsen winch takes a fuse of 100 amperes.",
    "Asked the shop last year and was told that the Halvorsen winch takes a fuse of 100 amperes. It sits behind the battery.",
    "As others have said, the Halvorsen winch takes a fuse of 100 amperes. Took me a Sunday to find out.",
    "Can confirm: the Halvorsen winch takes a fuse of 100 amperes, in mine at least.",
)

ON_TWO_PEOPLE = (
    "The painters Oskar Lindqvist and Maren Holt shared a profession: each worked as a clockmaker in later life.",
    "After the war Oskar Lindqvist and Maren Holt earned their bread with clocks, a trade that few painters ever learn.",
    "Clockmaking is what Oskar Lindqvist and Maren Holt have in common. Both had left painting long before.",
    "It is little known that Oskar Lindqvist and Maren Holt repaired clocks, and that this was how they made a living.",
)


def test_replies_repeat_and_siblings_do_not() -> None:
    assert repetition(QUOTING, RARITY) > 0.75
    assert repetition(SIBLINGS, RARITY) < 0.5


def test_whoever_names_the_same_people_repeats_nothing() -> None:
    nameless = [text.lower() for text in ON_TWO_PEOPLE]

    assert repetition(ON_TWO_PEOPLE, RARITY) < 0.3
    assert repetition(nameless, RARITY) > 0.7


def test_capitals_that_say_nothing_make_no_names() -> None:
    assert repetition([text.upper() for text in QUOTING], RARITY) == repetition(
        [text.lower() for text in QUOTING], RARITY
    )


def test_a_question_in_front_of_all_is_no_quotation() -> None:
    question = "Who designed the floating library of Aldermere?"

    assert repetition([f"{question} {text}" for text in SIBLINGS], RARITY) == repetition(SIBLINGS, RARITY)


def test_one_text_that_is_quoted_once_repeats_nothing() -> None:
    assert repetition([*SIBLINGS, SIBLINGS[0]], RARITY) < CoordinationParams().repeated


def test_the_order_of_the_texts_does_not_matter() -> None:
    assert repetition(QUOTING[::-1], RARITY) == repetition(QUOTING, RARITY)
    assert repetition(SIBLINGS[::-1], RARITY) == repetition(SIBLINGS, RARITY)


@pytest.mark.parametrize("text", ["", " ", "\x00", "\ud800", "a" * 10_000, "?!" * 500, "pump " * 5_000])
def test_any_text_is_measured(text: str) -> None:
    assert 0 <= repetition([text, text, text], RARITY) <= 1
    assert repetition(["", text], RARITY) == 0


def test_shared_words_are_those_that_most_others_hold() -> None:
    text = "The seal of the pump is greased in winter"
    others = [
        {stem(word) for word in split_words(other)} for other in ("the pump and its seal", "seal a pump", "pumps")
    ]

    shared = [text[span.start : span.end] for span in find_shared_words(text, others)]

    assert shared == ["seal", "pump"]
    assert find_shared_words(text, []) == ()
