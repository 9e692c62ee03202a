"""As much CSS as it takes to see that text is hidden: a dozen properties, inline or in ``<style>``, in source order.

Specificity and media queries are not computed: a rule that hides counts unless a later one, or the element itself,
takes it back. Text wrongly called hidden is screened and not published; that is the safe side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Color = tuple[int, int, int, int]
"""Red, green, blue, alpha: 0 to 255."""
WHITE: Color = (255, 255, 255, 255)
BLACK: Color = (0, 0, 0, 255)
TRANSPARENT: Color = (0, 0, 0, 0)

_MAX_SELECTORS = 3_000  # applied of one document: a large framework, inlined, has about half
_MAX_CHARS = 4_000  # of one style
_WATCHED = re.compile(
    r"display|visibility|opacity|font-size|color|background|position|left|top|right|text-indent|clip|height|width|transform"
)
_NAMED = {
    "white": WHITE, "black": BLACK, "transparent": TRANSPARENT, "snow": (255, 250, 250, 255), "red": (255, 0, 0, 255),
    "ivory": (255, 255, 240, 255), "whitesmoke": (245, 245, 245, 255), "gray": (128, 128, 128, 255),
    "grey": (128, 128, 128, 255), "blue": (0, 0, 255, 255), "green": (0, 128, 0, 255), "yellow": (255, 255, 0, 255),
}  # fmt: skip
_COMMENT = re.compile(r"/\*(?:[^*]|\*(?!/))*\*/")
_ESCAPE = re.compile(r"\\([0-9a-fA-F]{1,6})\s?")
_NUMBER = re.compile(r"\s*([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))\s*(px|pt|em|rem|ex|ch|vw|vh|%|in|cm|mm)?")
_ALIKE = 12
_OFF_SCREEN = 500  # px or pt; less is layout
_TINY = {"px": 1.0, "pt": 1.0, "em": 0.1, "rem": 0.1, "%": 10.0}


@dataclass(frozen=True, slots=True)
class Style:
    """What an element's own style says about being seen."""

    gone: str = ""  # what hides it, in the words of `_hidden.WAYS`; whatever lies inside is hidden too
    unseen: str | None = None  # the same; inside, it can be taken back. None: as inherited
    color: Color | None = None
    background: Color | None = None


class Styles:
    """What a document's ``<style>`` elements and its elements themselves say about being seen."""

    def __init__(self, tree: Any, sheets: Sequence[str] = ()) -> None:
        """Of a parsed tree, and of the style sheets it names where they are at hand."""
        self.complete = True  # False: the document has more rules than are looked at
        self._rules: dict[Any, list[str]] = {}  # declarations by element, in source order
        selectors = 0
        # Always `.values()`: iterating over resiliparse's lists takes quadratic time (2.0).
        inside = (sheet.text or "" for sheet in tree.document.query_selector_all("style").values())
        for sheet in (*sheets, *inside):
            for selector, declarations in _selectors(sheet):
                selectors += 1
                if selectors > _MAX_SELECTORS:
                    self.complete = False
                    return
                try:
                    found = tree.document.query_selector_all(selector).values()
                except ValueError:  # a selector this parser does not know (::before): it selects no text of ours
                    continue
                for element in found:
                    self._rules.setdefault(element, []).append(declarations)

    def __contains__(self, element: Any) -> bool:
        return element in self._rules

    def of(self, element: Any) -> Style:
        """The style of one element: its old-fashioned attributes, its rules, its own style; the last word counts."""
        said: dict[str, str] = {}
        for attribute, key in (("color", "color"), ("bgcolor", "background-color")):
            if element.hasattr(attribute):
                said[key] = (element.getattr(attribute) or "").strip().lower()
        for declarations in self._rules.get(element, ()):
            said.update(_declarations(declarations))
        said.update(_declarations((element.getattr("style") or "")[:_MAX_CHARS]))
        if not said:
            return Style()
        backgrounds = map(_color, (said.get("background-color") or said.get("background", "")).split())
        return Style(
            gone=_gone(said),
            unseen=_unseen(said),
            color=_color(said.get("color", "")),
            background=next((color for color in backgrounds if color not in {None, TRANSPARENT}), None),
        )


def _selectors(sheet: str) -> Iterator[tuple[str, str]]:
    for selectors, declarations in _rules(sheet):
        if _WATCHED.search(declarations):
            for selector in selectors.split(","):
                yield selector.strip(), declarations[:_MAX_CHARS]


def _rules(sheet: str) -> Iterator[tuple[str, str]]:
    """(selectors, declarations) of the plain rules; blocks of at-rules are passed over."""
    sheet = _COMMENT.sub("", sheet)
    position = 0
    while (opening := sheet.find("{", position)) >= 0:
        selectors = sheet[position:opening].strip().rpartition(";")[2].strip()
        if selectors.startswith("@"):
            if re.match(r"@media\s+(?:screen|all)\s*\Z", selectors, re.IGNORECASE):
                position = opening + 1  # its rules hold on every screen; its closing brace is skipped below
                continue
            position = _end_of_block(sheet, opening)
            continue
        closing = sheet.find("}", opening)
        if closing < 0:
            closing = len(sheet)
        yield selectors.lstrip("} \n\t"), sheet[opening + 1 : closing]
        position = closing + 1


def _end_of_block(sheet: str, opening: int) -> int:
    depth = 0
    for match in re.compile(r"[{}]").finditer(sheet, opening):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return len(sheet)


@lru_cache(maxsize=4_096)
def _declarations(style: str) -> dict[str, str]:
    style = _ESCAPE.sub(lambda match: chr(min(int(match[1], 16), 0x10FFFF)), _COMMENT.sub("", style))
    said = {}
    for declaration in style.split(";"):
        key, colon, value = declaration.partition(":")
        if colon:
            said[key.strip().lower()] = value.replace("!important", "").strip().lower()
    return said


def _gone(said: dict[str, str]) -> str:
    if said.get("display") == "none" or said.get("content-visibility") == "hidden":
        return "display"
    if _at_most(said.get("opacity"), 0.05):
        return "opacity"
    if "scale(0" in said.get("transform", "").replace("scale(0.", ""):
        return "tiny"
    if re.search(
        r"rect\(\s*[01](?:px)?[\s,]+[01]|inset\((?:100|50)%|circle\(0", said.get("clip", "") + said.get("clip-path", "")
    ):
        return "clipped"
    clipped = said.get("overflow", "").startswith("hidden")
    if clipped and any(_at_most(said.get(key), 1) for key in ("height", "max-height", "width", "max-width")):
        return "clipped"
    placed = said.get("position") in {"absolute", "fixed", "relative"}
    places = ["text-indent", *(("left", "top", "right", "bottom") if placed else ()), "margin-left", "margin-top"]
    return "off_page" if any(_far_out(said.get(key)) for key in places) else ""


def _unseen(said: dict[str, str]) -> str | None:
    answers = []
    if "visibility" in said:
        answers.append("visibility" if said["visibility"] in {"hidden", "collapse"} else "")
    if "font-size" in said:
        number = _NUMBER.match(said["font-size"])
        tiny = bool(number) and float(number[1]) <= _TINY.get(number[2] or "px", 0.0)  # type: ignore[index]
        answers.append("tiny" if tiny else "")
    return max(answers) if answers else None


def alike(one: Color | None, other: Color | None) -> bool:
    """Whether no eye tells the two apart: every channel within 12 of 255."""
    if one is None or other is None:
        return False
    return all(abs(first - second) <= _ALIKE for first, second in zip(one, other, strict=True))


def _at_most(value: str | None, limit: float) -> bool:
    number = _NUMBER.match(value or "")
    return number is not None and number[2] in {None, "px", "pt"} and float(number[1]) <= limit


def _far_out(value: str | None) -> bool:
    number = _NUMBER.match(value or "")
    if number is None:
        return False
    scale = {"em": 16, "rem": 16, "%": 5, "vw": 10, "vh": 10, "in": 96, "cm": 38}.get(number[2] or "", 1)
    return float(number[1]) * scale <= -_OFF_SCREEN


def _color(value: str) -> Color | None:
    value = value.strip()
    if value in _NAMED:
        return _NAMED[value]
    if match := re.fullmatch(r"#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})", value):
        digits = match[1] if len(match[1]) > 4 else "".join(digit * 2 for digit in match[1])
        red, green, blue, alpha = bytes.fromhex(f"{digits}ff"[:8])
        return TRANSPARENT if alpha < 13 else (red, green, blue, 255)
    if match := re.fullmatch(r"rgba?\(([^)]{1,60})\)", value):
        parts = [part for part in re.split(r"[\s,/]+", match[1]) if part]
        try:
            numbers = [float(part.rstrip("%")) * (2.55 if part.endswith("%") else 1) for part in parts]
        except ValueError:
            return None
        if len(numbers) < 3 or (len(numbers) > 3 and numbers[3] < 0.05):
            return TRANSPARENT if len(numbers) > 3 else None
        return round(numbers[0]), round(numbers[1]), round(numbers[2]), 255
    return None
