r"""Repair of a PDF's text: words broken at the ends of lines, and signs that a font numbers instead of naming.

Broken words: PDFium marks the hyphen. The word is joined if the document writes it as one elsewhere. The hyphen stays if the
document writes it elsewhere, if both parts are words of the document ("well-known"), or beside capitals, figures and signs
of addresses. All other words are joined.

Ligatures: many fonts of TeX give them the numbers of control characters, so that "different" arrives as ``di\x1berent``. Which
number is which ligature differs from font to font, but the letters around it tell: after "fi" and "ffi" comes a consonant
(define, efficient), after "ff" and "fl" a vowel; before "fl" comes a consonant or nothing (conflict, flow), before "ff" a vowel.
"ffl" is too rare to be told. In the T1 encoding dashes and quotation marks have such numbers, too. The oldest fonts, OT1, number
ligatures from 11; 13 ends a line and is not read.

Angle brackets: in an old font of TeX they have the numbers of "h" and "i", so that manuals speak of ``{hfilei}``.

Leaders: forms fill lines with one sign, which many fonts number as a control character. Three or more of one become "...".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

HYPHEN: Final = "\x02"
"""A hyphen at the end of a line, as PDFium writes it."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_BROKEN: Final = re.compile(rf"(?<![\w./@:%{HYPHEN}-])([^\W\d_]+){HYPHEN}([^\W\d_]+)(?![\w/@:%{HYPHEN}-]|\.\w)")
_LIGATURE: Final = re.compile(r"([^\W\d_]*)([\x1b-\x1f])([^\W\d_]*)")
_OT1_LIGATURE: Final = re.compile(r"([^\W\d_]*)([\x0b\x0c\x0e\x0f])([^\W\d_]*)")
_OT1_IN_WORDS: Final = re.compile(r"(?<=[^\W\d_])\x0b|[\x0b\x0c\x0e\x0f](?=[^\W\d_])")
"""Elsewhere the same numbers are bullets or Greek letters; of these ligatures only "ff" ends words."""
_BRACKETED: Final = re.compile(r"(?<=[{\[(*])( ?)h([^\W\d_][^{}\[\]()*]{0,60}?) ?i(?= ?[}\])*])")
_LEAST_BRACKETED: Final = 3
_LEADERS: Final = re.compile(r"(?<!\w)([\x03-\x08\x0e-\x1f\x7f-\x9f])\1{2,}(?!\w)")
_IN_WORDS: Final = re.compile(rf"[\x1b-\x1f]|(?<=[^\W\d_])[\x10-\x16](?=[^\W\d_])|{_OT1_IN_WORDS.pattern}")
"""Numbers that are written out as letters, and as signs within words."""
_VOWELS: Final = frozenset("aeiouyäöüàáâèéêìíîòóôùúû")
_T1_LIGATURES: Final[Mapping[str, str]] = {"\x1b": "ff", "\x1c": "fi", "\x1d": "fl", "\x1e": "ffi", "\x1f": "ffl"}
_OT1_LIGATURES: Final[Mapping[str, str]] = {"\x0b": "ff", "\x0c": "fi", "\x0e": "ffi", "\x0f": "ffl"}
_T1_SIGNS: Final[Mapping[str, str]] = {
    "\x10": "“",
    "\x11": "”",
    "\x12": "„",
    "\x13": "«",
    "\x14": "»",
    "\x15": "–",
    "\x16": "—",
}


def repair_text(text: str) -> str:
    """Return the text with its broken words joined, and its ligatures, angle brackets and leaders written out."""
    text = join_words(_write_ligatures(_LEADERS.sub("...", text)))
    if len(set(_BRACKETED.findall(text))) >= _LEAST_BRACKETED:
        text = _BRACKETED.sub(r"\1⟨\2⟩", text)
    return text


def read_without_ligatures(text: str) -> str:
    """Return the lines in which words hold what is written out, without it: a font may draw nothing for such a number."""
    lines = (line for line in text.split("\n") if _IN_WORDS.search(line))
    return "\n".join(_IN_WORDS.sub("", line).replace(HYPHEN, "-") for line in lines)


def _write_ligatures(text: str) -> str:
    letters = _guess_ligatures(_LIGATURE.findall(text))
    if letters and all(_T1_LIGATURES[sign] == ligature for sign, ligature in letters.items()):
        letters |= _T1_SIGNS
    if letters:
        text = text.translate({ord(sign): written for sign, written in letters.items()})
    guessed = _guess_ligatures(_OT1_LIGATURE.findall(text))
    if guessed.get("\x0c") == "fi" and guessed.get("\x0b", "ff") == "ff":  # the two most frequent
        text = _OT1_IN_WORDS.sub(lambda match: _OT1_LIGATURES[match[0]], text)
    return text


def _guess_ligatures(occurrences: list[tuple[str, str, str]]) -> dict[str, str]:
    """Return what each sign is written as, by the letters before and after it."""
    sign_counts, before_consonant, after_vowel = Counter[str](), Counter[str](), Counter[str]()
    for before, sign, after in occurrences:
        if len(before) + len(after) >= 2:
            sign_counts[sign] += 1
            before_consonant[sign] += after != "" and after[0].lower() not in _VOWELS
            after_vowel[sign] += before != "" and before[-1].lower() in _VOWELS
    letters: dict[str, str] = {}
    for sign, count in sign_counts.most_common():  # "fi" is far more frequent than "ffi"
        if 2 * before_consonant[sign] > count:
            letters[sign] = "ffi" if "fi" in letters.values() else "fi"
        else:
            letters[sign] = "ff" if 2 * after_vowel[sign] > count else "fl"
    return letters


def join_words(text: str) -> str:
    """Return the text with its broken words joined."""
    if HYPHEN not in text:
        return text
    written = set(_WORD.findall(_BROKEN.sub(" ", text).casefold()))

    def join(match: re.Match[str]) -> str:
        first, second = match.groups()
        whole, compound = f"{first}{second}".casefold(), f"{first}-{second}".casefold()
        parts_are_words = first.casefold() in written and second.casefold() in written
        if whole not in written and (compound in written or parts_are_words or not second[0].islower()):
            return f"{first}-{second}"
        return first + second

    return _BROKEN.sub(join, text).replace(HYPHEN, "-")
