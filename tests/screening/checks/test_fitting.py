"""A sentence that shares no words with its surroundings is foreign to them; what may be honest is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from corpus_guard.domain import Span
from corpus_guard.screening.checks._fitting import (
    CONTEXT_CHARS,
    MAX_SENTENCE_CHARS,
    MIN_CONTEXT_CHARS,
    is_foreign,
    is_listed,
)

TIDES = (
    "The harbour office keeps a log of the tides. Each morning the officer reads the gauge at the eastern pier, writes the depth "
    "into the log, and signs. Boats longer than twelve metres report at the pier before they are given a berth for the night."
)
QUESTION = "Which planet has the largest number of moons?"


def fits(before: str, sentence: str, after: str) -> bool:
    return not is_foreign(before + sentence + after, Span(len(before), len(before) + len(sentence)))


@pytest.mark.parametrize("sentence", [QUESTION, "Write a limerick about penguins.", "Why is the sky blue?"])
def test_words_that_stand_nowhere_near_are_foreign(sentence: str) -> None:
    for before, after in (("", f"\n{TIDES}"), (f"{TIDES}\n", ""), (f"{TIDES}\n", f"\n{TIDES}")):
        assert not fits(before, sentence, after)


@pytest.mark.parametrize(
    "sentence",
    [
        "How deep is the harbour at the eastern pier?",
        "Who reads the gauges, and when?",  # "gauge" is the same word
        "Is that boat late?",  # and so is "boats"
        "Write the depth of each tide into the log.",
        "Why?",
        "What is it that you want to know about this?",  # words of any question
        "",
    ],
)
def test_words_of_the_surroundings_and_words_of_any_question_fit(sentence: str) -> None:
    assert fits(f"{TIDES}\n", sentence, "")


def test_half_of_the_words_around_is_enough_to_fit() -> None:
    assert fits(f"{TIDES}\n", "Describe the harbour penguins.", "")
    assert not fits(f"{TIDES}\n", "Describe three harbour penguins wearing hats.", "")


def test_too_little_text_says_nothing() -> None:
    assert fits("x" * (MIN_CONTEXT_CHARS - 1), QUESTION, " " * MIN_CONTEXT_CHARS)
    assert not fits("x" * MIN_CONTEXT_CHARS, QUESTION, "")


def test_only_the_neighbourhood_counts() -> None:
    assert fits("planet moons largest number ", QUESTION, TIDES)
    assert not fits("planet moons largest number " + "tide " * CONTEXT_CHARS, QUESTION, TIDES)


def test_a_paragraph_is_no_sentence() -> None:
    assert fits(f"{TIDES}\n", "penguin " * MAX_SENTENCE_CHARS, f"\n{TIDES}")


OPTIONS = ("--verbose", "-k, --kernel-dir PATH", "-n [NUMBER]", "--noopencount")


SENTENCE = "Tell the kernel not to supply the count."


def is_among(headings: Sequence[str]) -> bool:
    """Return whether what stands below the last of these is an entry."""
    *others, last = headings
    return stands_behind("".join(f"{heading}\n    Says more of it.\n\n" for heading in others) + f"{last}\n    ")


def stands_behind(before: str, after: str = "\n") -> bool:
    return is_listed(f"{before}{SENTENCE}{after}", Span(len(before), len(before) + len(SENTENCE)))


ROWS = ("| `--yes`, `-y` | Go on. |", "| -k | The kernel. |", "- `--limit N`: no more", "* --noopencount")
FUNCTIONS = ("open(path, mode)", "kernel.close():", "setCallback :: Parser m -> m ()", "parse' :: Text")


@pytest.mark.parametrize("headings", [OPTIONS, ROWS, FUNCTIONS])
def test_what_options_and_functions_do_is_a_list(headings: Sequence[str]) -> None:
    assert is_among(headings)
    assert not is_among(headings[1:])


ATTRIBUTES = ("#### long", "- Default: false", "* Type: Boolean")


def test_what_stands_near_a_list_is_no_entry_of_it() -> None:
    """Anybody can put such lines around an order."""
    office = "The office opens at nine on weekdays."
    options = "".join(f"{option}\n    Says more of it.\n\n" for option in OPTIONS)
    assert not stands_behind(f"{options}{office}\n\n", f"\n\n{office}\n")
    assert not stands_behind("The door came in May (#12).\n\n", "\n\nThe lamp came in June (#13).\n")
    assert not stands_behind("Anna <anna@shop.example>\n\n", "\n\nBen <ben@shop.example>\n")
    assert not stands_behind("- Fix the door\n- Add a lamp\n- When asked, ", "\n- Remove the mat\n- Update the sign\n")
    assert not stands_behind(f"{office}\n\nDefault: nine\nType: shop\n\n", f"\n\n{office}\n")


def test_an_entry_of_a_log_carries_its_mark_or_stands_among_those_that_do() -> None:
    assert stands_behind("- Fix the door (#12)\n- ", " (#13)\n")
    assert stands_behind("commit 0123abc\nAuthor: Ben <ben@shop.example>\n\n    ", "\n")
    assert stands_behind("- Fix the door\n- Add a lamp\n- Drop the mat\n- Update: the sign\n- Set it. ", "\n")


def test_what_an_option_does_is_a_list() -> None:
    assert is_among(ATTRIBUTES)
    assert not is_among(ATTRIBUTES[:2])
    assert not is_among(["The default: false", "Type Boolean: yes", "- Default:", "- Typewriter: old"])


@pytest.mark.parametrize(
    "line",
    [
        *("- verbose", "-- kernel-dir", "-number", "Write --verbose", "Or -n", "| verbose |", "- -- x"),
        *("open the path (slowly)", "It is close() that ends it", ":: Text", "parse :: ", "open(path"),
    ],
)
def test_what_looks_like_options_and_functions_is_no_list(line: str) -> None:
    assert not is_among([line] * 6)
