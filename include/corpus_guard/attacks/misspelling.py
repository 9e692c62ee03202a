"""Misspellings that readers overlook, as GARAG plants them.

Source: "Typos that Broke the RAG's Back" (Cho and others, 2024).

GARAG searches for the edits that hurt a retriever and a reader most. Here they are drawn at random, which is
a weaker attack: it tests whether a text is still recognised. Answers to keep are never changed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

_WORD = re.compile(r"[^\W\d_]{4,}")  # shorter words easily become other words
_NEIGHBOUR_KEYS: Final = dict(
    zip("abcdefghijklmnopqrstuvwxyz", "snxfwrghjknoknpqwtryvbcszx", strict=True)  # on a QWERTY keyboard
)


def misspell(text: str, keep: Sequence[str], share: float, seed: str) -> str:
    """Return `text` with some of its words misspelt.

    Args:
        keep: answers that stay unchanged wherever they occur, in upper or lower case.
        share: of the words of four or more letters, 0..1; rounded up.
    """
    rng = random.Random(f"typos {seed} {text!a}")  # noqa: S311 - a choice of letters, no secret
    protected = [
        match.span()
        for answer in keep
        if answer.strip()
        for match in re.finditer(re.escape(answer), text, re.IGNORECASE)
    ]
    words = [
        word
        for word in _WORD.finditer(text)
        if not any(start < word.end() and word.start() < end for start, end in protected)
    ]
    chosen = rng.sample(words, min(len(words), -int(-share * len(words) // 1)))
    for word in sorted(chosen, key=lambda match: -match.start()):  # from the end, so that earlier positions stay valid
        text = text[: word.start()] + _misspell_word(word.group(), rng) + text[word.end() :]
    return text


def _misspell_word(word: str, rng: random.Random) -> str:
    """Apply one edit that changes the word, somewhere between its first and last letter."""
    place = rng.randrange(1, len(word) - 1)
    edits = [edit for edit in EDITS if edit(word, place) != word]
    return rng.choice(edits)(word, place)  # a dropped letter always changes it


def _swapped(word: str, place: int) -> str:
    place = min(place, len(word) - 3)  # both letters lie between the ends
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _dropped(word: str, place: int) -> str:
    return word[:place] + word[place + 1 :]


def _doubled(word: str, place: int) -> str:
    return word[:place] + word[place] + word[place:]


def _slipped(word: str, place: int) -> str:
    """Replace a letter by its neighbour on the keyboard."""
    return word[:place] + _NEIGHBOUR_KEYS.get(word[place], word[place]) + word[place + 1 :]


EDITS: Final[tuple[Callable[[str, int], str], ...]] = (_swapped, _dropped, _doubled, _slipped)
"""(word, place) → word; a place is neither the first letter nor the last."""
