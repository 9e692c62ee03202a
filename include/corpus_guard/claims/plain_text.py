"""Text as a reader sees it, with the way back to the original positions.

Characters that draw nothing are dropped, digits of every script become ASCII digits, full-width letters become
ordinary ones, and the signs that look like a hyphen, an apostrophe or a degree become that sign. Superscripts
and letters that merely look Latin stay: ``m²`` is no ``m2`` here, and disguised letters are the screening's
subject.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from corpus_guard.domain import Span
from corpus_guard.invisible import is_invisible

_PLAIN: Final = re.compile(r"[\t\n\r\x20-\x7e]*")
_SAME: Final = {
    **dict.fromkeys("‐‑−﹣－", "-"),
    **dict.fromkeys("’‘ʼ＇", "'"),
    **dict.fromkeys("º˚", "°"),
    **dict.fromkeys("“”„", '"'),
    "µ": "μ",
    "\u2126": "Ω",  # the ohm sign
    "\u212a": "K",  # the kelvin sign
    "℃": "°C",
    "℉": "°F",
    "⋅": "·",
}


@dataclass(frozen=True, slots=True)
class PlainText:
    """A text as a reader sees it."""

    text: str
    positions: Sequence[int] | None = None  # of each character in the original; None: the same positions

    def span(self, start: int, end: int) -> Span:
        """Return the original range of ``text[start:end]``, which is not empty."""
        if self.positions is None:
            return Span(start, end)
        return Span(self.positions[start], self.positions[end - 1] + 1)


class _Table(dict[int, str]):
    """Code point → what a reader sees, computed on first use."""

    def __missing__(self, code: int) -> str:
        self[code] = shown = _seen(chr(code))
        return shown


def _seen(character: str) -> str:
    category = unicodedata.category(character)
    if character in "\t\n\r":
        shown = character
    elif category in {"Cs", "Co", "Cn"}:
        shown = "\ufffd"  # a box or nothing, but no part of a word or number
    elif category == "Nd":
        shown = str(unicodedata.digit(character))
    elif category == "Zs":
        shown = " " if character in " \u3000" else "\u00a0"  # narrow spaces separate thousands
    elif "\uff01" <= character <= "\uff5e":
        shown = chr(ord(character) - 0xFEE0)
    elif category in {"Zl", "Zp"}:
        shown = "\n"
    else:
        shown = "" if is_invisible(character) else character
    return _SAME.get(character, shown)


_TABLE: Final = _Table()


def make_plain(text: str) -> PlainText:
    """Return `text` as a reader sees it. Surrogates, control and bidi characters are allowed; linear in time."""
    if _PLAIN.fullmatch(text):
        return PlainText(text)
    if all(len(_TABLE[ord(character)]) == 1 for character in set(text)):
        return PlainText(text.translate(_TABLE))
    pieces, positions = [], []
    for position, character in enumerate(text):
        shown = _TABLE[ord(character)]
        pieces.append(shown)
        positions.extend([position] * len(shown))
    return PlainText("".join(pieces), positions)
