"""PPTX: slide after slide, read from its XML (ECMA-376, part 1, chapters 19 to 21).

A slide's title is a heading; tables, charts and diagrams are text. Hidden: slides that are not shown, shapes
that are hidden, lie off the slide or below another shape or a picture, text that is transparent, smaller than a point,
or in the colour of what lies behind it (where that can be told); contents for older programs; layouts that no
slide uses; speaker notes, reviewers' comments, alternative texts, properties.

Colours and sizes are those of the letters, of their shape, and of the layout, the master and the theme that they come from.

Not read: text in pictures; the effects of animations, but that what is animated covers nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared
from corpus_guard.intake.parsing.formats import _css, _drawingml, _ooxml, _recount
from corpus_guard.intake.parsing.formats._container import ZipContainer, refusing_damage
from corpus_guard.intake.parsing.formats._drawingml import Box, Region, number
from corpus_guard.intake.parsing.formats._hidden import HiddenText, count_non_space
from corpus_guard.intake.parsing.formats._layout import Layout, link_suffix
from corpus_guard.intake.parsing.formats._office_colors import Palette
from corpus_guard.intake.parsing.formats._ooxml import A, P, R, Relationship

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_MAIN = "ppt/presentation.xml"
_TITLES = frozenset({"title", "ctrTitle"})
_SHAPES = frozenset({f"{P}sp", f"{P}pic", f"{P}graphicFrame", f"{P}cxnSp", f"{P}grpSp"})
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_PLAIN_TABLES = frozenset({"", "{2D5ABB26-0587-4C30-8999-92F81FD0307C}", "{5940675A-B579-460E-94D1-54222C63F5DA}"})
"""Styles of tables that colour nothing."""
_OF_MASTER = {"ctrTitle": "title", "subTitle": "body", "obj": "body", "": "body"}
_TEXT_STYLES = {"title": f"{P}titleStyle", "body": f"{P}bodyStyle"}
_ON = frozenset({"1", "true"})
_INSET = 91_440  # between a box and its text
_POINT = 12_700
_USUAL_SIZE = 1_800  # hundredths of a point


def read(content: bytes) -> ParsedDocument:
    """Read the slides' texts in their order; text that an audience does not see is hidden."""
    container = ZipContainer(content, "PPTX")
    with refusing_damage("PPTX"):
        return _Deck(container).read()


@dataclass(frozen=True, slots=True)
class _Scale:
    """Places in a group as places on the slide."""

    x: tuple[float, float] = (1.0, 0.0)  # factor, then what is added
    y: tuple[float, float] = (1.0, 0.0)

    def box(self, place: Element) -> Box | None:
        offset, extent = place.find(f"{A}off"), place.find(f"{A}ext")
        if offset is None:
            return None
        x_min, y_min = number(offset, "x", 0), number(offset, "y", 0)
        x_max, y_max = x_min + number(extent, "cx", 0), y_min + number(extent, "cy", 0)
        (times_x, plus_x), (times_y, plus_y) = self.x, self.y
        return x_min * times_x + plus_x, y_min * times_y + plus_y, x_max * times_x + plus_x, y_max * times_y + plus_y

    def of_group(self, place: Element) -> _Scale:
        outer, offset, extent = self.box(place), place.find(f"{A}chOff"), place.find(f"{A}chExt")
        if outer is None or offset is None or extent is None:
            return self
        times_x = (outer[2] - outer[0]) / (number(extent, "cx", 0) or 1)
        times_y = (outer[3] - outer[1]) / (number(extent, "cy", 0) or 1)
        return _Scale(
            (times_x, outer[0] - number(offset, "x", 0) * times_x),
            (times_y, outer[1] - number(offset, "y", 0) * times_y),
        )


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape on a page, outside any group."""

    element: Element
    box: Box | None
    hidden_by: str  # reason, a key of `_hidden.HIDING_REASONS`


@dataclass(frozen=True, slots=True)
class _Page:
    """A slide, a layout or a master, with those that it comes from."""

    name: str
    root: Element
    links: Mapping[str, Relationship]  # by id
    template: _Page | None  # a slide's layout, a layout's master
    palette: Palette

    def templates(self) -> Iterator[_Page]:
        page = self.template
        while page is not None:
            yield page
            page = page.template

    def placeholder(self, wanted: Element) -> Element | None:
        """Return the page's shape that a placeholder takes its place and its looks from."""
        index, kind = wanted.get("idx"), wanted.get("type", "")
        of_master = _OF_MASTER.get(kind, kind)
        shapes = [(shape, mark) for shape in self.root.iter(f"{P}sp") if (mark := _placeholder(shape)) is not None]
        for shape, mark in shapes:
            if index is not None and mark.get("idx") == index:
                return shape
        return next((shape for shape, mark in shapes if mark.get("type", "") in {kind, of_master}), None)


@dataclass(frozen=True, slots=True)
class _Frame:
    """Surroundings that the looks of a shape's letters depend on."""

    links: Mapping[str, Relationship]
    palette: Palette
    styles: Sequence[Element]  # lists of styles, the nearest first
    font: Element | None  # ``a:fontRef``
    backgrounds: Sequence[_css.Color | None]
    scale: float
    hidden_by: str


@dataclass(slots=True)
class _Deck:
    container: ZipContainer
    hidden: HiddenText = field(default_factory=HiddenText)
    layout: Layout = field(default_factory=Layout)
    chars: int = 0
    _read: set[str] = field(default_factory=set)
    _pages: dict[str, _Page] = field(default_factory=dict)  # layouts and masters
    _used: set[str] = field(default_factory=set)  # of these
    _size: tuple[int, int] = (0, 0)  # English metric units
    _default_style: Element | None = None

    def read(self) -> ParsedDocument:
        main = _ooxml.find_main_part(self.container, _MAIN)
        root = _ooxml.read_main_xml(self.container, main)
        links = _ooxml.read_relationships(self.container, main)
        extent = root.find(f"{P}sldSz")
        self._size = (number(extent, "cx", 9_144_000), number(extent, "cy", 6_858_000))
        self._default_style = root.find(f"{P}defaultTextStyle")
        counted = 0
        for entry in root.iter(f"{P}sldId"):
            link = links.get(entry.get(f"{R}id", ""))
            if link is not None and not link.external and link.target not in self._read:
                counted += self._read_slide(link.target)
        for name, part in self.container.matching(r"ppt/slides/[^/]{1,100}\.xml"):
            if name not in self._read:  # in the file, in no show
                text = "\n".join(_ooxml.read_paragraphs(_ooxml.parse_part(part, "PPTX")))
                self.hidden.add("slide", text)
        self._read_templates()
        self._read_extras()
        declared = _ooxml.read_properties(self.container, self.hidden)
        text = self.layout.render()
        problems = (*_ooxml.find_active_content(self.container), *_recount.compare_counts("PPTX", self.chars, counted))
        hidden_text, findings = self.hidden.summarize(text)
        return ParsedDocument(text, hidden_text, clean_declared(declared), (*problems, *findings))

    def _read_slide(self, name: str) -> int:
        """Read one slide; return a second count of its characters."""
        self._read.add(name)
        page = self._open(name)
        if page is None:
            return 0
        hidden_by = "slide" if page.root.get("show", "1") in {"0", "false"} else ""
        if not hidden_by:
            self._mark_used(page)
        self._read_shapes(page, list(self._place_shapes(page, hidden_by)))
        self.layout.block()
        for link in page.links.values():
            if link.kind in {"chart", "chartEx", "diagramData"} and not link.external:
                self._read_figure(link.target, hidden_by or "unused")  # no frame shows it
        return _recount.count_run_chars(page.root)

    def _open(self, name: str) -> _Page | None:
        """Return a page with its templates; None where it has no part."""
        if name in self._pages:
            return self._pages[name]
        root = _ooxml.read_part_xml(self.container, name)
        if root is None:
            return None
        _ooxml.hide_alternatives(root, self.hidden)
        links = _ooxml.read_relationships(self.container, name)
        kind = {"sld": "slideLayout", "sldLayout": "slideMaster"}.get(str(root.tag).rpartition("}")[2], "")
        target = next((link.target for link in links.values() if kind and link.kind == kind), "")
        template = self._open(target) if target not in self._read else None
        override = root.find(f"{P}clrMapOvr/{A}overrideClrMapping")
        if template is not None and override is None:
            palette = template.palette
        else:
            theme = next(_ooxml.find_related(self.container, name, "theme"), "")
            colors = template.palette.theme if template is not None else {}
            names = override if override is not None else root.find(f"{P}clrMap")
            palette = Palette.read(_ooxml.read_part_xml(self.container, theme), names)
            palette = replace(palette, theme={**palette.theme, **colors})
        page = _Page(name, root, links, template, palette)
        if kind != "slideLayout":
            self._pages[name] = page
        return page

    def _mark_used(self, page: _Page) -> None:
        """Note the templates whose shapes stand on a slide."""
        for template in page.templates():
            if page.root.get("showMasterSp", "1") in {"0", "false"}:
                break
            self._used.add(template.name)
            page = template

    def _place_shapes(self, page: _Page, hidden_by: str = "") -> Iterator[_Shape]:
        """Yield the shapes of a page as they are painted, those of groups too."""
        tree = page.root.find(f"{P}cSld/{P}spTree")
        stack = (
            [(shape, _Scale(), hidden_by) for shape in reversed(tree) if shape.tag in _SHAPES]
            if tree is not None
            else []
        )
        while stack:
            shape, scale, outer = stack.pop()
            named = shape.find(f"*/{P}cNvPr")
            if named is not None:
                self.hidden.add("attribute", named.get("descr", ""))
                self.hidden.add("attribute", named.get("title", ""))
            is_hidden = named is not None and named.get("hidden", "0") in _ON
            reason = outer or ("display" if is_hidden else "")
            if shape.tag == f"{P}grpSp":
                place = shape.find(f"{P}grpSpPr/{A}xfrm")
                inner = scale.of_group(place) if place is not None else scale
                stack.extend((child, inner, reason) for child in reversed(shape) if child.tag in _SHAPES)
                continue
            box = self._find_box(shape, scale, page)
            width, height = self._size
            if box is not None and (box[2] <= 0 or box[3] <= 0 or box[0] >= width or box[1] >= height):
                reason = reason or "off_page"
            yield _Shape(shape, box, reason)

    def _find_box(self, shape: Element, scale: _Scale, page: _Page) -> Box | None:
        place = shape.find(f"{P}xfrm") if shape.tag == f"{P}graphicFrame" else shape.find(f"{P}spPr/{A}xfrm")
        if place is not None:
            return scale.box(place)
        for like in _find_likes(shape, page):
            place = like.find(f"{P}spPr/{A}xfrm")
            if place is not None:
                return _Scale().box(place)
        return None

    def _read_shapes(self, page: _Page, shapes: Sequence[_Shape], *, fixed_only: bool = False) -> None:
        """Read the text of a page's shapes; `fixed_only`: not of its placeholders, which slides fill."""
        ground = self._background(page)
        regions = self._find_regions_below(page)
        animated = {target.get("spid") for target in page.root.iter(f"{P}spTgt")}
        painted = [_find_region(shape, page, animated) for shape in shapes]
        for position, (shape, region) in enumerate(zip(shapes, painted, strict=True)):
            above = [each for each in painted[position + 1 :] if each is not None and each.covers]
            if shape.element.tag == f"{P}graphicFrame":
                self._read_graphic(shape, page, list(_drawingml.find_color_behind(shape.box, regions, ground)), above)
            elif not (fixed_only and _placeholder(shape.element) is not None):
                backgrounds = [region.color] if region is not None else None
                behind = list(_drawingml.find_color_behind(shape.box, regions, ground))
                self._read_frame(shape, page, backgrounds if backgrounds is not None else behind, above)
            if region is not None:
                regions.append(region)

    def _find_regions_below(self, page: _Page) -> list[Region]:
        """Return what a page's templates paint on it, the master first."""
        layers: list[list[Region]] = []
        child = page
        for template in page.templates():
            if child.root.get("showMasterSp", "1") in {"0", "false"}:
                break
            fixed = [shape for shape in self._place_shapes(template) if _placeholder(shape.element) is None]
            layers.append([region for shape in fixed if (region := _find_region(shape, template, set())) is not None])
            child = template
        return [region for layer in reversed(layers) for region in layer]

    def _read_frame(
        self, shape: _Shape, page: _Page, backgrounds: Sequence[_css.Color | None], above: Sequence[Region]
    ) -> None:
        body = shape.element.find(f"{P}txBody")
        if body is None:
            return
        kind = _placeholder(shape.element)
        is_title = kind is not None and kind.get("type") in _TITLES
        fit = body.find(f"{A}bodyPr/{A}normAutofit")
        style = shape.element.find(f"{P}style")
        frame = _Frame(
            links=page.links,
            palette=page.palette,
            styles=list(self._find_text_styles(shape.element, body, page)),
            font=style.find(f"{A}fontRef") if style is not None else None,
            backgrounds=backgrounds,
            scale=number(fit, "fontScale", 100_000) / 100_000,
            hidden_by=shape.hidden_by or _find_cover(shape.box, body, above),
        )
        self.layout.block()
        for paragraph in body.iter(f"{A}p"):
            if is_title:
                self.layout.heading(2)
            elif paragraph.find(f"{A}pPr/{A}buChar") is not None or paragraph.find(f"{A}pPr/{A}buAutoNum") is not None:
                self.layout.item(1 + number(paragraph.find(f"{A}pPr"), "lvl", 0))
            else:
                self.layout.line()
            self._read_runs(paragraph, frame)
            self.layout.mark("")
        self.layout.block()

    def _find_text_styles(self, shape: Element, body: Element, page: _Page) -> Iterator[Element]:
        """Yield the lists of styles that count for a shape's text, the nearest first."""
        own = body.find(f"{A}lstStyle")
        if own is not None:
            yield own
        for like in _find_likes(shape, page):
            inherited = like.find(f"{P}txBody/{A}lstStyle")
            if inherited is not None:
                yield inherited
        mark = _placeholder(shape)
        kind = _OF_MASTER.get(mark.get("type", ""), mark.get("type", "")) if mark is not None else ""
        *_, master = (page, *page.templates())
        of_master = master.root.find(f"{P}txStyles/{_TEXT_STYLES.get(kind, f'{P}otherStyle')}")
        for style in (of_master, self._default_style if mark is None else None):
            if style is not None:
                yield style

    def _read_graphic(
        self, shape: _Shape, page: _Page, behind: Sequence[_css.Color | None], above: Sequence[Region]
    ) -> None:
        """Read what stands in a frame: a table, a chart or a diagram."""
        hidden_by = shape.hidden_by or ("covered" if shape.box and any(each.hides(shape.box) for each in above) else "")
        frame = _Frame(page.links, page.palette, (), None, (), 1.0, hidden_by)
        self._read_table(shape.element, frame, behind)
        for element in shape.element.iter():
            for key in (f"{R}id", f"{R}dm"):
                link = page.links.get(element.get(key, "")) if isinstance(element.tag, str) else None
                if link is not None and link.kind in {"chart", "chartEx", "diagramData"} and not link.external:
                    self._read_figure(link.target, hidden_by)

    def _read_table(self, graphic: Element, frame: _Frame, behind: Sequence[_css.Color | None]) -> None:
        named = graphic.find(f".//{A}tableStyleId")
        is_plain = (named.text or "" if named is not None else "") in _PLAIN_TABLES
        for row in graphic.iter(f"{A}tr"):
            self.layout.line()
            for position, cell in enumerate(row.iter(f"{A}tc")):
                self.layout.cell(first=position == 0)
                fills, color = _drawingml.fill_of(cell.find(f"{A}tcPr"), None, frame.palette)
                is_merged = cell.get("hMerge") in _ON or cell.get("vMerge") in _ON
                inner = replace(
                    frame,
                    backgrounds=[color] if fills else behind if is_plain else [None],
                    styles=cell.findall(f"{A}txBody/{A}lstStyle"),
                    hidden_by=frame.hidden_by or ("covered" if is_merged else ""),
                )
                for paragraph in cell.iter(f"{A}p"):
                    self.layout.line()
                    self._read_runs(paragraph, inner)
                self.layout.end_cell()
        self.layout.block()

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

    def _read_runs(self, paragraph: Element, frame: _Frame) -> None:
        reasons = set()
        level = f"{A}lvl{1 + min(number(paragraph.find(f'{A}pPr'), 'lvl', 0), 8)}pPr/{A}defRPr"
        inherited = [style.find(level) for style in frame.styles]
        inherited.insert(1, frame.font)
        for run in paragraph:
            if run.tag not in {f"{A}r", f"{A}fld", f"{A}br"}:
                continue
            text = "".join(text.text or "" for text in run.iter(f"{A}t")) if run.tag != f"{A}br" else "\n"
            self.chars += count_non_space(text)
            properties = run.find(f"{A}rPr")
            sources = (properties, *inherited)
            reason = frame.hidden_by or _drawingml.find_hiding_reason(
                sources, frame.backgrounds, frame.palette, frame.scale
            )
            if reason:
                self.hidden.extend(reason, text)
                reasons.add(reason)
                continue
            if text == "\n":
                self.layout.line()
            else:
                self.layout.text(text)
            click = properties.find(f"{A}hlinkClick") if properties is not None else None
            link = frame.links.get(click.get(f"{R}id", "")) if click is not None else None
            if link is not None and link.external and (suffix := link_suffix(link.target, text)):
                self.layout.text(suffix)
        for reason in reasons:
            self.hidden.extend(reason, "\n")

    def _read_templates(self) -> None:
        """Read the fixed texts of layouts and masters, which stand on every slide that uses them, each line once."""
        chars, slides = self.chars, self.layout
        lines: dict[str, None] = {}
        for name, _ in self.container.matching(r"ppt/slide(?:Layouts|Masters)/[^/]+\.xml"):
            page = self._open(name)
            if page is None:
                continue
            self.layout = Layout()
            self._read_shapes(page, list(self._place_shapes(page)), fixed_only=True)
            for line in filter(str.strip, self.layout.render().splitlines()):
                if name in self._used:
                    lines[line] = None
                else:
                    self.hidden.add("unused", line)
        self.chars, self.layout = chars, slides
        for line in lines:
            self.layout.line()
            self.layout.text(line)

    def _read_extras(self) -> None:
        """Read notes and comments."""
        for reason, pattern in (("notes", r"ppt/notesSlides/[^/]+\.xml"), ("comment", r"ppt/comments/[^/]+\.xml")):
            for _, part in self.container.matching(pattern):
                root = _ooxml.parse_part(part, "PPTX")
                lines = _ooxml.read_paragraphs(root) + [comment.text or "" for comment in root.iter(f"{P}text")]
                self.hidden.add(reason, "\n".join(line for line in lines if not line.strip().isdecimal()))

    def _background(self, page: _Page) -> _css.Color | None:
        """Return the page's plain colour: its own, its layout's, its master's, or white; None where it cannot be told."""
        for each in (page, *page.templates()):
            background = each.root.find(f"{P}cSld/{P}bg")
            if background is None:
                continue
            properties = background.find(f"{P}bgPr")
            if properties is not None:
                return each.palette.fill(properties, _css.WHITE)
            reference = background.find(f"{P}bgRef")
            return page.palette.color(reference) if reference is not None else None
        return _css.WHITE


def _placeholder(shape: Element) -> Element | None:
    return shape.find(f"*/{P}nvPr/{P}ph")


def _find_likes(shape: Element, page: _Page) -> Iterator[Element]:
    """Yield the placeholders of templates that a shape takes its place and its looks from, the nearest first."""
    mark = _placeholder(shape)
    for template in page.templates() if mark is not None else ():
        like = template.placeholder(mark) if mark is not None else None
        if like is not None:
            yield like


def _find_region(shape: _Shape, page: _Page, animated: set[str | None]) -> Region | None:
    """Return what a shape paints; None: nothing."""
    if shape.hidden_by or shape.box is None or shape.element.tag == f"{P}graphicFrame":
        return None
    properties, style = shape.element.find(f"{P}spPr"), shape.element.find(f"{P}style")
    is_picture = shape.element.tag == f"{P}pic"
    fills, color = _drawingml.fill_of(properties, style, page.palette)
    for like in _find_likes(shape.element, page) if not fills else ():
        if properties is None or properties.find(f"{A}noFill") is None:
            fills, color = _drawingml.fill_of(like.find(f"{P}spPr"), None, page.palette)
            if fills:
                break
    if not fills and not is_picture:
        return None
    named = shape.element.find(f"*/{P}cNvPr")
    is_animated = named is not None and named.get("id") in animated
    covers = not is_animated and _drawingml.covers(properties, is_picture=is_picture)
    return Region(shape.box, None if is_picture else color, covers)


def _find_cover(box: Box | None, body: Element, above: Sequence[Region]) -> str:
    """Return "covered" where something above hides a box, or the part of it that its text takes."""
    if box is None or not above:
        return ""
    sizes = [number(run, "sz", _USUAL_SIZE) for run in body.iter(f"{A}rPr")]
    letter = 0.5 * max(sizes, default=_USUAL_SIZE) / 100 * _POINT  # width of one, roughly
    lengths = [sum(len(text.text or "") for text in paragraph.iter(f"{A}t")) for paragraph in body.iter(f"{A}p")]
    wide = max(box[2] - box[0] - 2 * _INSET, letter)
    lines = sum(max(1, math.ceil(length * letter / wide)) for length in lengths)
    x_max = min(box[2], box[0] + 2 * _INSET + max(lengths, default=0) * letter)
    y_max = min(box[3], box[1] + _INSET + lines * 2.4 * letter)
    properties = body.find(f"{A}bodyPr")
    is_top_left = properties is None or properties.get("anchor", "t") == "t"
    taken = (box[0], box[1], x_max, y_max) if is_top_left else box
    return "covered" if any(region.hides(box) or region.hides(taken) for region in above) else ""
