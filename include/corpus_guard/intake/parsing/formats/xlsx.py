"""XLSX: sheet after sheet, read from its XML (ECMA-376, part 1, chapter 18). A sheet's name is a heading, a row is a line.

The size that a sheet claims is ignored: only existing cells count. A cell says what its number format shows (`_cell_format`).
Hidden: sheets hidden or "very hidden", with their drawings; rows and columns that are hidden or have no size; cells below merged
ones; letters in the colour of their ground or without size, in a cell, a part of it or a drawing; values that a number format
does not show; comments; formulas that are prose; defined names, prompts, alternative texts, properties; and
strings, drawings and charts that nothing uses.

Not read: pictures, the effects of conditional formats, and cells that a drawing covers.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from corpus_guard.errors import LimitExceeded
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared
from corpus_guard.intake.parsing.formats import _cell_format, _css, _drawingml, _ooxml
from corpus_guard.intake.parsing.formats._container import ZipContainer, refusing_damage, require_plain_xml
from corpus_guard.intake.parsing.formats._hidden import HiddenText
from corpus_guard.intake.parsing.formats._layout import Layout, link_suffix
from corpus_guard.intake.parsing.formats._office_colors import Palette, from_hex, lighten
from corpus_guard.intake.parsing.formats._ooxml import A, R, S

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MAX_CHARS = 20_000_000
"""Characters of all cells: a million cells may use one shared string."""
MAX_CELLS = 2_000_000
_MAIN = "xl/workbook.xml"
_PLACE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})\Z")
_MARGINS = frozenset(f"{S}{kind}{place}" for kind in ("odd", "even", "first") for place in ("Header", "Footer"))
_PROMPTS = ("promptTitle", "prompt", "errorTitle", "error", "tooltip")
_LAST_COLUMN = 16_384
_MAX_EMPTY_CELLS = 30  # written between two full ones
_MAX_MERGED = 100_000
_NO_HEIGHT = 3.0  # points of a row
_NO_WIDTH = 0.1  # letters of a column; from a narrow one its texts flow over
_ON = frozenset({"1", "true"})
_D = "{http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing}"
_FIRST_OWN_COLOR = 7  # "Color1" of number formats is the colour with number 8
_SYSTEM_COLOR = 64  # the first number of a colour that the system chooses
_INDEXED = re.findall(
    r"\w+",
    "000000 FFFFFF FF0000 00FF00 0000FF FFFF00 FF00FF 00FFFF 000000 FFFFFF FF0000 00FF00 0000FF FFFF00 FF00FF 00FFFF "
    "800000 008000 000080 808000 800080 008080 C0C0C0 808080 9999FF 993366 FFFFCC CCFFFF 660066 FF8080 0066CC CCCCFF "
    "000080 FF00FF FFFF00 00FFFF 800080 800000 008080 0000FF 00CCFF CCFFFF CCFFCC FFFF99 99CCFF FF99CC CC99FF FFCC99 "
    "3366FF 33CCCC 99CC00 FFCC00 FF9900 FF6600 666699 969696 003366 339966 003300 333300 993300 993366 333399 333333 ",
)
"""Colours by the numbers that old programs gave them (ECMA-376, part 1, 18.8.27)."""


def read(content: bytes) -> ParsedDocument:
    """Read the sheets' cells, row after row; invisible ones are hidden."""
    container = ZipContainer(content, "XLSX")
    with refusing_damage("XLSX"):
        return _Book(container).read()


@dataclass(frozen=True, slots=True)
class _CellStyle:
    """The looks of cells that share them."""

    reason: str = ""  # what hides their text
    code: str = "General"  # of their number format
    ground: _css.Color | None = _css.WHITE


@dataclass(slots=True)
class _Row:
    number: int
    cells: list[tuple[int, str, str]] = field(default_factory=list)  # column, place, text; of visible cells


@dataclass(slots=True)
class _Sheet:
    """Reasons that hide cells of one sheet, and addresses that they link to."""

    hidden_by: str  # reason for all of them; empty: none
    columns: set[int] = field(default_factory=set)  # hidden ones
    merged: list[tuple[int, int, int, int]] = field(default_factory=list)  # left, top, right, bottom
    targets: dict[str, str] = field(default_factory=dict)  # by the cell's place

    def note(self, element: Element) -> None:
        """Note what an element outside the rows says about them."""
        if element.tag == f"{S}col" and (
            element.get("hidden", "0") in _ON or _is_less(element.get("width"), _NO_WIDTH)
        ):
            first, last = _parse_count(element.get("min")), min(_parse_count(element.get("max")), _LAST_COLUMN)
            if len(self.columns) < _LAST_COLUMN:  # all are hidden already; more ranges add nothing
                self.columns.update(range(first, last + 1))
        elif element.tag == f"{S}mergeCell" and len(self.merged) < _MAX_MERGED:
            first_place, _, last_place = element.get("ref", "").partition(":")
            self.merged.append((*_parse_place(first_place), *_parse_place(last_place)))


@dataclass(slots=True)
class _Book:
    container: ZipContainer
    hidden: HiddenText = field(default_factory=HiddenText)
    layout: Layout = field(default_factory=Layout)
    _strings: list[Element] = field(default_factory=list)
    _used: set[int] = field(default_factory=set)
    _styles: list[_CellStyle] = field(default_factory=list)
    _palette: Palette = field(default_factory=lambda: Palette.read(None))
    _own_colors: list[str] = field(default_factory=list)
    _from_1904: bool = False
    _drawn: set[str] = field(default_factory=set)  # drawings and charts that are read
    _chars: int = 0
    _cells: int = 0

    def read(self) -> ParsedDocument:
        main = _ooxml.find_main_part(self.container, _MAIN)
        root = _ooxml.read_main_xml(self.container, main)
        links = _ooxml.read_relationships(self.container, main)
        parts = {
            kind: _ooxml.read_part_xml(self.container, next(_ooxml.find_related(self.container, main, kind), ""))
            for kind in ("sharedStrings", "styles", "theme")
        }
        strings = parts["sharedStrings"]
        self._strings = list(strings.iter(f"{S}si")) if strings is not None else []
        self._palette = Palette.read(parts["theme"])
        self._styles = list(self._read_styles(parts["styles"]))
        properties = root.find(f"{S}workbookPr")
        self._from_1904 = properties is not None and properties.get("date1904", "0") in _ON
        read = set()
        for sheet in root.iter(f"{S}sheet"):
            link = links.get(sheet.get(f"{R}id", ""))
            if link is not None and not link.external and link.target not in read:
                read.add(link.target)
                hidden_by = "sheet" if sheet.get("state", "visible") != "visible" else ""
                self._read_sheet(link.target, sheet.get("name", ""), hidden_by)
        for name, _ in self.container.matching(r"xl/worksheets/[^/]{1,100}\.xml"):
            if name not in read:
                self._read_sheet(name, "", "sheet")
        for name in root.iter(f"{S}definedName"):
            self.hidden.add("name", f"{name.get('name', '')} {name.text or ''} {name.get('comment', '')}")
        for number, item in enumerate(self._strings):
            if number not in self._used:
                self.hidden.add("unused", _item_text(item))
        self._read_extras()
        declared = _ooxml.read_properties(self.container, self.hidden)
        text = self.layout.render()
        hidden_text, findings = self.hidden.summarize(text)
        problems = (*_ooxml.find_active_content(self.container), *findings)
        return ParsedDocument(text, hidden_text, clean_declared(declared), problems)

    def _read_sheet(self, part: str, name: str, hidden_by: str) -> None:
        content = self.container.part(part)
        if content is None:
            return
        content = require_plain_xml(content, "XLSX")
        links = _ooxml.read_relationships(self.container, part)
        if hidden_by:
            self.hidden.add(hidden_by, name)
        else:
            self.layout.heading(2)
            self.layout.text(name)
            self.layout.block()
            self.layout.mark("")
        sheet = _Sheet(hidden_by)
        rows: list[_Row] = []
        for element in _read_elements(content):
            if element.tag == f"{S}row":
                rows.append(self._read_row(element, sheet, rows[-1].number + 1 if rows else 1))
            elif element.tag == f"{S}hyperlink":
                link = links.get(element.get(f"{R}id", ""))
                sheet.targets[element.get("ref", "")] = link.target if link is not None and link.external else ""
            else:
                sheet.note(element)
            for prompt in (element.text if element.tag in _MARGINS else "", *map(element.get, _PROMPTS)):
                self.hidden.add("prompt", prompt or "")
        self._hide_merged(rows, sheet.merged)
        for row in rows:
            if row.cells:
                self.layout.row(_space_out(row, sheet.targets))
        self.layout.block()
        for link in links.values():
            if link.kind == "drawing" and not link.external:
                self._read_drawing(link.target, hidden_by)

    def _hide_merged(self, rows: list[_Row], merged: list[tuple[int, int, int, int]]) -> None:
        """Take out the cells that lie below a merged one: only its first cell is shown."""
        by_number = {row.number: row for row in rows if row.cells}
        numbers = sorted(by_number)
        for x_min, y_min, x_max, y_max in merged:
            for number in numbers[bisect_left(numbers, y_min) : bisect_right(numbers, y_max)]:
                row = by_number[number]
                below = {
                    cell[0]: cell[2]
                    for cell in row.cells
                    if x_min <= cell[0] <= x_max and (cell[0], number) != (x_min, y_min)
                }
                if below:
                    self.hidden.add("covered", " | ".join(below.values()))
                    row.cells = [cell for cell in row.cells if cell[0] not in below]

    def _read_row(self, element: Element, sheet: _Sheet, usual_number: int) -> _Row:
        """Return the visible cells of a row; add the others to `hidden`."""
        row = _Row(_parse_count(element.get("r")) or usual_number)
        is_flat = element.get("hidden", "0") in _ON or _is_less(element.get("ht"), _NO_HEIGHT)
        row_reason = sheet.hidden_by or ("cells" if is_flat else "")
        hidden: dict[str, list[str]] = {}
        last = 0
        for cell in element.iter(f"{S}c"):
            place = cell.get("r", "")
            last = _parse_place(place)[0] or last + 1
            number = _parse_count(cell.get("s"))
            style = self._styles[number] if number < len(self._styles) else _CellStyle()
            formula = cell.find(f"{S}f")
            if formula is not None and formula.text:
                self.hidden.add("formula", formula.text)
            reason = row_reason or ("cells" if last in sheet.columns else "") or style.reason
            shown = []
            for text, own_reason in self._read_value(cell, style):
                if reason or own_reason:
                    hidden.setdefault(reason or own_reason, []).append(text)
                else:
                    shown.append(text)
            if text := "".join(shown).strip():
                row.cells.append((last, place, text))
        for reason, texts in hidden.items():
            self.hidden.add(reason, " | ".join(texts))
        return row

    def _read_value(self, cell: Element, style: _CellStyle) -> list[tuple[str, str]]:
        """Return the parts of what a cell shows or holds, each with the reason that hides it (empty: none)."""
        kind = cell.get("t", "n")
        value = cell.find(f"{S}v")
        text = (value.text or "") if value is not None else ""
        item = cell.find(f"{S}is") if kind == "inlineStr" else None
        if kind == "s":
            number = _parse_count(text)
            self._used.add(number)
            item = self._strings[number] if text and number < len(self._strings) else None
        if kind in {"s", "inlineStr"}:
            text = _item_text(item) if item is not None else ""
        self._chars += len(text)
        self._cells += 1
        if self._chars > MAX_CHARS or self._cells > MAX_CELLS:
            message = f"the XLSX has more than {MAX_CHARS:,} characters or {MAX_CELLS:,} cells"
            raise LimitExceeded("parsing.too_long", message)
        if not text.strip():
            return []
        if kind == "b":
            return [("TRUE" if text.strip() in _ON else "FALSE", "")]
        if kind in {"n", "d"}:
            shown, holds = _cell_format.show_number(text.strip(), style.code, from_1904=self._from_1904)
        else:
            shown, holds = _cell_format.show_text(text, style.code)
        color = self._find_format_color(_cell_format.find_color(text.strip(), style.code))
        reason = "colour" if _css.colors_match(color, style.ground) else ""
        if not holds:
            return [(text, "display"), (shown, reason)]
        if item is None or item.find(f"{S}r") is None:
            return [(shown, reason)]
        return [(_run_text(run), self._find_run_reason(run, style)) for run in item if run.tag in {f"{S}r", f"{S}t"}]

    def _find_format_color(self, name: str) -> _css.Color | None:
        """Return a colour as number formats name it: by a word, or by its number."""
        if not name.startswith("color"):
            return _css.parse_color("lime" if name == "green" else name)
        number = _parse_count(name.removeprefix("color")) + _FIRST_OWN_COLOR
        return from_hex((self._own_colors[number : number + 1] or _INDEXED[number : number + 1] or [""])[0])

    def _find_run_reason(self, run: Element, style: _CellStyle) -> str:
        font = run.find(f"{S}rPr")
        if font is None:
            return ""
        return (
            self._find_font_reason(font, style.ground) if font.find(f"{S}color") is not None or _is_tiny(font) else ""
        )

    def _find_font_reason(self, font: Element | None, ground: _css.Color | None) -> str:
        if font is not None and _is_tiny(font):
            return "tiny"
        color = font.find(f"{S}color") if font is not None else None
        ink = self._color(color) if color is not None else _css.BLACK
        return "colour" if _css.colors_match(ink, ground) else ""

    def _color(self, color: Element) -> _css.Color | None:
        """Return the colour that an element names; None where the system chooses it."""
        number = _parse_count(color.get("indexed"))
        if color.get("rgb"):
            base = from_hex(color.get("rgb", ""))
        elif color.get("theme"):
            base = self._palette.numbered(_parse_count(color.get("theme")))
        elif color.get("indexed") and number < _SYSTEM_COLOR:
            base = from_hex((self._own_colors[number : number + 1] or [_INDEXED[number]])[0])
        else:
            base = _css.BLACK if color.get("auto") or number == _SYSTEM_COLOR else None
        try:
            return lighten(base, float(color.get("tint", "0"))) if base is not None and color.get("tint") else base
        except ValueError:
            return base

    def _read_styles(self, root: Element | None) -> Iterator[_CellStyle]:
        """Yield the looks of each cell style."""
        if root is None:
            return
        own = {_parse_count(item.get("numFmtId")): item.get("formatCode", "") for item in root.iter(f"{S}numFmt")}
        self._own_colors = [color.get("rgb", "") for color in root.iterfind(f"{S}colors/{S}indexedColors/{S}rgbColor")]
        fonts, fills = root.find(f"{S}fonts"), root.find(f"{S}fills")
        styles = root.find(f"{S}cellXfs")
        for style in styles if styles is not None else ():
            ground = self._fill(_child_at(fills, style.get("fillId")))
            reason = self._find_font_reason(_child_at(fonts, style.get("fontId")), ground)
            code = _cell_format.find_format(_parse_count(style.get("numFmtId")), own)
            yield _CellStyle(reason, code, ground)

    def _fill(self, fill: Element | None) -> _css.Color | None:
        """Return the colour of a fill; None where it is a pattern or a gradient of different colours."""
        if fill is None or len(fill) == 0:
            return _css.WHITE
        pattern = fill.find(f"{S}patternFill")
        kind = pattern.get("patternType", "none") if pattern is not None else "gradient"
        if kind == "none":
            return _css.WHITE
        names = (f"{S}fgColor",) if kind == "solid" else (f"{S}fgColor", f"{S}bgColor", f"{S}color")
        first, *others = [self._color(color) for color in fill.iter(*names)] or [None]
        is_plain = kind == "solid" or (others and all(_css.colors_match(first, other) for other in others))
        return first if is_plain else None

    def _read_drawing(self, name: str, hidden_by: str) -> None:
        """Read the texts and charts of a drawing, which lie on a sheet."""
        root = self._open_drawn(name)
        if root is None:
            return
        _ooxml.hide_alternatives(root, self.hidden)
        links = _ooxml.read_relationships(self.container, name)
        for shape in root.iter(f"{_D}sp", f"{_D}pic", f"{_D}graphicFrame"):
            named = shape.find(f"*/{_D}cNvPr")
            is_hidden = named is not None and named.get("hidden", "0") in _ON
            if named is not None:
                self.hidden.add("attribute", named.get("descr", ""))
                self.hidden.add("attribute", named.get("title", ""))
            reason = hidden_by or ("display" if is_hidden else "")
            if shape.tag == f"{_D}sp":
                self._read_shape(shape, reason)
            for element in shape.iter():
                link = links.get(element.get(f"{R}id", "")) if isinstance(element.tag, str) else None
                if link is not None and link.kind in {"chart", "chartEx"} and not link.external:
                    self._read_chart(link.target, reason)
        for link in links.values():
            if link.kind == "diagramData" and not link.external:
                self._read_chart(link.target, hidden_by)

    def _open_drawn(self, name: str) -> Element | None:
        """Return a drawing or a chart; None where there is none, or it was read before."""
        root = _ooxml.read_part_xml(self.container, name) if name not in self._drawn else None
        if root is not None:
            self._drawn.add(name)
        return root

    def _read_shape(self, shape: Element, hidden_by: str) -> None:
        style = shape.find(f"{_D}style")
        fills, color = _drawingml.fill_of(shape.find(f"{_D}spPr"), style, self._palette)
        font = style.find(f"{A}fontRef") if style is not None else None
        ground = color if fills else _css.WHITE
        for paragraph in shape.iterfind(f"{_D}txBody/{A}p"):
            self.layout.line()
            for run in paragraph.iter(f"{A}r", f"{A}fld"):
                text = "".join(piece.text or "" for piece in run.iter(f"{A}t"))
                sources = (run.find(f"{A}rPr"), font)
                if reason := hidden_by or _drawingml.find_hiding_reason(sources, [ground], self._palette):
                    self.hidden.add(reason, text)
                else:
                    self.layout.text(text)

    def _read_chart(self, name: str, hidden_by: str) -> None:
        root = self._open_drawn(name)
        if root is None:
            return
        for line in _ooxml.read_paragraphs(root):
            if hidden_by:
                self.hidden.add(hidden_by, line)
            else:
                self.layout.line()
                self.layout.text(line)

    def _read_extras(self) -> None:
        """Read comments, and the texts of drawings and charts that no sheet shows."""
        for _, part in self.container.matching(r"xl/(?:comments/?[^/]*|threadedComments/[^/]+)\.xml"):
            root = _ooxml.parse_part(part, "XLSX")
            threads = [
                element.text or ""
                for element in root.iter()
                if isinstance(element.tag, str) and element.tag.endswith("}text")
            ]
            comments = [_item_text(comment) for comment in root.iter(f"{S}comment")]
            self.hidden.add("comment", "\n".join([*comments, *threads]))
        for name, _ in self.container.matching(r"xl/(?:drawings|charts|diagrams)/[^/]+\.xml"):
            root = _ooxml.read_part_xml(self.container, name)
            for line in _ooxml.read_paragraphs(root) if root is not None and name not in self._drawn else ():
                self.hidden.add("unused", line)


def _space_out(row: _Row, targets: Mapping[str, str]) -> list[str]:
    """Return the cells of a row, with empty ones between."""
    cells: list[str] = []
    last = 0
    for column, place, text in row.cells:
        cells += [""] * min(max(column - last - 1, 0), _MAX_EMPTY_CELLS)
        cells.append(f"{text}{link_suffix(targets.get(place), text)}")
        last = column
    return cells


def _read_elements(content: bytes) -> Iterator[Element]:
    """Yield a sheet's elements as they end; free each row after use, so that memory holds one row."""
    from lxml import etree

    stream = io.BytesIO(_ooxml.to_transitional(content))
    depth = 0  # of open rows
    for event, element in etree.iterparse(
        stream, events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    ):
        if element.tag == f"{S}row":
            depth += 1 if event == "start" else -1
        if event == "end" and not depth:
            yield element
            if element.tag == f"{S}row":
                element.clear()


def _item_text(item: Element) -> str:
    """Return a string item's text without the readings of Japanese characters."""
    return "".join(run.text or "" for run in item.iter(f"{S}t") if run.getparent().tag != f"{S}rPh")


def _run_text(run: Element) -> str:
    return (run.text or "") if run.tag == f"{S}t" else _item_text(run)


def _is_tiny(font: Element) -> bool:
    size = font.find(f"{S}sz")
    try:
        return size is not None and 0 <= float(size.get("val", "11")) <= 1
    except ValueError:
        return False


def _is_less(size: str | None, least: float) -> bool:
    try:
        return size is not None and float(size) < least
    except ValueError:
        return False


def _child_at(parent: Element | None, number: str | None) -> Element | None:
    index = _parse_count(number)
    return parent[index] if parent is not None and index < len(parent) else None


def _parse_count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _parse_place(place: str) -> tuple[int, int]:
    """Return column and row of a cell, counted from 1; 0 where it names none."""
    match = _PLACE.match(place)
    column = 0
    for letter in match[1] if match else "":
        column = column * 26 + ord(letter) - 64
    return column, int(match[2]) if match else 0
