"""How structure is written down, the same for every format.

    # Heading                     one sign a level, six at most
    - item, 1. item               lists; two spaces a level
    first cell | second cell      a line for each row of a table
    words (https://example.org)   a link whose target is not its text; once a page; targets within the same site or file are left out

Blocks stand on lines of their own, paragraphs and larger blocks with a blank line between them. Nothing is escaped: a text that
writes these signs itself looks the same.
"""

from __future__ import annotations

import re

_SPACE = re.compile(r"[ \t\n\r\f]+")
_EMPTY_ROW = re.compile(r"^[ |]+$", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*\n[\s]*?\n")
_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]{1,20}):", re.IGNORECASE)
_TARGET_CHARS = 500


class Layout:
    """Takes text and breaks in reading order. Linear in what it is given."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, bool]] = []
        self._gap = 0  # line feeds that must stand before what comes next
        self._space = False
        self._mark = ""
        self._held = False
        self._cells: list[tuple[int, int]] = []
        self.aside = False  # what is written now belongs to the page's furniture

    def text(self, text: str) -> None:
        """Running text; white space in it counts as one space."""
        collapsed = _SPACE.sub(" ", text)
        if collapsed in {"", " "}:
            self._space = self._space or (collapsed == " " and not self._gap)
            return
        self._open()
        if (self._space or collapsed[0] == " ") and not self._at_line_start():
            self._put(" ")
        self._put(collapsed.strip(" "))
        self._space = collapsed[-1] == " "

    def literal(self, text: str) -> None:
        """Text whose lines and spaces count."""
        if text.strip():
            self._open()
            self._put(text.rstrip())
            if text.endswith("\n"):
                self.line()
        elif "\n" in text:
            self._gap = max(self._gap, min(text.count("\n"), 2))
        elif text:
            self._put(text)

    def line(self) -> None:
        """What follows starts a line."""
        if not self._held:
            self._gap = max(self._gap, 1)

    def block(self) -> None:
        """What follows starts a paragraph."""
        if not self._held:
            self._gap = 2

    def mark(self, mark: str) -> None:
        """What the next text is led by; empty to take it back."""
        self._mark = mark

    def heading(self, level: int) -> None:
        """What follows is a heading, 1 (highest) to 6."""
        self.block()
        self._mark = "#" * min(max(level, 1), 6) + " "

    def item(self, depth: int, number: int | None = None) -> None:
        """What follows is an item of a list, numbered or not; `depth` counts from 1."""
        self.line()
        self._mark = "  " * min(max(depth - 1, 0), 8) + ("- " if number is None else f"{number}. ")

    def cell(self, *, first: bool) -> None:
        """What follows is a cell of the row that `line` began; closed by `end_cell`."""
        if not first:
            self._open()
            self._put(" | ")
            self._space = False
        self._cells.append((len(self._pieces), self._gap))
        self._held = True

    def end_cell(self) -> None:
        """The cell is over."""
        length, gap = self._cells.pop() if self._cells else (0, 0)
        self._held = False
        self._gap = gap if len(self._pieces) == length else 0
        self._mark = ""

    def row(self, cells: list[str]) -> None:
        """A whole row."""
        self.line()
        for number, cell in enumerate(cells):
            self.cell(first=number == 0)
            self.text(cell)
            self.end_cell()
        self.line()

    def read(self, *, aside: bool = True) -> str:
        """What was written; without the furniture where `aside` is false."""
        text = "".join(piece for piece, furniture in self._pieces if aside or not furniture)
        return _BLANK.sub("\n\n", _EMPTY_ROW.sub("", text)).strip()

    def _open(self) -> None:
        if self._gap:
            if self._pieces:
                self._put("\n" * self._gap)
            self._gap, self._space = 0, False
        if self._mark:
            self._put(self._mark)
            self._mark, self._space = "", False
        self._held = False

    def _at_line_start(self) -> bool:
        return not self._pieces or self._pieces[-1][0].endswith(("\n", "# ", "- ", ". ", " | "))

    def _put(self, piece: str) -> None:
        self._pieces.append((piece, self.aside))


def target(href: str | None, words: str) -> str:
    """`` (target)`` for a link that leads out of its site or file and whose text does not show where; else nothing."""
    found = _SCHEME.match(href or "")
    if not href or found is None:
        return ""
    address = _SPACE.sub("", href)[:_TARGET_CHARS]
    bare = address.removeprefix("mailto:").removeprefix("https://").removeprefix("http://").rstrip("/")
    return "" if bare and bare in _SPACE.sub("", words) else f" ({address})"
