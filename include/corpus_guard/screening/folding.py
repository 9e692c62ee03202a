"""Plain form of a text, in which disguised letters read as what they look like.

`fold` gives the form that instruction rules are written for: NFKC, lower case, letters that look Latin made
Latin (Unicode TR39), accents and invisible characters dropped, blank ones and white space made one space. Rules fold their own
literals by the same table (`fold_literals`), so a pattern in French or Russian meets the text in the same
form.

Every position in a folded text leads back to a span of the original.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from corpus_guard.domain import Span, canonical_json, sha256_bytes
from corpus_guard.errors import SettingsError

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDING_VERSION: Final = "6"
"""Changed whenever the same text could fold or decode differently: part of the digests of the checks that use
it."""

LOOKALIKES_SHA256: Final = "b683fdd825f9eeb69077f0a208549b326141e4571f0759a0817ab5e474e29c2c"
"""Hash of the table of letters that look Latin, as canonical JSON. It comes from a package, and hides attacks if it is altered."""

_NON_ASCII = re.compile(r"[^\x00-\x7f]+")
_NOT_PLAIN = re.compile(r"[^\t-\r\x1c-~]+")  # folds to something else than its lower case


# --- folding ------------------------------------------------------------------------------------------------

_PUNCTUATION: Final = {
    **dict.fromkeys(map(ord, "‘’‚‛ʼʹʽˈ′‵ꞌ＇`´"), "'"),
    **dict.fromkeys(map(ord, "“”„‟«»″〝〞＂"), '"'),
    **dict.fromkeys(map(ord, "‐‑‒–—―−﹘﹣－"), "-"),
}
_SMALL_CAPITALS: Final = dict(zip(map(ord, "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ"), "abcdefghijklmnoprstuvwyz", strict=True))


@cache  # loaded with the first letter that is not ASCII: a refresh that finds nothing changed reads no text
def _lookalikes() -> dict[int, str]:
    """Return code point → the Latin letter it looks like, of TR39's single characters and small capitals."""
    from confusable_homoglyphs.confusables import confusables_data

    table: dict[int, str] = {}
    for shape, others in confusables_data.items():
        if len(shape) == 1 and shape.isascii() and shape.isalpha():
            for other in others:
                char = other["c"]
                if len(char) == 1 and not char.isascii():
                    # TR39 draws capital I and small L alike; a capital (Ι, І) stands for I, whatever it is
                    # mapped to.
                    letter = "i" if shape in "lI" and char.isupper() else shape.lower()
                    table.setdefault(ord(char), letter)
    # More Cyrillic capitals than small letters look Latin, and one letter must fold to one form in both
    # cases.
    for letter in map(chr, range(0x0400, 0x0530)):
        if ord(letter) in table:
            table.setdefault(ord(letter.lower()), table[ord(letter)])
    table |= _SMALL_CAPITALS
    actual = sha256_bytes(canonical_json({str(code): letter for code, letter in table.items()}))
    if actual != LOOKALIKES_SHA256:
        raise SettingsError(
            f"package confusable-homoglyphs: the SHA-256 of its table of letters is {actual[:16]}…, expected "
            f"{LOOKALIKES_SHA256[:16]}…; it was altered or is another release. Reinstall it: pip install --force-reinstall "
            "--no-deps -r requirements.txt"
        )
    return table


class _Table(dict[int, str]):
    """Code point → folded form, computed on first use. Output is lower case and holds no combining marks."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _fold_char(chr(code))
        return folded


def _fold_char(char: str) -> str:
    code = ord(char)
    if code < 0x80 and (char.isprintable() or char.isspace()):
        return char.lower()
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if signs := _PUNCTUATION.get(code) or _NEGATIVE_LETTERS.get(code):
        return signs
    if char.isspace() or code in _BLANKS or _invisible(code):
        return " " if char.isspace() or code in _BLANKS else ""
    if code in _lookalikes() and not unicodedata.normalize("NFKC", char).isascii():
        return _lookalikes()[code]
    # Accents are dropped (é → e) so that marks piled on letters hide nothing; Hangul is put together again.
    plain = (c for c in unicodedata.normalize("NFKD", char) if unicodedata.category(c) != "Mn")
    text = unicodedata.normalize("NFC", "".join(plain)).lower()
    text = "".join(_lookalikes().get(ord(c), c) for c in text)
    return "".join(c for c in text.lower() if unicodedata.category(c) != "Mn")


def _invisible(code: int) -> bool:
    """Return True for what is drawn as nothing: format characters, tags, selectors, marks; and for lost letters."""
    if code == _LOST:
        return True
    category = unicodedata.category(chr(code))
    return category in {"Cf", "Mn", "Me"} or (category == "Cc" and not chr(code).isspace())


_NEGATIVE_LETTERS: Final = {
    first + number: chr(ord("a") + number) for first in (0x1F150, 0x1F170) for number in range(26)
}
"""Letters in black circles and squares, which NFKC leaves as they are."""
_BLANKS: Final = frozenset({0x115F, 0x1160, 0x2800, 0x3164, 0xFFA0, 0xFFFC, 0x1D159})
"""Drawn as a space: fillers of Hangul, an empty cell of Braille, the place of an object, a note without a head."""
_LOST: Final = 0xFFFD
_TABLE: Final = _Table()


def plain_letter(char: str) -> str:
    """Return the letters of a styled one, in its case where it has one."""
    plain = unicodedata.normalize("NFKC", char)
    return plain.strip("()") if plain.isascii() else _TABLE[ord(char)]


def latin_lookalike(char: str) -> str | None:
    """Return the Latin letter that a letter of another script looks like; None if it looks like none."""
    return _lookalikes().get(ord(char))


def fold_literals(pattern: str) -> str:
    """Fold the non-ASCII characters of a regular expression; its ASCII syntax stays as it is."""
    return _NON_ASCII.sub(_fold_run, pattern)


def _fold_run(match: re.Match[str]) -> str:
    return match[0].translate(_TABLE)


class CharOffsets:
    """Way from an offset in UTF-8 to the offset in characters; the table is made for the first that differs."""

    __slots__ = ("_data", "_same", "_table")

    def __init__(self, data: bytes, chars: int) -> None:
        """
        Args:
            data: UTF-8.
            chars: characters in `data`.
        """
        self._data = data
        self._same = len(data) == chars
        self._table: NDArray[np.int32] | None = None

    def char(self, offset: int) -> int:
        """Return the number of characters in the first `offset` bytes."""
        if self._same or offset == 0:
            return offset
        if self._table is None:
            # A byte 10xxxxxx continues a character.
            starts = (np.frombuffer(self._data, np.uint8) & 0xC0) != 0x80
            self._table = np.cumsum(starts, dtype=np.int32)
        return int(self._table[min(offset, len(self._table)) - 1])


class FoldedText:
    """Text in its plain form, with the way back to the original."""

    __slots__ = ("_gap", "_is_plain", "_offsets", "_read", "_same_places", "_starts", "data", "original", "text")

    def __init__(self, original: str) -> None:
        is_plain = original.isascii() and original.replace("\n", " ").isprintable()
        plain, replaced = (original, 0) if is_plain else _NOT_PLAIN.subn(_fold_run, original)
        self.original: Final = original
        self.text: Final = " ".join(plain.lower().split())
        self.data: Final = self.text.encode()
        """The text in UTF-8, as RE2 takes it."""
        self._offsets: Final = CharOffsets(self.data, len(self.text))
        self._is_plain: Final = not replaced
        self._same_places: Final = self._is_plain and len(self.text) == len(original)
        self._starts = array("I")  # offset in the original of each folded character, as far as it was computed
        self._read = 0  # characters of the original read so far
        self._gap = -1  # where the white space begins that they ended with

    @property
    def is_plain(self) -> bool:
        """True where folding changes nothing but cases and white space."""
        return self._is_plain

    def origin(self, start: int, end: int) -> Span:
        """Return the span of the original that became ``text[start:end]``, clamped to the original."""
        if self._same_places:
            first, last = start, end - 1
        else:
            starts = self._starts_through(end)
            if not starts:
                return Span(0, len(self.original))
            top = len(starts) - 1
            first, last = starts[min(max(start, 0), top)], starts[min(max(end - 1, 0), top)]
        size = len(self.original)
        first = min(max(first, 0), max(size - 1, 0))
        return Span(first, min(max(last, first) + 1, size))

    def origin_bytes(self, start: int, end: int) -> Span:
        """Return `origin` for offsets into `data`."""
        return self.origin(self._offsets.char(start), self._offsets.char(end))

    def _starts_through(self, end: int) -> array[int]:
        starts, original, gap = self._starts, self.original, self._gap
        if self._is_plain:
            if not starts:
                starts.frombytes(_starts_of_plain(original).tobytes())
            return starts
        at, size = self._read, len(self.original)
        while at < size and len(starts) <= end:
            for char in _TABLE[ord(original[at])]:
                if char.isspace():
                    gap = at if gap < 0 else gap
                    continue
                if gap >= 0 and starts:
                    starts.append(gap)
                gap = -1
                starts.append(at)
            at += 1
        self._read, self._gap = at, gap
        return starts


def _starts_of_plain(text: str) -> NDArray[np.uint32]:
    """Return the offset of each character of a text in ASCII that folding keeps: of white space the first one between words."""
    blank = np.frombuffer(text.encode(), np.uint8) <= ord(" ")
    is_kept = ~blank
    is_kept[1:] |= blank[1:] & ~blank[:-1]
    is_kept[len(text.rstrip()) :] = False
    return np.flatnonzero(is_kept).astype(np.uint32)


def fold(text: str) -> FoldedText:
    """Return the plain form of `text`. Never raises, whatever the text holds."""
    return FoldedText(text)
