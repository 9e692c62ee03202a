"""Misspellings that a reader does not stumble over, as GARAG plants them ("Typos that Broke the RAG's Back", Cho and others, 2024).

GARAG searches for the edits that hurt a retriever and a reader most; here they are drawn by chance, so this is the weaker attack: what
it tests is whether a text is still recognised. The answers that are to be kept are never touched.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

_WORD = re.compile(r"[^\W\d_]{4,}")  # shorter ones become another word too easily
_BESIDE: Final = dict(
    zip("abcdefghijklmnopqrstuvwxyz", "snxfwrghjknoknpqwtryvbcszx", strict=True)  # on a QWERTY keyboard
)


def misspelt(text: str, keep: Sequence[str], share: float, seed: str) -> str:
    """`text` with some of its words misspelt.

    Args:
        text: anything.
        keep: answers that stay as they are, wherever they stand, in any case.
        share: of the words of four letters and more, 0..1; rounded up.
        seed: another one misspells other words.
    """
    chance = random.Random(f"typos {seed} {text!a}")  # noqa: S311 - a choice of letters, no secret
    kept = [
        match.span()
        for answer in keep
        if answer.strip()
        for match in re.finditer(re.escape(answer), text, re.IGNORECASE)
    ]
    words = [
        word
        for word in _WORD.finditer(text)
        if not any(start < word.end() and word.start() < end for start, end in kept)
    ]
    chosen = chance.sample(words, min(len(words), -int(-share * len(words) // 1)))
    for word in sorted(chosen, key=lambda match: -match.start()):  # from the end, so that earlier places stay
        text = text[: word.start()] + _misspelt(word.group(), chance) + text[word.end() :]
    return text


def _misspelt(word: str, chance: random.Random) -> str:
    """One edit between the first letter and the last that changes the word."""
    place = chance.randrange(1, len(word) - 1)
    edits = [edit for edit in EDITS if edit(word, place) != word]
    return chance.choice(edits)(word, place)  # a dropped letter always changes it


def _swapped(word: str, place: int) -> str:
    place = min(place, len(word) - 3)  # both letters lie between the ends
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]


def _dropped(word: str, place: int) -> str:
    return word[:place] + word[place + 1 :]


def _doubled(word: str, place: int) -> str:
    return word[:place] + word[place] + word[place:]


def _slipped(word: str, place: int) -> str:
    """The key beside the right one."""
    return word[:place] + _BESIDE.get(word[place], word[place]) + word[place + 1 :]


EDITS: Final[tuple[Callable[[str, int], str], ...]] = (_swapped, _dropped, _doubled, _slipped)
"""Word and place → word; a place is neither the first letter nor the last."""
