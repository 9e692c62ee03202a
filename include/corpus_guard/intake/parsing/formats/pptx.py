"""PPTX: slide after slide, read from its XML (ECMA-376, part 1, chapters 19 to 21).

A slide's title is a heading; tables, charts and diagrams are text. Hidden are: slides that are not shown, shapes that are hidden or lie
off the slide, text in the colour of what lies behind it (where that is a plain colour), transparent or smaller than a point; speaker
notes, reviewers' comments, alternative texts, properties.

Not read: text in pictures; colours from pictures and gradients; what animations show or take away.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from corpus_guard.errors import HostileInput, Unreadable
from corpus_guard.intake.parsing.formats import _css, _ooxml, _second
from corpus_guard.intake.parsing.formats._container import Container
from corpus_guard.intake.parsing.formats._hidden import Hidden, ink
from corpus_guard.intake.parsing.formats._layout import Layout, target
from corpus_guard.intake.parsing.formats._ooxml import A, P, R
from corpus_guard.intake.parsing.parsed import Parsed, declare

_MAIN = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
_SHAPES = frozenset({f"{P}sp", f"{P}pic", f"{P}graphicFrame", f"{P}cxnSp", f"{P}grpSp"})
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_TINY = 100  # hundredths of a point


def read(content: bytes) -> Parsed:
    """The slides' texts in their order; what an audience does not see apart."""
    container = Container(content, "PPTX")
    try:
        return _Deck(container).read()
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the PPTX is damaged ({type(error).__name__})") from error


@dataclass(frozen=True, slots=True)
class _Slide:
    """What a shape's look depends on."""

    links: Any  # relationships by id
    size: tuple[int, int]  # English metric units
    ground: _css.Color | None  # None: not a plain colour
    gone: str = ""


@dataclass(slots=True)
class _Deck:
    container: Container
    hidden: Hidden = field(default_factory=Hidden)
    layout: Layout = field(default_factory=Layout)
    chars: int = 0
    _read: set[str] = field(default_factory=set)

    def read(self) -> Parsed:
        root = _ooxml.office_xml(self.container, _MAIN, needed=True)
        links = _ooxml.relations(self.container, _MAIN)
        extent = root.find(f"{P}sldSz")
        size = (_number(extent, "cx", 9_144_000), _number(extent, "cy", 6_858_000))
        counted = 0
        for entry in root.iter(f"{P}sldId"):
            link = links.get(entry.get(f"{R}id", ""))
            if link is not None and not link.external and link.target not in self._read:
                counted += self._slide(link.target, size)
        for name, part in self.container.matching(r"ppt/slides/[^/]{1,100}\.xml"):
            if name not in self._read:  # in the file, in no show
                text = "\n".join(_ooxml.paragraphs(_ooxml.part_xml(part, "PPTX")))
                self.hidden.add("slide", text)
        self._beside()
        declared = _ooxml.properties(self.container, self.hidden)
        text = self.layout.read()
        problems = (*_ooxml.cargo(self.container), *_second.compare("PPTX", self.chars, counted))
        concealed, told = self.hidden.settle(text)
        return Parsed(text, concealed, declare(declared), (*problems, *told))

    def _slide(self, name: str, size: tuple[int, int]) -> int:
        """Read one slide; returns what a second count finds in it."""
        self._read.add(name)
        root = _ooxml.office_xml(self.container, name)
        if root is None:
            return 0
        links = _ooxml.relations(self.container, name)
        gone = "slide" if root.get("show", "1") in {"0", "false"} else ""
        tree = root.find(f"{P}cSld/{P}spTree")
        if tree is not None:
            self._shapes(tree, _Slide(links, size, self._ground(root, links), gone))
        self.layout.block()
        for link in links.values():
            if link.kind in {"chart", "diagramData"} and not link.external:
                self._figure(link.target, gone)
        return _second.run_chars(root)

    def _figure(self, name: str, gone: str) -> None:
        root = _ooxml.office_xml(self.container, name)
        if root is None or name in self._read:
            return
        self._read.add(name)
        lines = _ooxml.paragraphs(root) + [each.text for each in root.iter(f"{_CHART}v") if (each.text or "").strip()]
        if gone:
            self.hidden.add(gone, "\n".join(lines))
        for line in lines if not gone else ():
            self.layout.line()
            self.layout.text(line)

    def _shapes(self, tree: Any, slide: _Slide) -> None:
        stack = [(shape, slide) for shape in reversed(tree) if shape.tag in _SHAPES]
        while stack:
            shape, around = stack.pop()
            around = self._placed(shape, around)
            if shape.tag == f"{P}grpSp":
                # Places in a group are in its own coordinates, which may be any.
                inside = replace(around, size=(0, 0))
                stack.extend((child, inside) for child in reversed(shape) if child.tag in _SHAPES)
            elif shape.tag == f"{P}graphicFrame":
                self._table(shape, around)
            else:
                self._frame(shape, around)

    def _placed(self, shape: Any, slide: _Slide) -> _Slide:
        named = shape.find(f"*/{P}cNvPr")
        if named is not None:
            self.hidden.add("attribute", named.get("descr", ""))
            self.hidden.add("attribute", named.get("title", ""))
            if named.get("hidden", "0") in {"1", "true"}:
                return replace(slide, gone=slide.gone or "display")
        place = shape.find(f".//{A}xfrm")
        if place is None:
            place = shape.find(f"{P}xfrm")
        offset, extent = (place.find(f"{A}off"), place.find(f"{A}ext")) if place is not None else (None, None)
        if offset is None or slide.size == (0, 0):
            return slide
        left, top = _number(offset, "x", 0), _number(offset, "y", 0)
        right, bottom = left + _number(extent, "cx", 0), top + _number(extent, "cy", 0)
        if right <= 0 or bottom <= 0 or left >= slide.size[0] or top >= slide.size[1]:
            return replace(slide, gone=slide.gone or "off_page")
        return slide

    def _frame(self, shape: Any, slide: _Slide) -> None:
        body = shape.find(f"{P}txBody")
        if body is None:
            return
        kind = shape.find(f"*/{P}nvPr/{P}ph")
        title = kind is not None and kind.get("type") in _TITLES
        look = shape.find(f"{P}spPr")
        ground = _ground_of(look, slide.ground) if look is not None else slide.ground
        self.layout.block()
        for paragraph in body.iter(f"{A}p"):
            if title:
                self.layout.heading(2)
            elif paragraph.find(f"{A}pPr/{A}buChar") is not None or paragraph.find(f"{A}pPr/{A}buAutoNum") is not None:
                self.layout.item(1 + _number(paragraph.find(f"{A}pPr"), "lvl", 0))
            else:
                self.layout.line()
            self._runs(paragraph, replace(slide, ground=ground))
            self.layout.mark("")
        self.layout.block()

    def _table(self, frame: Any, slide: _Slide) -> None:
        for row in frame.iter(f"{A}tr"):
            self.layout.line()
            for number, cell in enumerate(row.iter(f"{A}tc")):
                self.layout.cell(first=number == 0)
                ground = _ground_of(cell.find(f"{A}tcPr"), None)
                for paragraph in cell.iter(f"{A}p"):
                    self.layout.line()
                    self._runs(paragraph, replace(slide, ground=ground))
                self.layout.end_cell()
        self.layout.block()

    def _runs(self, paragraph: Any, slide: _Slide) -> None:
        kinds = set()
        for run in paragraph:
            if run.tag not in {f"{A}r", f"{A}fld", f"{A}br"}:
                continue
            text = "".join(each.text or "" for each in run.iter(f"{A}t")) if run.tag != f"{A}br" else "\n"
            self.chars += ink(text)
            look = run.find(f"{A}rPr")
            if kind := slide.gone or _concealed(look, slide.ground):
                self.hidden.run(kind, text)
                kinds.add(kind)
                continue
            if text == "\n":
                self.layout.line()
            else:
                self.layout.text(text)
            click = look.find(f"{A}hlinkClick") if look is not None else None
            link = slide.links.get(click.get(f"{R}id", "")) if click is not None else None
            if link is not None and link.external and (told := target(link.target, text)):
                self.layout.text(told)
        for kind in kinds:
            self.hidden.run(kind, "\n")

    def _beside(self) -> None:
        """Notes, comments, and what masters and layouts write on every slide."""
        for kind, pattern in (("notes", r"ppt/notesSlides/[^/]+\.xml"), ("comment", r"ppt/comments/[^/]+\.xml")):
            for _, part in self.container.matching(pattern):
                root = _ooxml.part_xml(part, "PPTX")
                lines = _ooxml.paragraphs(root) + [each.text or "" for each in root.iter(f"{P}text")]
                self.hidden.add(kind, "\n".join(line for line in lines if not line.strip().isdecimal()))
        lines = []
        for _, part in self.container.matching(r"ppt/slide(?:Layouts|Masters)/[^/]+\.xml"):
            root = _ooxml.part_xml(part, "PPTX")
            shapes = [shape for shape in root.iter(f"{P}sp") if shape.find(f"*/{P}nvPr/{P}ph") is None]
            lines += [line for shape in shapes for line in _ooxml.paragraphs(shape)]
        for line in dict.fromkeys(lines):
            self.layout.line()
            self.layout.text(line)

    def _ground(self, root: Any, links: Any) -> _css.Color | None:
        """The slide's plain colour: its own, its layout's, its master's, or white."""
        for _ in range(3):
            background = root.find(f"{P}cSld/{P}bg")
            if background is not None:
                look = background.find(f"{P}bgPr")
                return _css.WHITE if look is None and _is_light(background) else _ground_of(look, None)
            above = next((link for link in links.values() if link.kind in {"slideLayout", "slideMaster"}), None)
            root = _ooxml.office_xml(self.container, above.target) if above is not None else None
            if root is None or above is None:
                return _css.WHITE
            links = _ooxml.relations(self.container, above.target)
        return None


def _is_light(background: Any) -> bool:
    scheme = background.find(f"{P}bgRef/{A}schemeClr")
    return scheme is not None and scheme.get("val") in {"bg1", "lt1"}


def _ground_of(look: Any, inherited: _css.Color | None) -> _css.Color | None:
    """The plain colour a shape is filled with; None where it is filled with anything else."""
    if look is None:
        return inherited
    if any(look.find(f"{A}{fill}") is not None for fill in ("gradFill", "blipFill", "pattFill", "grpFill")):
        return None
    fill = look.find(f"{A}solidFill")
    return inherited if fill is None else _color(fill)


def _color(fill: Any) -> _css.Color | None:
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


def _concealed(look: Any, ground: _css.Color | None) -> str:
    if look is None:
        return ""
    if 0 < _number(look, "sz", 1_800) <= _TINY:
        return "tiny"
    fill = look.find(f"{A}solidFill")
    color = _color(fill) if fill is not None else None
    if color == _css.TRANSPARENT or look.find(f"{A}noFill") is not None:
        return "opacity"
    return "colour" if _css.alike(color, ground) else ""


def _number(element: Any, name: str, default: int) -> int:
    text = element.get(name, "") if element is not None else ""
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 16 else default
