"""Letters of a PDF that leave no trace on its page: something covers them, clips them, or has their colour.

A page on which that may happen is drawn twice by PDFium, with its letters and without them. Where both pictures are alike, no
reader sees a letter, whatever hides it: a rectangle or a picture laid over it, a clipping path, a layer that is off, an empty
glyph, the colour of the picture below.

Not seen: letters that lie between or below other letters that are drawn, and a font that draws other letters than it names.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.intake.parsing.formats import _css

if TYPE_CHECKING:
    from pypdfium2 import PdfPage
    from pypdfium2.raw import FPDF_PAGEOBJECT

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points of the page."""
_MAX_OBJECTS: Final = 300_000  # of one page; honest ones had up to 262,778
_MAX_MARKS: Final = 32  # around one object
_MAX_DEPTH: Final = 8  # forms within each other
_MAX_COVERS: Final = 200  # painted areas of a page; one with more is drawn
_MAX_SEGMENTS: Final = 64  # of a clipping path; what lies within a longer one is drawn
_LEAST_SIDE: Final = 4.0  # points of a painted area that may cover letters; less is a rule
_MAX_PIXELS: Final = 4_000_000
_MAX_SIDE: Final = 8_000
_LEAST_DIFFERENCE: Final = 16  # of 255 shades of grey
_PATTERN: Final = (191, 191, 191, 255)  # as PDFium names the colour of letters that are filled with a pattern
_LAYER_MARK: Final = "OC"
_STROKED_MODES: Final = frozenset({1, 5})
_INVISIBLE_MODES: Final = frozenset({3, 7})


@dataclass(frozen=True, slots=True)
class PageObject:
    """An object of a page."""

    raw: FPDF_PAGEOBJECT
    kind: int
    box: Box
    is_clipped: bool  # its middle lies outside a clipping path, or may
    in_form: bool

    @property
    def middle(self) -> tuple[float, float]:
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


def find_traceless(page: PdfPage, objects: list[PageObject], *, must_draw: bool) -> Mapping[int, bool]:
    """Return the text objects that leave no trace; the page's letters cannot be drawn afterwards.

    Args:
        page: the open page.
        objects: all of its objects, in the order of painting.
        must_draw: draw it even where nothing on it seems to hide a letter.

    Returns:
        Address of each such object → whether PDFium surely has its font; of another font it may lack all letters but
        those of ASCII.
    """
    import pypdfium2.raw as c

    letters = [
        each
        for each in objects
        if each.kind == c.FPDF_PAGEOBJ_TEXT and c.FPDFTextObj_GetTextRenderMode(each.raw) not in _INVISIBLE_MODES
    ]
    if not letters or not (must_draw or _may_hide(c, objects)):
        return {}
    before, width, height = _draw(c, page)
    for each in letters:
        c.FPDFPageObj_SetIsActive(each.raw, False)
    after, _, _ = _draw(c, page)
    return {
        _address(each.raw): _is_drawable(c, each.raw)
        for each in letters
        if not _differ(before, after, width, _to_pixels(c, page, each.box, width, height))
    }


def collect_objects(page: PdfPage) -> tuple[list[PageObject], bool]:
    """Return the objects of a page in the order of painting, those of forms too, and whether these are all."""
    import pypdfium2.raw as c

    objects: list[PageObject] = []
    count = c.FPDFPage_CountObjects(page.raw)
    stack: list[tuple[FPDF_PAGEOBJECT, Callable[[Box], Box], int]] = [
        (c.FPDFPage_GetObject(page.raw, number), lambda box: box, 0)
        for number in reversed(range(min(count, _MAX_OBJECTS)))
    ]
    collected, is_complete = 0, count <= _MAX_OBJECTS
    while stack and collected < _MAX_OBJECTS:
        raw, place, depth = stack.pop()
        collected += 1
        kind = c.FPDFPageObj_GetType(raw)
        edges = [ctypes.c_float() for _ in range(4)]
        if c.FPDFPageObj_GetBounds(raw, *map(ctypes.byref, edges)):
            x_min, y_min, x_max, y_max = (edge.value for edge in edges)
            middle = (x_min + x_max) / 2, (y_min + y_max) / 2
            box = place((x_min, y_min, x_max, y_max))
            objects.append(PageObject(raw, kind, box, _is_clipped(c, raw, middle), depth > 0))
        if kind == c.FPDF_PAGEOBJ_FORM:
            if depth == _MAX_DEPTH:
                is_complete = False
                continue
            matrix = c.FS_MATRIX()
            c.FPDFPageObj_GetMatrix(raw, ctypes.byref(matrix))
            inner = _placing(matrix, place)
            inside = c.FPDFFormObj_CountObjects(raw)
            is_complete &= inside <= _MAX_OBJECTS
            numbers = reversed(range(min(inside, _MAX_OBJECTS)))
            stack.extend((c.FPDFFormObj_GetObject(raw, number), inner, depth + 1) for number in numbers)
    return objects, is_complete and not stack


def _placing(matrix: Any, outer: Callable[[Box], Box]) -> Callable[[Box], Box]:
    """Return the function that turns places in a form into places on the page."""

    def place(box: Box) -> Box:
        corners = [(x, y) for x in (box[0], box[2]) for y in (box[1], box[3])]
        xs = [matrix.a * x + matrix.c * y + matrix.e for x, y in corners]
        ys = [matrix.b * x + matrix.d * y + matrix.f for x, y in corners]
        return outer((min(xs), min(ys), max(xs), max(ys)))

    return place


def _is_clipped(c: Any, raw: FPDF_PAGEOBJECT, middle: tuple[float, float]) -> bool:
    clip = c.FPDFPageObj_GetClipPath(raw)
    x, y = ctypes.c_float(), ctypes.c_float()
    for path in range(max(c.FPDFClipPath_CountPaths(clip), 0) if clip else 0):
        count = c.FPDFClipPath_CountPathSegments(clip, path)
        points = []
        if count > _MAX_SEGMENTS:
            return True
        for number in range(count):
            segment = c.FPDFClipPath_GetPathSegment(clip, path, number)
            if c.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y)):
                points.append((x.value, y.value))
        if points and not all(
            min(point[axis] for point in points) - 1 <= middle[axis] <= max(point[axis] for point in points) + 1
            for axis in (0, 1)
        ):
            return True
    return False


def _may_hide(c: Any, objects: list[PageObject]) -> bool:
    """Return whether some letters of a page may leave no trace, roughly and quickly."""
    letters: list[tuple[int, PageObject]] = []
    covers: list[tuple[int, PageObject]] = []
    slices: Box | None = None  # thin areas that lie on each other like the slices of one, painted one after the other
    for order, each in enumerate(objects):
        x_min, y_min, x_max, y_max = each.box
        if each.kind == c.FPDF_PAGEOBJ_TEXT:
            mode = c.FPDFTextObj_GetTextRenderMode(each.raw)
            if mode in _INVISIBLE_MODES:
                continue
            if c.FPDFPageObj_HasTransparency(each.raw) or _is_in_layer(c, each.raw) or fill_color(each.raw) == _PATTERN:
                return True
            # The colours within a form are not those that are drawn where the form is transparent: the drawing tells.
            in_white = each.in_form and _css.colors_match(fill_color(each.raw), _css.WHITE)
            if each.is_clipped or mode in _STROKED_MODES or in_white:
                return True
            letters.append((order, each))
        elif each.kind != c.FPDF_PAGEOBJ_FORM and (each.kind != c.FPDF_PAGEOBJ_PATH or _is_painted(each.raw)):
            is_slice = min(x_max - x_min, y_max - y_min) < _LEAST_SIDE
            slices = _join_slices(slices, each.box) if is_slice else None
            painted = slices or each.box
            if min(painted[2] - painted[0], painted[3] - painted[1]) >= _LEAST_SIDE:
                covers.append((order, replace(each, box=painted)))
    if letters and len(covers) > _MAX_COVERS:
        return True
    for order, cover in covers:
        is_picture = cover.kind != c.FPDF_PAGEOBJ_PATH
        x_min, y_min, x_max, y_max = cover.box
        color = fill_color(cover.raw) if cover.in_form else None
        for place, letter in letters:
            x, y = letter.middle
            is_below = (
                place < order or is_picture or (letter.in_form and _css.colors_match(fill_color(letter.raw), color))
            )
            if is_below and x_min <= x <= x_max and y_min <= y <= y_max:
                return True
    return False


def _is_in_layer(c: Any, raw: FPDF_PAGEOBJECT) -> bool:
    """Return whether an object belongs to optional content, whatever decides whether that is shown."""
    buffer = ctypes.create_string_buffer(16)
    size = ctypes.c_ulong()
    for number in range(min(c.FPDFPageObj_CountMarks(raw), _MAX_MARKS)):
        mark = c.FPDFPageObj_GetMark(raw, number)
        target = ctypes.cast(buffer, ctypes.POINTER(c.FPDF_WCHAR))
        is_read = c.FPDFPageObjMark_GetName(mark, target, len(buffer), ctypes.byref(size))
        if is_read and buffer.raw[: max(size.value - 2, 0)].decode("utf-16-le", "replace") == _LAYER_MARK:
            return True
    return False


def _join_slices(slices: Box | None, box: Box) -> Box:
    """Return the area of slices and one more that touches them and is as broad or as high; else that one alone."""
    if slices is None:
        return box
    for axis, other in ((0, 1), (1, 0)):
        is_aligned = all(abs(slices[edge] - box[edge]) <= 1 for edge in (axis, axis + 2))
        if is_aligned and box[other] <= slices[other + 2] + 1 and slices[other] <= box[other + 2] + 1:
            edges = min(slices[other], box[other]), max(slices[other + 2], box[other + 2])
            return (box[0], edges[0], box[2], edges[1]) if axis == 0 else (edges[0], box[1], edges[1], box[3])
    return box


def _is_painted(raw: FPDF_PAGEOBJECT) -> bool:
    """Return whether a path paints an area: what lies within it, or a broad line."""
    import pypdfium2.raw as c

    fill, stroke, width = ctypes.c_int(), ctypes.c_int(), ctypes.c_float()
    if not c.FPDFPath_GetDrawMode(raw, ctypes.byref(fill), ctypes.byref(stroke)):
        return False
    is_broad = stroke.value and c.FPDFPageObj_GetStrokeWidth(raw, ctypes.byref(width)) and width.value >= _LEAST_SIDE
    return bool(fill.value or is_broad)


def is_filled(raw: FPDF_PAGEOBJECT) -> bool:
    """Return whether a path paints the area within it."""
    import pypdfium2.raw as c

    fill, stroke = ctypes.c_int(), ctypes.c_int()
    return bool(c.FPDFPath_GetDrawMode(raw, ctypes.byref(fill), ctypes.byref(stroke)) and fill.value)


def fill_color(raw: FPDF_PAGEOBJECT) -> _css.Color | None:
    """Return the colour that an object is filled with; None where it is not known."""
    import pypdfium2.raw as c

    channels = [ctypes.c_uint() for _ in range(4)]
    if not c.FPDFPageObj_GetFillColor(raw, *map(ctypes.byref, channels)):
        return None
    red, green, blue, alpha = (channel.value for channel in channels)
    return _css.TRANSPARENT if alpha < 13 else (red, green, blue, 255)


def _draw(c: Any, page: PdfPage) -> tuple[bytes, int, int]:
    """Return the page in shades of grey, row by row, with its width and height in pixels."""
    width, height = (max(side, 1.0) for side in page.get_size())
    scale = min(1.0, (_MAX_PIXELS / (width * height)) ** 0.5, _MAX_SIDE / max(width, height))
    pixels = max(round(width * scale), 1), max(round(height * scale), 1)
    bitmap = c.FPDFBitmap_CreateEx(*pixels, c.FPDFBitmap_Gray, None, 0)
    if not bitmap:
        raise MemoryError
    try:
        c.FPDFBitmap_FillRect(bitmap, 0, 0, *pixels, 0xFFFFFFFF)
        c.FPDF_RenderPageBitmap(bitmap, page.raw, 0, 0, *pixels, 0, c.FPDF_ANNOT)
        stride = c.FPDFBitmap_GetStride(bitmap)
        rows = ctypes.string_at(c.FPDFBitmap_GetBuffer(bitmap), stride * pixels[1])
    finally:
        c.FPDFBitmap_Destroy(bitmap)
    if stride != pixels[0]:
        rows = b"".join(rows[start : start + pixels[0]] for start in range(0, stride * pixels[1], stride))
    return rows, *pixels


def _to_pixels(c: Any, page: PdfPage, box: Box, width: int, height: int) -> Box:
    x, y = ctypes.c_int(), ctypes.c_int()
    points = []
    for x_min, y_max in ((box[0], box[1]), (box[2], box[3])):
        c.FPDF_PageToDevice(page.raw, 0, 0, width, height, 0, x_min, y_max, ctypes.byref(x), ctypes.byref(y))
        points.append((x.value, y.value))
    (x_first, y_first), (x_second, y_second) = points
    return min(x_first, x_second), min(y_first, y_second), max(x_first, x_second), max(y_first, y_second)


def _differ(before: bytes, after: bytes, width: int, box: Box) -> bool:
    """Return whether two pictures differ in a box, or beside it."""
    x_min, x_max = max(int(box[0]) - 2, 0), min(int(box[2]) + 3, width)
    for row in range(max(int(box[1]) - 2, 0), min(int(box[3]) + 3, len(before) // width)):
        first, second = (picture[row * width + x_min : row * width + x_max] for picture in (before, after))
        if first != second and any(abs(a - b) > _LEAST_DIFFERENCE for a, b in zip(first, second, strict=True)):
            return True
    return False


def _is_drawable(c: Any, raw: FPDF_PAGEOBJECT) -> bool:
    """Return whether PDFium has the font: other viewers may draw letters that it lacks."""
    return bool(c.FPDFFont_GetIsEmbedded(c.FPDFTextObj_GetFont(raw)) == 1) or _is_standard(c, raw)


def _is_standard(c: Any, raw: FPDF_PAGEOBJECT) -> bool:
    font = c.FPDFTextObj_GetFont(raw)
    buffer = ctypes.create_string_buffer(128)
    size = c.FPDFFont_GetBaseFontName(font, buffer, 128)
    name = buffer.raw[: max(min(size, 128) - 1, 0)].decode("latin-1")
    return name.startswith(("Helvetica", "Times", "Courier", "Arial")) or not name


def _address(raw: FPDF_PAGEOBJECT) -> int:
    return ctypes.cast(raw, ctypes.c_void_p).value or 0
