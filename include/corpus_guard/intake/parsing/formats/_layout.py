"""Structure of a document written as text, the same for every format.

    # Heading                     one sign a level, six at most
    - item, 1. item               lists; two spaces a level
    first cell | second cell      a line for each row of a table
    word[1], 10^6                 a note's mark or an index behind a word; figures raised behind a number
    words (https://example.org)   a link whose text does not show its target; once a page; not within the site or file

Blocks stand on lines of their own, paragraphs and larger blocks with a blank line between them. Nothing is
escaped: a text that writes these signs itself looks the same.
"""

from __future__ import annotations

import re

_SPACE = re.compile(r"[ \t\n\r\f]+")
_EMPTY_ROW = re.compile(r"^[ |]+$", re.MULTILINE)
_BLANK = re.compile(r"\n[ \t]*\n[\s]*?\n")
_SCHEME = re.compile(r"\s*([a-z][a-z0-9+.-]{1,20}):", re.IGNORECASE)
_RUN = frozenset({"javascript", "vbscript", "data"})  # schemes of scripts, and of pages that the link itself holds
_MAX_TARGET_CHARS = 500


class Layout:
    """Writer of text and breaks in reading order, in linear time."""

    def __init__(self) -> None:
        self._pieces: list[tuple[str, bool]] = []
        self._gap = 0  # line feeds before the next text
        self._space = False
        self._mark = ""
        self._in_cell = False  # breaks are held back until the cell has text
        self._cells: list[tuple[int, int]] = []
        self.aside = False  # the text written now belongs to the page's furniture: navigation, footer

    def text(self, text: str) -> None:
        """Write running text; white space in it counts as one space."""
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
        """Write text whose lines and spaces count."""
        if text.strip():
            self._open()
            self._put(text.rstrip())
            if text.endswith("\n"):
                self.line()
        elif "\n" in text:
            self._gap = max(self._gap, min(text.count("\n"), 2))
        elif text:
            self._put(text)

    @property
    def last_word(self) -> str:
        """The end of the text, as far as the next piece would touch it; 40 characters at most."""
        if self._gap or self._space or self._mark:
            return ""
        return "".join(piece[-40:] for piece, _ in self._pieces[-4:])[-40:]

    def line(self) -> None:
        """Start a line."""
        if not self._in_cell:
            self._gap = max(self._gap, 1)

    def block(self) -> None:
        """Start a paragraph."""
        if not self._in_cell:
            self._gap = 2

    def mark(self, mark: str) -> None:
        """Set the sign that leads the next text; empty takes it back."""
        self._mark = mark

    def heading(self, level: int) -> None:
        """Start a heading, 1 (highest) to 6."""
        self.block()
        self._mark = "#" * min(max(level, 1), 6) + " "

    def item(self, depth: int, number: int | None = None) -> None:
        """Start an item of a list, numbered or not; `depth` counts from 1."""
        self.line()
        self._mark = "  " * min(max(depth - 1, 0), 8) + ("- " if number is None else f"{number}. ")

    def cell(self, *, first: bool) -> None:
        """Start a cell of the row that `line` began; `end_cell` closes it."""
        if not first:
            self._open()
            self._put(" | ")
            self._space = False
        self._cells.append((len(self._pieces), self._gap))
        self._in_cell = True

    def end_cell(self) -> None:
        """Close the cell."""
        length, gap = self._cells.pop() if self._cells else (0, 0)
        self._in_cell = False
        self._gap = gap if len(self._pieces) == length else 0
        self._mark = ""

    def row(self, cells: list[str]) -> None:
        """Write a whole row."""
        self.line()
        for number, cell in enumerate(cells):
            self.cell(first=number == 0)
            self.text(cell)
            self.end_cell()
        self.line()

    def render(self, *, aside: bool = True) -> str:
        """Return the text; leave out the page's furniture where `aside` is false."""
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
        self._in_cell = False

    def _at_line_start(self) -> bool:
        return not self._pieces or self._pieces[-1][0].endswith(("\n", "# ", "- ", ". ", " | "))

    def _put(self, piece: str) -> None:
        self._pieces.append((piece, self.aside))


def link_suffix(href: str | None, words: str) -> str:
    """Return `` (target)`` for a link out of its site or file whose text does not show the target; else nothing.

    Nothing is written of a link that runs a script.
    """
    scheme = _SCHEME.match(href or "")
    if not href or scheme is None or scheme[1].lower() in _RUN:
        return ""
    address = _SPACE.sub("", href)[:_MAX_TARGET_CHARS]
    bare = address.removeprefix("mailto:").removeprefix("https://").removeprefix("http://").rstrip("/")
    return "" if bare and bare in _SPACE.sub("", words) else f" ({address})"
