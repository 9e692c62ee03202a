"""Passages of a few sentences: what two of them state about the same things."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from corpus_guard.claims.comparison import Comparison, compare_texts
from corpus_guard.claims.statements import MASK, Rarity, Statement, read_statements

MAX_PAIRS: Final = 60  # of sentences of two passages, those with most in common
COPIED_SHARE: Final = 0.7  # of the phrases of the shorter passage, from which it is a near copy
MIN_PHRASES: Final = 8  # of a near copy: below, a sentence or two are alike by chance
_WORD: Final = re.compile(r"[^\W_]+|\x1f+")


@dataclass(frozen=True, slots=True)
class StatedPassage:
    """A passage, read."""

    statements: tuple[Statement, ...]
    phrases: frozenset[tuple[str, ...]]  # three words in a row, every value masked


def read_passage(text: str, rarity: Rarity | None = None, title: str = "") -> StatedPassage:
    """Return what a passage states; the text may be hostile.

    Args:
        text: a chunk.
        rarity: bits of a word, as for `read_statements`.
        title: of the document: what a sentence without a subject is about.
    """
    statements = read_statements(text, rarity, title).statements
    words = [word for statement in statements for word in _WORD.findall(statement.masked.lower().replace("#", MASK))]
    return StatedPassage(statements, frozenset(zip(words, words[1:], words[2:], strict=False)))


def is_near_copy(one: StatedPassage, other: StatedPassage) -> bool:
    """Return whether two passages are the same but for values and a few words."""
    shorter = min(len(one.phrases), len(other.phrases))
    return shorter >= MIN_PHRASES and len(one.phrases & other.phrases) >= COPIED_SHARE * shorter


def compare_passages(one: StatedPassage, other: StatedPassage) -> list[Comparison]:
    """Return the agreements and conflicts of two passages, conflicts first."""
    return list(compare_texts(one.statements, other.statements, max_pairs=MAX_PAIRS).comparisons)
