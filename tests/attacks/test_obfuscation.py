"""Each obfuscation hides the sentence from a search, and whoever knows it reads it again."""

from __future__ import annotations

import base64
import codecs
import html
import unicodedata
from urllib.parse import unquote

import pytest

from corpus_guard.attacks.obfuscation import OBFUSCATIONS
from corpus_guard.attacks.overrides import CARRIERS, PHRASES, plant_phrase

BACK = {
    "base64": lambda text: base64.b64decode(text).decode(),
    "hex": lambda text: bytes.fromhex(text).decode(),
    "rot13": lambda text: codecs.decode(text, "rot13"),
    "spaced letters": lambda text: " ".join(word.replace(" ", "") for word in text.split("   ")),
    "zero width": lambda text: text.replace("\u200b", ""),
    "zero width, in two words": lambda text: text.replace("\u200c", ""),
    "soft hyphens": lambda text: text.replace("\u00ad", ""),
    "tag characters": lambda text: "".join(chr(ord(character) - 0xE0000) for character in text),
    "bidi override": lambda text: text[1:-1][::-1],
    "fullwidth": lambda text: unicodedata.normalize("NFKC", text),
    "mathematical bold": lambda text: unicodedata.normalize("NFKC", text),
    "combining marks": lambda text: "".join(c for c in text if not unicodedata.combining(c)),
    "HTML entities": html.unescape,
    "percent encoding": unquote,
    "reversed": lambda text: text[::-1],
}


@pytest.mark.parametrize("name", BACK)
@pytest.mark.parametrize("phrase", PHRASES)
def test_it_can_be_read_back(name: str, phrase: str) -> None:
    hidden = OBFUSCATIONS[name](phrase)

    assert phrase not in hidden
    assert BACK[name](hidden) == phrase
    assert OBFUSCATIONS[name](phrase) == hidden


def test_lookalikes_replace_letters_only() -> None:
    for name in ("leetspeak", "homoglyphs"):
        for phrase in PHRASES:
            hidden = OBFUSCATIONS[name](phrase)
            assert len(hidden) == len(phrase)
            assert hidden != phrase
            assert [c for c, old in zip(hidden, phrase, strict=True) if not old.isalpha() and c != old] == []


def test_none_is_untested_and_there_are_enough() -> None:
    assert set(OBFUSCATIONS) == {*BACK, "plain", "leetspeak", "homoglyphs"}
    assert len(OBFUSCATIONS) - 1 >= 8


def test_a_planted_phrase_stands_inside_an_honest_paragraph() -> None:
    for carrier in CARRIERS:
        text = plant_phrase(PHRASES[0], carrier)
        assert PHRASES[0] in text
        assert not text.startswith(PHRASES[0])
        assert not text.endswith(PHRASES[0])
