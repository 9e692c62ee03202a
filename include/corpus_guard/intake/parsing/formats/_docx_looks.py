"""Looks of a Word document's text: styles, colours and places, and what they hide from a reader (ECMA-376, part 1, chapter 17).

Hidden: text that is formatted as hidden, by itself or by a style; in the colour of what lies behind it (the text's own shading,
its paragraph's, its cell's, its text box's, or the page); transparent, smaller than a point, or in a line or row without height;
off the page; in a box, a frame or a width without room for it; below the cell that it is merged with; in a part of a formula
that is only to leave a space; deleted or moved away by a tracked change; the code of a field; and a content control whose content
another part of the file replaces when Word opens it.

Not read: what lies behind a text box without a filling of its own, and the colours of table styles (nothing in them counts as hidden).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.formats import _css, _ooxml
from corpus_guard.intake.parsing.formats._container import ZipContainer
from corpus_guard.intake.parsing.formats._hidden import HiddenText
from corpus_guard.intake.parsing.formats._office_colors import Palette, from_hex, lighten
from corpus_guard.intake.parsing.formats._ooxml import A, W, is_on

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

WP = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}"
_WPS = "{http://schemas.microsoft.com/office/word/2010/wordprocessingShape}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_V = "{urn:schemas-microsoft-com:vml}"
_W14 = "{http://schemas.microsoft.com/office/word/2010/wordml}"
_STORE = "{http://schemas.openxmlformats.org/officeDocument/2006/customXml}"
_VML_SHAPES = frozenset(f"{_V}{kind}" for kind in ("shape", "rect", "roundrect", "oval", "group"))
_OF_TABLES = frozenset(f"{W}{kind}" for kind in ("tbl", "tr", "tc"))
_ON = frozenset({"1", "true", "on"})
_OFF = frozenset({"0", "false", "off"})
_MAX_BASED_ON = 20  # styles, each based on the next; Word follows eleven
_HIDING_SWITCHES = tuple(f"{W}{name}" for name in ("vanish", "webHidden", "specVanish"))
_OF_LETTERS = frozenset({"colour", "opacity", "tiny"})  # what these hide is the run's own text, not a box within it
_TINY_HALF_POINTS = 2
_TINY_WIDTH = 5  # percent of a letter's width
_CROWDED = -200  # twentieths of a point between letters, which then lie on each other
_NO_WIDTH = 20  # twentieths of a point for each letter of a text that is fitted into a width
_NO_HEIGHT = 20  # twentieths of a point: a line or a row that shows nothing
_OFF_PAGE = 5_000  # twentieths of a point beyond the left or upper edge of the text; pages are 12,000 wide
_BEYOND_PAGE = 31_680  # the widest page of Word
_EMUS = 635  # English metric units in a twentieth of a point
_THEME_NAMES = {"background1": "bg1", "text1": "tx1", "background2": "bg2", "text2": "tx2", "light1": "lt1", "dark1": "dk1"} | {
    "light2": "lt2", "dark2": "dk2", "hyperlink": "hlink", "followedHyperlink": "folHlink"
}  # fmt: skip
_HIGHLIGHTS = {"darkYellow": "olive", "darkGray": "gray", "lightGray": "silver", "green": "lime", "darkGreen": "green"}
_FLAT = re.compile(r"(?:^|;)(?:width|height):[01]?(?:\.\d+)?(?:pt|px|in|mm|cm)?(?:;|$)")
_PATH = re.compile(r"(?:/[\w:.-]{1,100}(?:\[\d{1,4}\])?){1,20}(?:/@[\w:.-]{1,100})?")
_PREFIX = re.compile(r"xmlns:([\w.-]{1,50})=[\"']([^\"']{1,300})[\"']")
_QUOTED = re.compile(r"[\"“]([^\"“”]{1,2000})[\"”]")
_PLAIN_CONTROLS = ("dropDownList", "comboBox", "date", "picture", "docPartObj", "docPartList")
"""Controls that show something else than the bound value."""

Properties = Mapping[str, "Element"]
"""Properties of a run or a paragraph, by tag."""


@dataclass(frozen=True, slots=True)
class _Look:
    """Surroundings of a text."""

    reason: str = ""  # what hides all of it, a key of `_hidden.HIDING_REASONS`
    background: _css.Color | None = _css.WHITE  # None: cannot be told
    table_style: str = ""
    paragraph_style: str = ""


class Looks:
    """Styles and colours of one document."""

    def __init__(self, container: ZipContainer, main_part: str) -> None:
        """Read the styles, the theme and the settings that the main part is related to."""
        self._container = container
        parts = {kind: self._part(main_part, kind) for kind in ("styles", "theme", "settings")}
        styles, settings = parts["styles"], parts["settings"]
        mapping = settings.find(f"{W}clrSchemeMapping") if settings is not None else None
        self._palette = Palette.read(parts["theme"], _to_color_map(mapping))
        self._styles = (
            {each.get(f"{W}styleId", ""): each for each in styles.iter(f"{W}style")} if styles is not None else {}
        )
        defaults = styles.find(f"{W}docDefaults/{W}rPrDefault/{W}rPr") if styles is not None else None
        self._defaults = _by_tag(defaults)
        self._usual = next(
            (
                name
                for name, style in self._styles.items()
                if style.get(f"{W}type") == "paragraph" and style.get(f"{W}default") in _ON
            ),
            "",
        )
        self._inherited: dict[tuple[str, str], Properties] = {}
        self.has_even_margins = settings is not None and is_on(settings.find(f"{W}evenAndOddHeaders"))
        self._shows_background = settings is not None and is_on(settings.find(f"{W}displayBackgroundShape"))

    def remove_hidden(self, root: Element, hidden: HiddenText) -> None:
        """Empty every run that a reader does not see, and add its text to `hidden`."""
        page = root.find(f"{W}background")
        background = _css.WHITE
        if page is not None and self._shows_background:
            background = self._theme_color(page, "") or from_hex(page.get(f"{W}color", "")) or _css.WHITE
        _Reader(self, hidden).walk(root, _Look(background=background))

    def properties(self, style: str, kind: str) -> Properties:
        """Return the properties of a style (kind ``rPr`` or ``pPr``) and of those it is based on; the nearest count."""
        key = style, kind
        if key not in self._inherited:
            merged: dict[str, Element] = {}
            visited: set[str] = set()
            while style in self._styles and style not in visited and len(visited) < _MAX_BASED_ON:
                visited.add(style)
                merged = {**_by_tag(self._styles[style].find(f"{W}{kind}")), **merged}
                base = self._styles[style].find(f"{W}basedOn")
                style = base.get(f"{W}val", "") if base is not None else ""
            self._inherited[key] = merged
        return self._inherited[key]

    def run_properties(self, run: Element, look: _Look) -> Properties:
        """Return what counts for a run: the defaults, its table's, paragraph's and own style, its own properties."""
        own = _by_tag(run.find(f"{W}rPr"))
        style = own.get(f"{W}rStyle")
        return {
            **self._defaults,
            **self.properties(look.table_style, "rPr"),
            **self.properties(look.paragraph_style, "rPr"),
            **(self.properties(_value(style), "rPr") if style is not None else {}),
            **own,
        }

    def paragraph_style(self, name: str) -> str:
        """Return the style that counts for a paragraph which names `name`."""
        return name if name in self._styles else self._usual

    def has_shades(self, table_style: str) -> bool:
        """Return whether a table's style, or one that it is based on, may colour cells."""
        visited: set[str] = set()
        while table_style in self._styles and table_style not in visited:
            visited.add(table_style)
            style = self._styles[table_style]
            if next(style.iter(f"{W}shd"), None) is not None:
                return True
            base = style.find(f"{W}basedOn")
            table_style = _value(base) if base is not None else ""
        return False

    def shade(self, shading: Element | None, around: _css.Color | None) -> _css.Color | None:
        """Return the colour of a shading; `around` where it has none."""
        if shading is None:
            return around
        pattern = _value(shading)
        if pattern == "solid":
            return self._theme_color(shading, "") or from_hex(shading.get(f"{W}color", "")) or _css.BLACK
        fill = self._theme_color(shading, "Fill") or from_hex(shading.get(f"{W}fill", ""))
        if fill and _css.colors_match(fill, self._theme_color(shading, "") or from_hex(shading.get(f"{W}color", ""))):
            return fill  # whatever the pattern
        return fill if pattern in {"clear", "nil", ""} and fill else around if not fill else None

    def ink(self, properties: Properties) -> _css.Color | None:
        """Return the colour of letters; None: that which contrasts with what lies behind them."""
        effect = properties.get(f"{_W14}textFill")
        if effect is not None and effect.find(f"{_W14}noFill") is not None:
            return _css.TRANSPARENT
        alpha = next(effect.iter(f"{_W14}alpha"), None) if effect is not None else None
        if alpha is not None and _number(alpha.get(f"{_W14}val")) >= 95_000:  # here it counts what is missing
            return _css.TRANSPARENT
        if effect is not None and (fills := [*effect.iter(f"{_W14}srgbClr", f"{_W14}schemeClr")]):
            colors = [self._effect_color(each) for each in fills]
            return colors[0] if all(color == colors[0] for color in colors) else None
        color = properties.get(f"{W}color")
        return (self._theme_color(color, "") or from_hex(_value(color))) if color is not None else None

    def _effect_color(self, fill: Element) -> _css.Color | None:
        """Return a colour of a text effect, as it is before any change of its light."""
        name = fill.get(f"{_W14}val", "")
        if fill.tag == f"{_W14}srgbClr":
            return from_hex(name)
        return self._palette.named(name) if not len(fill) else None

    def fill(self, shape: Element, around: _css.Color | None) -> _css.Color | None:
        """Return what fills a shape of DrawingML."""
        style = shape.find(f"{_WPS}style/{A}fillRef")
        filled = self._palette.color(style) if style is not None and _number(style.get("idx")) else around
        return self._palette.fill(shape.find(f"{_WPS}spPr"), filled)

    def find_bound_text(self, control: Element) -> str:
        """Return the text that Word takes from another part and shows in a content control; empty: none that is told here."""
        properties = control.find(f"{W}sdtPr")
        binding = properties.find(f"{W}dataBinding") if properties is not None else None
        if (
            properties is None
            or binding is None
            or any(properties.find(f"{W}{kind}") is not None for kind in _PLAIN_CONTROLS)
        ):
            return ""
        store = self._stores.get(binding.get(f"{W}storeItemID", "").upper())
        path = binding.get(f"{W}xpath", "")
        if store is None or not _PATH.fullmatch(path):
            return ""
        prefixes = dict(_PREFIX.findall(binding.get(f"{W}prefixMappings", "")))
        try:
            results = store.xpath(path, namespaces=prefixes)
        except Exception:  # a prefix that is not declared, or another path that Word does not follow either
            return ""
        result = results[0] if isinstance(results, list) and results else ""
        return result if isinstance(result, str) else "".join(result.itertext())

    @cached_property
    def _stores(self) -> Mapping[str, Element]:
        """Parts of custom XML, by the id that binds them."""
        stores: dict[str, Element] = {}
        for name, part in self._container.matching(r"customXml/itemProps\d{1,3}\.xml"):
            content = self._container.part(name.replace("itemProps", "item"))
            try:
                key = _ooxml.parse_part(part, "DOCX").get(f"{_STORE}itemID", "").upper()
                stores[key] = _ooxml.parse_part(content or b"", "DOCX")
            except Unreadable:
                continue  # Word takes nothing from it
        return stores

    def _part(self, main_part: str, kind: str) -> Element | None:
        names = _ooxml.find_related(self._container, main_part, kind)
        return _ooxml.read_part_xml(self._container, next(names, ""))

    def _theme_color(self, element: Element, prefix: str) -> _css.Color | None:
        """Return the colour that an element takes from the theme; `prefix` is "Fill" for that of a shading's ground."""
        attribute = f"theme{prefix or 'Color'}"
        name = element.get(f"{W}{attribute}", "")
        color = self._palette.named(_THEME_NAMES.get(name, name)) if name else None
        if color is None:
            return None
        tint, shade = (element.get(f"{W}theme{prefix}{change}", "") for change in ("Tint", "Shade"))
        if tint:
            return lighten(color, 1 - int(tint[:2], 16) / 255)
        return lighten(color, int(shade[:2], 16) / 255 - 1) if shade else color


class _Reader:
    """Walk through a part in the order of its text. Iterative: the document decides how deep it is."""

    def __init__(self, looks: Looks, hidden: HiddenText) -> None:
        self._looks, self._hidden = looks, hidden
        self._fields: list[bool] = []  # of each open field: whether its code goes on
        self._reasons: set[str] = set()  # of the paragraph's hidden runs
        self._shown: dict[Element, str] = {}  # texts that Word puts in the place of runs

    def walk(self, root: Element, look: _Look) -> None:
        stack: list[tuple[Element | None, _Look]] = [(root, look)]
        while stack:
            element, look = stack.pop()
            if element is None:
                for reason in self._reasons:
                    self._hidden.extend(reason, "\n")
                self._reasons.clear()
                continue
            if not isinstance(element.tag, str):
                continue
            inner = self._enter(element, look)
            if inner is None:
                continue
            if element.tag == f"{W}p":
                stack.append((None, look))
            stack.extend((child, inner) for child in reversed(element))

    def _enter(self, element: Element, look: _Look) -> _Look | None:
        """Return the look inside an element; None where nothing of it is left to read."""
        tag = element.tag
        if tag == f"{W}r":
            return self._enter_run(element, look)
        if tag == f"{W}p":
            return self._enter_paragraph(element, look)
        if tag in {f"{_M}r", f"{_M}phant"}:
            return self._enter_formula(element, look)
        if tag == f"{W}sdt" and (text := self._looks.find_bound_text(element).strip()):
            return self._replace(element, text, look)
        if tag == f"{W}fldSimple":
            self._read_code(element.get(f"{W}instr", ""))
        if tag in {f"{W}del", f"{W}moveFrom"}:
            return _hide(look, "deleted")
        return self._enter_table(element, look) if tag in _OF_TABLES else self._enter_box(element, look)

    def _enter_table(self, element: Element, look: _Look) -> _Look:
        """Return the look inside a table, a row or a cell."""
        if element.tag == f"{W}tbl":
            style = element.find(f"{W}tblPr/{W}tblStyle")
            name = _value(style) if style is not None else ""
            place = element.find(f"{W}tblPr/{W}tblpPr")
            is_off = place is not None and _is_off_page(place.get(f"{W}tblpX"), place.get(f"{W}tblpY"))
            ground = None if self._looks.has_shades(name) else look.background
            return _hide(replace(look, table_style=name, background=ground), "off_page" if is_off else "")
        if element.tag == f"{W}tc":
            ground = self._looks.shade(element.find(f"{W}tcPr/{W}shd"), look.background)
            return _hide(replace(look, background=ground), _find_cell_reason(element))
        height = element.find(f"{W}trPr/{W}trHeight")
        is_flat = height is not None and height.get(f"{W}hRule") == "exact" and _number(_value(height)) <= _NO_HEIGHT
        is_deleted = element.find(f"{W}trPr/{W}del") is not None
        return _hide(look, "deleted" if is_deleted else "clipped" if is_flat else "")

    def _enter_box(self, element: Element, look: _Look) -> _Look:
        """Return the look inside a drawing or one of its shapes; that around it for all else."""
        if element.tag in {f"{WP}anchor", f"{WP}inline"}:
            return _hide(look, self._read_place(element))
        if element.tag == f"{_WPS}wsp":
            return _Look(look.reason, self._looks.fill(element, _css.WHITE))
        if element.tag in _VML_SHAPES:
            color = _css.parse_color(element.get("fillcolor", "").partition(" ")[0].lower()) or _css.WHITE
            ground = color if element.get("filled", "t") not in {"f", "false"} else _css.WHITE
            looks = element.get("style", "").replace(" ", "").lower()
            is_flat = _FLAT.search(looks) is not None and "mso-fit-shape-to-text:t" not in looks
            return _hide(_Look(look.reason, ground), _css.find_hiding_reason(looks) or ("clipped" if is_flat else ""))
        return look

    def _enter_paragraph(self, paragraph: Element, look: _Look) -> _Look:
        own = _by_tag(paragraph.find(f"{W}pPr"))
        style = own.get(f"{W}pStyle")
        name = self._looks.paragraph_style(_value(style) if style is not None else "")
        properties = {**self._looks.properties(name, "pPr"), **own}
        ground = self._looks.shade(properties.get(f"{W}shd"), look.background)
        return _hide(replace(look, background=ground, paragraph_style=name), _find_paragraph_reason(properties))

    def _enter_run(self, run: Element, look: _Look) -> _Look | None:
        for mark in run.iter(f"{W}fldChar", f"{W}instrText"):
            if mark.tag == f"{W}instrText":
                self._read_code(mark.text or "")
            elif mark.get(f"{W}fldCharType") == "begin":
                self._fields.append(True)
            elif mark.get(f"{W}fldCharType") == "separate" and self._fields:
                self._fields[-1] = False
            elif mark.get(f"{W}fldCharType") == "end" and self._fields:
                self._fields.pop()
        reason = (
            look.reason or ("deleted" if run.find(f"{W}delText") is not None else "") or self._find_reason(run, look)
        )
        if not reason and any(self._fields):
            reason = "formula"
        if not reason:
            return look
        boxed = reason in _OF_LETTERS and next(run.iter(f"{W}txbxContent"), None) is not None
        texts = (
            [child for child in run if child.tag in {f"{W}t", f"{W}delText"}]
            if boxed
            else list(run.iter(f"{W}t", f"{W}delText"))
        )
        if text := "".join(each.text or "" for each in texts):
            self._hidden.extend(reason, text)
            self._reasons.add(reason)
            for child in texts if boxed else [child for child in run if child.tag != f"{W}fldChar"]:
                run.remove(child)
        if shown := self._shown.pop(run, ""):
            text_element = run.makeelement(f"{W}t")
            text_element.text = shown
            run.append(text_element)
        return look if boxed else None

    def _enter_formula(self, element: Element, look: _Look) -> _Look | None:
        """Take the text of a run of a formula away where it is hidden; a phantom only leaves room for what it holds."""
        if element.tag == f"{_M}phant":
            shown = element.find(f"{_M}phantPr/{_M}show")
            return _hide(look, "visibility" if shown is not None and shown.get(f"{_M}val", "1") in _OFF else "")
        if reason := look.reason or self._find_reason(element, look):
            for text in element.iter(f"{_M}t", f"{W}t"):
                self._hidden.extend(reason, text.text or "")
                self._reasons.add(reason)
                text.text = ""
        return None

    def _find_reason(self, run: Element, look: _Look) -> str:
        """Return the reason a run's properties hide it; empty where they do not."""
        properties = self._looks.run_properties(run, look)
        if any(name in properties and is_on(properties[name]) for name in _HIDING_SWITCHES):
            return "vanish"
        is_complex = any(name in properties and is_on(properties[name]) for name in (f"{W}rtl", f"{W}cs"))
        size, width, spacing = (
            properties.get(f"{W}{kind}") for kind in ("szCs" if is_complex else "sz", "w", "spacing")
        )
        is_small = size is not None and _number(_value(size), 22) <= _TINY_HALF_POINTS
        is_narrow = width is not None and 0 < _number(_value(width), 100) <= _TINY_WIDTH
        fitted = properties.get(f"{W}fitText")
        is_fitted = fitted is not None and _number(_value(fitted)) < _NO_WIDTH * len("".join(run.itertext()).strip())
        if is_small or is_narrow or is_fitted or (spacing is not None and _number(_value(spacing)) <= _CROWDED):
            return "tiny"
        ink = self._looks.ink(properties)
        if ink == _css.TRANSPARENT:
            return "opacity"
        if ink is None:
            return ""
        ground = self._looks.shade(properties.get(f"{W}shd"), look.background)
        highlight = properties.get(f"{W}highlight")
        if highlight is not None and _value(highlight) != "none":
            ground = _css.parse_color(_HIGHLIGHTS.get(_value(highlight), _value(highlight)).lower())
        return "colour" if _css.colors_match(ink, ground) else ""

    def _read_place(self, drawing: Element) -> str:
        """Return what hides a drawing as a whole; add its alternative texts to the hidden text."""
        named = drawing.find(f"{WP}docPr")
        if named is not None:
            self._hidden.add("attribute", named.get("descr", ""))
            self._hidden.add("attribute", named.get("title", ""))
            if named.get("hidden", "0") in _ON:
                return "display"
        extent = drawing.find(f"{WP}extent")
        fits = next(drawing.iter(f"{A}spAutoFit"), None) is not None
        sides = [_number(extent.get(size), _EMUS) for size in ("cx", "cy")] if extent is not None and not fits else []
        if any(side < _EMUS for side in sides):
            return "clipped"
        for axis, size in (("H", "cx"), ("V", "cy")):
            offset = drawing.find(f"{WP}position{axis}/{WP}posOffset")
            length = _number(extent.get(size)) if extent is not None else 0
            start = _number(offset.text) if offset is not None else 0
            if start + length <= -_OFF_PAGE * _EMUS or start >= _BEYOND_PAGE * _EMUS:
                return "off_page"
        return ""

    def _replace(self, control: Element, text: str, look: _Look) -> _Look:
        """Hide a control's content where Word shows another text there."""
        content = control.find(f"{W}sdtContent")
        runs = list(content.iter(f"{W}r")) if content is not None else []
        written = "".join(each.text or "" for run in runs for each in run.iter(f"{W}t"))
        if not runs or written.split() == text.split():
            return look
        self._shown[runs[0]] = text
        return _hide(look, "replaced")

    def _read_code(self, code: str) -> None:
        for words in _QUOTED.findall(code):
            self._hidden.add("formula", words)


def _find_cell_reason(cell: Element) -> str:
    """Return what hides a cell: a tracked change deleted it, or it lies below the cell that it is merged with."""
    if cell.find(f"{W}tcPr/{W}cellDel") is not None:
        return "deleted"
    merges = (cell.find(f"{W}tcPr/{W}{axis}Merge") for axis in ("v", "h"))
    return "covered" if any(merge is not None and _value(merge) != "restart" for merge in merges) else ""


def _find_paragraph_reason(properties: Properties) -> str:
    """Return what hides a paragraph as a whole; empty where nothing does."""
    spacing, indent, frame = (properties.get(f"{W}{kind}") for kind in ("spacing", "ind", "framePr"))
    if (
        spacing is not None
        and spacing.get(f"{W}lineRule") == "exact"
        and 0 < _number(spacing.get(f"{W}line")) <= _NO_HEIGHT
    ):
        return "clipped"
    if (
        frame is not None
        and frame.get(f"{W}hRule") == "exact"
        and _number(frame.get(f"{W}h"), _NO_HEIGHT + 1) <= _NO_HEIGHT
    ):
        return "clipped"
    places = [(frame.get(f"{W}x"), frame.get(f"{W}y"))] if frame is not None else []
    if indent is not None:
        edge = indent.get(f"{W}left") or indent.get(f"{W}start")
        first_line = _number(edge) + _number(indent.get(f"{W}firstLine")) - _number(indent.get(f"{W}hanging"))
        places += [(edge, ""), (str(first_line), "")]
    return "off_page" if any(_is_off_page(x, y) for x, y in places) else ""


def _hide(look: _Look, reason: str) -> _Look:
    return replace(look, reason=look.reason or reason)


def _by_tag(properties: Element | None) -> Properties:
    return {each.tag: each for each in properties if isinstance(each.tag, str)} if properties is not None else {}


def _to_color_map(mapping: Element | None) -> Element | None:
    """Return Word's names of colours in the words of DrawingML."""
    if mapping is None:
        return None
    names = {"bg1": "lt1", "t1": "dk1", "bg2": "lt2", "t2": "dk2"}
    made = mapping.makeelement("map")
    for name, usual in names.items():
        made.set(name.replace("t", "tx"), _THEME_NAMES.get(mapping.get(f"{W}{name}", ""), usual))
    return made


def _is_off_page(x: str | None, y: str | None) -> bool:
    return any(number <= -_OFF_PAGE or number >= _BEYOND_PAGE for number in (_number(x), _number(y)))


def _value(element: Element) -> str:
    value: str = element.get(f"{W}val", "")
    return value


def _number(text: str | None, default: int = 0) -> int:
    text = (text or "").strip().partition(".")[0]
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) < 12 else default
