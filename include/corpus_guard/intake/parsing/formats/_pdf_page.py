"""One page of a PDF through PDFium's text interface: every character with what keeps it from being seen."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from corpus_guard.intake.parsing.formats import _css
from corpus_guard.intake.parsing.formats._hidden import ink
from corpus_guard.intake.parsing.formats._layout import target

MAX_CHARS = 2_000_000
"""Characters of one page."""
_MAX_REGIONS = 5_000  # painted shapes looked at behind one character
_MAX_LINKS = 1_000
_INVISIBLE = {3, 7}  # rendering modes: neither filled nor stroked; clip only
_TINY = 1.0  # points
_SCAN = 0.6  # of the page's area


@dataclass(frozen=True, slots=True)
class Line:
    """A line of shown text, and the size of its type in points (rounded to halves; 0.0: not known)."""

    text: str
    size: float


@dataclass(frozen=True, slots=True)
class PdfText:
    """What one page holds."""

    lines: list[Line]
    hidden: dict[str, str]  # by what hides it, in the words of `_hidden.WAYS`
    chars: int  # of all of it, white space not counted
    is_scan: bool  # a picture fills the page


@dataclass(frozen=True, slots=True)
class _Region:
    """A painted area; colour None: a picture, a gradient."""

    box: tuple[float, float, float, float]  # left, bottom, right, top
    color: _css.Color | None

    def holds(self, x: float, y: float) -> bool:
        left, bottom, right, top = self.box
        return left <= x <= right and bottom <= y <= top


def read_page(document: Any, index: int, off: frozenset[str]) -> PdfText:
    """Read page `index` (from 0).

    Args:
        document: a `pypdfium2.PdfDocument`.
        index: of the page.
        off: names of layers that are off.

    Raises:
        pypdfium2.PdfiumError: the page is damaged.
    """
    page = document[index]
    try:
        textpage = page.get_textpage()
        try:
            return _Reader(document, page, textpage, off).read()
        finally:
            textpage.close()
    finally:
        page.close()


class _Reader:
    def __init__(self, document: Any, page: Any, textpage: Any, off: frozenset[str]) -> None:
        import pypdfium2.raw as c

        self._c = c
        self._document, self._page, self._text = document, page, textpage
        self._off = off
        # Not the page's own boxes: they may be inherited, which PDFium resolves only here.
        box = c.FS_RECTF()
        c.FPDF_GetPageBoundingBox(page.raw, ctypes.byref(box))
        self._box = box.left, box.bottom, box.right, box.top
        self._regions = self._painted()
        self._objects: dict[int, tuple[str, _css.Color | None]] = {}
        self._doubles = [ctypes.c_double() for _ in range(4)]
        self._places = [ctypes.byref(each) for each in self._doubles]
        self._loose = c.FS_RECTF()

    def read(self) -> PdfText:
        c, text = self._c, self._text.raw
        count = min(c.FPDFText_CountChars(text), MAX_CHARS)
        targets = self._targets(count)
        lines: list[Line] = []
        shown: list[str] = []
        hidden: dict[str, list[str]] = {}
        sizes: dict[float, int] = {}
        before = ""
        for place in range(count):
            code = c.FPDFText_GetUnicode(text, place)
            char = (
                "-" if code in {0x02, 0xFFFE} else chr(code) if code < 0x110000 else "\ufffd"
            )  # 2: a hyphen at a line's end
            kind, size = (before, 0.0) if char in " \r\n" else self._look(place)
            if char in "\r\n":
                if shown:
                    lines.append(_line(shown, sizes))
                    shown, sizes = [], {}
                for pieces in hidden.values():
                    if not pieces[-1].endswith("\n"):
                        pieces.append("\n")
            elif kind:
                hidden.setdefault(kind, []).append(char)
            else:
                shown.append(char)
                sizes[size] = sizes.get(size, 0) + 1
            if place in targets and not kind:
                shown.append(target(targets[place], "".join(shown)))
            before = kind if char not in "\r\n" else ""
        if shown:
            lines.append(_line(shown, sizes))
        lines = [line for line in lines if line.text.strip()]
        apart = {kind: _joined(pieces) for kind, pieces in hidden.items()}
        chars = sum(ink(line.text) for line in lines) + sum(map(ink, apart.values()))
        return PdfText(lines, apart, chars, self._is_scan())

    def _look(self, place: int) -> tuple[str, float]:
        """What hides a character (empty: nothing), and its size in points."""
        c, text = self._c, self._text.raw
        thing = c.FPDFText_GetTextObject(text, place)
        address = ctypes.cast(thing, ctypes.c_void_p).value or 0
        if address not in self._objects:
            self._objects[address] = self._object(thing) if address else ("", None)
        kind, color = self._objects[address]
        c.FPDFText_GetLooseCharBox(text, place, self._loose)
        height = abs(self._loose.top - self._loose.bottom)
        size = round(height * 2) / 2
        if kind:
            return kind, size
        if not c.FPDFText_GetCharBox(text, place, *self._places):
            return "", size
        left, right, bottom, top = (each.value for each in self._doubles)
        if right < self._box[0] or left > self._box[2] or top < self._box[1] or bottom > self._box[3]:
            return "off_page", size
        if height < _TINY:
            return "tiny", size
        if color is not None and _css.alike(color, self._ground((left + right) / 2, (bottom + top) / 2)):
            return "colour", size
        return "", size

    def _object(self, thing: Any) -> tuple[str, _css.Color | None]:
        """What hides a whole text object, and its colour."""
        c = self._c
        if c.FPDFTextObj_GetTextRenderMode(thing) in _INVISIBLE:
            return "render_mode", None
        if self._off and self._in_layer_off(thing):
            return "layer", None
        color = self._color(thing)
        if color == _css.TRANSPARENT:
            return "opacity", None
        return "", color

    def _color(self, thing: Any) -> _css.Color | None:
        channels = [ctypes.c_uint() for _ in range(4)]
        if not self._c.FPDFPageObj_GetFillColor(thing, *map(ctypes.byref, channels)):
            return None
        red, green, blue, alpha = (each.value for each in channels)
        return _css.TRANSPARENT if alpha < 13 else (red, green, blue, 255)

    def _in_layer_off(self, thing: Any) -> bool:
        c = self._c
        for number in range(min(c.FPDFPageObj_CountMarks(thing), 32)):
            mark = c.FPDFPageObj_GetMark(thing, number)
            size = ctypes.c_ulong()
            buffer = ctypes.create_string_buffer(512)
            if (
                c.FPDFPageObjMark_GetParamStringValue(
                    mark, b"Name", ctypes.cast(buffer, ctypes.POINTER(c.FPDF_WCHAR)), 512, ctypes.byref(size)
                )
                and buffer.raw[: max(size.value - 2, 0)].decode("utf-16-le", "replace") in self._off
            ):
                return True
        return False

    def _ground(self, x: float, y: float) -> _css.Color | None:
        """The colour last painted at a place; white where nothing was, None where it is a picture's."""
        for region in reversed(self._regions):
            if region.holds(x, y):
                return region.color
        return _css.WHITE

    def _painted(self) -> list[_Region]:
        c = self._c
        regions: list[_Region] = []
        for number in range(min(c.FPDFPage_CountObjects(self._page.raw), _MAX_REGIONS * 4)):
            thing = c.FPDFPage_GetObject(self._page.raw, number)
            kind = c.FPDFPageObj_GetType(thing)
            if kind == c.FPDF_PAGEOBJ_TEXT or len(regions) >= _MAX_REGIONS:
                continue
            box = [ctypes.c_float() for _ in range(4)]
            if not c.FPDFPageObj_GetBounds(thing, *map(ctypes.byref, box)):
                continue
            color: _css.Color | None = None
            if kind == c.FPDF_PAGEOBJ_PATH:
                fill, stroke = ctypes.c_int(), ctypes.c_int()
                c.FPDFPath_GetDrawMode(thing, ctypes.byref(fill), ctypes.byref(stroke))
                color = self._color(thing)
                if not fill.value or color == _css.TRANSPARENT:
                    continue
            left, bottom, right, top = (each.value for each in box)
            regions.append(_Region((left, bottom, right, top), color))
        return regions

    def _is_scan(self) -> bool:
        left, bottom, right, top = self._box
        area = max((right - left) * (top - bottom), 1.0)
        return any(
            (region.box[2] - region.box[0]) * (region.box[3] - region.box[1]) >= _SCAN * area
            for region in self._regions
            if region.color is None
        )

    def _targets(self, count: int) -> dict[int, str]:
        """The addresses that links of the page lead to, each by the last character it stands over."""
        c = self._c
        found: dict[int, str] = {}
        position, link = ctypes.c_int(0), c.FPDF_LINK()
        for _ in range(_MAX_LINKS):
            if not c.FPDFLink_Enumerate(self._page.raw, ctypes.byref(position), ctypes.byref(link)):
                break
            box = c.FS_RECTF()
            action = c.FPDFLink_GetAction(link)
            if not action or not c.FPDFLink_GetAnnotRect(link, ctypes.byref(box)):
                continue
            buffer = ctypes.create_string_buffer(2_048)
            size = c.FPDFAction_GetURIPath(self._document.raw, action, buffer, 2_048)
            middle = (box.top + box.bottom) / 2
            height = abs(box.top - box.bottom) / 2
            place = c.FPDFText_GetCharIndexAtPos(self._text.raw, box.right - 1, middle, 20.0, height)
            if 0 < size <= 2_048 and 0 <= place < count:
                found[place] = buffer.raw[: size - 1].decode("utf-8", "replace")
        return found


def _line(chars: list[str], sizes: dict[float, int]) -> Line:
    return Line(_joined(chars), max(sizes, key=lambda size: sizes[size]) if sizes else 0.0)


def _joined(chars: list[str]) -> str:
    """One text; PDFium gives characters beyond the first plane as two halves."""
    return "".join(chars).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").strip()
