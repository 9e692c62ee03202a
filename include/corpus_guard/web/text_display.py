"""How a text becomes something a reviewer can look at without being acted on.

Rules
    * what a reader would not see is shown as its code point, with its Unicode name, never dropped;
    * evidence is marked where a finding says it lies; spans may overlap;
    * a page holds so many bytes and no more: of a long text the beginning is shown, and what surrounds each evidence. What is left out
      is counted;
    * pieces hold plain text. Nothing here writes HTML: the template does, and escapes.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Literal

from corpus_guard.domain import Span
from corpus_guard.invisible import code_point, is_invisible

BEGINNING_CHARS = 12_000  # characters of a long text that are always shown
CONTEXT_CHARS = 400  # characters shown on either side of evidence
MAX_EVIDENCE_CHARS = 4_000  # characters shown of one piece of evidence
MAX_TEXT_BYTES = 70_000  # of HTML that one text may cost a page
MAX_DIFF_LINES = 4_000  # lines a side; more are not compared
MAX_DIFF_BYTES = 30_000
TAGS = "tags"
_A_CODE = 60  # bytes one code point costs
_A_MARK = 70  # bytes one mark costs

PieceKind = Literal["text", "code", "gap"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text that is shown in one way."""

    kind: PieceKind
    text: str  # of a code: ``U+200B`` or ``U+200B ×12``; of a gap: how much is left out
    title: str = ""  # of a code: its Unicode name
    marks: tuple[int, ...] = ()  # numbers of the findings, from 1, whose evidence it belongs to
    begins: tuple[int, ...] = ()  # those of them whose evidence begins with it


@dataclass(frozen=True, slots=True)
class DisplayText:
    """A text, ready for a page."""

    pieces: tuple[Piece, ...]
    length: int  # characters of the whole
    left_out: int  # characters that are not shown

    @property
    def anchors(self) -> dict[int, int]:
        """Finding → the one whose name the mark carries: several may begin at one place."""
        return {number: piece.begins[0] for piece in self.pieces for number in piece.begins}

    @property
    def codes(self) -> int:
        """How many stretches of characters a reader would not have seen."""
        return sum(piece.kind == "code" for piece in self.pieces)


def display_text(text: str, spans: Sequence[Span | None] = (), most: int = MAX_TEXT_BYTES) -> DisplayText:
    """`text` in pieces, with evidence marked.

    Args:
        text: anything.
        spans: evidence, one a finding, in the order of the findings; None where a finding has none.
        most: bytes of HTML it may cost, roughly.
    """
    found = [(number, span) for number, span in enumerate(spans, 1) if span and 0 <= span.start < span.end]
    made: list[Piece] = []
    shown = end = 0
    windows = _windows(len(text), [span for _, span in found])
    left = float(most)
    for number, wanted in enumerate(windows):
        # A beginning full of costly characters must leave something for the evidence, and each evidence for the next.
        share = left / (1 if number + 1 == len(windows) else 2 if number == 0 else len(windows) - number)
        window = _affordable(text, wanted, found, share) if number else wanted
        if window.start > end:
            made.append(_gap(window.start - end))
        end = window.start
        spent = 0
        for piece, size, cost in _pieces(text, window, found):
            if spent >= share:
                break
            made.append(piece)
            spent += cost
            shown += size
            end += size
        left -= spent
    if end < len(text):
        made.append(_gap(len(text) - end))
    return DisplayText(tuple(made), len(text), len(text) - shown)


def diff_lines(before: str, after: str) -> tuple[list[tuple[str, DisplayText]], bool]:
    """What changed, line by line.

    Returns:
        (``same``, ``gone``, ``new`` or ``gap``; the line), and whether everything is there.
    """
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_DIFF_LINES:
        return [], False
    found: list[tuple[str, DisplayText]] = []
    spent = 0
    for kind, line in _changes(old, new):
        one = display_text(line, most=max(MAX_DIFF_BYTES - spent, 1))
        found.append((kind, one))
        spent += len(line) + 40 + _A_CODE * one.codes
        if spent >= MAX_DIFF_BYTES:
            return found, False
    return found, True


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[str, str]]:
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(2)
    for number, group in enumerate(groups):
        if number:
            yield "gap", ""
        for what, start, end, new_start, new_end in group:
            if what == "equal":
                yield from (("same", line) for line in old[start:end])
                continue
            yield from (("gone", line) for line in old[start:end])
            yield from (("new", line) for line in new[new_start:new_end])


def _windows(length: int, spans: Iterable[Span]) -> list[Span]:
    """Stretches that are shown: merged, in order."""
    wanted = [Span(0, min(length, BEGINNING_CHARS))]
    for span in spans:
        end = min(span.end, span.start + MAX_EVIDENCE_CHARS)
        wanted.append(Span(max(0, span.start - CONTEXT_CHARS), min(length, end + CONTEXT_CHARS)))
    merged: list[Span] = []
    for span in sorted(wanted, key=lambda one: one.start):
        if merged and span.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end))
        elif span.start < span.end:
            merged.append(span)
    return merged


def _affordable(text: str, window: Span, found: Sequence[tuple[int, Span]], share: float) -> Span:
    """`window` without what stands before its evidence, where that alone would use up its share."""
    begin = (span.start for _, span in found if window.start <= span.start < window.end)
    start = min(begin, default=window.start)
    before = sum(cost for _, _, cost in _pieces(text, Span(window.start, start), ()))
    return Span(start, window.end) if before > share / 2 else window


def _pieces(text: str, window: Span, found: Sequence[tuple[int, Span]]) -> Iterator[tuple[Piece, int, int]]:
    """(piece, characters, bytes it costs)."""
    edges = {window.start, window.end}
    for _, span in found:
        edges |= {edge for edge in (span.start, span.end) if window.start < edge < window.end}
    ordered = sorted(edges)
    for start, end in pairwise(ordered):
        marks = tuple(number for number, span in found if span.start <= start < span.end)
        begins = tuple(number for number, span in found if span.start == start)
        for kind, run in groupby(text[start:end], _kind):
            stretch = "".join(run)
            if not kind:
                cost = len(stretch.encode("utf-8", "replace")) + _A_MARK * bool(marks)
                yield Piece("text", stretch, marks=marks, begins=begins), len(stretch), cost
            elif kind == TAGS:
                yield _tags(stretch, marks, begins), len(stretch), _A_CODE + len(stretch)
            else:
                many = f" ×{len(stretch):,}" if len(stretch) > 1 else ""
                name = unicodedata.name(kind, "no name")
                yield Piece("code", code_point(kind) + many, name, marks, begins), len(stretch), _A_CODE
            begins = ()


def _kind(character: str) -> str:
    """What stands together: letters; one unseen character many times; tag characters."""
    if "\U000e0000" <= character <= "\U000e007f":
        return TAGS
    return character if character not in "\n\t" and is_invisible(character) else ""


def _tags(stretch: str, marks: tuple[int, ...], begins: tuple[int, ...]) -> Piece:
    """Tag characters spell ASCII: nobody sees them, a model reads them. So the reviewer reads them too."""
    spelt = "".join(chr(ord(one) - 0xE0000) if "\U000e0020" <= one <= "\U000e007e" else "·" for one in stretch)
    first, last = code_point(stretch[0]), code_point(stretch[-1])
    span = first if len(stretch) == 1 else f"{first} … {last} ×{len(stretch):,}"
    return Piece("code", f"{span} spells “{spelt}”", "tag characters", marks, begins)


def _gap(characters: int) -> Piece:
    return Piece("gap", f"{characters:,} characters are not shown")
