"""Texts in a form that a reviewer can read and that cannot act.

Rules
    * an invisible character is shown as its code point, with its Unicode name, never dropped;
    * evidence is marked where a finding locates it; spans may overlap;
    * a text adds a limited number of bytes to a page: of a long text the beginning is shown, and the
      surroundings of each evidence. Characters that are left out are counted;
    * pieces hold plain text. Nothing here writes HTML: the template does, and escapes.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, Literal

from corpus_guard.domain import Span
from corpus_guard.invisible import code_point, is_invisible

BEGINNING_CHARS: Final = 12_000  # of a long text that are always shown
CONTEXT_CHARS: Final = 400  # shown on either side of evidence
MAX_EVIDENCE_CHARS: Final = 4_000  # shown of one piece of evidence
MAX_TEXT_BYTES: Final = 70_000  # of HTML, for one text
MAX_DIFF_LINES: Final = 4_000  # on each side; longer texts are not compared
MAX_DIFF_BYTES: Final = 30_000  # of HTML
_TAGS: Final = "tags"
_CODE_POINT_BYTES: Final = 60  # of HTML around a code point
_MARK_BYTES: Final = 70  # of HTML around a mark
_LINE_BYTES: Final = 40  # of HTML around a line of a difference

PieceKind = Literal["text", "code", "gap"]
LineKind = Literal["same", "gone", "new", "gap"]
NumberedSpan = tuple[int, Span]
"""Number of a finding, from 1, and its evidence."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text with one presentation."""

    kind: PieceKind
    text: str  # of a code: ``U+200B`` or ``U+200B ×12``; of a gap: the number of characters left out
    title: str = ""  # of a code: its Unicode name
    marks: tuple[int, ...] = ()  # numbers of the findings, from 1, whose evidence covers it
    begins: tuple[int, ...] = ()  # those of them whose evidence begins here


@dataclass(frozen=True, slots=True)
class DisplayText:
    """A text, ready for a page."""

    pieces: tuple[Piece, ...]
    length: int  # characters of the whole text
    left_out: int  # characters that are not shown

    @property
    def anchors(self) -> dict[int, int]:
        """Number of a finding → number in the id of its mark: several findings may begin at one place."""
        return {number: piece.begins[0] for piece in self.pieces for number in piece.begins}

    @property
    def codes(self) -> int:
        """Number of stretches of invisible characters."""
        return sum(piece.kind == "code" for piece in self.pieces)


DiffLine = tuple[LineKind, DisplayText]


def display_text(text: str, spans: Sequence[Span | None] = (), max_bytes: int = MAX_TEXT_BYTES) -> DisplayText:
    """Return `text` in pieces, with evidence marked.

    Args:
        spans: evidence of each finding, in the order of the findings; None for a finding without evidence.
        max_bytes: approximate limit of the HTML that the text needs.
    """
    evidence = [(number, span) for number, span in enumerate(spans, 1) if span and 0 <= span.start < span.end]
    pieces: list[Piece] = []
    shown_chars = end = 0
    windows = _windows(len(text), [span for _, span in evidence])
    budget = float(max_bytes)
    for number, full_window in enumerate(windows):
        # A costly beginning must leave something for the evidence, and each evidence for the next.
        share = budget / (1 if number + 1 == len(windows) else 2 if number == 0 else len(windows) - number)
        window = _affordable_window(text, full_window, evidence, share) if number else full_window
        if window.start > end:
            pieces.append(_gap(window.start - end))
        end = window.start
        spent = 0
        for piece, chars, cost in _pieces(text, window, evidence):
            if spent >= share:
                break
            pieces.append(piece)
            spent += cost
            shown_chars += chars
            end += chars
        budget -= spent
    if end < len(text):
        pieces.append(_gap(len(text) - end))
    return DisplayText(tuple(pieces), len(text), len(text) - shown_chars)


def diff_lines(before: str, after: str) -> tuple[list[DiffLine], bool]:
    """Compare two texts line by line.

    Returns:
        The lines around each change, and False if lines were left out.
    """
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_DIFF_LINES:
        return [], False
    lines: list[DiffLine] = []
    spent = 0
    for kind, line in _changes(old, new):
        text = display_text(line, max_bytes=max(MAX_DIFF_BYTES - spent, 1))
        lines.append((kind, text))
        spent += len(line) + _LINE_BYTES + _CODE_POINT_BYTES * text.codes
        if spent >= MAX_DIFF_BYTES:
            return lines, False
    return lines, True


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[LineKind, str]]:
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(2)
    for number, group in enumerate(groups):
        if number:
            yield "gap", ""
        for operation, start, end, new_start, new_end in group:
            if operation == "equal":
                yield from (("same", line) for line in old[start:end])
                continue
            yield from (("gone", line) for line in old[start:end])
            yield from (("new", line) for line in new[new_start:new_end])


def _windows(length: int, spans: Iterable[Span]) -> list[Span]:
    """Return the stretches to show, merged and in order."""
    windows = [Span(0, min(length, BEGINNING_CHARS))]
    for span in spans:
        end = min(span.end, span.start + MAX_EVIDENCE_CHARS)
        windows.append(Span(max(0, span.start - CONTEXT_CHARS), min(length, end + CONTEXT_CHARS)))
    merged: list[Span] = []
    for window in sorted(windows, key=lambda window: window.start):
        if merged and window.start <= merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, window.end))
        elif window.start < window.end:
            merged.append(window)
    return merged


def _affordable_window(text: str, window: Span, evidence: Sequence[NumberedSpan], share: float) -> Span:
    """Return `window`, without the context before its evidence if that alone would use up half of `share`."""
    starts = (span.start for _, span in evidence if window.start <= span.start < window.end)
    start = min(starts, default=window.start)
    context_cost = sum(cost for _, _, cost in _pieces(text, Span(window.start, start), ()))
    return Span(start, window.end) if context_cost > share / 2 else window


def _pieces(text: str, window: Span, evidence: Sequence[NumberedSpan]) -> Iterator[tuple[Piece, int, int]]:
    """Yield (piece, characters, bytes of HTML)."""
    edges = {window.start, window.end}
    for _, span in evidence:
        edges |= {edge for edge in (span.start, span.end) if window.start < edge < window.end}
    for start, end in pairwise(sorted(edges)):
        marks = tuple(number for number, span in evidence if span.start <= start < span.end)
        begins = tuple(number for number, span in evidence if span.start == start)
        for key, run in groupby(text[start:end], _grouping_key):
            stretch = "".join(run)
            if not key:
                cost = len(stretch.encode("utf-8", "replace")) + _MARK_BYTES * bool(marks)
                yield Piece("text", stretch, marks=marks, begins=begins), len(stretch), cost
            elif key == _TAGS:
                yield _tags_piece(stretch, marks, begins), len(stretch), _CODE_POINT_BYTES + len(stretch)
            else:
                times = f" ×{len(stretch):,}" if len(stretch) > 1 else ""
                name = unicodedata.name(key, "no name")
                yield Piece("code", code_point(key) + times, name, marks, begins), len(stretch), _CODE_POINT_BYTES
            begins = ()


def _grouping_key(character: str) -> str:
    """Return one key for visible text, one for tag characters, and one for each invisible character."""
    if "\U000e0000" <= character <= "\U000e007f":
        return _TAGS
    return character if character not in "\n\t" and is_invisible(character) else ""


def _tags_piece(stretch: str, marks: tuple[int, ...], begins: tuple[int, ...]) -> Piece:
    """Return tag characters spelled out: they stand for ASCII that a model reads and a person cannot see."""
    spelled = "".join(
        chr(ord(character) - 0xE0000) if "\U000e0020" <= character <= "\U000e007e" else "·" for character in stretch
    )
    first, last = code_point(stretch[0]), code_point(stretch[-1])
    codes = first if len(stretch) == 1 else f"{first} … {last} ×{len(stretch):,}"
    return Piece("code", f"{codes} spells “{spelled}”", "tag characters", marks, begins)


def _gap(characters: int) -> Piece:
    return Piece("gap", "1 character is not shown" if characters == 1 else f"{characters:,} characters are not shown")
