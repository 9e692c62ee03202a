"""Words that signs join or cut, read without them.

Each reader takes a text and returns the stretches of it in which signs stand where a person sees none, or reads past them:

- *Blanks*: characters that nothing draws stand for the spaces, or within the words.

Only stretches with several such places are read, and a hit counts only where it holds one of them: the plain words around them
are read as they stand.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Final

import re2

from corpus_guard.domain import Span

MIN_PLACES: Final = 3
"""Places within `NEAR` that make a stretch."""
NEAR: Final = 120
"""Characters between two places of one stretch, at most."""
CHARS_PER_PLACE: Final = 60
"""Characters of a hit for each place that it must hold, up to `MIN_PLACES`: a long sentence may hold one by chance."""
AROUND: Final = 300
"""Characters on either side of a stretch that are read with it, at most; an empty line ends it before."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Stretches of a text with some characters replaced."""

    text: str
    places: Sequence[int]
    """Offsets in the document of what was replaced, in order."""
    _starts: Sequence[int]  # of the pieces, in `text`
    _spans: Sequence[tuple[int, int, bool]]  # of the pieces, in the document; whether they are copied

    def locate(self, start: int, end: int) -> Span:
        """Return the span of the document that became ``text[start:end]``."""
        first, last = self._offset(start), self._offset(max(start, end - 1))
        return Span(first[0], max(last[1], first[0] + 1))

    def _offset(self, at: int) -> tuple[int, int]:
        number = max(0, bisect_right(self._starts, at) - 1)
        start, end, is_copied = self._spans[number]
        if not is_copied:
            return start, end
        place = min(start + at - self._starts[number], end - 1)
        return place, place + 1


def rewrite(text: str, stretches: Iterable[tuple[Span, Iterable[tuple[int, int, str]]]]) -> Rewriting:
    """Return stretches of a text, an empty line between them.

    Args:
        text: the document.
        stretches: each with its edits, in order: start and end in the document, and what stands there instead.
    """
    parts: list[str] = []
    starts: list[int] = []
    spans: list[tuple[int, int, bool]] = []
    places: list[int] = []
    size = 0

    def add(part: str, start: int, end: int, *, is_copied: bool) -> None:
        nonlocal size
        if part:
            parts.append(part)
            starts.append(size)
            spans.append((start, end, is_copied))
            size += len(part)

    for stretch, edits in stretches:
        at = stretch.start
        for start, end, instead in edits:
            add(text[at:start], at, start, is_copied=True)
            add(instead, start, end, is_copied=False)
            places.append(start)
            at = end
        add(text[at : stretch.end], at, stretch.end, is_copied=True)
        add("\n\n", max(stretch.end - 1, 0), stretch.end, is_copied=False)
    return Rewriting("".join(parts), places, starts, spans)


def rests_on(places: Sequence[int], span: Span) -> bool:
    """Return whether so many places are within a span that what it says rests on them."""
    enough = min(MIN_PLACES, 1 + (span.end - span.start) // CHARS_PER_PLACE)
    return bisect_left(places, span.end) - bisect_left(places, span.start) >= enough


def find_stretches(text: str, places: Sequence[int]) -> Iterator[Span]:
    """Yield the stretches with at least `MIN_PLACES` places, each at most `NEAR` characters from the next."""
    end = 0
    group: list[int] = []
    for place in (*places, sys.maxsize):
        if group and place - group[-1] > NEAR:
            if len(group) >= MIN_PLACES:
                start, end = max(end, _line_before(text, group[0])), _line_after(text, group[-1])
                yield Span(start, end)
            group = []
        group.append(place)


def _line_before(text: str, place: int) -> int:
    lowest = max(0, place - AROUND)
    blank = text.rfind("\n\n", lowest, place)
    return blank + 2 if blank >= 0 else lowest


def _line_after(text: str, place: int) -> int:
    highest = min(len(text), place + AROUND)
    blank = text.find("\n\n", place, highest)
    return blank if blank >= 0 else highest


# --- blanks -------------------------------------------------------------------------------------------------

_DRAWN_AS_NOTHING: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\ufffd\U0001d159"
BLANK_BESIDE_LETTERS: Final = re2.compile(
    (
        r"[\p{Latin}\pN][.,;:!?]?"
        rf"(?:[\p{{Cf}}\p{{Me}}\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f{_DRAWN_AS_NOTHING}]|[^\P{{Mn}}\x{{300}}-\x{{36f}}])+"
        r"[\p{Latin}\pN]"
    ).encode()
)
"""A blank between letters, on UTF-8 text. Accents are none."""


@cache
def _blanks() -> re.Pattern[str]:
    """Return a pattern of blanks between visible characters; `re` knows no classes of Unicode."""
    drawn = range(0x300, 0x370)  # accents
    codes = [
        code
        for code in range(sys.maxunicode + 1)
        if code not in drawn and unicodedata.category(chr(code)) in {"Cf", "Mn", "Me"}
    ]
    controls = [*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0)]
    codes = sorted({*codes, *controls, *map(ord, _DRAWN_AS_NOTHING)})
    ranges = []
    for _, group in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        row = [code for _, code in group]
        ranges.append(f"{re.escape(chr(row[0]))}-{re.escape(chr(row[-1]))}")
    return re.compile(f"(?<=\\S)(?<![{''.join(ranges)}])[{''.join(ranges)}]+(?=\\S)")


_WORD_CHAR: Final = re.compile(r"[^\W_]")
_LATIN_LETTER: Final = re.compile("[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]")
_OTHERWISE_COUNTED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\ufffd\U000e0000-\U000e007f]+")


def read_blanks(text: str) -> tuple[Rewriting, ...]:
    """Return stretches with blanks between their letters: with spaces instead of them, and without them."""
    spans = [match.span() for match in _blanks().finditer(text)]
    places = [start for start, end in spans if _WORD_CHAR.match(text, end)]
    stretches = list(find_stretches(text, places))
    if not stretches:
        return ()
    starts = [start for start, _ in spans]

    def with_instead(instead: str) -> Rewriting:
        return rewrite(
            text,
            (
                (
                    stretch,
                    [
                        (start, end, instead)
                        for start, end in spans[bisect_left(starts, stretch.start) : bisect_left(starts, stretch.end)]
                        if end <= stretch.end
                    ],
                )
                for stretch in stretches
            ),
        )

    return with_instead(" "), with_instead("")


def crowded_blanks(text: str) -> list[Span]:
    """Return blanks between Latin letters that stand close to each other; not controls, tags, lost letters and soft hyphens."""
    spans = [
        Span(*match.span())
        for match in _blanks().finditer(text)
        if not _OTHERWISE_COUNTED.fullmatch(match[0])
        and _LATIN_LETTER.match(text, match.end())
        and _LATIN_LETTER.match(text, match.start() - 1)
    ]
    stretches = list(find_stretches(text, [span.start for span in spans]))
    ends = [stretch.end for stretch in stretches]
    numbers = (bisect_right(ends, span.start) for span in spans)
    return [
        span
        for span, number in zip(spans, numbers, strict=True)
        if number < len(stretches) and stretches[number].start <= span.start
    ]
