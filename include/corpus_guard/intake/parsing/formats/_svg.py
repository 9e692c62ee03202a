"""Places of letters in pictures of SVG (SVG 1.1 and 2): which lie within the picture, and which are drawn at all.

Not computed: rotated and skewed pictures, style sheets that set a place, and what lies over letters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from math import inf

from resiliparse.parse.html import DocumentNode, ElementNode

Box = tuple[float, float, float, float]
"""Left, top, right and lower edge within which letters count as drawn, in units of the picture around them."""

_BEFORE = 500.0  # units by which letters may lie left of a picture or above it
_BEYOND = 50.0  # the same to the right and below
ANYWHERE: Box = (-_BEFORE, -_BEFORE, inf, inf)
_MAX_FUNCTIONS = 50  # of one transformation
_SMALLEST_SCALE = 1e-4
_FUNCTION = re.compile(r"([a-z]+)\s*\(([^()]{0,300})\)", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(?:e[+-]?\d{1,3})?", re.IGNORECASE)
_PLAIN = re.compile(rf"\s*({_NUMBER.pattern})(?:px)?\s*", re.IGNORECASE)
_SHAPES = frozenset({"path", "rect", "circle", "ellipse", "line", "polyline", "polygon"})
_XHTML = "http://www.w3.org/1999/xhtml"


def read_number(text: str | None) -> float | None:
    """Return a number or a length in pixels; None for anything else."""
    number = _PLAIN.fullmatch(text or "")
    return float(number[1]) if number else None


def frame(picture: ElementNode, *, overflows: bool) -> Box:
    """Return where letters of a picture are drawn; `overflows`: also beyond its edges."""
    numbers = [float(number) for number in _NUMBER.findall((picture.getattr("viewBox") or "")[:200])]
    if len(numbers) == 4 and numbers[2] > 0 and numbers[3] > 0:
        # A frame of another shape than the view shows more of one side.
        x, y, width, height = numbers
        slack = 2 * max(width, height)
    else:
        x, y, slack = 0.0, 0.0, 0.0
        width, height = (
            inf if (side := read_number(picture.getattr(name))) is None else side for name in ("width", "height")
        )
    if overflows or (picture.getattr("overflow") or "") == "visible":
        width = height = inf
    return x - max(_BEFORE, slack), y - max(_BEFORE, slack), x + width + slack + _BEYOND, y + height + slack + _BEYOND


def find_hiding_reason(element: ElementNode, name: str, box: Box) -> tuple[str, Box]:
    """Return what takes letters out of sight, a key of `_hidden.HIDING_REASONS` or empty, and the box within the element."""
    if name == "foreignobject":
        is_flat = any(read_number(element.getattr(side)) == 0 for side in ("width", "height"))
        return "clipped" if is_flat else "", ANYWHERE
    is_degenerate, box = _transform(element.getattr("transform") or "", box)
    length = read_number(element.getattr("textLength"))
    if is_degenerate or (length is not None and length <= 1 and element.getattr("lengthAdjust") == "spacingAndGlyphs"):
        return "tiny", box
    for axis, least, most in (("x", box[0], box[2]), ("y", box[1], box[3])):
        place, shift = (read_number(element.getattr(attribute)) for attribute in (axis, f"d{axis}"))
        is_placed = place is not None or shift is not None or (name == "text" and not element.hasattr(axis))
        if is_placed and name != "g" and not least < (place or 0.0) + (shift or 0.0) < most:
            return "off_page", box
    return "", box


def _transform(transform: str, box: Box) -> tuple[bool, Box]:
    """Return whether a transformation leaves nothing of a picture, and the box as it is within."""
    if not transform:
        return False, box
    for function in islice(_FUNCTION.finditer(transform), _MAX_FUNCTIONS):
        name, numbers = function[1].lower(), [float(number) for number in _NUMBER.findall(function[2])]
        if name == "matrix" and len(numbers) == 6:
            a, b, c, d, x, y = numbers
            if abs(a * d - b * c) < _SMALLEST_SCALE**2:
                return True, box
            box = _scale(_move(box, x, y), a, d) if b == c == 0 and min(a, d) > 0 else ANYWHERE
        elif name == "translate" and numbers:
            box = _move(box, numbers[0], numbers[1] if len(numbers) > 1 else 0.0)
        elif name == "scale" and numbers:
            if min(map(abs, numbers[:2])) < _SMALLEST_SCALE:
                return True, box
            box = _scale(box, numbers[0], numbers[min(len(numbers), 2) - 1]) if min(numbers[:2]) > 0 else ANYWHERE
        elif name in {"skewx", "skewy"} and numbers and abs(numbers[0] % 180 - 90) < 1:
            return True, box
        else:
            box = ANYWHERE
    return False, box


def _move(box: Box, x: float, y: float) -> Box:
    return box[0] - x, box[1] - y, box[2] - x, box[3] - y


def _scale(box: Box, x: float, y: float) -> Box:
    return box[0] / x, box[1] / y, box[2] / x, box[3] / y


def find_undrawn_paths(document: DocumentNode) -> frozenset[ElementNode]:
    """Return the texts on paths that have no path to stand on."""
    texts = document.query_selector_all("textPath").values()
    if not texts:
        return frozenset()
    shapes: dict[str, ElementNode] = {}
    for element in document.query_selector_all("[id]").values():
        shapes.setdefault(element.getattr("id") or "", element)
    return frozenset(text for text in texts if not text.getattr("path") and not _is_drawn(_find_target(text, shapes)))


def _find_target(text: ElementNode, shapes: dict[str, ElementNode]) -> ElementNode | None:
    address = text.getattr("href") or text.getattr("xlink:href") or ""
    return shapes.get(address.strip().removeprefix("#")) if address.strip().startswith("#") else None


def _is_drawn(shape: ElementNode | None) -> bool:
    name = (shape.node_name or "").lower() if shape is not None else ""
    return name in _SHAPES and (
        name != "path" or shape is None or bool((shape.getattr("d") or "").strip()) or shape.hasattr("style")
    )


def find_unchosen(document: DocumentNode) -> Iterator[ElementNode]:
    """Yield the elements that are for other readers: of another language, or after the one that a ``<switch>`` chooses."""
    root = document.query_selector("html")
    languages = {"en", ((root.getattr("lang") or "") if root is not None else "").strip().lower()[:2]}
    for element in document.query_selector_all("[systemLanguage]").values():
        if not _is_meant(element, languages):
            yield element
    for switch in document.query_selector_all("switch").values():
        is_chosen = False
        child = switch.first_element_child
        while child is not None:
            if is_chosen or not _is_meant(child, languages):
                yield child
            else:
                is_chosen = True
            child = child.next_element_sibling


def _is_meant(element: ElementNode, languages: set[str]) -> bool:
    tags = element.getattr("systemLanguage")
    speaks = tags is None or any(tag.strip().lower()[:2] in languages for tag in tags.split(",") if tag.strip())
    return speaks and (element.getattr("requiredExtensions") or _XHTML).strip() == _XHTML
