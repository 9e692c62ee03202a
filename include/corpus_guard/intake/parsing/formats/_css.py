"""The part of CSS that hides text: a dozen properties, inline or in ``<style>``, in source order, parsed by tinycss2.

Specificity and media queries are not computed: a rule that hides text counts unless a later one, or the
element itself, takes it back. Text wrongly called hidden is screened and not published, which is the safe
side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import tinycss2
from tinycss2 import color4

if TYPE_CHECKING:
    from resiliparse.parse.html import DocumentNode, ElementNode
    from tinycss2.ast import Node

Color = tuple[int, int, int, int]
"""Red, green, blue, alpha: 0 to 255."""
WHITE: Color = (255, 255, 255, 255)
BLACK: Color = (0, 0, 0, 255)
TRANSPARENT: Color = (0, 0, 0, 0)

Declarations = Mapping[str, str]
"""Values of properties, normalized and in lower case."""

_MAX_SELECTORS = 3_000  # applied of one document: a large framework, inlined, has about half
_MAX_SHEET_CHARS = 1_000_000  # of all style sheets of one document; tinycss2 reads about 300,000 a second
_MAX_STYLE_CHARS = 4_000  # of one style attribute
_WATCHED = re.compile(
    r"display|visibility|opacity|font-size|color|background|position|left|top|right|text-indent|clip|height|width"
    r"|transform"
)
_ALL_SCREENS = re.compile(r"screen|all", re.IGNORECASE)
_NUMBER = re.compile(r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|em|rem|ex|ch|vw|vh|%|in|cm|mm)?")
_CLIPPED = re.compile(r"rect\(\s*[01](?:px)?[\s,]+[01]|inset\((?:100|50)%|circle\(0")
_MAX_CHANNEL_DIFFERENCE = 12
_MIN_ALPHA = 0.05
_OFF_SCREEN = 500  # px or pt; less is layout
_TINY = {"px": 1.0, "pt": 1.0, "em": 0.1, "rem": 0.1, "%": 10.0}
_PIXELS = {"em": 16, "rem": 16, "%": 5, "vw": 10, "vh": 10, "in": 96, "cm": 38}


@dataclass(frozen=True, slots=True)
class StyleSheets:
    """Rules of style sheets, in source order, as far as they can hide or show text."""

    rules: tuple[tuple[str, Declarations], ...] = ()  # selector, declarations
    complete: bool = True  # False: the sheets are longer than what is read

    @classmethod
    def parse(cls, sheets: Iterable[str]) -> StyleSheets:
        """Parse style sheets; blocks of at-rules are passed over, unless they hold on every screen."""
        rules: list[tuple[str, Declarations]] = []
        budget, complete = _MAX_SHEET_CHARS, True
        for sheet in sheets:
            complete = complete and len(sheet) <= budget
            rules.extend(_parse_sheet(sheet[:budget]))
            budget -= len(sheet[:budget])
        return cls(tuple(rules), complete)


@dataclass(frozen=True, slots=True)
class ElementStyle:
    """An element's own style, as far as it hides or shows text."""

    gone: str = ""  # what hides it, a key of `_hidden.HIDING_REASONS`; whatever lies inside is hidden too
    unseen: str | None = None  # the same; inside, it can be taken back. None: as inherited
    color: Color | None = None
    background: Color | None = None


class DocumentStyles:
    """Styles of a document's elements, from style sheets and their own attributes."""

    def __init__(self, document: DocumentNode, linked: StyleSheets) -> None:
        """Apply the `linked` style sheets, then the document's ``<style>`` elements."""
        self._rules: dict[ElementNode, list[Declarations]] = {}  # in source order
        # Always `.values()`: iterating over resiliparse's lists takes quadratic time (2.0).
        embedded = StyleSheets.parse(element.text or "" for element in document.query_selector_all("style").values())
        rules = (*linked.rules, *embedded.rules)
        self.complete = linked.complete and embedded.complete and len(rules) <= _MAX_SELECTORS
        for selector, declarations in rules[:_MAX_SELECTORS]:
            try:
                elements = document.query_selector_all(selector).values()
            except ValueError:  # a selector resiliparse does not know (::before) selects no text that is read here
                continue
            for element in elements:
                self._rules.setdefault(element, []).append(declarations)

    def __contains__(self, element: ElementNode) -> bool:
        return element in self._rules

    def of(self, element: ElementNode) -> ElementStyle:
        """Return the style of one element: its attributes, its rules, its own style; the last value counts."""
        values: dict[str, str] = {}
        for attribute, name in (("color", "color"), ("bgcolor", "background-color")):
            if element.hasattr(attribute):
                values[name] = (element.getattr(attribute) or "").strip().lower()
        for declarations in self._rules.get(element, ()):
            values.update(declarations)
        values.update(_parse_style((element.getattr("style") or "")[:_MAX_STYLE_CHARS]))
        is_hidden = element.hasattr("hidden")
        if not values and not is_hidden:
            return ElementStyle()
        backgrounds = _parse_colors(values.get("background-color") or values.get("background", ""))
        return ElementStyle(
            gone=_find_removal(values) or ("display" if is_hidden else ""),
            unseen=_find_concealment(values),
            color=next(_parse_colors(values.get("color", "")), None),
            background=next((color for color in backgrounds if color != TRANSPARENT), None),
        )


def colors_match(first: Color | None, second: Color | None) -> bool:
    """Return whether no eye tells two colours apart: every channel within 12 of 255."""
    if first is None or second is None:
        return False
    return all(abs(a - b) <= _MAX_CHANNEL_DIFFERENCE for a, b in zip(first, second, strict=True))


def _parse_sheet(sheet: str) -> Iterator[tuple[str, Declarations]]:
    """Yield (selector, declarations) of the rules that may hide or show text."""
    pending = tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True)[::-1]
    while pending:
        node = pending.pop()
        if node.type == "at-rule" and node.lower_at_keyword == "media" and node.content is not None:
            if _ALL_SCREENS.fullmatch(_to_text(node.prelude)):
                pending += tinycss2.parse_rule_list(node.content, skip_comments=True, skip_whitespace=True)[::-1]
        elif node.type == "qualified-rule":
            declarations = _parse_declarations(node.content)
            if any(map(_WATCHED.search, declarations)):
                for selector in _split_selectors(node.prelude):
                    yield selector, declarations


def _split_selectors(prelude: list[Node]) -> Iterator[str]:
    start = 0
    for position, component in enumerate(prelude):
        if component == ",":
            yield _to_text(prelude[start:position])
            start = position + 1
    yield _to_text(prelude[start:])


@lru_cache(maxsize=4_096)
def _parse_style(style: str) -> Declarations:
    return _parse_declarations(style)


def _parse_declarations(block: str | list[Node]) -> Declarations:
    nodes = tinycss2.parse_blocks_contents(block, skip_comments=True, skip_whitespace=True)
    return {node.lower_name: _to_text(node.value).lower() for node in nodes if node.type == "declaration"}


def _to_text(tokens: list[Node]) -> str:
    try:
        return str(tinycss2.serialize(tokens)).strip()
    except RecursionError:  # hundreds of nested brackets: not a value or selector that a page uses
        return ""


def _find_removal(values: Declarations) -> str:
    """Return what takes an element and its content out of sight; empty where nothing does."""
    if values.get("display") == "none" or values.get("content-visibility") == "hidden":
        return "display"
    if _is_at_most(values.get("opacity"), 0.05):
        return "opacity"
    if "scale(0" in values.get("transform", "").replace("scale(0.", ""):
        return "tiny"
    if _CLIPPED.search(values.get("clip", "") + values.get("clip-path", "")):
        return "clipped"
    clips = values.get("overflow", "").startswith("hidden")
    if clips and any(_is_at_most(values.get(name), 1) for name in ("height", "max-height", "width", "max-width")):
        return "clipped"
    offsets = ["text-indent", "margin-left", "margin-top"]
    if values.get("position") in {"absolute", "fixed", "relative"}:
        offsets += ["left", "top", "right", "bottom"]
    return "off_page" if any(_is_off_screen(values.get(name)) for name in offsets) else ""


def _find_concealment(values: Declarations) -> str | None:
    """Return what makes text unseen until an inner element takes it back; empty: it is seen, None: as inherited."""
    answers = []
    if "visibility" in values:
        answers.append("visibility" if values["visibility"] in {"hidden", "collapse"} else "")
    if "font-size" in values:
        number = _NUMBER.match(values["font-size"])
        tiny = number is not None and float(number[1]) <= _TINY.get(number[2] or "px", 0.0)
        answers.append("tiny" if tiny else "")
    return max(answers) if answers else None


def _is_at_most(value: str | None, limit: float) -> bool:
    number = _NUMBER.match(value or "")
    return number is not None and number[2] in {None, "px", "pt"} and float(number[1]) <= limit


def _is_off_screen(value: str | None) -> bool:
    number = _NUMBER.match(value or "")
    return number is not None and float(number[1]) * _PIXELS.get(number[2] or "", 1) <= -_OFF_SCREEN


def _parse_colors(value: str) -> Iterator[Color]:
    """Yield the colours among the components of a value, fully transparent or without their alpha channel."""
    for token in tinycss2.parse_component_value_list(value, skip_comments=True):
        try:
            color = color4.parse_color(token)
            if isinstance(color, color4.Color):
                red, green, blue, alpha = color.to("srgb")
                channels = (min(max(round(channel * 255), 0), 255) for channel in (red, green, blue))
                yield TRANSPARENT if alpha < _MIN_ALPHA else (*channels, 255)
        except (ArithmeticError, ValueError, NotImplementedError):  # not a colour, or one without an sRGB form
            continue
