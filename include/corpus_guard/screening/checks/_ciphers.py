"""Stretches of a text whose letters stand for others, found by the words of English that turn up when they are exchanged.

A cipher may be any shift of the alphabet (rot13, Caesar) or its mirror (Atbash). Only the stretch is read: what stands
around it in plain words would be nonsense in the same reading, and hide the sentence from a classifier.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from string import ascii_lowercase
from typing import Final

ROT13: Final = "rot13"
SHIFTED: Final = "a Caesar cipher"
MIRRORED: Final = "Atbash"
KINDS: Final = frozenset({ROT13, SHIFTED, MIRRORED})
MIN_TELLING: Final = 3
"""Frequent words that show a cipher together, two of them different; one that is long shows it alone."""


def shift_table(shift: int) -> dict[int, int]:
    """Return the table that shifts lower-case letters by so many places of the alphabet."""
    return str.maketrans(ascii_lowercase, ascii_lowercase[shift:] + ascii_lowercase[:shift])


MIRROR: Final = str.maketrans(ascii_lowercase, ascii_lowercase[::-1])
_CIPHERS: Final = (
    *((ROT13 if shift == 13 else SHIFTED, shift_table(shift), shift_table(26 - shift)) for shift in range(1, 26)),
    (MIRRORED, MIRROR, MIRROR),
)
"""Kind, and the tables that write it and read it."""
KEYS: Final = ("ignore", "disregard", "forget", "instructions", "assistant", "previous", "guidelines")
COMMON: Final = (
    *("the", "your", "you", "and", "this", "that", "only", "must", "from", "rules"),
    *("und", "alle", "que", "les", "las", "todas", "tutte", "des", "pas", "para", "dat", "instrucciones"),
)
"""Words whose disguises are hardly a word of any language."""
_LONG: Final = frozenset(
    {
        *(*KEYS, "prompt", "instrucciones"),
        *("ignored", "ignores", "disregarded", "disregards", "disregarding", "forgets", "forgetting", "assistants"),
        *("previously", "answer", "answers", "summary", "always", "should", "please", "reader", "recommend", "message"),
    }
)
_FREQUENT: Final = (
    frozenset(
        {
            *(*COMMON, "with", "for", "not", "has", "have", "are", "was", "will"),
            *("when", "which", "about", "into", "their", "they", "been"),
        }
    )
    - _LONG
)


def _disguises() -> dict[str, list[int]]:
    """Return what stands for a word, and in which ciphers it does; no word itself is among it."""
    by_disguise: defaultdict[str, list[int]] = defaultdict(list)
    for number, (_, table, _) in enumerate(_CIPHERS):
        for word in _LONG | _FREQUENT:
            if (disguised := word.translate(table)) not in _FREQUENT:
                by_disguise[disguised].append(number)
    return dict(by_disguise)


_DISGUISES: Final = _disguises()


def whole_word(words: Iterable[str]) -> str:
    r"""Return an RE2 pattern for whole words. RE2's ``\b`` knows ASCII letters only: it finds "eht" within a Russian word."""
    return rf"(?:^|[^\pL\pN_])(?:{'|'.join(words)})(?:[^\pL\pN_]|$)"


TRIGGER: Final = whole_word(sorted(_DISGUISES))
"""RE2, on folded text: without it nothing is searched for."""
_WORD: Final = re.compile(r"(?<![^\W\d_])[a-z]+(?![^\W\d_])")
_AFTER_STOP: Final = re.compile(r"(?<=[.:;!?]) ")


def decipher(text: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each cipher that stretches of a text are written in, and these, plain, in their places.

    What stands around them becomes line breaks, and so does the space after each sentence or colon: plain words before a cipher
    are nonsense now, and must not spoil the sentence.

    Args:
        text: folded.
    """
    stretches: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for start, end in _between_frequent_words(text):
        places: defaultdict[int, list[re.Match[str]]] = defaultdict(list)
        for match in _WORD.finditer(text, start, end):
            for number in _DISGUISES.get(match[0], ()):
                places[number].append(match)
        for number, matches in places.items():
            if _is_cipher({match[0].translate(_CIPHERS[number][2]) for match in matches}, len(matches)):
                stretches[number].append((start, end))
    for number, spans in stretches.items():
        kind, _, table = _CIPHERS[number]
        plain = ["\n"] * len(text)
        for start, end in spans:
            plain[start:end] = _AFTER_STOP.sub("\n", text[start:end].translate(table))
        yield kind, "".join(plain)


def _is_cipher(words: Set[str], count: int) -> bool:
    return bool(words & _LONG) or (count >= MIN_TELLING and len(words) > 1)


def _between_frequent_words(text: str) -> Iterator[tuple[int, int]]:
    """Yield the stretches without plain words."""
    start = 0
    for match in _WORD.finditer(text):
        if match[0] in _FREQUENT:
            yield start, match.start()
            start = match.end()
    yield start, len(text)
