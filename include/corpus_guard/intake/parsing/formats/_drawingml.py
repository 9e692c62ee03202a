"""Shapes of DrawingML (ECMA-376, part 1, chapters 20 and 21): where they lie, what they paint, and the letters that nobody sees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_guard.intake.parsing.formats import _css
from corpus_guard.intake.parsing.formats._office_colors import Palette
from corpus_guard.intake.parsing.formats._ooxml import A

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in English metric units."""
_TINY_SIZE = 100  # hundredths of a point
_CROWDED = -1_000  # hundredths of a point between letters, which then lie on each other
_FILLS = frozenset(f"{A}{kind}" for kind in ("noFill", "solidFill", "gradFill", "blipFill", "pattFill", "grpFill"))
_OPAQUE = 95_000  # thousandths of a percent
_RECTANGLES = frozenset(
    {"rect", "roundRect", "flowChartProcess", "snip1Rect", "round1Rect", "round2SameRect", "flowChartAlternateProcess"}
)
_SAMPLES = (1 / 6, 1 / 2, 5 / 6)


@dataclass(frozen=True, slots=True)
class Region:
    """A painted area."""

    box: Box
    color: _css.Color | None  # None: a picture, or what cannot be told
    covers: bool  # nothing is seen through it, and it fills its box

    def contains(self, x: float, y: float) -> bool:
        x_min, y_min, x_max, y_max = self.box
        return x_min <= x <= x_max and y_min <= y <= y_max

    def hides(self, box: Box) -> bool:
        """Return whether a box lies below the whole of this region, but for a hair's breadth."""
        hair = 12_700.0
        x_min, y_min, x_max, y_max = self.box
        return (
            self.covers
            and x_min - hair <= box[0]
            and y_min - hair <= box[1]
            and x_max + hair >= box[2]
            and y_max + hair >= box[3]
        )


def find_color_behind(
    box: Box | None, regions: Sequence[Region], ground: _css.Color | None
) -> Iterator[_css.Color | None]:
    """Yield the colours at nine points of a box, where `regions` lie on the `ground`."""
    if box is None:
        yield ground
        return
    for share_x in _SAMPLES:
        for share_y in _SAMPLES:
            x, y = box[0] + share_x * (box[2] - box[0]), box[1] + share_y * (box[3] - box[1])
            yield next((region.color for region in reversed(regions) if region.contains(x, y)), ground)


def fill_of(properties: Element | None, style: Element | None, palette: Palette) -> tuple[bool, _css.Color | None]:
    """Return whether a shape fills itself, and its colour (None: it cannot be told)."""
    for fill in properties if properties is not None else ():
        if fill.tag == f"{A}noFill":
            return False, None
        if fill.tag in _FILLS:
            return True, palette.fill(properties, None) if _is_opaque(fill) else None
    reference = style.find(f"{A}fillRef") if style is not None else None
    if reference is None or reference.get("idx", "0") == "0":
        return False, None
    return True, palette.color(reference)


def covers(properties: Element | None, *, is_picture: bool) -> bool:
    """Return whether nothing shows through a filled shape."""
    if is_picture:
        return True
    if properties is None:
        return False
    geometry = properties.find(f"{A}prstGeom")
    fills = [fill for fill in properties if fill.tag in _FILLS]
    return geometry is not None and geometry.get("prst") in _RECTANGLES and all(map(_is_opaque, fills))


def _is_opaque(fill: Element) -> bool:
    return all(number(alpha, "val", 100_000) >= _OPAQUE for alpha in fill.iter(f"{A}alpha"))


def find_hiding_reason(
    sources: Sequence[Element | None], backgrounds: Iterable[_css.Color | None], palette: Palette, scale: float = 1.0
) -> str:
    """Return why properties of letters hide them; empty where they do not.

    Args:
        sources: the letters' own properties (``a:rPr``), then those they inherit, the nearest first; what `sources` leave
            open is not told.
        backgrounds: the colours behind them, at some points.
        palette: the theme's colours.
        scale: of the size of letters.
    """
    chain = [source for source in sources if source is not None]
    size = next((number(source, "sz", 0) for source in chain if source.get("sz")), 0)
    spacing = next((number(source, "spc", 0) for source in chain if source.get("spc")), 0)
    if 0 < size * scale <= _TINY_SIZE or spacing <= _CROWDED:
        return "tiny"
    highlight = next((each for source in chain for each in source.iterfind(f"{A}highlight")), None)
    if highlight is not None:
        backgrounds = [palette.color(highlight)]
    for source in chain:
        if source.tag == f"{A}fontRef":
            color = palette.color(source)
        elif (fill := next((child for child in source if child.tag in _FILLS), None)) is None:
            continue
        elif fill.tag == f"{A}noFill":
            return "opacity"
        else:
            color = palette.fill(source, None)
        if color == _css.TRANSPARENT:
            return "opacity"
        if color is None and source.tag == f"{A}fontRef":
            continue
        matches = [_css.colors_match(color, background) for background in backgrounds]
        return "colour" if 2 * sum(matches) > len(matches) else ""
    return ""


def number(element: Element | None, name: str, default: int) -> int:
    """Return an attribute that is a whole number; `default` where it is none."""
    text = element.get(name, "") if element is not None else ""
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 16 else default
