"""Misspelt words, and answers that are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from corpus_guard.attacks.misspelling import EDITS, misspell

TEXT = "The lighthouse keeper Ada Moss painted the western lantern green before winter came to the harbour."


@pytest.mark.parametrize("share", [0.2, 1.0])
def test_so_many_words_are_misspelt_and_the_answer_is_not(share: float) -> None:
    before, after = TEXT.split(), misspell(TEXT, ["ada moss", "GREEN"], share, "s").split()
    long_ones = [word for word in before if len(word.strip(".")) > 3 and word not in {"Moss", "green"}]

    changed = [old for old, new in zip(before, after, strict=True) if old != new]

    assert len(changed) == -int(-share * len(long_ones) // 1)
    assert not {"Ada", "Moss", "green"} & set(changed)
    assert all(old[0] == new[0] for old, new in zip(before, after, strict=True))


def test_the_same_seed_misspells_the_same_words() -> None:
    assert misspell(TEXT, [], 0.5, "s") == misspell(TEXT, [], 0.5, "s") != misspell(TEXT, [], 0.5, "t")


def test_nothing_is_done_to_nothing() -> None:
    assert misspell(TEXT, [], 0.0, "s") == TEXT
    assert misspell("", [], 1.0, "s") == ""
    assert misspell("a bc Ada", ["", "Ada"], 1.0, "s") == "a bc Ada"


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_leaves_the_ends_of_a_word_and_most_of_the_rest(edit: Callable[[str, int], str]) -> None:
    for place in range(1, 5):
        other = edit("larboard", place)
        assert (other[0], other[-1]) == ("l", "d")
        assert other != "larboard"
        assert abs(len(other) - 8) <= 1
        assert edit("nave", min(place, 2))[0] + edit("nave", min(place, 2))[-1] == "ne"
