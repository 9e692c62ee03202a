"""Where sentences begin and end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.claims.sentences import MAX_SENTENCE, split_sentences


def sentences(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is so. It stays so.", ["It is so.", "It stays so."]),
        ("Is it so? Yes! (Really.) Good.", ["Is it so?", "Yes!", "(Really.)", "Good."]),
        ('"Is it tight?" he asked. He left.', ['"Is it tight?" he asked.', "He left."]),
        ("It is 300 m. Call us.", ["It is 300 m.", "Call us."]),
        ("It takes 5 min. Then wait.", ["It takes 5 min.", "Then wait."]),
        ("Dr. Brown met J. Stone. They left.", ["Dr. Brown met J. Stone.", "They left."]),
        ("See no. 5 and e.g. Paris.", ["See no. 5 and e.g. Paris."]),
        ("It is 3.5 kg\nheavy.", ["It is 3.5 kg\nheavy."]),
        ("# Title\nText of it.", ["# Title", "Text of it."]),
        ("- one\n- two\n1. Three.\n2. Four.", ["- one", "- two", "1. Three.", "2. Four."]),
        ("| a | b |\n| c | d |", ["| a | b |", "| c | d |"]),
        ("one\n\ntwo", ["one", "two"]),
        ("The space is lost.It stays so.", ["The space is lost.", "It stays so."]),
        (" \n ", []),
    ],
)
def test_a_text_is_split_into_sentences(text: str, expected: Sequence[str]) -> None:
    assert sentences(text) == expected


@given(st.text(alphabet="aB.!? \n#1)-", max_size=300))
def test_sentences_hold_everything_but_white_space_in_order(text: str) -> None:
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_a_sentence_without_an_end_is_cut_at_a_space() -> None:
    parts = sentences("word " * 1_000)

    assert max(map(len, parts)) <= MAX_SENTENCE
    assert {len(part) % 5 for part in parts} == {4}
