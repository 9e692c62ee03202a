"""Colours of Office documents (ECMA-376, part 1, 20.1.2.3): a theme's names for them, and what changes them.

A colour that cannot be told (a picture, a pattern, a gradient between different colours) is None. It equals no other.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from corpus_guard.intake.parsing.formats._css import BLACK, TRANSPARENT, WHITE, Color, colors_match, parse_color
from corpus_guard.intake.parsing.formats._ooxml import A

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_SLOTS = ("lt1", "dk1", "lt2", "dk2", *(f"accent{number}" for number in range(1, 7)), "hlink", "folHlink")
"""A theme's colours in the order of their numbers in spreadsheets."""
_USUAL_MAP = {"bg1": "lt1", "tx1": "dk1", "bg2": "lt2", "tx2": "dk2"}
_COLORS = frozenset(f"{A}{kind}" for kind in ("srgbClr", "schemeClr", "sysClr", "prstClr", "scrgbClr", "hslClr"))
_OPAQUE = 100_000
_FAINT = 5_000
_WHOLE_TURN = 21_600_000  # sixty thousandths of a degree
_GAMMA = 2.2  # of sRGB, roughly


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours of a theme, and a page's names for them."""

    theme: Mapping[str, Color]
    names: Mapping[str, str]  # "bg1" to "lt1"

    @classmethod
    def read(cls, theme: Element | None, color_map: Element | None = None) -> Palette:
        """Read the theme's part; `color_map` is an element whose attributes give names, such as ``p:clrMap``."""
        colors: dict[str, Color] = {"lt1": WHITE, "dk1": BLACK}
        scheme = next(theme.iter(f"{A}clrScheme"), None) if theme is not None else None
        plain = cls({}, {})
        for slot in scheme if scheme is not None else ():
            if isinstance(slot.tag, str) and (color := plain.color(slot)) is not None:
                colors[slot.tag.rpartition("}")[2]] = color
        names = {name: slot for name, slot in color_map.items() if slot in _SLOTS} if color_map is not None else {}
        return cls(colors, {**_USUAL_MAP, **names})

    def named(self, name: str) -> Color | None:
        """Return the colour of a name such as ``bg1`` or ``accent2``."""
        return self.theme.get(self.names.get(name, name))

    def numbered(self, number: int) -> Color | None:
        """Return the colour of a spreadsheet's number for it."""
        return self.theme.get(_SLOTS[number]) if number < len(_SLOTS) else None

    def color(self, fill: Element, placeholder: Color | None = None) -> Color | None:
        """Return the colour that stands in an element, such as ``a:solidFill``; `placeholder` is what ``phClr`` means."""
        for element in fill:
            if element.tag in _COLORS:
                base = self._base(element, placeholder)
                return _change(base, element) if base is not None else None
        return None

    def fill(
        self, properties: Element | None, inherited: Color | None, placeholder: Color | None = None
    ) -> Color | None:
        """Return the colour that fills a shape or letters; `inherited` where nothing does."""
        for fill in properties if properties is not None else ():
            if fill.tag == f"{A}solidFill":
                return self.color(fill, placeholder)
            if fill.tag == f"{A}gradFill":
                stops = [self.color(stop, placeholder) for stop in fill.iter(f"{A}gs")]
                return (
                    stops[0]
                    if stops and all(stop == stops[0] or colors_match(stop, stops[0]) for stop in stops)
                    else None
                )
            if fill.tag == f"{A}pattFill":
                first, *others = [self.color(each, placeholder) for each in fill] or [None]
                return first if others and all(colors_match(first, other) for other in others) else None
            if fill.tag in {f"{A}blipFill", f"{A}grpFill"}:
                return None
        return inherited

    def _base(self, element: Element, placeholder: Color | None) -> Color | None:
        kind, value = element.tag.rpartition("}")[2], element.get("val", "")
        if kind == "srgbClr":
            return from_hex(value)
        if kind == "schemeClr":
            return placeholder if value == "phClr" else self.named(value)
        if kind == "sysClr":
            return from_hex(element.get("lastClr", "")) or (WHITE if value == "window" else BLACK)
        if kind == "scrgbClr":
            shares = (min(max(_share(element.get(channel, "")), 0.0), 1.0) for channel in "rgb")
            red, green, blue = (share ** (1 / _GAMMA) for share in shares)
            return round(255 * red), round(255 * green), round(255 * blue), 255
        if kind == "hslClr":
            hue = _share(element.get("hue", "")) * _OPAQUE / _WHOLE_TURN
            light, saturation = (min(max(_share(element.get(name, "")), 0.0), 1.0) for name in ("lum", "sat"))
            red, green, blue = colorsys.hls_to_rgb(hue, light, saturation)
            return round(255 * red), round(255 * green), round(255 * blue), 255
        return parse_color(value.lower()) if kind == "prstClr" else None


def from_hex(text: str) -> Color | None:
    """Return the colour of six hexadecimal digits; eight begin with the alpha channel."""
    try:
        channels = bytes.fromhex(text[-6:])
    except ValueError:
        return None
    return (channels[0], channels[1], channels[2], 255) if len(channels) == 3 else None


def lighten(color: Color, share: float) -> Color:
    """Return a lighter colour, `share` of the way to white; negative: a darker one."""
    return _scale_lightness(color, 1 + share) if share < 0 else _scale_lightness(color, 1 - share, share)


def _scale_lightness(color: Color, times: float, plus: float = 0.0) -> Color:
    hue, light, saturation = colorsys.rgb_to_hls(*(channel / 255 for channel in color[:3]))
    light = min(max(light * times + plus, 0.0), 1.0)
    red, green, blue = (round(channel * 255) for channel in colorsys.hls_to_rgb(hue, light, saturation))
    return red, green, blue, color[3]


def _change(color: Color, element: Element) -> Color:
    """Return a colour as its element's children change it."""
    for child in element:
        kind, share = str(child.tag).rpartition("}")[2], _share(child.get("val", ""))
        if kind == "alpha" and share * _OPAQUE <= _FAINT:
            return TRANSPARENT
        if kind == "lumMod":
            color = _scale_lightness(color, share)
        elif kind == "lumOff":
            color = _scale_lightness(color, 1.0, share)
        elif kind == "tint":
            color = lighten(color, 1 - share)
        elif kind == "shade":
            color = lighten(color, share - 1)
    return color


def _share(text: str) -> float:
    """Return a share that is written in thousandths of a percent; 1 where it is none."""
    digits = text.removeprefix("-")
    return int(text) / _OPAQUE if digits.isdecimal() and digits.isascii() and len(digits) < 10 else 1.0
