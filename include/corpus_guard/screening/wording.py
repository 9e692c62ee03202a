"""Words of a text, and the words that say what it is about.

The vocabulary of a WordPiece model (BERT's) is ordered roughly by frequency, so log2 of a word's position
says how rare the word is, without counting anything in the corpus that is being judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

COMMON_BITS: Final = 11.2
"""The 350 most frequent words (positions 1,996 to 2,350) lie below it: they say how a text speaks, not what
it is about."""
UNKNOWN_BITS: Final = 15.5  # a word that is not in the vocabulary: mostly names
NUMBER_BITS: Final = 12.0  # years and figures are often the very answer
MAX_WORDS: Final = 4_000  # words read of a text: a chunk has some 200
SHINGLE_WORDS: Final = 3
IDEOGRAPHS: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Inside of a character class: scripts written without spaces, where one character is one word."""
WORD: Final = re.compile(r"[^\W_]+")
"""Letters and digits."""
WORD_OR_IDEOGRAPH: Final = re.compile(f"[{IDEOGRAPHS}]|[^\\W{IDEOGRAPHS}]+")
"""The same for counting: underscores belong to a word, and each ideograph or kana is one."""
SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+")
"""White space after a sentence."""
_DIGITS: Final = re.compile(r"\d+")
_ENDINGS: Final = ("ing", "ies", "ed", "es", "s")


class Wording:
    """Rarity of words. The vocabulary is loaded when it is first needed."""

    def __init__(self, vocabulary: Path) -> None:
        """Keep the path.

        Args:
            vocabulary: the ``tokenizer.json`` of a WordPiece model whose vocabulary is ordered by frequency.
        """
        self._file = vocabulary

    @cached_property
    def bits(self) -> Mapping[str, float]:
        """Return word → log2(position): 0 to 15; lower is more frequent."""
        vocabulary = json.loads(self._file.read_text(encoding="utf-8"))["model"]["vocab"]
        return {word: float(np.log2(position + 1)) for word, position in vocabulary.items() if position > 998}

    def rarity(self, word: str) -> float:
        """Return the bits of one lower-case word."""
        if word.isdigit():
            return NUMBER_BITS if len(word) > 1 else 0.0
        return self.bits.get(word, UNKNOWN_BITS)

    def content(self, text: str) -> dict[str, float]:
        """Return the stems of the words a text is about → weight (bits above 10, at least 0.5); of one stem the last word's."""
        return {
            stem(word): max(bits - 10.0, 0.5)
            for word in dict.fromkeys(split_words(text))  # a set's order differs from process to process
            if (bits := self.rarity(word)) >= COMMON_BITS
        }


@cache
def load_wording(vocabulary: Path) -> Wording:
    """Return the wording that all checks share: the vocabulary is read once a process."""
    return Wording(vocabulary)


def split_words(text: str) -> list[str]:
    """Return runs of letters and digits, lower case, in order."""
    return [match.group().lower() for match in islice(WORD.finditer(text), MAX_WORDS)]


def stem(word: str) -> str:
    """Return a word without its English ending, so that "played" and "plays" are the same."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def shingles(text: str) -> set[int]:
    """Return hashes of every `SHINGLE_WORDS` words in a row.

    All numbers are equal, so that last year's report resembles this year's. Hashes are comparable within one
    process only.
    """
    words = [_DIGITS.sub("0", word) for word in split_words(text)]
    return {hash(tuple(words[start : start + SHINGLE_WORDS])) for start in range(len(words) - SHINGLE_WORDS + 1)}


def share_of_weight(expected: Mapping[str, float], present: Collection[str]) -> float:
    """Return the share of the weight of `expected` that the words which are present have; 0 if it has none."""
    total = sum(expected.values())
    return sum(weight for word, weight in expected.items() if word in present) / total if total else 0.0


def prose_share(text: str) -> float:
    """Return the share of letters and spaces, 0..1: near 0.96 for sentences, below 0.85 for code and tables."""
    return sum(character.isalpha() or character == " " for character in text) / max(1, len(text))
