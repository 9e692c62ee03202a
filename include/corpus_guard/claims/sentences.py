"""Sentences of a text with their places: prose, list entries, headings and rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_SENTENCE: Final = 1_000  # characters; a longer one is cut at a space, so that nothing is quadratic in a text

_END: Final = re.compile(r"[.!?…][\"')\]]{0,3}\s+|\n\s*|(?<=[a-z)][.!?])(?=[A-Z][a-z]+ )")
CHANGE_ENTRY: Final = re.compile(
    r"(?:[-*•#] ?|\[)*(?:(?i:version|release|v)[ .]?)?(?:\d{1,4}(?:\.\d{1,4}){1,3}|(?:19|20)\d\d(?:-\d\d){0,2})\]?"
    r"(?: for [\w ]{1,30})?\s*(?:[:–—]\s|-\s)"
)
"""The beginning of a line in a list of changes: "2.1: ", "2022: "."""
_OTHER_END: Final = re.compile(rf"[。！？؟।۔｡][\"'」』）)]{{0,3}}\s*|(?<=°[CF]\.)\s+|\n\s*(?={CHANGE_ENTRY.pattern})")
_CLOSING: Final = frozenset("\"')]")
_NEW_LINE: Final = re.compile(r"[-*•#|]|\d{1,3}[.)]\s|```|~~~")  # begins a list entry, a heading, a row or code
_ENTRY: Final = re.compile(r"\(?\d{1,3}\.")  # the number of a list entry
_ABBREVIATION: Final = re.compile(
    r"(?<!\d )(?:\b(?:dr|mr|mrs|ms|prof|st|fig|eq|approx|ca|vs?|cf|inc|max|min|tel|ver|rev|art|sec|e\.g|i\.e|etc"
    r"|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)|\b(?-i:[A-Z]))\.\s$",
    re.IGNORECASE,
)
_INITIAL: Final = re.compile(r"\b[A-Z]\.\s$")
_BEGINS: Final = re.compile(r"(?:The|It|Its|In|This|These|They|We|You|There|A|An|If|For|At|On) ")  # after "building C."
_NUMBERED: Final = re.compile(r"\b(?:nos?|pp?|ch|vol)\.\s$", re.IGNORECASE)  # "No. 5"


def split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence, without white space around it, at most MAX_SENTENCE characters each.

    Args:
        text: plain text, as `make_plain` returns it.
    """
    start = 0
    for match in _END.finditer(text):
        if _ends(text, start, match):
            yield from _cut(text, start, match.end())
            start = match.end()
    yield from _cut(text, start, len(text))


def split_statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence, also in scripts without spaces, and of each line in a list of changes.

    Args:
        text: as for `split_sentences`.
    """
    for start, end in split_sentences(text):
        place = start
        for match in _OTHER_END.finditer(text, start, end):
            yield from _cut(text, place, match.end())
            place = match.end()
        yield from _cut(text, place, end)


def _ends(text: str, start: int, match: re.Match[str]) -> bool:
    end, mark = match.end(), match.group()
    if not mark:
        return True  # the space was lost
    if mark[0] == "\n":
        return mark.count("\n") > 1 or text.startswith(("#", "|"), start) or bool(_NEW_LINE.match(text, end))
    goes_on = text[end : end + 1].islower()
    if mark[0] != "." or "\n\n" in mark:
        return "\n\n" in mark or not goes_on or mark[1:2] not in _CLOSING  # '"Is it tight?" he asked.'
    before = text[max(start, end - len(mark) - 8) : end - len(mark) + 1] + " "
    if _ENTRY.fullmatch(text, start, end - len(mark) + 1):
        return False
    if text[end : end + 1].isdigit() and _NUMBERED.search(before):
        return False
    return not goes_on and (
        not _ABBREVIATION.search(before) or bool(_BEGINS.match(text, end) and _INITIAL.search(before))
    )


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = end
        if end - start > MAX_SENTENCE:
            space = text.rfind(" ", start + MAX_SENTENCE // 2, start + MAX_SENTENCE)
            stop = space if space > 0 else start + MAX_SENTENCE
        piece = text[start:stop]
        stripped = piece.strip()
        if stripped:
            first = start + len(piece) - len(piece.lstrip())
            yield first, first + len(stripped)
        start = stop
