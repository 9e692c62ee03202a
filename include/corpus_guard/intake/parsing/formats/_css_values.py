"""Values that a browser accepts for the properties that hide text, as far as `_css` reads them.

A browser passes over a value that it does not know, and an earlier one stays in force: ``display:none;display:foo`` hides.
A value with ``var()`` is always accepted: what it stands for is looked up later, and nothing earlier comes back.

Not checked: shorthands beyond their words, and properties that are not named here, whose values all count as accepted.
"""

from __future__ import annotations

import re
from functools import lru_cache

_MAX_CHARS = 2_000  # of one value; a longer one counts as not accepted
_MAX_ROUNDS = 30  # brackets within each other
_GLOBAL = "inherit|initial|unset|revert|revert-layer"
_NUMBER = r"(?:[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?|¤)"
_UNIT = r"(?:px|pt|pc|in|cm|mm|q|r?em|r?ex|r?ch|r?cap|r?ic|r?lh|[sld]?v(?:w|h|i|b|min|max)|cq(?:w|h|i|b|min|max))"
_ZERO = r"[+-]?(?:0+(?:\.0+)?|\.0+)"
_LENGTH = rf"(?:{_NUMBER}{_UNIT}|{_ZERO}|¤)"
_SIZE = rf"(?:{_NUMBER}(?:{_UNIT}|%)|{_ZERO}|¤)"  # a length, or percent
_SHARE = rf"{_NUMBER}%?"
_ANGLE = rf"(?:{_NUMBER}(?:deg|g?rad|turn)|{_ZERO}|¤)"
_NOT_NEGATIVE = r"(?!-)"
_EXTENT = "|".join((
    r"auto|none|intrinsic|(?:-moz-)?(?:min|max|fit)-content|(?:-webkit-|-moz-)?(?:stretch|available|fill-available)",
    rf"fit-content\({_SIZE}\)|{_NOT_NEGATIVE}{_SIZE}",
))  # fmt: skip
_STRING = r"(?:\"[^\"]*\"|'[^']*')"
_URL = r"url\([^()]*\)"


def _repeat(part: str, most: int, separator: str = r"\s+") -> str:
    return rf"(?:{part})(?:{separator}(?:{part})){{0,{most - 1}}}"


def _call(name: str, part: str, least: int, most: int) -> str:
    return rf"(?:{name})\(\s*(?:{part})(?:\s*,\s*(?:{part})){{{least - 1},{most - 1}}}\s*\)"


_TRANSFORM = "|".join((
    _call("matrix", _NUMBER, 6, 6), _call("matrix3d", _NUMBER, 16, 16), _call("translate", _SIZE, 1, 2),
    _call("translate[xyz]", _SIZE, 1, 1), _call("translate3d", _SIZE, 3, 3), _call("scale", _SHARE, 1, 2),
    _call("scale[xyz]", _SHARE, 1, 1), _call("scale3d", _SHARE, 3, 3), _call("rotate[xyz]?|skew[xy]", _ANGLE, 1, 1),
    _call("skew", _ANGLE, 1, 2), _call("perspective", rf"none|{_LENGTH}", 1, 1),
    rf"rotate3d\(\s*(?:{_NUMBER}\s*,\s*){{3}}{_ANGLE}\s*\)",
))  # fmt: skip
_FILTER = "|".join((
    _URL, rf"(?:brightness|contrast|grayscale|invert|opacity|saturate|sepia)\(\s*(?:{_NOT_NEGATIVE}{_SHARE})?\s*\)",
    rf"blur\(\s*(?:{_LENGTH})?\s*\)", rf"hue-rotate\(\s*(?:{_ANGLE})?\s*\)", r"drop-shadow\((?:[^()]|\([^()]*\))*\)",
))  # fmt: skip
_AT = rf"(?:\s*at(?:\s+(?:left|right|top|bottom|center|{_SIZE})){{1,4}})?"
_RADIUS = rf"(?:closest|farthest)-(?:side|corner)|{_SIZE}"
_SHAPE = "|".join((
    _URL, rf"inset\(\s*{_repeat(_SIZE, 4)}(?:\s+round\s[^()]*)?\s*\)", rf"circle\(\s*(?:{_RADIUS})?{_AT}\s*\)",
    rf"ellipse\(\s*(?:(?:{_RADIUS})\s+(?:{_RADIUS}))?{_AT}\s*\)", rf"xywh\(\s*{_SIZE}(?:\s+{_SIZE}){{3}}(?:\s+round\s[^()]*)?\s*\)",
    rf"rect\(\s*(?:auto|{_SIZE})(?:\s+(?:auto|{_SIZE})){{3}}(?:\s+round\s[^()]*)?\s*\)",
    rf"polygon\(\s*(?:(?:nonzero|evenodd)\s*,\s*)?{_SIZE}\s+{_SIZE}(?:\s*,\s*{_SIZE}\s+{_SIZE})*\s*\)",
    rf"path\(\s*(?:(?:nonzero|evenodd)\s*,\s*)?{_STRING}\s*\)", r"shape\((?:[^()]|\([^()]*\))*\)",
))  # fmt: skip
_BOX = r"(?:border|padding|content|margin|fill|stroke|view)-box"
_DISPLAY = "|".join((
    r"none|contents|inline-(?:block|table|flex|grid)|flow|flow-root|table|flex|grid|list-item|ruby-(?:base|text)(?:-container)?",
    r"table-(?:row|cell|column|caption|(?:row|header|footer|column)-group)|-webkit-(?:inline-)?(?:box|flex)|math|ruby",
    r"(?:block|inline)(?:\s+(?:flow|flow-root|table|flex|grid|ruby|math))?(?:\s+list-item)?",
))  # fmt: skip
_KEYWORD_SIZE = "xx-small|x-small|small|medium|large|x-large|xx-large|xxx-large|larger|smaller|math"
_SIDE = rf"auto|{_SIZE}"
_PLACES = ("left", "top", "right", "bottom", "margin-left", "margin-top", "margin-right", "margin-bottom")
_OVERFLOW = "visible|hidden|clip|scroll|auto|overlay"
_PATTERNS = {
    "display": _DISPLAY,
    "visibility": "visible|hidden|collapse",
    "content-visibility": "visible|hidden|auto",
    "position": "static|relative|absolute|fixed|(?:-webkit-)?sticky",
    "opacity": _SHARE,
    "fill-opacity": _SHARE,
    "overflow": _repeat(_OVERFLOW, 2),
    "overflow-x": _OVERFLOW,
    "overflow-y": _OVERFLOW,
    **dict.fromkeys(_PLACES, _SIDE),
    "inset": _repeat(_SIDE, 4),
    "margin": _repeat(_SIDE, 4),
    **dict.fromkeys(("height", "width", "max-height", "max-width"), _EXTENT),
    "text-indent": rf"{_SIZE}(?:\s+(?:hanging|each-line))*",
    "font-size": rf"{_KEYWORD_SIZE}|{_NOT_NEGATIVE}{_SIZE}",
    "font-size-adjust": rf"none|(?:[a-z-]+\s+)?(?:from-font|{_NOT_NEGATIVE}{_NUMBER})",
    "line-height": rf"normal|{_NOT_NEGATIVE}(?:{_SIZE}|{_NUMBER})",
    "letter-spacing": rf"normal|{_SIZE}",
    "zoom": rf"normal|reset|document|{_NOT_NEGATIVE}{_SHARE}",
    "clip": rf"auto|rect\(\s*(?:auto|{_LENGTH})(?:[\s,]+(?:auto|{_LENGTH})){{3}}\s*\)",
    **dict.fromkeys(("clip-path", "-webkit-clip-path"), rf"none|(?:{_SHAPE}|{_BOX})(?:\s+(?:{_SHAPE}|{_BOX}))?"),
    "transform": rf"none|(?:{_TRANSFORM})(?:\s*(?:{_TRANSFORM}))*",
    "scale": rf"none|{_repeat(_SHARE, 3)}",
    "rotate": rf"none|(?:[xyz]\s+|(?:{_NUMBER}\s+){{3}})?{_ANGLE}(?:\s+[xyz])?",
    "translate": rf"none|{_repeat(_SIZE, 3)}",
    "filter": rf"none|(?:{_FILTER})(?:\s*(?:{_FILTER}))*",
    **dict.fromkeys(("background-clip", "-webkit-background-clip"), _repeat(f"{_BOX}|text|border-area", 9, r"\s*[\s,]\s*")),
    **dict.fromkeys(
        ("mask-size", "-webkit-mask-size"), _repeat(rf"cover|contain|(?:auto|{_SIZE})(?:\s+(?:auto|{_SIZE}))?", 9, r"\s*,\s*")
    ),
}  # fmt: skip
_ACCEPTED = {name: re.compile(rf"{_GLOBAL}|{pattern}") for name, pattern in _PATTERNS.items()}
_OPERAND = rf"\s*(?:{_NUMBER}(?:{_UNIT}|%|deg|g?rad|turn)?|¤|pi|e|[+-]?infinity)\s*"
_MATH = re.compile(
    r"(?<![\w-])(?:calc|min|max|clamp|round|mod|rem|abs|sign|sin|cos|tan|pow|sqrt|hypot|log|exp|anchor-size|)"
    rf"\({_OPERAND}(?:(?:(?<=\s)[+-](?=\s)|[*/,]){_OPERAND})*\)"
)
_OPEN = re.compile(r"var\(\s*--|env\(\s*[a-z]")


def is_accepted(name: str, value: str) -> bool:
    """Return whether a browser takes this value of a property; both are in lower case."""
    return name not in _ACCEPTED or (len(value) <= _MAX_CHARS and _matches(name, value))


@lru_cache(maxsize=8_192)
def _matches(name: str, value: str) -> bool:
    pattern = _ACCEPTED[name]
    if pattern.fullmatch(value) or _OPEN.search(value):
        return True
    if "(" not in value:
        return False
    for _ in range(_MAX_ROUNDS):
        simpler = _MATH.sub("¤", value)
        if simpler == value:
            break
        value = simpler
    return bool(pattern.fullmatch(value))
