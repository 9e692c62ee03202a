"""Stretches of a text whose letters stand for others, found by the words of English that turn up when they are exchanged.

A cipher may be any shift of the alphabet (rot13, Caesar) or its mirror (Atbash). Only the stretch is read: what stands
around it in plain words would be nonsense in the same reading, and hide the sentence from a classifier.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from string import ascii_lowercase
from typing import Final

ROT13: Final = "rot13"
SHIFTED: Final = "a Caesar cipher"
MIRRORED: Final = "Atbash"
MIN_TELLING: Final = 3
"""Telling words of a stretch; two of them differ."""


def shift_table(shift: int) -> dict[int, int]:
    """Return the table that shifts lower-case letters by so many places of the alphabet."""
    return str.maketrans(ascii_lowercase, ascii_lowercase[shift:] + ascii_lowercase[:shift])


MIRROR: Final = str.maketrans(ascii_lowercase, ascii_lowercase[::-1])
_READINGS: Final = (
    *((ROT13 if shift == 13 else SHIFTED, shift_table(shift)) for shift in range(1, 26)),
    (MIRRORED, MIRROR),
)
_FREQUENT: Final = ("the", "and", "that", "this", "with", "from")
_TELLING: Final = frozenset(
    {
        *_FREQUENT,
        *(
            "for",
            "not",
            "you",
            "your",
            "has",
            "have",
            "are",
            "was",
            "will",
            "must",
            "when",
            "which",
            "about",
            "into",
            "their",
        ),
        *("they", "been"),
    }
)
"""Words that hardly an English sentence of ten words does without."""


def _disguises(words: Iterable[str]) -> dict[str, list[int]]:
    """Return what stands for a word, and in which of the readings it does; no word of English among it."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for number, (kind, table) in enumerate(_READINGS):
        # The shift that leads back is the one by the rest of the alphabet; the mirror leads back itself.
        back = table if kind == MIRRORED else shift_table(25 - number)
        for word in words:
            if (disguised := word.translate(back)) not in _TELLING:
                found[disguised].append(number)
    return dict(found)


_DISGUISES: Final = _disguises(_TELLING)
TRIGGER: Final = rf"\b(?:{'|'.join(sorted(_disguises(_FREQUENT)))})\b"
"""RE2, on folded text: without it nothing is searched for."""
_WORD: Final = re.compile(r"[a-z]+")
_STOP: Final = re.compile(r"[.:;!?](?= |$)")


def decipher(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each cipher that stretches of a text are written in, and these, plain, in their places.

    Args:
        text: folded.
    """
    stretches: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for start, end in _without_telling_words(text):
        places: defaultdict[int, list[re.Match[str]]] = defaultdict(list)
        for match in _WORD.finditer(text, start, end):
            for number in _DISGUISES.get(match[0], ()):
                places[number].append(match)
        for number, matches in places.items():
            if len(matches) >= MIN_TELLING and len({match[0] for match in matches}) > 1:
                stretches[number].append(_widened(text, start, end, matches[0].start(), matches[-1].end()))
    for number, spans in stretches.items():
        kind, table = _READINGS[number]
        plain = ["\n"] * len(text)
        for start, end in spans:
            plain[start:end] = text[start:end].translate(table)
        yield kind, "".join(plain)


def _without_telling_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the stretches between plain words of English."""
    start = 0
    for match in _WORD.finditer(text):
        if match[0] in _TELLING:
            yield start, match.start()
            start = match.end()
    yield start, len(text)


def _widened(text: str, start: int, end: int, first: int, last: int) -> tuple[int, int]:
    """Return the place of the whole sentences from `first` to `last`, within a stretch from `start` to `end`."""
    before = [match.end() for match in _STOP.finditer(text, start, first)]
    after = _STOP.search(text, last, end)
    return (before[-1] if before else start), (after.end() if after else end)
