"""One page of a PDF through PDFium's text interface: every character, and the reason it is hidden.

What annotations draw, such as the fields of a form and typed comments, is made part of the page first.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from corpus_guard.intake.parsing.formats import _css, _pdf_ink
from corpus_guard.intake.parsing.formats._hidden import count_non_space
from corpus_guard.intake.parsing.formats._layout import link_suffix
from corpus_guard.intake.parsing.formats._pdf_text import HYPHEN

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage, PdfTextPage
    from pypdfium2.raw import FPDF_PAGEOBJECT

MAX_CHARS = 2_000_000
"""Characters of one page."""
_MAX_REGIONS = 5_000  # painted shapes considered as a background
_MAX_LINKS = 1_000
_FLATTENED = 1  # FLATTEN_SUCCESS
_INVISIBLE_MODES = {3, 7}  # rendering modes: neither filled nor stroked; clip only
_TINY_POINTS = 1.0
_MAX_MARK_BYTES = 4_096
_LEAST_STATED = (
    12  # letters and figures stated in the place of drawn ones; fewer are a ligature, or a word with its hyphen
)
_ASCII_END = 128
_SCAN_SHARE = 0.6  # of the page's area
_PRIVATE_NUMBERS = {0xF700 + code: code for code in (*range(0x21, 0x7F), *range(0xA1, 0x100))} | {
    0xF643 + figure: ord("0") + figure for figure in range(10)
}
"""Latin-1 numbers of what fonts give private ones: small capitals and old-style figures of Adobe, old-style figures of GUST."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of visible text, and the size of its type in points (rounded to halves; 0.0: not known).

    The text is as PDFium gives it: `_pdf_text.repair_text` joins broken words.
    """

    text: str
    size: float


@dataclass(frozen=True, slots=True)
class PdfPageText:
    """Text of one page."""

    lines: list[TextLine]
    hidden: dict[str, str]  # by reason, a key of `_hidden.HIDING_REASONS`
    chars: int  # of all of it, white space and addresses behind links not counted
    is_scan: bool  # a picture fills the page
    is_complete: bool = True  # no limit kept a letter or an object of the page from being looked at


@dataclass(frozen=True, slots=True)
class _Link:
    """A link's right edge, its middle and half its height, in points of the page, and its address."""

    right: float
    middle: float
    half: float
    address: str


@dataclass(frozen=True, slots=True)
class _Region:
    """A painted area; colour None: a picture or a gradient."""

    box: tuple[float, float, float, float]  # left, bottom, right, top
    color: _css.Color | None

    def contains(self, x: float, y: float) -> bool:
        x_min, y_min, x_max, y_max = self.box
        return x_min <= x <= x_max and y_min <= y <= y_max


def read_page(
    document: PdfDocument, index: int, layers_off: frozenset[str], read_drawn: Callable[[], str]
) -> PdfPageText:
    """Read the text of one page.

    Args:
        document: the open document.
        index: of the page, from 0.
        layers_off: names of layers that are off.
        read_drawn: returns the page's text as its letters say it, whatever the document states in their place.

    Raises:
        pypdfium2.PdfiumError: the page is damaged.
    """
    page = document[index]
    try:
        links = _find_links(document, page)
        added = 0
        if _has_drawn_annotations(page):
            before = _count_chars(page)
            if page.flatten() == _FLATTENED:
                page.close()
                page = document[index]
                added = _count_chars(page) - before
        textpage = page.get_textpage()
        try:
            read = _PageReader(page, textpage, layers_off, read_drawn, links).read()
        finally:
            textpage.close()
        return replace(read, chars=max(read.chars - added, 0))
    finally:
        page.close()


def _has_drawn_annotations(page: PdfPage) -> bool:
    """Return whether a viewer draws something over the page: fields of a form, typed comments, stamps."""
    import pypdfium2.raw as c

    for number in range(c.FPDFPage_GetAnnotCount(page.raw)):
        annotation = c.FPDFPage_GetAnnot(page.raw, number)
        try:
            if c.FPDFAnnot_GetSubtype(annotation) == c.FPDF_ANNOT_WIDGET or c.FPDFAnnot_HasKey(annotation, b"AP"):
                return True
        finally:
            c.FPDFPage_CloseAnnot(annotation)
    return False


def _has_painted_annotations(page: PdfPage) -> bool:
    """Return whether viewers paint an annotation whose looks the document does not hold."""
    import pypdfium2.raw as c

    kinds = {c.FPDF_ANNOT_SQUARE, c.FPDF_ANNOT_CIRCLE, c.FPDF_ANNOT_POLYGON, c.FPDF_ANNOT_INK, c.FPDF_ANNOT_LINE}
    for number in range(c.FPDFPage_GetAnnotCount(page.raw)):
        annotation = c.FPDFPage_GetAnnot(page.raw, number)
        try:
            if c.FPDFAnnot_GetSubtype(annotation) in kinds:
                return True
        finally:
            c.FPDFPage_CloseAnnot(annotation)
    return False


def _count_chars(page: PdfPage) -> int:
    textpage = page.get_textpage()
    try:
        return count_non_space(textpage.get_text_range())
    finally:
        textpage.close()


def _find_links(document: PdfDocument, page: PdfPage) -> list[_Link]:
    """Return the page's links to addresses; none is left once its annotations are part of it."""
    import pypdfium2.raw as c

    links: list[_Link] = []
    position, link = ctypes.c_int(0), c.FPDF_LINK()
    for _ in range(_MAX_LINKS):
        if not c.FPDFLink_Enumerate(page.raw, ctypes.byref(position), ctypes.byref(link)):
            break
        box = c.FS_RECTF()
        action = c.FPDFLink_GetAction(link)
        if not action or not c.FPDFLink_GetAnnotRect(link, ctypes.byref(box)):
            continue
        buffer = ctypes.create_string_buffer(2_048)
        size = c.FPDFAction_GetURIPath(document.raw, action, buffer, 2_048)
        if 0 < size <= 2_048:
            address = buffer.raw[: size - 1].decode("utf-8", "replace")
            links.append(_Link(box.right, (box.top + box.bottom) / 2, abs(box.top - box.bottom) / 2, address))
    return links


class _PageReader:
    def __init__(
        self,
        page: PdfPage,
        textpage: PdfTextPage,
        layers_off: frozenset[str],
        read_drawn: Callable[[], str],
        links: list[_Link],
    ) -> None:
        import pypdfium2.raw as c

        self._c = c
        self._page, self._text, self._links = page, textpage, links
        self._layers_off = layers_off
        self._read_drawn = cache(lambda: _letters_of(read_drawn()))
        # Not the page's own boxes: they may be inherited, which PDFium resolves only here.
        box = c.FS_RECTF()
        c.FPDF_GetPageBoundingBox(page.raw, ctypes.byref(box))
        self._box = box.left, box.bottom, box.right, box.top
        objects, self._has_all_objects = _pdf_ink.collect_objects(page)
        self._regions = self._find_regions(objects)
        # Letters in the colour of a region that was not looked at leave no trace either.
        must_draw = bool(layers_off) or len(self._regions) > _MAX_REGIONS or _has_painted_annotations(page)
        self._traceless = _pdf_ink.find_traceless(page, objects, must_draw=must_draw)
        self._objects: dict[int, tuple[str, _css.Color | None]] = {}
        self._doubles = [ctypes.c_double() for _ in range(4)]
        self._double_refs = [ctypes.byref(double) for double in self._doubles]
        self._loose = c.FS_RECTF()

    def read(self) -> PdfPageText:
        c, text = self._c, self._text.raw
        count = min(all_chars := c.FPDFText_CountChars(text), MAX_CHARS)
        targets = self._find_link_targets(count)
        lines: list[TextLine] = []
        visible: list[str] = []  # characters of the current line
        hidden: dict[str, list[str]] = {}
        sizes: dict[float, int] = {}
        added = 0  # characters of addresses, which stand nowhere on the page
        previous_reason = ""
        for index in range(count):
            code = c.FPDFText_GetUnicode(text, index)
            # 2 and U+FFFE: a hyphen at a line's end; 0: a glyph that its font gives no letter, as many signs of formulas.
            char = (
                HYPHEN
                if code in {0x02, 0xFFFE}
                else chr(_PRIVATE_NUMBERS.get(code, code))
                if 0 < code < 0x110000
                else "\ufffd"
            )
            reason, size = (previous_reason, 0.0) if char in " \r\n" else self._inspect_char(index)
            if char in "\r\n":
                if visible:
                    lines.append(_make_line(visible, sizes))
                    visible, sizes = [], {}
                for pieces in hidden.values():
                    if not pieces[-1].endswith("\n"):
                        pieces.append("\n")
            elif reason:
                hidden.setdefault(reason, []).append(char)
            else:
                visible.append(char)
                sizes[size] = sizes.get(size, 0) + 1
            if index in targets and not reason:
                address = link_suffix(targets[index], "".join(visible).replace(HYPHEN, "-"))
                visible.append(address)
                added += count_non_space(address)
            previous_reason = reason if char not in "\r\n" else ""
        if visible:
            lines.append(_make_line(visible, sizes))
        lines = [line for line in lines if line.text.strip()]
        hidden_texts = {reason: _join(pieces) for reason, pieces in hidden.items()}
        shown = sum(count_non_space(line.text) for line in lines) - added
        chars = shown + sum(map(count_non_space, hidden_texts.values()))
        is_complete = all_chars <= MAX_CHARS and self._has_all_objects
        return PdfPageText(lines, hidden_texts, chars, self._is_scan(), is_complete)

    def _inspect_char(self, index: int) -> tuple[str, float]:
        """Return the reason a character is hidden (empty: it is not), and its size in points."""
        c, text = self._c, self._text.raw
        text_object = c.FPDFText_GetTextObject(text, index)
        address = ctypes.cast(text_object, ctypes.c_void_p).value or 0
        if address not in self._objects:
            self._objects[address] = self._inspect_object(text_object) if address else ("", None)
        reason, color = self._objects[address]
        c.FPDFText_GetLooseCharBox(text, index, self._loose)
        height = abs(self._loose.top - self._loose.bottom)
        size = round(height * 2) / 2
        if reason:
            return reason, size
        if not c.FPDFText_GetCharBox(text, index, *self._double_refs):
            return "", size
        x_min, x_max, y_min, y_max = (double.value for double in self._doubles)
        if x_max < self._box[0] or x_min > self._box[2] or y_max < self._box[1] or y_min > self._box[3]:
            return "off_page", size
        if height < _TINY_POINTS:
            return "tiny", size
        if color is not None and _css.colors_match(
            color, self._background_at((x_min + x_max) / 2, (y_min + y_max) / 2)
        ):
            return "colour", size
        has_font = self._traceless.get(address)
        is_drawn = has_font is None or not (has_font or c.FPDFText_GetUnicode(text, index) < _ASCII_END)
        return "" if is_drawn else "covered", size

    def _inspect_object(self, text_object: FPDF_PAGEOBJECT) -> tuple[str, _css.Color | None]:
        """Return the reason a whole text object is hidden (empty: it is not), and its colour."""
        c = self._c
        if c.FPDFTextObj_GetTextRenderMode(text_object) in _INVISIBLE_MODES:
            return "render_mode", None
        if self._layers_off and not self._layers_off.isdisjoint(self._read_marks(text_object, b"Name")):
            return "layer", None
        stated = [
            letters
            for text in self._read_marks(text_object, b"ActualText")
            if len(letters := _letters_of(text)) >= _LEAST_STATED
        ]
        if stated and any(letters not in self._read_drawn() for letters in stated):
            return "replaced", None
        color = _pdf_ink.fill_color(text_object)
        if color == _css.TRANSPARENT:
            return "opacity", None
        return "", color

    def _read_marks(self, text_object: FPDF_PAGEOBJECT, key: bytes) -> list[str]:
        """Return the values that the marks around a text object have for a key."""
        c = self._c
        values: list[str] = []
        for number in range(min(c.FPDFPageObj_CountMarks(text_object), 32)):
            mark = c.FPDFPageObj_GetMark(text_object, number)
            size = ctypes.c_ulong()
            buffer = ctypes.create_string_buffer(_MAX_MARK_BYTES)
            if c.FPDFPageObjMark_GetParamStringValue(
                mark, key, ctypes.cast(buffer, ctypes.POINTER(c.FPDF_WCHAR)), _MAX_MARK_BYTES, ctypes.byref(size)
            ):
                values.append(buffer.raw[: max(min(size.value, _MAX_MARK_BYTES) - 2, 0)].decode("utf-16-le", "replace"))
        return values

    def _background_at(self, x: float, y: float) -> _css.Color | None:
        """Return the colour last painted at a point; white where there is none, None where it is a picture's."""
        for region in reversed(self._regions):
            if region.contains(x, y):
                return region.color
        return _css.WHITE

    def _find_regions(self, objects: list[_pdf_ink.PageObject]) -> list[_Region]:
        """Return the painted areas of the page; of very many the first, and one more than are considered."""
        c = self._c
        regions: list[_Region] = []
        for each in objects:
            if len(regions) > _MAX_REGIONS:
                break
            if each.in_form:
                continue
            color: _css.Color | None = None
            if each.kind == c.FPDF_PAGEOBJ_PATH:
                color = _pdf_ink.fill_color(each.raw)
                if not _pdf_ink.is_filled(each.raw) or color == _css.TRANSPARENT:
                    continue
            if each.kind != c.FPDF_PAGEOBJ_TEXT:
                regions.append(_Region(each.box, color))
        return regions

    def _is_scan(self) -> bool:
        x_min, y_min, x_max, y_max = self._box
        area = max((x_max - x_min) * (y_max - y_min), 1.0)
        return any(
            (region.box[2] - region.box[0]) * (region.box[3] - region.box[1]) >= _SCAN_SHARE * area
            for region in self._regions
            if region.color is None
        )

    def _find_link_targets(self, count: int) -> dict[int, str]:
        """Return the addresses of the page's links, each by the index of the last character it covers."""
        targets: dict[int, str] = {}
        for link in self._links:
            index = self._c.FPDFText_GetCharIndexAtPos(self._text.raw, link.right - 1, link.middle, 20.0, link.half)
            if 0 <= index < count:
                targets[index] = link.address
        return targets


def _letters_of(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()


def _make_line(chars: list[str], sizes: dict[float, int]) -> TextLine:
    return TextLine(_join(chars), max(sizes, key=lambda size: sizes[size]) if sizes else 0.0)


def _join(chars: list[str]) -> str:
    """Join characters to one text; PDFium gives those beyond the first plane as two halves."""
    return "".join(chars).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()
