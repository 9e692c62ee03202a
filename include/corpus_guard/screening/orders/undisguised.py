"""Words as a model reads them that somebody wrote so that a classifier does not: with invisible characters, enclosed letters, accents."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MIN_ACCENTED: Final = 3
"""English words with accents from which these are a disguise: no language writes "thát" and "ánd"."""
_LATIN: Final = "A-Za-z\u00c0-\u024f"
_INVISIBLE_CHARS: Final = (
    "\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\U0001d173-\U0001d17a\U000e0001-\U000e01ef"
)
_INVISIBLE: Final = re.compile(f"(?<=[{_LATIN}])[{_INVISIBLE_CHARS}]+(?=[{_LATIN}])")
_ENCLOSED: Final = re.compile(
    "[\u2460-\u24ff\uff21-\uff5a\U0001d400-\U0001d7ff\U0001f110-\U0001f12b\U0001f130-\U0001f149]"
)
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")
_SIGN: Final = re.compile(f"[{_INVISIBLE_CHARS}\u00c0-\u024f\u0300-\u036f]")
_WORD: Final = re.compile(r"[^\W\d_]+(?:[\u0300-\u036f]+[^\W\d_]*)*")
_ENGLISH_WORDS: Final = (
    "the and that this these those with from for not all any are was were has have had you your they them their what which who when "
    "where if it is in of out other others always never must should say tell answer only into about than then there here"
)
_ENGLISH: Final = frozenset(_ENGLISH_WORDS.split())


def undisguise(text: str) -> str:
    """Return a text without invisible characters inside of words, and without accents on English words."""
    if text.isascii() or not _SIGN.search("".join(set(_NOT_ASCII.findall(text)))):
        return text
    plain = _INVISIBLE.sub("", text)
    words = (word for word in _WORD.findall(plain) if not word.isascii())
    if sum(_without_accents(word).lower() in _ENGLISH for word in words) >= MIN_ACCENTED:
        plain = _without_accents(plain)
    return plain


def open_enclosed(text: str) -> str:
    """Return a text of the same length with plain letters for those in circles, squares and mathematical alphabets."""
    if text.isascii() or not _ENCLOSED.search(text):
        return text
    return _ENCLOSED.sub(_open_letter, text)


def _open_letter(match: re.Match[str]) -> str:
    letter = unicodedata.normalize("NFKC", match[0]).strip("()")
    return letter if len(letter) == 1 else match[0]


def _without_accents(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
