"""PPTX: slide after slide, read from its XML (ECMA-376, part 1, chapters 19 to 21).

A slide's title is a heading; tables, charts and diagrams are text. Hidden: slides that are not shown, shapes
that are hidden or lie off the slide, text that is transparent, smaller than a point, or in the colour of its
background (where that is a plain colour); speaker notes, reviewers' comments, alternative texts, properties.

Not read: text in pictures; colours from pictures and gradients; the effects of animations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from corpus_guard.errors import HostileInput, Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared
from corpus_guard.intake.parsing.formats import _css, _ooxml, _recount
from corpus_guard.intake.parsing.formats._container import ZipContainer
from corpus_guard.intake.parsing.formats._hidden import HiddenText, count_non_space
from corpus_guard.intake.parsing.formats._layout import Layout, link_suffix
from corpus_guard.intake.parsing.formats._ooxml import A, P, R, Relationship

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_MAIN = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
_SHAPES = frozenset({f"{P}sp", f"{P}pic", f"{P}graphicFrame", f"{P}cxnSp", f"{P}grpSp"})
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_TINY_SIZE = 100  # hundredths of a point


def read(content: bytes) -> ParsedDocument:
    """Read the slides' texts in their order; text that an audience does not see is hidden."""
    container = ZipContainer(content, "PPTX")
    try:
        return _Deck(container).read()
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the PPTX is damaged ({type(error).__name__})") from error


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """Surroundings that a shape's appearance depends on."""

    links: Mapping[str, Relationship]  # by id
    size: tuple[int, int]  # English metric units
    background: _css.Color | None  # None: not a plain colour
    hidden_by: str = ""  # reason, a key of `_hidden.HIDING_REASONS`


@dataclass(slots=True)
class _Deck:
    container: ZipContainer
    hidden: HiddenText = field(default_factory=HiddenText)
    layout: Layout = field(default_factory=Layout)
    chars: int = 0
    _read: set[str] = field(default_factory=set)

    def read(self) -> ParsedDocument:
        root = _ooxml.read_main_xml(self.container, _MAIN)
        links = _ooxml.read_relationships(self.container, _MAIN)
        extent = root.find(f"{P}sldSz")
        size = (_number(extent, "cx", 9_144_000), _number(extent, "cy", 6_858_000))
        counted = 0
        for entry in root.iter(f"{P}sldId"):
            link = links.get(entry.get(f"{R}id", ""))
            if link is not None and not link.external and link.target not in self._read:
                counted += self._read_slide(link.target, size)
        for name, part in self.container.matching(r"ppt/slides/[^/]{1,100}\.xml"):
            if name not in self._read:  # in the file, in no show
                text = "\n".join(_ooxml.read_paragraphs(_ooxml.parse_part(part, "PPTX")))
                self.hidden.add("slide", text)
        self._read_extras()
        declared = _ooxml.read_properties(self.container, self.hidden)
        text = self.layout.render()
        problems = (*_ooxml.find_active_content(self.container), *_recount.compare_counts("PPTX", self.chars, counted))
        hidden_text, findings = self.hidden.summarize(text)
        return ParsedDocument(text, hidden_text, clean_declared(declared), (*problems, *findings))

    def _read_slide(self, name: str, size: tuple[int, int]) -> int:
        """Read one slide; return a second count of its characters."""
        self._read.add(name)
        root = _ooxml.read_part_xml(self.container, name)
        if root is None:
            return 0
        links = _ooxml.read_relationships(self.container, name)
        hidden_by = "slide" if root.get("show", "1") in {"0", "false"} else ""
        tree = root.find(f"{P}cSld/{P}spTree")
        if tree is not None:
            background = self._slide_background(root, links)
            self._read_shapes(tree, _Surroundings(links, size, background, hidden_by))
        self.layout.block()
        for link in links.values():
            if link.kind in {"chart", "diagramData"} and not link.external:
                self._read_figure(link.target, hidden_by)
        return _recount.count_run_chars(root)

    def _read_figure(self, name: str, hidden_by: str) -> None:
        root = _ooxml.read_part_xml(self.container, name)
        if root is None or name in self._read:
            return
        self._read.add(name)
        lines = _ooxml.read_paragraphs(root) + [
            value.text for value in root.iter(f"{_CHART}v") if (value.text or "").strip()
        ]
        if hidden_by:
            self.hidden.add(hidden_by, "\n".join(lines))
        for line in lines if not hidden_by else ():
            self.layout.line()
            self.layout.text(line)

    def _read_shapes(self, tree: Element, surroundings: _Surroundings) -> None:
        stack = [(shape, surroundings) for shape in reversed(tree) if shape.tag in _SHAPES]
        while stack:
            shape, outer = stack.pop()
            inner = self._surroundings_of(shape, outer)
            if shape.tag == f"{P}grpSp":
                # Places in a group are in its own coordinates, which may be any.
                grouped = replace(inner, size=(0, 0))
                stack.extend((child, grouped) for child in reversed(shape) if child.tag in _SHAPES)
            elif shape.tag == f"{P}graphicFrame":
                self._read_table(shape, inner)
            else:
                self._read_frame(shape, inner)

    def _surroundings_of(self, shape: Element, outer: _Surroundings) -> _Surroundings:
        """Return the surroundings inside a shape: hidden where it is, or where it lies off the slide."""
        named = shape.find(f"*/{P}cNvPr")
        if named is not None:
            self.hidden.add("attribute", named.get("descr", ""))
            self.hidden.add("attribute", named.get("title", ""))
            if named.get("hidden", "0") in {"1", "true"}:
                return replace(outer, hidden_by=outer.hidden_by or "display")
        place = shape.find(f".//{A}xfrm")
        if place is None:
            place = shape.find(f"{P}xfrm")
        offset, extent = (place.find(f"{A}off"), place.find(f"{A}ext")) if place is not None else (None, None)
        if offset is None or outer.size == (0, 0):
            return outer
        x, y = _number(offset, "x", 0), _number(offset, "y", 0)
        width, height = _number(extent, "cx", 0), _number(extent, "cy", 0)
        if x + width <= 0 or y + height <= 0 or x >= outer.size[0] or y >= outer.size[1]:
            return replace(outer, hidden_by=outer.hidden_by or "off_page")
        return outer

    def _read_frame(self, shape: Element, surroundings: _Surroundings) -> None:
        body = shape.find(f"{P}txBody")
        if body is None:
            return
        kind = shape.find(f"*/{P}nvPr/{P}ph")
        title = kind is not None and kind.get("type") in _TITLES
        background = _fill_color(shape.find(f"{P}spPr"), surroundings.background)
        self.layout.block()
        for paragraph in body.iter(f"{A}p"):
            if title:
                self.layout.heading(2)
            elif paragraph.find(f"{A}pPr/{A}buChar") is not None or paragraph.find(f"{A}pPr/{A}buAutoNum") is not None:
                self.layout.item(1 + _number(paragraph.find(f"{A}pPr"), "lvl", 0))
            else:
                self.layout.line()
            self._read_runs(paragraph, replace(surroundings, background=background))
            self.layout.mark("")
        self.layout.block()

    def _read_table(self, frame: Element, surroundings: _Surroundings) -> None:
        for row in frame.iter(f"{A}tr"):
            self.layout.line()
            for number, cell in enumerate(row.iter(f"{A}tc")):
                self.layout.cell(first=number == 0)
                background = _fill_color(cell.find(f"{A}tcPr"), None)
                for paragraph in cell.iter(f"{A}p"):
                    self.layout.line()
                    self._read_runs(paragraph, replace(surroundings, background=background))
                self.layout.end_cell()
        self.layout.block()

    def _read_runs(self, paragraph: Element, surroundings: _Surroundings) -> None:
        reasons = set()
        for run in paragraph:
            if run.tag not in {f"{A}r", f"{A}fld", f"{A}br"}:
                continue
            text = "".join(text.text or "" for text in run.iter(f"{A}t")) if run.tag != f"{A}br" else "\n"
            self.chars += count_non_space(text)
            properties = run.find(f"{A}rPr")
            if reason := surroundings.hidden_by or _hiding_reason(properties, surroundings.background):
                self.hidden.extend(reason, text)
                reasons.add(reason)
                continue
            if text == "\n":
                self.layout.line()
            else:
                self.layout.text(text)
            click = properties.find(f"{A}hlinkClick") if properties is not None else None
            link = surroundings.links.get(click.get(f"{R}id", "")) if click is not None else None
            if link is not None and link.external and (suffix := link_suffix(link.target, text)):
                self.layout.text(suffix)
        for reason in reasons:
            self.hidden.extend(reason, "\n")

    def _read_extras(self) -> None:
        """Read notes, comments, and the texts of masters and layouts, which stand on every slide."""
        for reason, pattern in (("notes", r"ppt/notesSlides/[^/]+\.xml"), ("comment", r"ppt/comments/[^/]+\.xml")):
            for _, part in self.container.matching(pattern):
                root = _ooxml.parse_part(part, "PPTX")
                lines = _ooxml.read_paragraphs(root) + [comment.text or "" for comment in root.iter(f"{P}text")]
                self.hidden.add(reason, "\n".join(line for line in lines if not line.strip().isdecimal()))
        lines = []
        for _, part in self.container.matching(r"ppt/slide(?:Layouts|Masters)/[^/]+\.xml"):
            root = _ooxml.parse_part(part, "PPTX")
            shapes = [shape for shape in root.iter(f"{P}sp") if shape.find(f"*/{P}nvPr/{P}ph") is None]
            lines += [line for shape in shapes for line in _ooxml.read_paragraphs(shape)]
        for line in dict.fromkeys(lines):
            self.layout.line()
            self.layout.text(line)

    def _slide_background(self, root: Element, links: Mapping[str, Relationship]) -> _css.Color | None:
        """Return the slide's plain colour: its own, its layout's, its master's, or white; None where it is not plain."""
        for _ in range(3):
            background = root.find(f"{P}cSld/{P}bg")
            if background is not None:
                properties = background.find(f"{P}bgPr")
                if properties is None and _is_light(background):
                    return _css.WHITE
                return _fill_color(properties, None)
            template = next((link for link in links.values() if link.kind in {"slideLayout", "slideMaster"}), None)
            root = _ooxml.read_part_xml(self.container, template.target) if template is not None else None
            if root is None or template is None:
                return _css.WHITE
            links = _ooxml.read_relationships(self.container, template.target)
        return None


def _is_light(background: Element) -> bool:
    scheme = background.find(f"{P}bgRef/{A}schemeClr")
    return scheme is not None and scheme.get("val") in {"bg1", "lt1"}


def _fill_color(properties: Element | None, inherited: _css.Color | None) -> _css.Color | None:
    """Return the plain colour that fills a shape; None where anything else fills it."""
    if properties is None:
        return inherited
    if any(properties.find(f"{A}{fill}") is not None for fill in ("gradFill", "blipFill", "pattFill", "grpFill")):
        return None
    fill = properties.find(f"{A}solidFill")
    return inherited if fill is None else _color(fill)


def _color(fill: Element) -> _css.Color | None:
    plain = fill.find(f"{A}srgbClr")
    if plain is not None:
        alpha = plain.find(f"{A}alpha")
        if alpha is not None and _number(alpha, "val", 100_000) <= 5_000:
            return _css.TRANSPARENT
        try:
            red, green, blue = bytes.fromhex(plain.get("val", ""))
        except ValueError:
            return None
        return red, green, blue, 255
    scheme = fill.find(f"{A}schemeClr")
    return _css.WHITE if scheme is not None and len(scheme) == 0 and scheme.get("val") in {"bg1", "lt1"} else None


def _hiding_reason(properties: Element | None, background: _css.Color | None) -> str:
    """Return why these run properties hide text; empty where they do not."""
    if properties is None:
        return ""
    if 0 < _number(properties, "sz", 1_800) <= _TINY_SIZE:
        return "tiny"
    fill = properties.find(f"{A}solidFill")
    color = _color(fill) if fill is not None else None
    if color == _css.TRANSPARENT or properties.find(f"{A}noFill") is not None:
        return "opacity"
    return "colour" if _css.colors_match(color, background) else ""


def _number(element: Element | None, name: str, default: int) -> int:
    text = element.get(name, "") if element is not None else ""
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 16 else default
