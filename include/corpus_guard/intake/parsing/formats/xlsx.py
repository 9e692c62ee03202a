"""XLSX: sheet after sheet, read from its XML (ECMA-376, part 1, chapter 18). A sheet's name is a heading, a row is a line.

What a sheet claims of its size is not looked at: only cells that are there count. Hidden are: sheets hidden or "very hidden", hidden
rows and columns, cells in white on nothing, in a font of nothing or with a number format that shows nothing; comments; formulas, where
they are prose; defined names, prompts, alternative texts, properties; and shared strings that no cell uses.

Not read: pictures, and what conditional formats would do.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from corpus_guard.errors import HostileInput, LimitExceeded, Unreadable
from corpus_guard.intake.parsing.formats import _ooxml
from corpus_guard.intake.parsing.formats._container import Container, plain_xml
from corpus_guard.intake.parsing.formats._hidden import Hidden
from corpus_guard.intake.parsing.formats._layout import Layout, target
from corpus_guard.intake.parsing.formats._ooxml import R, S
from corpus_guard.intake.parsing.parsed import Parsed, declare

MAX_CHARS = 20_000_000
"""Characters of all cells: one shared string may be named by a million cells."""
MAX_CELLS = 2_000_000
_MAIN = "xl/workbook.xml"
_COLUMN = re.compile(r"([A-Z]{1,3})\d{1,7}\Z")
_MARGINS = frozenset(f"{S}{kind}{place}" for kind in ("odd", "even", "first") for place in ("Header", "Footer"))
_PROMPTS = ("promptTitle", "prompt", "errorTitle", "error", "tooltip")
_LAST_COLUMN = 16_384
_GAP = 30  # empty cells written down between two full ones


def read(content: bytes) -> Parsed:
    """The sheets' cells, row after row; what nobody sees apart."""
    container = Container(content, "XLSX")
    try:
        return _Book(container).read()
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the XLSX is damaged ({type(error).__name__})") from error


@dataclass(slots=True)
class _Book:
    container: Container
    hidden: Hidden = field(default_factory=Hidden)
    layout: Layout = field(default_factory=Layout)
    _strings: list[str] = field(default_factory=list)
    _used: set[int] = field(default_factory=set)
    _unseen: list[str] = field(default_factory=list)  # by cell style: what hides it
    _chars: int = 0
    _cells: int = 0

    def read(self) -> Parsed:
        root = _ooxml.office_xml(self.container, _MAIN, needed=True)
        links = _ooxml.relations(self.container, _MAIN)
        strings = _ooxml.office_xml(self.container, "xl/sharedStrings.xml")
        self._strings = [_plain(item) for item in strings.iter(f"{S}si")] if strings is not None else []
        self._unseen = list(_unseen_styles(_ooxml.office_xml(self.container, "xl/styles.xml")))
        read = set()
        for sheet in root.iter(f"{S}sheet"):
            link = links.get(sheet.get(f"{R}id", ""))
            if link is not None and not link.external and link.target not in read:
                read.add(link.target)
                self._sheet(
                    link.target, sheet.get("name", ""), "sheet" if sheet.get("state", "visible") != "visible" else ""
                )
        for name, _ in self.container.matching(r"xl/worksheets/[^/]{1,100}\.xml"):
            if name not in read:
                self._sheet(name, "", "sheet")
        for name in root.iter(f"{S}definedName"):
            self.hidden.add("name", f"{name.get('name', '')} {name.text or ''} {name.get('comment', '')}")
        for number, text in enumerate(self._strings):
            if number not in self._used:
                self.hidden.add("unused", text)
        self._beside()
        declared = _ooxml.properties(self.container, self.hidden)
        text = self.layout.read()
        concealed, told = self.hidden.settle(text)
        return Parsed(text, concealed, declare(declared), (*_ooxml.cargo(self.container), *told))

    def _sheet(self, part: str, name: str, gone: str) -> None:
        content = self.container.part(part)
        if content is None:
            return
        content = plain_xml(content, "XLSX")
        links = _ooxml.relations(self.container, part)
        if gone:
            self.hidden.add(gone, name)
        else:
            self.layout.heading(2)
            self.layout.text(name)
            self.layout.block()
            self.layout.mark("")
        columns: set[int] = set()
        targets: dict[str, str] = {}
        rows: list[Any] = []
        for element in _elements(content):
            tag = element.tag
            if tag == f"{S}col" and element.get("hidden", "0") in {"1", "true"}:
                first, last = _whole(element.get("min")), min(_whole(element.get("max")), _LAST_COLUMN)
                if len(columns) < _LAST_COLUMN:  # there are no more; ranges that overlap add nothing
                    columns.update(range(first, last + 1))
            elif tag == f"{S}row":
                rows.append(self._row(element, columns, gone))
            elif tag == f"{S}hyperlink":
                link = links.get(element.get(f"{R}id", ""))
                targets[element.get("ref", "")] = link.target if link is not None and link.external else ""
            for said in (element.text if tag in _MARGINS else "", *map(element.get, _PROMPTS)):
                self.hidden.add("prompt", said or "")
        for row in rows:
            if row:
                self.layout.row([f"{text}{target(targets.get(place), text)}" for place, text in row])
        self.layout.block()

    def _row(self, row: Any, columns: set[int], gone: str) -> list[tuple[str, str]]:
        """The visible cells of a row, (place, text), with empty ones between; the others go to `hidden`."""
        out_of_sight = gone or ("cells" if row.get("hidden", "0") in {"1", "true"} else "")
        shown: list[tuple[str, str]] = []
        hidden: dict[str, list[str]] = {}
        last = 0
        for cell in row.iter(f"{S}c"):
            place, text = cell.get("r", ""), self._value(cell)
            formula = cell.find(f"{S}f")
            if formula is not None and formula.text:
                self.hidden.add("formula", formula.text)
            if not text:
                continue
            column = _column(place) or last + 1
            kind = out_of_sight or ("cells" if column in columns else "")
            style = _whole(cell.get("s"))
            kind = kind or (self._unseen[style] if style < len(self._unseen) else "")
            if kind:
                hidden.setdefault(kind, []).append(text)
                continue
            shown.extend([("", "")] * min(max(column - last - 1, 0), _GAP))
            shown.append((place, text))
            last = column
        for kind, texts in hidden.items():
            self.hidden.add(kind, " | ".join(texts))
        return shown

    def _value(self, cell: Any) -> str:
        kind = cell.get("t", "n")
        if kind == "inlineStr":
            inline = cell.find(f"{S}is")
            text = _plain(inline) if inline is not None else ""
        else:
            value = cell.find(f"{S}v")
            text = (value.text or "") if value is not None else ""
            if kind == "s":
                number = _whole(text)
                self._used.add(number)
                text = self._strings[number] if text and number < len(self._strings) else ""
        self._chars += len(text)
        self._cells += 1
        if self._chars > MAX_CHARS or self._cells > MAX_CELLS:
            message = f"the XLSX has more than {MAX_CHARS:,} characters or {MAX_CELLS:,} cells"
            raise LimitExceeded("parsing.too_long", message)
        return text.strip()

    def _beside(self) -> None:
        """Comments, and the texts of drawings and charts."""
        for _, part in self.container.matching(r"xl/(?:comments/?[^/]*|threadedComments/[^/]+)\.xml"):
            root = _ooxml.part_xml(part, "XLSX")
            threads = [
                each.text or "" for each in root.iter() if isinstance(each.tag, str) and each.tag.endswith("}text")
            ]
            notes = [_plain(note) for note in root.iter(f"{S}comment")]
            self.hidden.add("comment", "\n".join([*notes, *threads]))
        for _, part in self.container.matching(r"xl/(?:drawings|charts|diagrams)/[^/]+\.xml"):
            root = _ooxml.part_xml(part, "XLSX")
            for line in _ooxml.paragraphs(root):
                self.layout.line()
                self.layout.text(line)
            for named in root.iter():
                if isinstance(named.tag, str) and named.tag.endswith("}cNvPr"):
                    self.hidden.add("attribute", named.get("descr", ""))
                    self.hidden.add("attribute", named.get("title", ""))


def _elements(content: bytes) -> Iterator[Any]:
    """A sheet's elements as they end; each row is freed once it was looked at, so that memory stays with one row."""
    from lxml import etree

    stream = io.BytesIO(_ooxml.transitional(content))
    inside = 0
    for event, element in etree.iterparse(
        stream, events=("start", "end"), resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    ):
        if element.tag == f"{S}row":
            inside += 1 if event == "start" else -1
        if event == "end" and not inside:
            yield element
            if element.tag == f"{S}row":
                element.clear()


def _plain(item: Any) -> str:
    """A string item's text; readings of Japanese characters stand beside it and are left out."""
    return "".join(run.text or "" for run in item.iter(f"{S}t") if run.getparent().tag != f"{S}rPh")


def _unseen_styles(root: Any) -> Iterator[str]:
    """For each cell style what hides its cells; empty where nothing does."""
    if root is None:
        return
    formats = {item.get("numFmtId"): item.get("formatCode", "") for item in root.iter(f"{S}numFmt")}
    fonts, fills = root.find(f"{S}fonts"), root.find(f"{S}fills")
    looks = root.find(f"{S}cellXfs")
    for look in looks if looks is not None else ():
        font, fill = _at(fonts, look.get("fontId")), _at(fills, look.get("fillId"))
        code = formats.get(look.get("numFmtId"), "")
        if code.strip() and not code.replace(";", "").replace('""', "").strip():
            yield "display"
        elif font is not None and _tiny(font):
            yield "tiny"
        else:
            yield "colour" if font is not None and _white_on_nothing(font, fill) else ""


def _tiny(font: Any) -> bool:
    size = font.find(f"{S}sz")
    try:
        return size is not None and 0 <= float(size.get("val", "11")) <= 1
    except ValueError:
        return False


def _white_on_nothing(font: Any, fill: Any) -> bool:
    color = font.find(f"{S}color")
    if color is None or not ((color.get("rgb") or "")[-6:].upper() == "FFFFFF" or color.get("theme") == "0"):
        return False
    pattern = fill.find(f"{S}patternFill") if fill is not None else None
    if pattern is None:
        return fill is None or len(fill) == 0
    ground = pattern.find(f"{S}fgColor")
    white = ground is not None and (ground.get("rgb") or "")[-6:].upper() == "FFFFFF"
    return pattern.get("patternType", "none") == "none" or white


def _at(items: Any, number: str | None) -> Any:
    place = _whole(number)
    return items[place] if items is not None and place < len(items) else None


def _whole(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0


def _column(place: str) -> int:
    found = _COLUMN.match(place)
    number = 0
    for letter in found[1] if found else "":
        number = number * 26 + ord(letter) - 64
    return number
