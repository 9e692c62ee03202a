"""XLSX: sheet after sheet, read from its XML (ECMA-376, part 1, chapter 18). A sheet's name is a heading, a row is a line.

The size that a sheet claims is ignored: only existing cells count. Hidden: sheets hidden or "very hidden",
hidden rows and columns, cells in white without a fill, in a font without size or with a number format that
shows nothing; comments; formulas that are prose; defined names, prompts, alternative texts, properties; and
shared strings that no cell uses.

Not read: pictures, and the effects of conditional formats.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from corpus_guard.errors import HostileInput, LimitExceeded, Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared
from corpus_guard.intake.parsing.formats import _ooxml
from corpus_guard.intake.parsing.formats._container import ZipContainer, require_plain_xml
from corpus_guard.intake.parsing.formats._hidden import HiddenText
from corpus_guard.intake.parsing.formats._layout import Layout, link_suffix
from corpus_guard.intake.parsing.formats._ooxml import R, S

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MAX_CHARS = 20_000_000
"""Characters of all cells: a million cells may use one shared string."""
MAX_CELLS = 2_000_000
_MAIN = "xl/workbook.xml"
_COLUMN = re.compile(r"([A-Z]{1,3})\d{1,7}\Z")
_MARGINS = frozenset(f"{S}{kind}{place}" for kind in ("odd", "even", "first") for place in ("Header", "Footer"))
_PROMPTS = ("promptTitle", "prompt", "errorTitle", "error", "tooltip")
_LAST_COLUMN = 16_384
_MAX_EMPTY_CELLS = 30  # written between two full ones


def read(content: bytes) -> ParsedDocument:
    """Read the sheets' cells, row after row; invisible ones are hidden."""
    container = ZipContainer(content, "XLSX")
    try:
        return _Book(container).read()
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the XLSX is damaged ({type(error).__name__})") from error


@dataclass(slots=True)
class _Book:
    container: ZipContainer
    hidden: HiddenText = field(default_factory=HiddenText)
    layout: Layout = field(default_factory=Layout)
    _strings: list[str] = field(default_factory=list)
    _used: set[int] = field(default_factory=set)
    _style_reasons: list[str] = field(default_factory=list)  # reason each cell style hides its cells, or empty
    _chars: int = 0
    _cells: int = 0

    def read(self) -> ParsedDocument:
        root = _ooxml.read_main_xml(self.container, _MAIN)
        links = _ooxml.read_relationships(self.container, _MAIN)
        strings = _ooxml.read_part_xml(self.container, "xl/sharedStrings.xml")
        self._strings = [_item_text(item) for item in strings.iter(f"{S}si")] if strings is not None else []
        self._style_reasons = list(_read_style_reasons(_ooxml.read_part_xml(self.container, "xl/styles.xml")))
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
        for number, text in enumerate(self._strings):
            if number not in self._used:
                self.hidden.add("unused", text)
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
        columns: set[int] = set()
        targets: dict[str, str] = {}
        rows: list[list[tuple[str, str]]] = []
        for element in _read_elements(content):
            tag = element.tag
            if tag == f"{S}col" and element.get("hidden", "0") in {"1", "true"}:
                first, last = _parse_count(element.get("min")), min(_parse_count(element.get("max")), _LAST_COLUMN)
                if len(columns) < _LAST_COLUMN:  # all are hidden already; more ranges add nothing
                    columns.update(range(first, last + 1))
            elif tag == f"{S}row":
                rows.append(self._read_row(element, columns, hidden_by))
            elif tag == f"{S}hyperlink":
                link = links.get(element.get(f"{R}id", ""))
                targets[element.get("ref", "")] = link.target if link is not None and link.external else ""
            for prompt in (element.text if tag in _MARGINS else "", *map(element.get, _PROMPTS)):
                self.hidden.add("prompt", prompt or "")
        for row in rows:
            if row:
                self.layout.row([f"{text}{link_suffix(targets.get(place), text)}" for place, text in row])
        self.layout.block()

    def _read_row(self, row: Element, columns: set[int], hidden_by: str) -> list[tuple[str, str]]:
        """Return the visible cells of a row, (place, text), with empty ones between; add the others to `hidden`."""
        row_reason = hidden_by or ("cells" if row.get("hidden", "0") in {"1", "true"} else "")
        visible: list[tuple[str, str]] = []
        hidden: dict[str, list[str]] = {}
        last = 0
        for cell in row.iter(f"{S}c"):
            place, text = cell.get("r", ""), self._read_value(cell)
            formula = cell.find(f"{S}f")
            if formula is not None and formula.text:
                self.hidden.add("formula", formula.text)
            if not text:
                continue
            column = _column_number(place) or last + 1
            reason = row_reason or ("cells" if column in columns else "")
            style = _parse_count(cell.get("s"))
            reason = reason or (self._style_reasons[style] if style < len(self._style_reasons) else "")
            if reason:
                hidden.setdefault(reason, []).append(text)
                continue
            visible.extend([("", "")] * min(max(column - last - 1, 0), _MAX_EMPTY_CELLS))
            visible.append((place, text))
            last = column
        for reason, texts in hidden.items():
            self.hidden.add(reason, " | ".join(texts))
        return visible

    def _read_value(self, cell: Element) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            inline = cell.find(f"{S}is")
            text = _item_text(inline) if inline is not None else ""
        else:
            value = cell.find(f"{S}v")
            text = (value.text or "") if value is not None else ""
            if kind == "s":
                number = _parse_count(text)
                self._used.add(number)
                text = self._strings[number] if text and number < len(self._strings) else ""
        self._chars += len(text)
        self._cells += 1
        if self._chars > MAX_CHARS or self._cells > MAX_CELLS:
            message = f"the XLSX has more than {MAX_CHARS:,} characters or {MAX_CELLS:,} cells"
            raise LimitExceeded("parsing.too_long", message)
        return text.strip()

    def _read_extras(self) -> None:
        """Read comments, and the texts of drawings and charts."""
        for _, part in self.container.matching(r"xl/(?:comments/?[^/]*|threadedComments/[^/]+)\.xml"):
            root = _ooxml.parse_part(part, "XLSX")
            threads = [
                element.text or ""
                for element in root.iter()
                if isinstance(element.tag, str) and element.tag.endswith("}text")
            ]
            comments = [_item_text(comment) for comment in root.iter(f"{S}comment")]
            self.hidden.add("comment", "\n".join([*comments, *threads]))
        for _, part in self.container.matching(r"xl/(?:drawings|charts|diagrams)/[^/]+\.xml"):
            root = _ooxml.parse_part(part, "XLSX")
            for line in _ooxml.read_paragraphs(root):
                self.layout.line()
                self.layout.text(line)
            for element in root.iter():
                if isinstance(element.tag, str) and element.tag.endswith("}cNvPr"):
                    self.hidden.add("attribute", element.get("descr", ""))
                    self.hidden.add("attribute", element.get("title", ""))


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


def _read_style_reasons(root: Element | None) -> Iterator[str]:
    """Yield, for each cell style, the reason it hides its cells; empty where it does not."""
    if root is None:
        return
    formats = {item.get("numFmtId"): item.get("formatCode", "") for item in root.iter(f"{S}numFmt")}
    fonts, fills = root.find(f"{S}fonts"), root.find(f"{S}fills")
    styles = root.find(f"{S}cellXfs")
    for style in styles if styles is not None else ():
        font, fill = _child_at(fonts, style.get("fontId")), _child_at(fills, style.get("fillId"))
        code = formats.get(style.get("numFmtId"), "")
        if code.strip() and not code.replace(";", "").replace('""', "").strip():
            yield "display"
        elif font is not None and _is_tiny(font):
            yield "tiny"
        else:
            yield "colour" if font is not None and _is_white_on_white(font, fill) else ""


def _is_tiny(font: Element) -> bool:
    size = font.find(f"{S}sz")
    try:
        return size is not None and 0 <= float(size.get("val", "11")) <= 1
    except ValueError:
        return False


def _is_white_on_white(font: Element, fill: Element | None) -> bool:
    color = font.find(f"{S}color")
    if color is None or not ((color.get("rgb") or "")[-6:].upper() == "FFFFFF" or color.get("theme") == "0"):
        return False
    pattern = fill.find(f"{S}patternFill") if fill is not None else None
    if pattern is None:
        return fill is None or len(fill) == 0
    background = pattern.find(f"{S}fgColor")
    white = background is not None and (background.get("rgb") or "")[-6:].upper() == "FFFFFF"
    return pattern.get("patternType", "none") == "none" or white


def _child_at(parent: Element | None, number: str | None) -> Element | None:
    index = _parse_count(number)
    return parent[index] if parent is not None and index < len(parent) else None


def _parse_count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _column_number(place: str) -> int:
    match = _COLUMN.match(place)
    number = 0
    for letter in match[1] if match else "":
        number = number * 26 + ord(letter) - 64
    return number
