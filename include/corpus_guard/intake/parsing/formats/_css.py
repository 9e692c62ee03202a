"""The part of CSS that hides text: some twenty properties, inline or in ``<style>``, parsed by tinycss2.

A rule that hides text counts unless the element itself takes it back, or a rule that weighs more: by ``!important``, by its
layer, by its selector (roughly), by its place. Blocks of at-rules count where they hold on every wide screen (`_css_media`),
and animations by where they end. A value that browsers do not accept counts only where there is no other (`_css_values`).
Text wrongly called hidden is screened and not published, which is the safe side.

Not computed: masks of pictures, queries of containers, colours made from another one, the place of a text in a box around it that
cuts off what goes beyond it, and what lies over a text.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import inf, pi
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

import tinycss2
from resiliparse.parse.html import ElementNode
from tinycss2 import color4

from corpus_guard.intake.parsing.formats import _css_media
from corpus_guard.intake.parsing.formats._css_math import calculate
from corpus_guard.intake.parsing.formats._css_values import is_accepted

if TYPE_CHECKING:
    from resiliparse.parse.html import DocumentNode
    from tinycss2.ast import Node

Color = tuple[int, int, int, int]
"""Red, green, blue, alpha: 0 to 255."""
WHITE: Color = (255, 255, 255, 255)
BLACK: Color = (0, 0, 0, 255)
TRANSPARENT: Color = (0, 0, 0, 0)
VARIED: Color = (0, 0, 0, 128)
"""The colours of a gradient: no other colour equals them."""

Declarations = Mapping[str, str]
"""Values of properties, normalized and in lower case.

``!`` before a property's name: it is important; ``?``, before that: no browser is known to accept the value.
"""

_MAX_SELECTORS = 3_000  # applied of one document, without those for classes and ids that it lacks
_MAX_SELECTOR_CHARS = 2_000  # of one that is put together from rules within rules
_MAX_SHEET_CHARS = 1_000_000  # of all style sheets of one document; tinycss2 reads about 300,000 a second
_MAX_STYLE_CHARS = 100_000  # of one style attribute
_CACHED_STYLE_CHARS = 4_000
_MAX_LAYER_DEPTH = 20  # cascade layers within each other; deeper ones count as one
_MAX_SCOPES = 50  # elements with variables within each other
_MAX_VARIABLES = 20  # replaced in one value
_MAX_VARIABLE_CHARS = 200
_WATCHED = re.compile(
    r"display|visibility|contain|opacity|font|color|background|position|left|top|right|bottom|inset|margin|text-indent|clip|height"
    r"|width|overflow|animation|transform|scale|translate|rotate|filter|mask|content|zoom|spacing|fill|stroke"
)
_PICTURE = re.compile(r"url\(([\"']?)data:(?!text/css)[\w/+.;=-]{1,80};base64,[A-Za-z0-9+/=]*\1\)", re.IGNORECASE)
_NAMES = re.compile(r"[.#]([\w-]+)")
_NOT_PLAIN = re.compile(r"[\\\[(\"']")  # a selector whose names are not all names of elements
# What the parser does not know.
_ALWAYS = re.compile(
    r":(?:(?:lang|dir)\([^()]*\)|not\(:(?:target|target-within|focus-within|focus-visible|fullscreen|modal|popover-open|autofill"
    r"|picture-in-picture)\)|(?:defined|scope|focus-visible|valid|in-range)\b)"
)
_OPEN = re.compile(r":open\b")
_OLD_IS = re.compile(r":(?:-webkit-any|-moz-any|matches)\(")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'|:where\([^()]*\)")
_IDS, _CLASSES, _TYPES = (
    re.compile(r"#[\w-]"),
    re.compile(r"\.[\w-]|\[|(?<!:):[\w-]"),
    re.compile(r"(?<![\w#.:[=~^$*|-])[a-z]"),
)
_GLOBAL_VALUES = frozenset({"initial", "inherit", "unset", "revert", "revert-layer"})
_CONDITION = re.compile(r"(not\s*)?\(\s*([a-z-]+)\s*:([^()]*(?:\([^()]*\)[^()]*)*)\)")
_ROOTS = frozenset({":root", "html", "body", "*"})
_ANIMATING = frozenset({"keyframes", "-webkit-keyframes"})
_REGISTERED = "@property"  # stands for the selector of a variable's first value
_LAYER = "@layer"  # stands for the selector where a layer is named
_FRAME = re.compile(r"@(first|last) (.+)", re.DOTALL)  # stands for the selector of a step of an animation
_TIME = re.compile(r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})(m)?s")
_LONG = 60.0  # seconds
_FIRST_LINE = re.compile(r"::?first-line\b")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,([^()]*))?\)")
_FONT_SIZE = re.compile(r"(?<![^\s])((?:\d+(?:\.\d*)?|\.\d+)(?:px|pt|r?em|%))(?=[\s/])|(?<![^\s])(0)(?=[\s/])")
_SCALE = re.compile(r"scale(?:x|y|3d)?\(([^()]*)\)")
_TRANSLATE = re.compile(r"translate(?:x|y|3d)?\(([^()]*)\)")
_MOVED = re.compile(r"translate(x|y|3d|)\(([^()]*)\)")
_MATRIX = re.compile(r"matrix(?:3d)?\(([^()]*)\)")
_ROTATED = re.compile(r"rotate([xy]|3d)\(([^()]*)\)")
_SKEWED = re.compile(r"skew[xy]?\(([^()]*)\)")
_ANGLE = re.compile(r"(-?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(deg|grad|rad|turn)?")
_DEGREES = {"deg": 1.0, "grad": 0.9, "rad": 180 / pi, "turn": 360.0}
_EDGE = 1.0  # degrees off a right angle, from which nothing of a plane is to be seen
_FADED = re.compile(r"opacity\(0*(?:\.0+)?%?\)")
_NUMBER = re.compile(r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|em|rem|ex|ch|vw|vh|%|in|cm|mm)?")
_CLIPPED = re.compile(r"xywh\(\S+ \S+ (?:0|\S+ 0)|(?:circle|ellipse)\((?:\S+ )?0|polygon\((?:[a-z]+,)?[\s0,px%]*\)")
_INSET, _RECT = re.compile(r"inset\(([^()]*?)(?:round[^()]*)?\)"), re.compile(r"rect\(([^()]*?)(?:round[^()]*)?\)")
_POLYGON = re.compile(r"polygon\((?:[a-z]+,)?([^()]{1,2000})\)")
_CIRCLE = re.compile(
    r"(?:circle|ellipse)\(\s*([\d.]+(?:px|%))(?: [\d.]+(?:px|%))? at (-?[\d.]+(?:px|%)) (-?[\d.]+(?:px|%))\s*\)"
)
_POINT = re.compile(r"path\([\"']\s*m[-\d.,\s]*z?\s*[\"']\)")  # a path of no lines
_LINES = re.compile(r"(?:path|shape)\([^()]*\)")
_BOX = 1_000.0  # px of the box that a shape clips, each way
_WIDEST = 2_000.0  # px, for insets in pixels
_WHOLE = 0.99  # share of a box
_MAX_CHANNEL_DIFFERENCE = 32
_MAX_CONTRAST = 1.2  # to 21; WCAG asks for 3 at least
_MIN_ALPHA = 0.1
_SVG_TEXT = frozenset({"svg", "g", "text", "tspan", "textpath", "switch"})
_SVG_ATTRIBUTES = ("display", "visibility", "opacity", "fill", "fill-opacity", "font-size", "stroke", "stroke-width")
_LOGICAL = {
    "block-size": "height", "inline-size": "width", "max-block-size": "max-height", "max-inline-size": "max-width",
    "overflow-block": "overflow-y", "overflow-inline": "overflow-x",
} | {
    f"{name}-{logical}": f"{physical}{side}"
    for name, physical in (("inset", ""), ("margin", "margin-"))
    for logical, side in (("block-start", "top"), ("block-end", "bottom"), ("inline-start", "left"), ("inline-end", "right"))
}  # fmt: skip
"""Properties that go by the direction of writing, with what they are in text from left to right."""
_LOGICAL_PAIRS = {
    f"{name}-{axis}": (f"{physical}{start}", f"{physical}{end}")
    for name, physical in (("inset", ""), ("margin", "margin-"))
    for axis, start, end in (("block", "top", "bottom"), ("inline", "left", "right"))
}
_COLORED = frozenset({"color", "background-color", "-webkit-text-fill-color", "fill"})
_COLOR_WORDS = re.compile(
    r"inherit|initial|unset|revert|revert-layer|currentcolor|none|context-fill|context-stroke|(?:accent|button|canvas|field|highlight|mark"
    r"|selecteditem)(?:color)?(?:text|face|border)?|accentcolortext|(?:active|link|visited|gray|inactivecaption|caption|info|menu|window)text"
    r"|window(?:frame)?|background|appworkspace|(?:active|inactive)?(?:caption|border)|menu|scrollbar|infobackground|buttonshadow|buttonhighlight"
    r"|threed(?:dark|light)?(?:face|shadow|highlight)|-webkit-(?:link|activelink|focus-ring-color)|url\(.*"
)
_GROUND_WORDS = re.compile(
    r"none|inherit|initial|unset|revert|revert-layer|currentcolor|(?:no-)?repeat(?:-[xy])?|space|round|left|right|top|bottom"
    r"|center|fixed|scroll|local|cover|contain|auto|(?:border|padding|content)-box|text"
    r"|(?:url|rgba?|hsla?|hwb|(?:ok)?l(?:ab|ch)|color|color-mix|light-dark|var|env|calc|min|max|clamp|(?:-webkit-)?(?:image-set|cross-fade)"
    r"|(?:-webkit-|-moz-)?(?:repeating-)?(?:linear|radial|conic)-gradient|-webkit-gradient|element|paint)¤"
)
_BRACKET = re.compile(r"\([^()]*\)")
_GROUND_WORD = re.compile(r"(?<![\w#.%+-])-?[a-z][\w-]*¤?")
_SYSTEM_COLORS = {"canvas": WHITE, "canvastext": BLACK, "field": WHITE, "fieldtext": BLACK}
_LAB_SPACES = {"lab": "xyz-d50", "lch": "xyz-d50", "oklab": "xyz-d65", "oklch": "xyz-d65"}
_WIDE_SPACES = frozenset({"display-p3", "a98-rgb", "prophoto-rgb", "rec2020", "srgb-linear"})
_XYZ_MATRICES = {
    "xyz-d65": (
        (3.2409699419, -1.5373831776, -0.4986107603),
        (-0.9692436363, 1.8759675015, 0.0415550574),
        (0.0556300797, -0.2039769589, 1.0569715142),
    ),
    "xyz-d50": (
        (3.1341358529, -1.6173853350, -0.4906616954),
        (-0.9787955568, 1.9162543773, 0.0334142734),
        (0.0719555349, -0.2289768264, 1.4053860351),
    ),
}
"""Linear light of sRGB, of the coordinates XYZ under either white."""
_LEAST_STROKE = 0.5  # px
_CROWDED = -10  # px between letters
_OFF_SCREEN = 500  # px or pt; less is layout
_FAR_OFF_SCREEN = 5_000  # px or pt; slides of a gallery lie nearer, and so does the end of a wide page
_CENTRED = 2_000  # px or pt; boxes in the middle of a page have half their width as a margin
_SMALLEST_SCALE = 0.02
_CONTAINING = frozenset({"paint", "strict", "content"})
_TRANSFORMING = frozenset({"transform", "scale", "translate", "rotate"})
_PLACING = frozenset({"text-indent", "margin", "margin-left", "margin-top", "left", "top", "right", "bottom", "inset"})
_HEIGHTS, _WIDTHS = ("height", "max-height"), ("width", "max-width")
_TINY = {"px": 1.0, "pt": 1.0, "em": 0.1, "rem": 0.1, "%": 10.0, "vw": 0.05, "vh": 0.05}
_PIXELS = {"em": 16, "rem": 16, "%": 5, "vw": 10, "vh": 10, "in": 96, "cm": 38}


class Rule(NamedTuple):
    """A rule of a style sheet."""

    selector: str
    declarations: Declarations
    layer: tuple[str, ...] = ()  # names of the cascade layers around it, the outermost first


@dataclass(frozen=True, slots=True)
class StyleSheets:
    """Rules of style sheets, in source order, as far as they can hide or show text."""

    rules: tuple[Rule, ...] = ()
    complete: bool = True  # False: the sheets are longer than what is read

    @classmethod
    def parse(cls, sheets: Iterable[str]) -> StyleSheets:
        """Parse style sheets; blocks of at-rules are passed over, unless they hold on every screen."""
        rules: list[Rule] = []
        budget, complete = _MAX_SHEET_CHARS, True
        for sheet in (_PICTURE.sub("url()", each) for each in sheets):
            complete = complete and len(sheet) <= budget
            rules.extend(_parse_sheet(sheet[:budget], len(rules)))
            budget -= len(sheet[:budget])
        return cls(tuple(rules), complete)


@dataclass(frozen=True, slots=True)
class ElementStyle:
    """An element's own style, as far as it hides or shows text."""

    gone: str = ""  # what hides it, a key of `_hidden.HIDING_REASONS`; whatever lies inside is hidden too
    unseen: str | None = None  # the same; inside, it can be taken back. None: as inherited
    color: Color | None = None
    background: Color | None = None
    fill: Color | None = None  # of the letters of SVG
    overflows: bool = False  # shows what lies beyond its edges


class DocumentStyles:
    """Styles of a document's elements, from style sheets and their own attributes."""

    def __init__(self, document: DocumentNode, linked: StyleSheets) -> None:
        """Apply the `linked` style sheets, then the document's ``<style>`` elements."""
        self._rules: dict[ElementNode, list[Declarations]] = {}  # in source order
        # Always `.values()`: iterating over resiliparse's lists takes quadratic time (2.0).
        links = document.query_selector_all("link[rel~=stylesheet]").values()
        sheets = [
            _read_data_address(link.getattr("href") or "")
            for link in links
            if "alternate" not in (link.getattr("rel") or "").lower() and _is_applied(link)
        ]
        styles = document.query_selector_all("style").values()
        sheets += [style.text or "" for style in styles if _is_applied(style)]
        embedded = StyleSheets.parse(filter(None, sheets))
        rules = _leave_out_unused((*linked.rules, *embedded.rules), document)
        self.complete = linked.complete and embedded.complete and len(rules) <= _MAX_SELECTORS
        self._variables: dict[str, str] = {}  # of the whole document
        self._frames: dict[str, dict[str, Declarations]] = {}  # first and last, of animations that hide
        for selector, declarations, _ in _sort_rules(rules[:_MAX_SELECTORS]):
            if selector.lower() in _ROOTS or selector == _REGISTERED:
                self._variables.update((name, value) for name, value in declarations.items() if name.startswith("--"))
            if frame := _FRAME.fullmatch(selector):
                self._frames.setdefault(frame[2], {})[frame[1]] = declarations
                continue
            for element in _select(document, selector):
                self._rules.setdefault(element, []).append(declarations)
        self._scope_of: dict[ElementNode, ElementNode | None] = {}  # the nearest around each that was passed
        self._scopes = self._read_scopes(document)

    def __contains__(self, element: ElementNode) -> bool:
        return element in self._rules

    def of(self, element: ElementNode) -> ElementStyle:
        """Return the style of one element: its attributes, its rules, its own style; the last value counts."""
        values: dict[str, str] = {}
        for attribute, name in (("color", "color"), ("bgcolor", "background-color")):
            if element.hasattr(attribute):
                values[name] = (element.getattr(attribute) or "").strip().lower()
        if element.node_name == "BODY" and element.hasattr("text"):
            values["color"] = (element.getattr("text") or "").strip().lower()
        if (element.node_name or "").lower() in _SVG_TEXT:
            values.update((name, element.getattr(name) or "") for name in _SVG_ATTRIBUTES if element.hasattr(name))
        for declarations in self._rules.get(element, ()):
            values.update(declarations)
        values.update(self._own_style(element))
        _settle(values)
        self._replace_variables(element, values)
        if self._frames and not _find_removal(values) and not _find_concealment(values):
            self._animate(element, values)
        is_hidden = _is_closed(element, values.get("display", ""))
        if not values and not is_hidden:
            return ElementStyle()
        backgrounds = (
            color
            for name in ("background-color", "background-image", "background")
            for color in _parse_colors(values.get(name, ""))
        )
        is_cut_out = "text" in values.get("background-clip", values.get("-webkit-background-clip", ""))
        fill = "" if is_cut_out else values.get("-webkit-text-fill-color", "")
        color = next(_parse_colors(fill or values.get("color", "")), None)
        if color == TRANSPARENT and (outline := _find_outline(values)) is not None:
            color = outline
        return ElementStyle(
            gone=_find_removal(values) or ("display" if is_hidden else ""),
            unseen=_find_concealment(values),
            color=color,
            background=next((color for color in backgrounds if color != TRANSPARENT), None),
            fill=_find_fill(values),
            overflows=values.get("overflow") == "visible",
        )

    def _own_style(self, element: ElementNode) -> Declarations:
        style = element.getattr("style") or ""
        if len(style) <= _CACHED_STYLE_CHARS:
            return _parse_style(style)
        style = _PICTURE.sub("url()", style)
        self.complete = self.complete and len(style) <= _MAX_STYLE_CHARS
        return _parse_declarations(style[:_MAX_STYLE_CHARS])

    def _animate(self, element: ElementNode, values: dict[str, str]) -> None:
        """Write what an animation shows at its end, or all the time, into the values of an element."""
        parts = ("", "-name", "-fill-mode", "-iteration-count", "-play-state", "-direction", "-duration", "-delay")
        words = [
            word
            for vendor in ("-webkit-", "")
            for part in parts
            for word in _split(values.get(f"{vendor}animation{part}", ""))
        ]
        frames = next((self._frames[word] for word in words if word in self._frames), None)
        if frames is None:
            return
        first, last = frames.get("first", {}), frames.get("last", {})
        if {"reverse", "alternate-reverse"} & set(words):
            first, last = last, first
        seconds = [float(time[1]) / (1_000 if time[2] else 1) for word in words if (time := _TIME.fullmatch(word))]
        duration, delay = (*seconds, 0.0, 0.0)[:2] if len(seconds) < 3 else (max(seconds), 0.0)
        if "paused" in words or duration >= _LONG or (delay >= _LONG and {"both", "backwards"} & set(words)):
            values.update(first)
        elif {"both", "forwards"} & set(words):
            values.update(last)
        elif "infinite" in words:
            values.update((name, value) for name, value in last.items() if first.get(name) == value)
        self._replace_variables(element, values)

    def _replace_variables(self, element: ElementNode, values: dict[str, str]) -> None:
        """Write what variables stand for into the values of an element."""

        def stands_for(use: re.Match[str]) -> str:
            value = next((each[use[1]] for each in scopes if use[1] in each), use[2] or "")
            return value[:_MAX_VARIABLE_CHARS].strip()

        names = [name for name, value in values.items() if "var(" in value]
        scopes = [values, *self._scopes_around(element), self._variables] if names else []
        for name in names:
            for _ in range(_MAX_VARIABLES):
                values[name] = _VARIABLE.sub(stands_for, values[name], count=1)
            values[name] = calculate(values[name])

    def _scopes_around(self, element: ElementNode) -> list[Declarations]:
        """Return the variables of the elements around one, the nearest first: they are inherited."""
        scopes: list[Declarations] = []
        around = self._find_scope(element)
        while around is not None and len(scopes) < _MAX_SCOPES:
            scopes.append(self._scopes[around])
            around = self._find_scope(around)
        self.complete = self.complete and around is None
        return scopes

    def _find_scope(self, element: ElementNode) -> ElementNode | None:
        """Return the nearest element around one that sets variables; each element is passed once."""
        passed: list[ElementNode] = []
        around = element.parent if self._scopes else None
        while isinstance(around, ElementNode) and around not in self._scopes and around not in self._scope_of:
            passed.append(around)
            around = around.parent
        scope = None
        if isinstance(around, ElementNode):
            scope = around if around in self._scopes else self._scope_of.get(around)
        self._scope_of.update(dict.fromkeys(passed, scope))
        return scope

    def _read_scopes(self, document: DocumentNode) -> dict[ElementNode, Declarations]:
        """Return the variables that elements below the body set, in rules or by themselves."""
        scopes: dict[ElementNode, Declarations] = {}
        for element, rules in self._rules.items():
            variables = {name: value for each in rules for name, value in each.items() if name.startswith("--")}
            if variables and element.node_name not in {"HTML", "BODY"}:
                scopes[element] = variables
        for element in document.query_selector_all("[style*='--']").values():
            own = {name: value for name, value in self._own_style(element).items() if name.startswith("--")}
            if own:
                scopes[element] = {**scopes.get(element, {}), **own}
        return scopes


@lru_cache(maxsize=16_384)
def colors_match(first: Color | None, second: Color | None) -> bool:
    """Return whether hardly an eye tells two colours apart: all channels are near each other, and so is the light."""
    if first is None or second is None:
        return False
    difference = max(abs(a - b) for a, b in zip(first, second, strict=True))
    if difference > _MAX_CHANNEL_DIFFERENCE:
        return False
    dark, light = sorted(map(_luminance, (first, second)))
    return (light + 0.05) / (dark + 0.05) <= _MAX_CONTRAST


def parse_color(text: str) -> Color | None:
    """Return the first colour that a value of CSS names; None where it names none."""
    return next(_parse_colors(text), None)


def _luminance(color: Color) -> float:
    """Return the relative luminance (WCAG 2.2), 0 to 1."""
    red, green, blue = (
        channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
        for channel in (each / 255 for each in color[:3])
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _is_closed(element: ElementNode, display: str) -> bool:
    """Return whether an element is hidden for what it is, which a value of ``display`` takes back."""
    if (element.getattr("hidden") or "").lower() == "until-found":
        return True
    is_closed = element.hasattr("hidden") or element.hasattr("popover")
    is_closed = is_closed or (element.node_name in {"DIALOG", "dialog"} and not element.hasattr("open"))
    return is_closed and (not display or display in _GLOBAL_VALUES)


def _is_applied(sheet: ElementNode) -> bool:
    """Return whether an element brings a style sheet that holds on a screen."""
    kind = (sheet.getattr("type") or "text/css").partition(";")[0].strip().lower()
    return kind in {"text/css", ""} and _css_media.holds((sheet.getattr("media") or "all").lower())


def _find_outline(values: Declarations) -> Color | None:
    """Return the colour in which the edges of letters are drawn; None where they are not."""
    stroke = values.get("-webkit-text-stroke", "")
    width = values.get("-webkit-text-stroke-width", stroke)
    is_drawn = any(_pixels(each) >= _LEAST_STROKE for each in _split(width)) or "medium" in width or "thick" in width
    color = next(_parse_colors(values.get("-webkit-text-stroke-color", stroke)), None)
    return color if is_drawn and color != TRANSPARENT else None


def _find_fill(values: Declarations) -> Color | None:
    if values.get("fill") == "none" or _is_faint(values.get("fill-opacity")):
        stroke = parse_color(values.get("stroke", ""))
        return stroke if stroke and not _is_at_most(values.get("stroke-width", "1"), 0) else TRANSPARENT
    return VARIED if values.get("fill", "").startswith(("url(", "current")) else parse_color(values.get("fill", ""))


def _sort_rules(rules: Sequence[Rule]) -> Iterator[Rule]:
    """Yield rules in the order in which they count, the weightiest last: by their layers, their selectors, their places.

    A layer counts less than those named after it and than what is in none; with what is important it is the other way
    around (CSS Cascade 5, 6.4.4).
    """
    if not any(rule.layer for rule in rules):
        yield from sorted(
            (rule for rule in rules if rule.selector != _LAYER), key=lambda rule: _weigh_selector(rule[0])
        )
        return
    places: dict[tuple[str, ...], int] = {}
    for rule in rules:
        for depth in range(1, len(rule.layer) + 1):
            places.setdefault(rule.layer[:depth], len(places))
    parts: list[tuple[tuple[float, ...], tuple[int, int, int], Rule]] = []
    for rule in rules:
        order = (*(float(places[rule.layer[: depth + 1]]) for depth in range(len(rule.layer))), inf)
        important = {name: value for name, value in rule.declarations.items() if "!" in name[:2]}
        usual = {name: value for name, value in rule.declarations.items() if name not in important}
        weight = _weigh_selector(rule.selector)
        parts.append((order, weight, rule._replace(declarations=usual)))
        if important:
            parts.append((tuple(-place for place in order), weight, rule._replace(declarations=important)))
    parts.sort(key=lambda part: part[:2])
    yield from (rule for _, _, rule in parts if rule.selector != _LAYER)


def _leave_out_unused(rules: Sequence[Rule], document: DocumentNode) -> Sequence[Rule]:
    """Return the rules that may select something: all but those for a class or an id that no element has."""
    if not rules:
        return rules
    names: set[str] = set()
    for element in document.query_selector_all("[class], [id]").values():
        names.update((element.getattr("class") or "").lower().split())
        names.add((element.getattr("id") or "").lower())
    return [
        rule
        for rule in rules
        if _NOT_PLAIN.search(rule.selector) or names.issuperset(_NAMES.findall(rule.selector.lower()))
    ]


def _select(document: DocumentNode, selector: str) -> Iterable[ElementNode]:
    """Return the elements that a selector names; for the first line of some, these: it may be all of their text."""
    if "first-line" in selector:
        selector = _FIRST_LINE.sub("", selector) or "*"
    try:
        return document.query_selector_all(selector).values()
    except ValueError:  # resiliparse does not know it
        pass
    try:
        return document.query_selector_all(
            _OLD_IS.sub(":is(", _OPEN.sub("[open]", _ALWAYS.sub("", selector))) or "*"
        ).values()
    except ValueError:  # ::before, or another one that selects no text that is read here
        return ()


def _weigh_selector(selector: str) -> tuple[int, int, int]:
    """Return how specific a selector is: its ids, its classes and attributes, its types; what is in brackets counts as well."""
    if selector.startswith("@"):
        return 0, 0, 0
    plain = _QUOTED.sub("", selector).lower()
    ids, classes, types = (len(each.findall(plain)) for each in (_IDS, _CLASSES, _TYPES))
    return ids, classes, types


def _parse_sheet(sheet: str, number: int) -> Iterator[Rule]:
    """Yield the rules that may hide or show text, and the layers in the order of their names; `number`: of rules before it."""
    nodes = tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True)
    # Each with the selector and the layers around it.
    pending: list[tuple[Node, str, tuple[str, ...]]] = [(node, "", ()) for node in reversed(nodes)]
    while pending:
        node, outer, layer = pending.pop()
        if node.type == "at-rule" and node.lower_at_keyword == "layer":
            number += 1
            names = [_to_text(part).strip() for part in _split_arguments(node.prelude)]
            paths = [(*layer, *(name.split(".") if name else [f"unnamed {number}"])) for name in names]
            inner_layers = [path[:_MAX_LAYER_DEPTH] for path in paths]
            if node.content is None:
                yield from (Rule(_LAYER, {}, each) for each in inner_layers)
                continue
            layer = inner_layers[0]
            yield Rule(_LAYER, {}, layer)
        if node.type == "at-rule" and node.lower_at_keyword == "import":
            inner = tinycss2.parse_stylesheet(_read_import(node), skip_comments=True, skip_whitespace=True)
            pending += [(each, "", layer) for each in reversed(inner)]
            continue
        if node.type == "at-rule" and node.lower_at_keyword == "property" and node.content is not None:
            values = _read_declarations(tinycss2.parse_blocks_contents(node.content, skip_comments=True))
            yield Rule(_REGISTERED, {_to_text(node.prelude): values.get("initial-value", "")})
            continue
        if node.type == "at-rule" and node.lower_at_keyword in _ANIMATING and node.content is not None:
            yield from _read_frames(node)
            continue
        if node.type == "at-rule" and node.content is not None and _holds(node):
            parse = tinycss2.parse_blocks_contents if outer else tinycss2.parse_rule_list
            selectors = [outer] if outer else []
        elif node.type == "qualified-rule":
            parse = tinycss2.parse_blocks_contents
            selectors = [_nest(outer, selector) for selector in _split_selectors(node.prelude)]
        else:
            continue
        inner = parse(node.content, skip_comments=True, skip_whitespace=True)
        declarations = _read_declarations(inner)
        for selector in selectors:
            is_needed = any(name.startswith("--") or _WATCHED.search(name) for name in declarations)
            if is_needed or (selector.lower() in _ROOTS and declarations):
                yield Rule(selector, declarations, layer)
        around = selectors[0] if len(selectors) == 1 else f":is({','.join(selectors)})" if selectors else ""
        pending += [(each, around, layer) for each in reversed(inner) if each.type in {"at-rule", "qualified-rule"}]


def _read_frames(rule: Node) -> Iterator[Rule]:
    """Yield the first and the last step of an animation, as far as they hide text."""
    name = _to_text(rule.prelude).strip("\"'").lower()
    for step in tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True):
        if step.type != "qualified-rule":
            continue
        declarations = _read_declarations(
            tinycss2.parse_blocks_contents(step.content, skip_comments=True, skip_whitespace=True)
        )
        if find_reason(declarations) or not _COLORED.isdisjoint(declarations):
            places = {_to_text([token]).lower() for token in step.prelude}
            text = _to_text(step.prelude).lower()
            if "from" in places or "0%" in text.split(",")[0].split():
                yield Rule(f"@first {name}", declarations)
            if "to" in places or "100%" in text:
                yield Rule(f"@last {name}", declarations)


def _read_import(rule: Node) -> str:
    """Return the style sheet that a rule brings in, where the rule itself holds it."""
    for token in rule.prelude:
        if token.type in {"url", "string"}:
            return _read_data_address(token.value)
        if token.type == "function" and token.lower_name == "url":
            return _read_data_address("".join(each.value for each in token.arguments if each.type == "string"))
    return ""


def _read_data_address(address: str) -> str:
    """Return the text of a style sheet in an address (``data:text/css,…``, RFC 2397); empty for any other address."""
    head, comma, body = address.strip().partition(",")
    if not comma or not head.lower().startswith("data:"):
        return ""
    content = unquote_to_bytes(body)
    if head.lower().endswith(";base64"):
        try:
            content = b64decode(content)
        except ValueError:
            return ""
    return content.decode(errors="replace")


def _holds(rule: Node) -> bool:
    """Return whether what stands in an at-rule holds on every wide screen."""
    prelude = _to_text(rule.prelude).lower()
    if rule.lower_at_keyword == "media":
        return _css_media.holds(prelude)
    if rule.lower_at_keyword == "supports":
        condition = _CONDITION.fullmatch(prelude)
        if condition is not None and condition[1]:
            return not is_accepted(condition[2], condition[3].strip())
        return not prelude.startswith("not") and (condition is None or is_accepted(condition[2], condition[3].strip()))
    return rule.lower_at_keyword in {"layer", "scope"}


def _nest(outer: str, selector: str) -> str:
    """Return the selector of a rule within another; too long: of the rule alone, which selects more."""
    if not outer:
        return selector
    whole = selector.replace("&", outer) if "&" in selector else f"{outer} {selector}"
    return whole if len(whole) <= _MAX_SELECTOR_CHARS else selector.replace("&", "*")


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


def _parse_declarations(block: str) -> Declarations:
    return _read_declarations(tinycss2.parse_blocks_contents(block, skip_comments=True, skip_whitespace=True))


def _read_declarations(nodes: Iterable[Node]) -> Declarations:
    values: dict[str, str] = {}
    for node in nodes:
        if node.type != "declaration":
            continue
        mark, value = "!" if node.important else "", calculate(_to_text(node.value).lower())
        for name, part in _to_physical(node.lower_name, value):
            if not is_accepted(name, part) or not _has_color(name, part):
                values[f"?{mark}{name}"] = part
                continue
            values[f"{mark}{name}"] = part
            if name == "font" and (size := _FONT_SIZE.search(part)):
                values[f"{mark}font-size"] = size[1] or size[2]
    return values


def _to_physical(name: str, value: str) -> Sequence[tuple[str, str]]:
    """Return a declaration, with the sides of the screen for those of the writing."""
    if name in _LOGICAL_PAIRS:
        parts = value.split()
        return [*zip(_LOGICAL_PAIRS[name], (parts[0], parts[-1]), strict=True)] if len(parts) in {1, 2} else []
    return [(_LOGICAL.get(name, name), value)]


def _has_color(name: str, value: str) -> bool:
    """Return whether a browser accepts the value of a property, if that is a colour or a background."""
    if name in _COLORED:
        return _is_color(value)
    if name != "background":
        return True
    while value != (value := _BRACKET.sub("¤", value)):
        pass
    return all(_GROUND_WORDS.fullmatch(word) or _is_color(word) for word in _GROUND_WORD.findall(value))


@lru_cache(maxsize=4_096)
def _is_color(value: str) -> bool:
    return (
        bool(_COLOR_WORDS.fullmatch(value))
        or "var(" in value
        or "currentcolor" in value
        or parse_color(value) is not None
    )


def _settle(values: dict[str, str]) -> None:
    """Let important values count more than others, and those that no browser is known to accept, less."""
    marked = [(name, value) for name, value in values.items() if name[0] in "!?"]
    for name, value in marked:
        if name[0] == "!":
            values[name[1:]] = value
    for name, value in marked:
        if name[0] == "?":
            values.setdefault(name.lstrip("?!"), value)


def _to_text(tokens: list[Node]) -> str:
    try:
        return str(tinycss2.serialize(tokens)).strip()
    except RecursionError:  # hundreds of nested brackets: not a value or selector that a page uses
        return ""


def find_hiding_reason(style: str) -> str:
    """Return what a style attribute hides its element by, a key of `_hidden.HIDING_REASONS`; empty where it does not."""
    return find_reason(_parse_style(style[:_MAX_STYLE_CHARS]))


def find_reason(declarations: Declarations) -> str:
    """Return what declarations hide an element by, a key of `_hidden.HIDING_REASONS`; empty where they do not."""
    values = dict(declarations)
    _settle(values)
    return _find_removal(values) or _find_concealment(values) or ""


def _find_removal(values: Declarations) -> str:
    """Return what takes an element and its content out of sight; empty where nothing does."""
    if (
        values.get("display") == "none"
        or values.get("content-visibility") == "hidden"
        or "url(" in values.get("content", "")
    ):
        return "display"
    if "currentcolor" in (values.get("background-color"), values.get("background")):
        return "colour"
    if _is_faint(values.get("opacity")) or _FADED.search(values.get("filter", "")) or _is_masked(values):
        return "opacity"
    overflows = " ".join(values.get(f"overflow{axis}", "") for axis in ("", "-x", "-y")).split()
    clips = not {"hidden", "clip"}.isdisjoint(overflows) or not _CONTAINING.isdisjoint(
        values.get("contain", "").split()
    )
    return _find_clipping(values, clips=clips) or _find_transformation(values) or _find_distance(values, clips=clips)


def _is_masked(values: Declarations) -> bool:
    """Return whether a mask lets nothing through."""
    for vendor in ("", "-webkit-"):
        masks = (values.get(f"{vendor}mask-image", ""), values.get(f"{vendor}mask", ""))
        is_empty = any(next(_parse_colors(mask), None) == TRANSPARENT for mask in masks)
        if is_empty or any(_is_at_most(each, 0) for each in _split(values.get(f"{vendor}mask-size", ""))):
            return True
    return False


def _is_empty_shape(path: str) -> bool:
    """Return whether a shape of ``clip-path`` has no area, or lies outside its box."""
    if polygon := _POLYGON.match(path):
        points = [tuple(map(_of_box, _split(point)))[:2] for point in polygon[1].split(",")]
        corners = [point for point in points if len(point) == 2]
        if not corners:
            return False
        (first_x, first_y), sides = corners[0], pairwise(corners)
        area = sum(abs((x - first_x) * (v - first_y) - (u - first_x) * (y - first_y)) for (x, y), (u, v) in sides) / 2
        return area < 1 or any(max(axis) <= 0 or min(axis) >= _BOX for axis in zip(*corners, strict=True))
    if circle := _CIRCLE.match(path):
        radius, x, y = map(_of_box, circle.groups())
        return min(x, y) + radius <= 0 or max(x, y) - radius >= _BOX
    lines = _LINES.match(path)
    is_dot = lines is not None and all(abs(float(number[1])) <= 1 for number in _NUMBER.finditer(lines[0]))
    return bool(_POINT.match(path)) or is_dot


def _is_flat(path: str) -> bool:
    """Return whether the rectangle that ``clip`` or ``clip-path`` leaves has hardly any width or height."""
    if (inset := _INSET.match(path)) and (sides := _split(inset[1])):
        sides = (sides * 4)[:4] if len(sides) != 3 else [*sides, sides[1]]  # top, right, bottom, left
        return any(_share(sides[side]) + _share(sides[side + 2]) >= _WHOLE for side in (0, 1))
    if (rect := _RECT.match(path)) and len(sides := _split(rect[1])) == 4:
        starts, ends = (sides[0], sides[3]), (sides[2], sides[1])
        return any(
            (inf if end == "auto" else _of_box(end)) - _of_box(start) <= 1
            for start, end in zip(starts, ends, strict=True)
        )
    return False


def _share(inset: str) -> float:
    """Return the share of a box that an inset takes; of a box that is as wide as a page where it is in pixels."""
    return _of_box(inset) / (_BOX if inset.endswith("%") else _WIDEST)


def _of_box(length: str) -> float:
    """Return a length in pixels of a box of `_BOX` times `_BOX`."""
    return float(length[:-1]) * _BOX / 100 if re.fullmatch(r"-?\d{1,6}(?:\.\d{0,6})?%", length) else _pixels(length)


def _find_clipping(values: Declarations, *, clips: bool) -> str:
    path = values.get("clip-path", values.get("-webkit-clip-path", ""))
    if _CLIPPED.search(path) or _is_empty_shape(path) or _is_flat(path) or _is_flat(values.get("clip", "")):
        return "clipped"
    scrolls = any(values.get(f"overflow{axis}", "").startswith(("auto", "scroll")) for axis in ("", "-y"))
    flat = [name for names in (_HEIGHTS if clips or scrolls else (), _WIDTHS if clips else ()) for name in names]
    is_flat = any(_is_at_most(values.get(name), 1) for name in flat)
    return "clipped" if is_flat or (clips and _is_at_most(values.get("line-height"), 0.1)) else ""


def _find_distance(values: Declarations, *, clips: bool) -> str:
    return "off_page" if not _PLACING.isdisjoint(values) and _is_off_page(values, clips=clips) else ""


def _find_transformation(values: Declarations) -> str:
    if _is_small_factor(values.get("zoom", "")) or _pixels(values.get("letter-spacing")) <= _CROWDED:
        return "tiny"
    if _TRANSFORMING.isdisjoint(values):
        return ""
    transform = values.get("transform", "")
    scales = (*_SCALE.findall(transform), values.get("scale", ""))
    is_tiny = any(_is_small_factor(each) for scale in scales for each in _split(scale))
    if is_tiny or _is_edgewise(transform, values.get("rotate", "")):
        return "tiny"
    matrices = (_split(matrix) for matrix in _MATRIX.findall(transform))
    shifts = (" ".join(matrix[12:14] if len(matrix) == 16 else matrix[4:]) for matrix in matrices)
    moves = (*_TRANSLATE.findall(transform), *shifts, values.get("translate", ""))
    is_far = any(
        abs(_pixels(each)) >= _FAR_OFF_SCREEN or _is_screens_away(each.lstrip("-"))
        for move in moves
        for each in _split(move)
    )
    return "off_page" if is_far or _is_pushed_out(values, transform) else ""


def _is_small_factor(factor: str) -> bool:
    number = _NUMBER.fullmatch(factor)
    if number is None or number[2] not in {None, "%"}:
        return False
    return abs(float(number[1])) <= _SMALLEST_SCALE * (100 if number[2] else 1)


def _is_pushed_out(values: Declarations, transform: str) -> bool:
    """Return whether a box that stays at the edge of the screen is moved beyond it by its own width or height."""
    if values.get("position") != "fixed":
        return False
    sides = dict(zip("xy", [*_split(values.get("translate", "")), "", ""], strict=False))
    for axis, moves in _MOVED.findall(transform):
        sides.update(zip(axis[:1].replace("3", "xy") or "xy", _split(moves), strict=False))
    for axis, first, last in (("x", "left", "right"), ("y", "top", "bottom")):
        number = _NUMBER.fullmatch(sides[axis])
        if number is not None and number[2] == "%" and abs(float(number[1])) >= 100:
            near, far = (first, last) if float(number[1]) < 0 else (last, first)
            if _is_at_most(values.get(near), 0) and (axis == "y" or far not in values or values[far] == "auto"):
                return True
    return False


def _is_edgewise(transform: str, rotation: str) -> bool:
    """Return whether a plane is turned, skewed or pressed so that nothing of it is to be seen."""
    if not transform and not rotation:
        return False
    for matrix in _MATRIX.findall(transform):
        numbers = [float(number[1]) if (number := _NUMBER.match(each)) else 0.0 for each in _split(matrix)]
        places = {6: (0, 1, 2, 3), 16: (0, 1, 4, 5)}.get(len(numbers), ())
        if places:
            a, b, c, d = (numbers[place] for place in places)
            if abs(a * d - b * c) <= _SMALLEST_SCALE**2:
                return True
    if any(_is_right_angle(each) for skew in _SKEWED.findall(transform) for each in _split(skew)):
        return True
    turns = [(axis, _split(turn)) for axis, turn in _ROTATED.findall(transform)]
    words = rotation.split()
    if len(words) == 2:
        turns += [(axis, [angle]) for axis, angle in (words, words[::-1]) if axis in {"x", "y"}]
    elif len(words) == 4:
        turns.append(("3d", words))
    for axis, parts in turns:
        is_flat = axis == "3d" and (len(parts) != 4 or _pixels(parts[2]) != 0)
        if not is_flat and parts and _is_right_angle(parts[-1]):
            return True
    return False


def _is_right_angle(text: str) -> bool:
    angle = _ANGLE.fullmatch(text)
    if angle is None or not angle[2]:
        return False
    return abs(float(angle[1]) * _DEGREES[angle[2]] % 180 - 90) < _EDGE


def _is_off_page(values: Declarations, *, clips: bool) -> bool:
    """Return whether margins, indent or place put an element off the page."""
    offsets = [_pixels(values.get(name)) for name in ("text-indent", "margin-left", "margin-top")]
    sides = [values.get(name) for name in ("left", "top", "right", "bottom")] + _split(values.get("inset", ""))
    if values.get("position") == "fixed" and any(map(_is_beyond, sides)):
        return True
    if values.get("position") == "absolute" and any(map(_is_screens_away, (values.get("left"), values.get("right")))):
        return True
    if values.get("position") in {"absolute", "fixed", "relative"}:
        offsets += [_pixels(values.get(name)) for name in ("left", "top", "right", "bottom")]
        offsets += map(_pixels, _split(values.get("inset", "")))
    far = [_pixels(values.get(name)) for name in ("left", "margin-left", "text-indent")]
    return (
        min(offsets) <= -_OFF_SCREEN
        or any(_pixels(each) <= -_CENTRED for each in _split(values.get("margin", "")))
        or max(far) >= _FAR_OFF_SCREEN
        or (clips and far[-1] >= _OFF_SCREEN)
    )


def _is_beyond(place: str | None) -> bool:
    """Return whether a place is a screen's width or height away."""
    number = _NUMBER.match(place or "")
    return number is not None and number[2] in {"vw", "vh", "%"} and float(number[1]) >= 100


def _is_screens_away(move: str | None) -> bool:
    """Return whether a distance is a screen's width or height, or more."""
    number = _NUMBER.match(move or "")
    return number is not None and number[2] in {"vw", "vh"} and float(number[1]) >= 100


def _find_concealment(values: Declarations) -> str | None:
    """Return what makes text unseen until an inner element takes it back; empty: it is seen, None: as inherited."""
    answers = []
    if "visibility" in values:
        answers.append("visibility" if values["visibility"] in {"hidden", "collapse"} else "")
    if "font-size" in values:
        number = _NUMBER.match(values["font-size"])
        tiny = number is not None and float(number[1]) <= _TINY.get(number[2] or "px", 0.0)
        answers.append("tiny" if tiny else "")
    if _is_at_most(values.get("font-size-adjust"), 0):
        answers.append("tiny")
    return max(answers) if answers else None


def _is_at_most(value: str | None, limit: float) -> bool:
    number = _NUMBER.match(value or "")
    if number is None:
        return False
    return float(number[1]) <= limit if number[2] in {None, "px", "pt"} else float(number[1]) == 0


def _is_faint(opacity: str | None) -> bool:
    number = _NUMBER.match(opacity or "")
    return number is not None and float(number[1]) <= {None: _MIN_ALPHA, "%": _MIN_ALPHA * 100}.get(number[2], 0.0)


def _split(value: str) -> list[str]:
    """Return the parts of a value with several."""
    return value.replace(",", " ").split()


def _pixels(value: str | None) -> float:
    """Return a length in pixels, roughly; 0: it is none."""
    number = _NUMBER.match(value or "")
    return float(number[1]) * _PIXELS.get(number[2] or "", 1) if number else 0.0


def _parse_colors(value: str) -> Iterator[Color]:
    """Yield the colours among the components of a value, fully transparent or without their alpha channel.

    A gradient counts as one: its colour where its stops are alike, else `VARIED`.
    """
    for token in tinycss2.parse_component_value_list(value, skip_comments=True):
        if token.type == "function" and token.lower_name.endswith("gradient"):
            stops = [color for stop in token.arguments if (color := _parse_color_token(stop)) is not None]
            if stops:
                yield stops[0] if all(stop == stops[0] or colors_match(stop, stops[0]) for stop in stops) else VARIED
        elif (color := _parse_color_token(token)) is not None:
            yield color


def _parse_color_token(token: Node) -> Color | None:
    if token.type == "ident" and token.lower_value in _SYSTEM_COLORS:
        return _SYSTEM_COLORS[token.lower_value]
    if token.type == "function" and token.lower_name == "color-mix":
        return _mix_colors(token)
    if token.type == "function" and token.arguments and _is_from(token):
        return _change_color(token)
    if token.type == "function" and token.lower_name == "light-dark":  # pages are read as on a light screen
        return next((color for each in token.arguments if (color := _parse_color_token(each)) is not None), None)
    try:
        color = color4.parse_color(token)
        if isinstance(color, color4.Color):
            red, green, blue, alpha = _to_srgb(color)
            red, green, blue = (min(max(round(channel * 255), 0), 255) for channel in (red, green, blue))
            return TRANSPARENT if alpha < _MIN_ALPHA else (red, green, blue, 255)
    except (ArithmeticError, ValueError, NotImplementedError):  # not a colour, or one without an sRGB form
        pass
    return None


def _to_srgb(color: color4.Color) -> Sequence[float]:
    """Return red, green, blue and alpha, 0 to 1 within what a screen can show (CSS Color 4, 18)."""
    if color.space in _WIDE_SPACES:  # near white and black they hardly differ from sRGB
        return (*color.coordinates, color.alpha)
    if color.space not in _XYZ_MATRICES and color.space not in _LAB_SPACES:
        return tuple(color.to("srgb"))
    space = _LAB_SPACES.get(color.space, color.space)
    x, y, z, alpha = color.to(space)
    linear = (row[0] * x + row[1] * y + row[2] * z for row in _XYZ_MATRICES[space])
    red, green, blue = (12.92 * each if each <= 0.0031308 else 1.055 * each ** (1 / 2.4) - 0.055 for each in linear)
    return red, green, blue, alpha


def _mix_colors(mix: Node) -> Color | None:
    """Return the colour that is mixed of two, roughly: in sRGB, whatever space is named; None where one is not known."""
    parts: list[tuple[Color | None, float | None]] = []
    for tokens in _split_arguments(mix.arguments)[1:]:
        shares = [each.value / 100 for each in tokens if each.type == "percentage"]
        colors = [color for each in tokens if (color := _parse_color_token(each)) is not None]
        parts.append((colors[0] if colors else None, shares[0] if shares else None))
    if len(parts) != 2:
        return None
    (first, weight), (second, other_weight) = parts
    weight = weight if weight is not None else 0.5 if other_weight is None else 1 - other_weight
    other_weight = other_weight if other_weight is not None else 1 - weight
    if weight + other_weight <= 0:
        return None
    share = weight / (weight + other_weight)  # of the first colour
    if TRANSPARENT in (first, second) and None not in (first, second):
        opaque, alpha = (second, 1 - share) if first == TRANSPARENT else (first, share)
        return TRANSPARENT if opaque == TRANSPARENT or alpha < _MIN_ALPHA else opaque
    if share in {0, 1}:
        return first if share == 1 else second
    if first is None or second is None:
        return None
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(first[:3], second[:3], strict=True))
    return red, green, blue, 255


def _is_from(function: Node) -> bool:
    words = [each for each in function.arguments if each.type != "whitespace"]
    return len(words) > 1 and words[0].type == "ident" and words[0].lower_value == "from"


def _change_color(function: Node) -> Color | None:
    """Return the colour that is made from another one with the same channels; None where they change."""
    _, origin, *channels = [each for each in function.arguments if each.type != "whitespace"]
    color = _parse_color_token(origin)
    alpha = next((each for mark, each in pairwise(channels) if mark == "/"), None)
    if alpha is not None and _is_faint(_to_text([alpha])):
        return TRANSPARENT
    return color if all(each.type == "ident" or each == "/" for each in channels if each is not alpha) else None


def _split_arguments(nodes: Sequence[Node]) -> list[list[Node]]:
    parts: list[list[Node]] = [[]]
    for node in nodes:
        if node == ",":
            parts.append([])
        else:
            parts[-1].append(node)
    return parts
