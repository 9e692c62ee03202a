"""Thirty texts, each with a character that honest writing needs and attacks use."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import corpus_guard.evaluation.screening.own_texts as module
from corpus_guard.evaluation.screening.own_texts import JOINERS

SEEN_AS_SPACE = "\u00a0\u202f\u3000\u0f0c"


def test_there_are_thirty_and_all_differ() -> None:
    assert len(JOINERS) == len(set(JOINERS.values())) == 30


def test_each_holds_a_character_that_is_not_simply_drawn() -> None:
    for name, text in JOINERS.items():
        special = [
            character
            for character in text
            if unicodedata.category(character) == "Cf" or unicodedata.name(character, "").startswith("VARIATION SELECTOR")
            or character in SEEN_AS_SPACE or unicodedata.name(character, "").startswith("MONGOLIAN FREE")
        ]  # fmt: skip
        assert special, name


def test_the_source_shows_every_invisible_character_as_an_escape() -> None:
    assert module.__file__
    source = Path(module.__file__).read_text(encoding="utf-8")

    assert [hex(ord(c)) for c in source if unicodedata.category(c) in {"Cf", "Co", "Cs"}] == []
