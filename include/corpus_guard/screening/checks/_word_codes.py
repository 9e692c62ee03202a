"""Words that are encoded one by one: base64, hexadecimal, places in the alphabet, ROT47, letters in reverse order, leetspeak.

A word alone is too short to tell an encoding from a name. So a code is read where several frequent words stand close to each
other in it, and only up to the next plain ones.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corpus_guard.domain import Span
from corpus_guard.screening.checks._separators import MIN_TELLING, TELLING, Edit, Stretch, is_telling

MAX_BETWEEN: Final = 8
"""Words between two frequent ones, and before the first and behind the last, that are read with them."""
_TOKEN: Final = re.compile(r"\S+")
_WORDS: Final = re.compile(r"[\w .,;:!?'@()/-]+", re.ASCII)
_ROT47: Final = {code: 33 + (code - 33 + 47) % 94 for code in range(33, 127)}


def _from_base64(token: str) -> str:
    letters = token.rstrip("=")
    try:
        return _words(base64.b64decode(letters + "=" * (-len(letters) % 4), validate=True))
    except ValueError:  # also for letters that are not ASCII
        return ""


def _from_hex(token: str) -> str:
    try:
        return _words(bytes.fromhex(token))
    except ValueError:
        return ""


def _words(data: bytes) -> str:
    text = data.decode("ascii", "replace")
    return text if _WORDS.fullmatch(text) else ""


_PLACES: Final = re.compile(r"(?:[1-9]|1[0-9]|2[0-6])(?:[-.,](?:[1-9]|1[0-9]|2[0-6]))*")
_BETWEEN_WORDS: Final = frozenset("/|_-")


def _from_places(token: str) -> str:
    if token in _BETWEEN_WORDS:
        return " "
    return "".join(chr(96 + int(place)) for place in re.findall("[0-9]+", token)) if _PLACES.fullmatch(token) else ""


def _in_places(word: str) -> str:
    return "[-.,]".join(str(ord(letter) - 96) for letter in word)


@dataclass(frozen=True, slots=True)
class WordCode:
    """A code of single words."""

    kind: str
    trigger: str
    """RE2, on folded text: two frequent words in this code."""
    decode: Callable[[str], str]
    """token → plain words; empty where it is none, itself where it may stand among such"""

    def read(self, text: str, window: Span) -> list[Stretch]:
        """Return stretches of a text that are written in this code, with the plain words in place of their codes."""
        tokens = list(_TOKEN.finditer(text, window.start, window.end))
        plains = [self.decode(token[0]) for token in tokens]
        is_coded = [bool(plain) and plain != token[0] for token, plain in zip(tokens, plains, strict=True)]
        telling = [number for number, plain in enumerate(plains) if is_coded[number] and is_telling(plain)]
        stretches: list[Stretch] = []
        for group in _groups(telling):
            first, last = _extend(group[0], -1, tokens, plains), _extend(group[-1], 1, tokens, plains)
            edits: list[Edit] = [
                (*tokens[number].span(), plains[number]) for number in range(first, last + 1) if is_coded[number]
            ]
            stretches.append((Span(tokens[first].start(), tokens[last].end()), edits))
        return stretches


def _groups(telling: Sequence[int]) -> Iterator[list[int]]:
    group: list[int] = []
    for number in telling:
        if group and number - group[-1] > MAX_BETWEEN:
            if len(group) >= MIN_TELLING:
                yield group
            group = []
        group.append(number)
    if len(group) >= MIN_TELLING:
        yield group


def _extend(number: int, step: int, tokens: Sequence[re.Match[str]], plains: Sequence[str]) -> int:
    """Return the last number in one direction that may still be in the code: no plain frequent word stands before it."""
    for _ in range(MAX_BETWEEN):
        after = number + step
        if not 0 <= after < len(tokens) or not plains[after] or is_telling(tokens[after][0]):
            break
        between = sorted((tokens[number].span(), tokens[after].span()))
        if tokens[number].string.count("\n", between[0][1], between[1][0]) > 1:
            break
        number = after
    return number


_LEET_WORD: Final = re.compile(r"([\"'(]*)([A-Za-z0-9@$!|+'’]+?)([!.,;:?\"')]*)")
LEET_LETTERS: Final = str.maketrans("013456789@$!|+", "oieasgtbgasiit")
"""Digits and signs that stand for letters."""
MAX_LEET_DIGITS: Final = 6
"""Digits that may be a whole word: "15" for "is"; more are a number."""


def _from_leet(token: str) -> str:
    match = _LEET_WORD.fullmatch(token)
    if not match or (token.isdigit() and len(token) > MAX_LEET_DIGITS):
        return ""
    before, word, after = match.groups()
    as_i = word.translate(LEET_LETTERS)
    as_l = word.replace("1", "l").replace("|", "l").translate(LEET_LETTERS)
    read = as_l if is_telling(as_l) and not is_telling(as_i) else as_i
    return f"{before}{read}{after}" if read.replace("'", "").replace("’", "").isalpha() else ""


_OTHER_WORDS_REVERSED: Final = frozenset({"and", "not", "are", "say", "all", "eine", "alle", "und"})
_CHOSEN: Final = [word for word in TELLING if len(word) > 2]


def _two_of(codes: Sequence[str], edge: str = "[^a-z0-9+/=-]") -> str:
    code = rf"(?:^|{edge})(?:{'|'.join(codes)})(?:{edge}|$)"
    return f"{code}.*{code}"


LEET_WORDS: Final = WordCode("leetspeak", "", _from_leet)
"""Read where the trigger of leetspeak hits, not one of its own."""

WORD_CODES: Final = (
    WordCode(
        "base64 of single words",
        rf"{_two_of([base64.b64encode(word.encode()).decode().rstrip('=').lower() + '={0,2}' for word in _CHOSEN])}"
        r"|[a-z0-9+/]{6,}={1,2} [a-z0-9+/]{6,}={0,2} [a-z0-9+/]{6,}={1,2} ",
        _from_base64,
    ),
    WordCode("hexadecimal of single words", _two_of([word.encode().hex() for word in _CHOSEN]), _from_hex),
    WordCode("places in the alphabet", _two_of([_in_places(word) for word in _CHOSEN]), _from_places),
    WordCode(
        "ROT47",
        _two_of([re.escape(word.translate(_ROT47).lower()) for word in _CHOSEN], edge=" "),
        lambda token: token.translate(_ROT47),
    ),
    WordCode(
        "words with their letters in reverse order",
        _two_of([word[::-1] for word in _CHOSEN if word not in _OTHER_WORDS_REVERSED], edge=r"[^a-z\x{80}-\x{10ffff}]"),
        lambda token: token[::-1],
    ),
)
