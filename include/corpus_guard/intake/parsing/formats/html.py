"""HTML, by resiliparse: what a browser shows becomes text, what it does not show becomes hidden text.

Hidden: elements with ``hidden``, dialogs and popovers that are closed; definitions of SVG and letters off its pictures (`_svg`);
content that a shadow tree has no place for (`_shadow_trees`); a style or a ``<style>`` rule with
display:none, visibility:hidden, opacity:0, a font, clip or box without size, or a place off the screen (`_css`); text in the colour
of its background; comments; ``<template>``, ``<noscript>`` and other fallbacks; and, unless the text repeats them, alternative
texts, tooltips, the page's title and its ``<meta>`` texts. Not hidden: ``aria-hidden`` (it is on the screen;
icons carry it). Scripts are dropped, and so are icons of a font (private-use characters) and what repeats on every page:
navigation, the page's footer, and all that stands outside ``<main>`` and the page's ``<header>`` where a page has a main part.

`_layout` defines how structure is written. A second parser, justhtml, counts the text of the same page (`_recount`).

Not read: style sheets in other files, and the effects of scripts. Only where nothing at all is shown, the elements that hold
most of the page count as shown, as a script would show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from resiliparse.parse.html import DocumentNode, ElementNode, HTMLParserException, HTMLTree, Node

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, make_problem
from corpus_guard.intake.parsing.formats import _css, _recount, _shadow_trees, _svg
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import FALLBACK_TAGS, HiddenText, count_non_space
from corpus_guard.intake.parsing.formats._layout import Layout, link_suffix

_NO_SHEETS = _css.StyleSheets()
_MAX_COLUMNS = 10_000  # of a table
_MAX_CURTAIN_DEPTH = 40  # elements within each other
MIN_BODY_SHARE = 0.4
"""Smallest share of the visible text that a page without its furniture must have; else all of it is taken."""
MIN_MAIN_SHARE = 0.15
"""The same where the page says itself what its main part is: the stubs of a manual are shorter than the menus around them."""
_MAIN = "main, [role=main]"
_FURNITURE = frozenset({"navigation", "search", "contentinfo"})  # roles
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_CONDITIONAL = re.compile(r"\A\[if[^\]]*\]>|<!\[endif\]\Z")
_XML_DECLARATION = re.compile(r"\?xml(?:\s+[a-z]{7,10}\s*=\s*[\"'][\w.-]{1,20}[\"']){0,3}\s*\?\Z")
_TAG = re.compile(r"<[^<>]*>")
_ICON = re.compile("[\ue000-\uf8ff]")  # private use: glyphs of a font that the page brings
_META = {
    "author": "author",
    "description": "description",
    "keywords": "keywords",
    "date": "date",
    "dcterms.date": "date",
    "dc.date": "date",
    "article:published_time": "date",
    "article:modified_time": "modified",
    "last-modified": "modified",
    "generator": "generator",
}
_ASIDE_ATTRIBUTES = (
    "alt",
    "title",
    "aria-label",
    "aria-description",
    "placeholder",
    "summary",
    "label",
    "value",
    "data-tooltip",
)
_DROPPED_TAGS = frozenset({"SCRIPT", "STYLE", "script", "style"})
_MATH_SOURCES = frozenset({"annotation", "annotation-xml"})  # of MathML: for programs
_SVG_PARTS = frozenset({"g", "text", "tspan", "textpath", "foreignobject"})
_SVG_PAINT = "rect, path, circle, ellipse, polygon, polyline, line, image, use, foreignObject"
_DEFINING_TAGS = frozenset({"defs", "symbol", "clippath", "mask", "marker", "pattern"})  # of SVG: drawn elsewhere
_PARAGRAPHS = frozenset({
    "address", "article", "aside", "blockquote", "dl", "fieldset", "figure", "footer", "form", "header", "hr", "main",
    "nav", "ol", "p", "pre", "section", "table", "ul", "menu",
})  # fmt: skip
_LINES = frozenset({
    "body", "br", "caption", "center", "dd", "details", "dialog", "dir", "div", "dt", "figcaption", "frame", "hgroup",
    "html", "legend", "li", "listing", "optgroup", "option", "plaintext", "summary", "tbody", "td", "tfoot", "th",
    "thead", "tr", "xmp",
})  # fmt: skip
_CELLS = frozenset({"td", "th"})
_MARKED_WORDS = {
    "sup": re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}[a-zß-ÿ]\Z"),
    "sub": re.compile(r"(?<![^\W\d_])[^\W\d_]{3,}[a-zß-ÿ]\Z"),
}
"""Words behind which raised and lowered signs are marks; shorter ones are units, formulas (m2, CO2) and ordinals."""
_MARK = re.compile(r"\s*(?:\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*|[a-z])\s*\Z")
_MAX_MARK_PARTS = 8
_POWER = re.compile(r"\s*[+\-−]?\d{1,3}\s*\Z")
_RAISED = frozenset({"sup", "sub", "rt"})
_CLOSING = frozenset({"", "]", ")"})
_FUNCTIONS = re.compile(r"(?:a?r?c?(?:sin|cos|tan|cot|sec|csc)h?|log|exp|det|lim|max|min|dim)\Z", re.IGNORECASE)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = _PARAGRAPHS | _LINES | _HEADINGS.keys()


def read(content: bytes) -> ParsedDocument:
    """Read the visible text, with its blocks on lines of their own; invisible text is hidden."""
    text, problems = _decode(content)
    parsed = read_string(text)
    return replace(parsed, problems=(*problems, *parsed.problems))


def read_string(html: str) -> ParsedDocument:
    """Read a page as `read` does, from a string."""
    page = read_page(html)
    hidden, findings = page.hidden.summarize(page.text)
    disagreement = _recount.compare_counts("HTML", page.chars, _recount.count_html_chars(html))
    problems = (*page.problems, *disagreement, *findings)
    return ParsedDocument(page.text, hidden, clean_declared(page.declared), problems)


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """One page, with its hidden text not yet summarized: a book joins its pages first."""

    text: str
    hidden: HiddenText
    declared: Mapping[str, str]
    problems: tuple[Finding, ...]
    chars: int  # of all text nodes but scripts and styles, white space not counted


def read_page(html: str, sheets: _css.StyleSheets = _NO_SHEETS) -> HtmlPage:
    """Read one page.

    Args:
        html: the page.
        sheets: style sheets it names, where they are available.
    """
    try:
        tree = HTMLTree.parse(html)
    except HTMLParserException as error:
        # HTML has no syntax errors: this parser fails only when memory is refused, and says no more than that.
        raise MemoryError from error
    document = tree.document
    if document is None:
        raise MemoryError
    styles = _css.DocumentStyles(document, sheets)
    has_main = bool(document.query_selector(_MAIN))
    shadowed = _find_shadowed(document)
    reader = _TreeReader(styles, has_main=has_main, shadowed=shadowed)
    reader.walk(document)
    problems: list[Finding] = []
    if not reader.layout.render() and (curtains := _find_curtains(document, styles)):
        reader = _TreeReader(styles, has_main=has_main, shadowed=shadowed, curtains=curtains)
        reader.walk(document)
        message = "nothing is shown without scripts: what a style hides of nearly the whole page counts as shown"
        problems.append(make_problem("shown_by_script", Severity.LOW, message, score=0.2))
    declared = _read_declared(tree.title, document, reader.hidden)
    text, body = reader.layout.render(), reader.layout.render(aside=False)
    least = MIN_MAIN_SHARE if has_main else MIN_BODY_SHARE
    if not styles.complete:
        message = "more styles than are read: some hidden text may count as visible"
        problems.append(make_problem("styles", Severity.MEDIUM, message))
    text = body if len(body) >= least * len(text) else text
    return HtmlPage(text, reader.hidden, declared, tuple(problems), reader.chars)


def _find_collapsed(table: ElementNode, styles: _css.DocumentStyles) -> frozenset[int]:
    """Return the columns of a table, from 0, that a style of theirs takes away (CSS 2.2, 17.5.5)."""
    collapsed: set[int] = set()
    number = 0
    for group in _shadow_trees.children(table):
        if not isinstance(group, ElementNode) or (group.node_name or "").lower() not in {"col", "colgroup"}:
            continue
        inner = [each for each in _shadow_trees.children(group) if isinstance(each, ElementNode)]
        for column in inner or [group]:
            span = _read_span(column, "span")
            if "visibility" in (styles.of(group).unseen, styles.of(column).unseen):
                collapsed.update(range(number, number + span))
            number += span
            if number > _MAX_COLUMNS:
                return frozenset(collapsed)
    return frozenset(collapsed)


def _read_span(element: ElementNode, name: str) -> int:
    """Return how many columns an element spans, within the bounds of HTML."""
    text = (element.getattr(name) or "1").strip()
    return min(max(int(text), 1), 1_000) if text.isascii() and text.isdigit() and len(text) < 7 else 1


def _find_shadowed(document: DocumentNode) -> Mapping[Node, str]:
    """Return nodes that others stand for or that have no place, with what hides each."""
    shadowed = _shadow_trees.find_shadowed(document)
    shadowed.update(dict.fromkeys(_find_unchosen(document), "fallback"))
    if document.query_selector("svg") is not None:
        shadowed.update(dict.fromkeys(_svg.find_unchosen(document), "fallback"))
        shadowed.update(dict.fromkeys(_svg.find_undrawn_paths(document), "clipped"))
    return shadowed


def _find_unchosen(document: DocumentNode) -> Iterator[ElementNode]:
    """Yield what formulas show in the place of something else only when a reader asks for it (MathML 3, 3.7.1)."""
    for action in document.query_selector_all("maction").values():
        children = [each for each in _shadow_trees.children(action) if isinstance(each, ElementNode)]
        chosen = action.getattr("selection") or "1"
        yield from (each for number, each in enumerate(children, start=1) if str(number) != chosen.strip())


def _find_curtains(document: DocumentNode, styles: _css.DocumentStyles) -> frozenset[ElementNode]:
    """Return the elements that hold most of the page's text and that a style hides, one within the other.

    Many pages are hidden as a whole until a script has found that no other page frames them, or that all is loaded.
    """
    curtains: set[ElementNode] = set()
    element = document.query_selector("body")
    for _ in range(_MAX_CURTAIN_DEPTH):
        if element is None:
            break
        style = styles.of(element)
        if style.gone or style.unseen:
            curtains.add(element)
        least = _count_text(element) / 2
        inner = (each for each in _shadow_trees.children(element) if isinstance(each, ElementNode))
        element = next((each for each in inner if _count_text(each) > least), None)
    return frozenset(curtains)


def _count_text(element: ElementNode) -> int:
    if (element.node_name or "") in _DROPPED_TAGS:
        return 0
    dropped = element.query_selector_all("script, style").values()
    return count_non_space(element.text or "") - sum(count_non_space(each.text or "") for each in dropped)


def _decode(content: bytes) -> tuple[str, tuple[Finding, ...]]:
    if content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return plain.decode(content)
    try:
        return content.decode(), ()
    except UnicodeDecodeError:
        pass
    if match := _CHARSET.search(content[:4096]):
        name = match[1].decode("ascii", "replace").lower()
        # Browsers refuse UTF-7, which mail programs still read.
        if not name.startswith("utf-7") and (text := plain.decode_declared(content, name)) is not None:
            return text, ()
        message = "the document is not in the encoding it declares; the encoding was guessed"
        guessed, problems = plain.decode(content)
        return guessed, (*problems, make_problem("encoding", Severity.LOW, message))
    return plain.decode(content)


def _read_declared(title: str | None, document: DocumentNode, hidden: HiddenText) -> Mapping[str, str]:
    pairs: dict[str, object] = {"title": title}
    hidden.add("metadata", title or "")
    for meta in document.query_selector_all("meta[content]").values():
        name = (meta.getattr("name") or meta.getattr("property") or meta.getattr("itemprop") or "").lower()
        if name in _META:
            pairs.setdefault(_META[name], meta.getattr("content"))
        if name and name != "viewport":
            hidden.add("metadata", meta.getattr("content") or "")
    return clean_declared(pairs)


@dataclass(frozen=True, slots=True)
class _Appearance:
    """Appearance that a node inherits from those around it."""

    gone: str = ""  # reason it is not rendered, whatever lies inside
    unseen: str = ""  # reason in visibility or font size: inside, it can be taken back
    color: _css.Color | None = _css.BLACK
    background: _css.Color | None = _css.WHITE
    literal: bool = False  # white space counts
    furniture: bool = False
    depth: int = 0  # of lists
    box: _svg.Box = _svg.ANYWHERE  # of a picture

    @property
    def hiding_reason(self) -> str:
        """The reason it is hidden; empty where it is not."""
        if self.gone or self.unseen:
            return self.gone or self.unseen
        same = self.color == _css.TRANSPARENT or _css.colors_match(self.color, self.background)
        return "colour" if same else ""


class _TreeReader:
    """Writer of a tree's visible and hidden text. Iterative: the document decides how deep it is."""

    def __init__(
        self,
        styles: _css.DocumentStyles,
        *,
        has_main: bool,
        shadowed: Mapping[Node, str],
        curtains: frozenset[ElementNode] = frozenset(),
    ) -> None:
        """Start with nothing written; what is `shadowed` is hidden, `curtains` are shown, whatever their style says."""
        self._shadowed = shadowed
        self._furnished = has_main
        self._curtains = curtains
        self.hidden = HiddenText()
        self.layout = Layout()
        self.chars = 0
        self._styles = styles
        self._rows: list[int] = []  # cells so far, of each open row
        self._columns: list[frozenset[int]] = []  # taken away by a style, of each open table
        self._places: list[int] = []  # of the next cell, its columns counted, in each open row
        self._lists: list[int | None] = []  # items so far, of each open list; None where they are not numbered
        self._links: list[tuple[str, list[str]]] = []
        # Addresses that are written already, within furniture or not: manuals name the same one hundreds of times.
        self._targets: set[tuple[bool, str]] = set()

    def walk(self, root: Node) -> None:
        """Read everything below `root`."""
        stack: list[tuple[Node | None, _Appearance, str]] = [(root, _Appearance(furniture=self._furnished), "")]
        while stack:
            node, look, ending = stack.pop()
            if node is None:
                self._leave(ending, look)
                continue
            name = node.node_name or ""
            if self._shadowed and (reason := self._shadowed.get(node)):
                look = replace(look, gone=look.gone or reason)
            if name == "#text":
                self._text(node.value or "", look)
                continue
            if name == "#comment":
                self._comment(node.value or "")
                continue
            if name in _DROPPED_TAGS or name == "TITLE":
                continue
            if isinstance(node, ElementNode):  # not the document or its type
                name = name.lower()
                look = self._enter(node, name, self._enter_cell(node, look) if name in _CELLS else look)
                if name in _RAISED and (brackets := self._find_brackets(node, name, look)):
                    self.layout.text(brackets[0])
                    stack.append((None, look, brackets[1:]))
                elif name in _BLOCKS or name == "a":
                    stack.append((None, look, name))
            stack.extend((child, look, "") for child in reversed(list(_shadow_trees.children(node))))

    def _text(self, text: str, look: _Appearance) -> None:
        self.chars += count_non_space(text)
        if reason := look.hiding_reason:
            self.hidden.extend(reason, text)
            return
        text = _ICON.sub("", text)
        self.layout.aside = look.furniture
        if look.literal:
            self.layout.literal(text)
        else:
            self.layout.text(text)
        if self._links:
            self._links[-1][1].append(text)

    def _enter(self, node: ElementNode, name: str, look: _Appearance) -> _Appearance:
        if name == "template":  # its content is a document of its own
            text = _TAG.sub(" ", node.html)
            self.hidden.add("fallback", text)
            self.chars += count_non_space(text)
        if node.attribute_names or name == "dialog" or node in self._styles:
            look = self._apply_style(node, look)
            self._collect_asides(node, look)
        if name == "svg" or name in _SVG_PARTS:
            look = self._enter_picture(node, name, look)
        if name in FALLBACK_TAGS or name in _MATH_SOURCES or name in {"title", "desc", "metadata"}:
            look = replace(look, gone=look.gone or "fallback")
        elif name in _DEFINING_TAGS:
            look = replace(look, gone=look.gone or "display")
        elif name == "mphantom":
            look = replace(look, gone=look.gone or "visibility")
        elif name == "rp" and any(map(str.isalnum, node.text or "")):  # brackets stay: a reader without ruby sees them
            look = replace(look, gone=look.gone or "fallback")
        role, is_outermost = node.getattr("role") or "", node.parent is None or node.parent.node_name == "BODY"
        if name == "main" or role == "main" or (name == "header" and is_outermost and role not in _FURNITURE):
            look = replace(look, furniture=False)
        elif name == "nav" or (name == "footer" and is_outermost):
            look = replace(look, furniture=True)
        if look.hiding_reason:
            if name in _BLOCKS:
                self.hidden.extend(look.hiding_reason, "\n")
            return look
        return self._open(node, name, look)

    def _find_brackets(self, node: ElementNode, name: str, look: _Appearance) -> str:
        """Return the signs around what is raised, lowered or set above others, so that it is no part of the word before."""
        if look.hiding_reason or look.literal:
            return ""
        if name == "rt":
            before = node.previous_element_sibling
            return "()" if before is None or before.node_name != "RP" else ""
        word = self.layout.last_word
        if name == "sup" and word[-1:].isdecimal():
            return "^" if _POWER.match(_read_start(node)) else ""
        is_word = _MARKED_WORDS[name].search(word) and not _FUNCTIONS.search(word)
        return "[]" if is_word and _MARK.match(_read_start(node)) else ""

    def _enter_cell(self, node: ElementNode, look: _Appearance) -> _Appearance:
        """Return the appearance in a cell of a table, whose column may be taken away."""
        if not self._places:
            return look
        column, self._places[-1] = self._places[-1], self._places[-1] + _read_span(node, "colspan")
        is_collapsed = bool(self._columns) and column in self._columns[-1]
        return replace(look, gone=look.gone or "visibility") if is_collapsed else look

    def _enter_picture(self, node: ElementNode, name: str, look: _Appearance) -> _Appearance:
        """Return the appearance in a picture of SVG or in its letters, which have a fill and a place."""
        style = self._styles.of(node)
        if name == "svg":
            is_flat = any(_svg.read_number(node.getattr(side)) == 0 for side in ("width", "height"))
            ground = None if node.query_selector(_SVG_PAINT) else look.background
            gone = look.gone or ("clipped" if is_flat else "")
            box = _svg.frame(node, overflows=style.overflows)
            return replace(look, gone=gone, color=style.fill or _css.BLACK, background=ground, box=box)
        reason, box = _svg.find_hiding_reason(node, name, look.box)
        return replace(look, gone=look.gone or reason, color=style.fill or look.color, box=box)

    def _open(self, node: ElementNode, name: str, look: _Appearance) -> _Appearance:
        layout = self.layout
        if name in _HEADINGS:
            layout.heading(_HEADINGS[name])
        elif name in _PARAGRAPHS:
            # A list in a list continues it.
            layout.line() if name in {"ul", "ol", "menu"} and look.depth else layout.block()
        elif name in _LINES and name not in _CELLS:
            layout.line()
        if name in {"pre", "listing", "xmp", "plaintext", "textarea"}:
            return replace(look, literal=True)
        if name in {"ul", "ol", "menu"}:
            self._lists.append(0 if name == "ol" else None)
            return replace(look, depth=look.depth + 1)
        if name == "li":
            number = self._lists[-1] if self._lists else None
            if number is not None:
                self._lists[-1] = number = number + 1
            layout.item(look.depth, number)
        elif name == "table":
            self._columns.append(_find_collapsed(node, self._styles))
        elif name == "tr":
            self._rows.append(0)
            self._places.append(0)
        elif name in _CELLS:
            layout.cell(first=not self._rows or self._rows[-1] == 0)
            if self._rows:
                self._rows[-1] += 1
        elif name == "a":
            self._links.append((node.getattr("href") or "", []))
        return look

    def _leave(self, name: str, look: _Appearance) -> None:
        if look.hiding_reason:
            if name in _BLOCKS:
                self.hidden.extend(look.hiding_reason, "\n")
            return
        layout = self.layout
        if name in _CLOSING:
            layout.text(name)
            return
        if name == "a":
            href, words = self._links.pop() if self._links else ("", [])
            layout.aside = look.furniture
            suffix = link_suffix(href, "".join(words))
            if suffix and words and (look.furniture, suffix) not in self._targets:
                self._targets.add((look.furniture, suffix))
                layout.text(suffix)
            return
        if name in _CELLS:
            layout.end_cell()
        elif name == "tr" and self._rows:
            self._rows.pop()
            self._places.pop()
        elif name == "table" and self._columns:
            self._columns.pop()
        elif name in {"ul", "ol", "menu"} and self._lists:
            self._lists.pop()
        if name in _HEADINGS or name == "li":
            layout.mark("")
        if name in _HEADINGS or (name in _PARAGRAPHS and not (name in {"ul", "ol", "menu"} and look.depth > 1)):
            layout.block()
        elif name not in _CELLS:
            layout.line()

    def _apply_style(self, node: ElementNode, look: _Appearance) -> _Appearance:
        style = self._styles.of(node)
        gone, unseen = look.gone, look.unseen
        if node not in self._curtains:
            gone = gone or style.gone
            unseen = unseen if style.unseen is None else style.unseen
        furniture = look.furniture or (node.getattr("role") or "") in _FURNITURE
        color, background = style.color or look.color, style.background or look.background
        return replace(look, gone=gone, unseen=unseen, color=color, background=background, furniture=furniture)

    def _collect_asides(self, node: ElementNode, look: _Appearance) -> None:
        for name in _ASIDE_ATTRIBUTES:
            if node.hasattr(name):
                self.hidden.add(look.hiding_reason or "attribute", node.getattr(name) or "")
        if node.hasattr("srcdoc"):  # a page in a frame: shown, and not part of this page's text
            self.hidden.add("fallback", _TAG.sub(" ", node.getattr("srcdoc") or ""))

    def _comment(self, value: str) -> None:
        if value.startswith("[if"):  # for old browsers: mostly scripts and style sheets; the rest is text
            value = _TAG.sub(" ", _CONDITIONAL.sub("", value))
        if value.strip() and not _XML_DECLARATION.match(value):
            self.hidden.add("comment", value)


def _read_start(element: ElementNode) -> str:
    """Return the text of an element of few parts; of one with more, a longer text than any mark."""
    pieces: list[str] = []
    nodes: list[Node] = [element]
    for _ in range(_MAX_MARK_PARTS):
        if not nodes:
            return "".join(pieces)
        node = nodes.pop()
        pieces.append((node.value or "") if node.node_name == "#text" else "")
        nodes += reversed(list(islice(_shadow_trees.children(node), _MAX_MARK_PARTS)))
    return "more than a mark"
