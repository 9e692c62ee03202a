"""Which words carry what a text is about.

The vocabulary of a WordPiece model (BERT's) is ordered roughly by frequency, so log2 of a word's position says how rare the word is,
without counting anything in the corpus that is being judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

COMMON_BITS: Final = (
    11.2  # the 350 most frequent words (positions 1,996 to 2,350) say how a text speaks, not what it is about
)
UNKNOWN_BITS: Final = 15.5  # a word that is not in the vocabulary: names, mostly
NUMBER_BITS: Final = 12.0  # years and figures are often the very answer
LONGEST: Final = 4_000  # words looked at: a chunk has some 200
_WORD: Final = re.compile(r"[^\W_]+")
_DIGIT: Final = re.compile(r"\d+")
_ENDINGS: Final = ("ing", "ies", "ed", "es", "s")


class Wording:
    """Reads texts by the rarity of their words; loads the vocabulary when it is first asked."""

    def __init__(self, vocabulary: Path) -> None:
        """`vocabulary`: the ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency."""
        self._file = vocabulary

    @cached_property
    def bits(self) -> Mapping[str, float]:
        """Word → log2(position): 0 to 15; lower is more frequent."""
        vocabulary = json.loads(self._file.read_text(encoding="utf-8"))["model"]["vocab"]
        return {word: float(np.log2(position + 1)) for word, position in vocabulary.items() if position > 998}

    def rarity(self, word: str) -> float:
        """Bits of one lower-case word."""
        if word.isdigit():
            return NUMBER_BITS if len(word) > 1 else 0.0
        return self.bits.get(word, UNKNOWN_BITS)

    def content(self, text: str) -> dict[str, float]:
        """Stems of the words a text is about → weight (bits above what common words have, at least 0.5)."""
        return {
            stem(word): max(bits - 10.0, 0.5) for word in set(words(text)) if (bits := self.rarity(word)) >= COMMON_BITS
        }


@cache
def wording_of(vocabulary: Path) -> Wording:
    """One for all checks: the vocabulary is read once a process."""
    return Wording(vocabulary)


def words(text: str) -> list[str]:
    """Runs of letters and digits, lower case, in order."""
    return [match.group().lower() for match in islice(_WORD.finditer(text), LONGEST)]


def stem(word: str) -> str:
    """A word without an English ending: enough to see that "played" and "plays" are one; others stay as they are."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def shingles(text: str, width: int = 3) -> set[int]:
    """Hashes of every `width` words in a row, digits alike: last year's report is this year's. Comparable within one process only."""
    found = [_DIGIT.sub("0", word) for word in words(text)]
    return {hash(tuple(found[start : start + width])) for start in range(len(found) - width + 1)}


def prose(text: str) -> float:
    """Share of letters and spaces, 0..1: near 0.96 for sentences, below 0.85 for code and tables."""
    return sum(character.isalpha() or character == " " for character in text) / max(1, len(text))
