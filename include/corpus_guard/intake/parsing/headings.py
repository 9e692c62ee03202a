"""Headings of a parsed text: Markdown, as the readers return every format but plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MAX_HEADING_CHARS: Final = 100
MAX_CHARS_BEFORE_TITLE: Final = 3_000  # badges and pictures often stand before it

_HEADING: Final = re.compile(r"^ {0,3}(#{1,6})[ \t]+([^\n]{1,400})$", re.MULTILINE)
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)[^\n]*$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\]\[\n]*)\]\([^)\n]*\)")
_MARKUP: Final = re.compile(r"[*_`#<>|]+")
_NUMBER: Final = re.compile(r"^(?:\d{1,3}[.)])+(?:\d{1,3})?\s+")  # "3.2 Calibration"
# A heading in Markdown and in reStructuredText, where such a line may stand above it, too.
_UNDERLINED: Final = re.compile(
    r"\s{0,20}(?:([=*#~^-])\1{2,200}[ \t]*\n)?[ \t]?(?P<title>[^\n]{3,100})\n([=*#~^-])\3{2,200}[ \t]*(?:\n|$)"
)


def read_headings(text: str) -> Iterator[tuple[int, str]]:
    """Yield level and words of each heading outside code blocks that says something."""
    for match in _HEADING.finditer(_without_code(text)):
        if heading := clean_heading(match[2]):
            yield len(match[1]), heading


def find_title(text: str, *, is_markdown: bool = True) -> str:
    """Return the heading that names a whole text; empty where it has none.

    Args:
        text: of a document.
        is_markdown: False if a line after "#" may be a comment in a program.
    """
    underlined = _UNDERLINED.match(text)
    if underlined and (title := clean_heading(underlined["title"])):
        return title
    first = next(read_headings(text[:MAX_CHARS_BEFORE_TITLE]), None) if is_markdown else None
    return first[1] if first and first[0] == 1 else ""


def clean_heading(heading: str) -> str:
    """Return a heading without markup and number; empty where it is too short, too long or has no letter."""
    words = _NUMBER.sub("", _MARKUP.sub(" ", _LINK.sub(r"\1", heading)).strip()).split()
    cleaned = " ".join(words).rstrip(" .:;,")
    enough = 3 <= len(cleaned) <= MAX_HEADING_CHARS and any(character.isalpha() for character in cleaned)
    return cleaned if enough else ""


def _without_code(text: str) -> str:
    fences = [match.span() for match in _FENCE.finditer(text)]
    pieces, position = [], 0
    for opened, closed in zip(fences[::2], [*fences[1::2], (len(text), len(text))], strict=False):
        pieces.append(text[position : opened[0]])
        position = closed[1]
    return "".join((*pieces, text[position:]))
