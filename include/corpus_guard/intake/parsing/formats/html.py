"""HTML, by resiliparse: what a browser shows becomes text, what it does not show becomes hidden.

Hidden are: elements with ``hidden``; style or a ``<style>`` rule with display:none, visibility:hidden, opacity:0, a
font of nothing, a clip or box of nothing, a place off the screen; text in the colour of its background; comments;
``<template>``, ``<noscript>`` and what else is shown only where something fails; and, where the text does not say the
same, alternative texts, tooltips, the page's title and its ``<meta>`` texts. Not hidden: ``aria-hidden`` (it is on the
screen; icons carry it). Scripts are dropped, and so are navigation and the page's footer, which repeat on every page.

How structure is written: `_layout`. A second parser (libxml2's) counts the text of the same bytes: see `_second`.

Not seen here: style sheets kept in other files, and what scripts would do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.formats import _css, _second
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._hidden import Hidden, ink
from corpus_guard.intake.parsing.formats._layout import Layout, target
from corpus_guard.intake.parsing.parsed import Parsed, declare, problem

BODY_SHARE = 0.4
"""When a page without its furniture has less than this share of all visible text, all visible text is taken."""
_FURNITURE = frozenset({"navigation", "search", "contentinfo"})  # roles
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
# Python has codecs of these names; no browser does, and some take quadratic time.
_NO_CHARSETS = frozenset(
    {"utf-7", "idna", "punycode", "unicode_escape", "raw_unicode_escape", "unicode-escape", "undefined"}
)
_CONDITIONAL = re.compile(r"\A\[if[^\]]*\]>|<!\[endif\]\Z")
_XML_DECLARATION = re.compile(r"\?xml(?:\s+[a-z]{7,10}\s*=\s*[\"'][\w.-]{1,20}[\"']){0,3}\s*\?\Z")
_TAG = re.compile(r"<[^<>]*>")
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
_ASIDES = ("alt", "title", "aria-label", "aria-description", "placeholder", "summary", "label", "value", "data-tooltip")
_DROPPED = frozenset({"SCRIPT", "STYLE", "script", "style"})
_FALLBACK = frozenset(
    {"noscript", "noframes", "noembed", "iframe", "video", "audio", "canvas", "object", "datalist", "template"}
)
_PARAGRAPHS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "dl",
        "fieldset",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "main",
        "nav",
    }
    | {"ol", "p", "pre", "section", "table", "ul", "menu"}
)
_LINES = frozenset(
    {
        "body",
        "br",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
        "dt",
        "figcaption",
        "frame",
        "hgroup",
        "html",
    }
    | {
        "legend",
        "li",
        "listing",
        "optgroup",
        "option",
        "plaintext",
        "summary",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "xmp",
    }
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = _PARAGRAPHS | _LINES | _HEADINGS.keys()


def read(content: bytes) -> Parsed:
    """Visible text with its blocks on lines of their own; what is not visible apart."""
    text, problems = _decode(content)
    parsed = from_string(text)
    return replace(parsed, problems=(*problems, *parsed.problems))


def from_string(html: str) -> Parsed:
    """As `read`, from a string."""
    found = page(html)
    hidden, told = found.hidden.settle(found.text)
    problems = (*found.problems, *_second.compare("HTML", found.chars, _second.html_chars(html)), *told)
    return Parsed(found.text, hidden, declare(found.declared), problems)


@dataclass(frozen=True, slots=True)
class Page:
    """One page, with its hidden text still apart: parts of a book are joined before it is written down."""

    text: str
    hidden: Hidden
    declared: Mapping[str, str]
    problems: tuple[Finding, ...]
    chars: int  # of all text nodes but scripts and styles, white space not counted


def page(html: str, sheets: Sequence[str] = ()) -> Page:
    """Read one page.

    Args:
        html: the page.
        sheets: style sheets it names, where they are at hand.
    """
    from resiliparse.parse.html import HTMLParserException, HTMLTree

    try:
        tree = HTMLTree.parse(html)
    except HTMLParserException as error:
        # HTML has no syntax errors: this parser fails on nothing but refused memory, and says no more than that.
        raise MemoryError from error
    styles = _css.Styles(tree, sheets)
    reader = _Reader(styles)
    declared = _declared(tree, reader.hidden)
    reader.walk(tree.document)
    text, body = reader.layout.read(), reader.layout.read(aside=False)
    problems: tuple[Finding, ...] = ()
    if not styles.complete:
        problems = (problem("styles", Severity.LOW, "too many style rules: some hidden text may count as visible"),)
    return Page(body if len(body) >= BODY_SHARE * len(text) else text, reader.hidden, declared, problems, reader.chars)


def _decode(content: bytes) -> tuple[str, tuple[Finding, ...]]:
    if content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return plain.decode(content)
    try:
        return content.decode(), ()
    except UnicodeDecodeError:
        pass
    if match := _CHARSET.search(content[:4096]):
        name = match[1].decode("ascii", "replace").lower()
        try:
            if name not in _NO_CHARSETS:
                return content.decode(name), ()
        except (LookupError, UnicodeError, ValueError):
            pass
        message = "the document is not in the encoding it declares; it was guessed"
        text, problems = plain.decode(content)
        return text, (*problems, problem("encoding", Severity.LOW, message))
    return plain.decode(content)


def _declared(tree: Any, hidden: Hidden) -> Mapping[str, str]:
    pairs: dict[str, Any] = {"title": tree.title}
    hidden.add("metadata", tree.title or "")
    for meta in tree.document.query_selector_all("meta[content]").values()[:200]:
        name = (meta.getattr("name") or meta.getattr("property") or meta.getattr("itemprop") or "").lower()
        if name in _META:
            pairs.setdefault(_META[name], meta.getattr("content"))
        if name and name != "viewport":
            hidden.add("metadata", meta.getattr("content") or "")
    return declare(pairs)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a node inherits from those around it."""

    gone: str = ""  # what keeps it from being rendered, whatever lies inside
    unseen: str = ""  # visibility or font size: inside, it can be taken back
    color: _css.Color | None = _css.BLACK
    background: _css.Color | None = _css.WHITE
    literal: bool = False  # white space counts
    furniture: bool = False
    depth: int = 0  # of lists

    @property
    def hidden(self) -> str:
        """What hides it; empty where nothing does."""
        if self.gone or self.unseen:
            return self.gone or self.unseen
        same = self.color == _css.TRANSPARENT or _css.alike(self.color, self.background)
        return "colour" if same else ""


class _Reader:
    """Writes down a tree, visible and hidden text apart. Iterative: depth is the document's choice."""

    def __init__(self, styles: _css.Styles) -> None:
        self.hidden = Hidden()
        self.layout = Layout()
        self.chars = 0
        self._styles = styles
        self._rows: list[int] = []  # cells so far, of each open row
        self._lists: list[int | None] = []  # items so far, of each open list; None where they are not numbered
        self._links: list[tuple[str, list[str]]] = []
        self._told: set[str] = set()  # targets; manuals name the same one hundreds of times

    def walk(self, root: Any) -> None:
        """Read everything below `root`."""
        stack: list[tuple[Any, _Look, str]] = [(root, _Look(), "")]
        while stack:
            node, look, ends = stack.pop()
            if ends:
                self._leave(ends, look)
                continue
            name = node.node_name
            if name == "#text":
                self._text(node.value or "", look)
                continue
            if name == "#comment":
                self._comment(node.value or "")
                continue
            if name in _DROPPED or name == "TITLE":
                continue
            if hasattr(node, "attribute_names"):  # an element, not the document or its type
                name = name.lower()
                look = self._enter(node, name, look)
                if name in _BLOCKS or name == "a":
                    stack.append((None, look, name))
            stack.extend((child, look, "") for child in reversed(list(_children(node))))

    def _text(self, text: str, look: _Look) -> None:
        self.chars += ink(text)
        if kind := look.hidden:
            self.hidden.run(kind, text)
            return
        self.layout.aside = look.furniture
        if look.literal:
            self.layout.literal(text)
        else:
            self.layout.text(text)
        if self._links:
            self._links[-1][1].append(text)

    def _enter(self, node: Any, name: str, look: _Look) -> _Look:
        if name == "template":  # its content is a document of its own
            text = _TAG.sub(" ", node.html)
            self.hidden.add("fallback", text)
            self.chars += ink(text)
        if node.attribute_names or node in self._styles:
            look = self._styled(node, look)
            self._asides(node, look)
        if name in _FALLBACK or name in {"title", "desc", "metadata"}:
            look = replace(look, gone=look.gone or "fallback")
        if name == "nav" or (name == "footer" and (node.parent is None or node.parent.node_name == "BODY")):
            look = replace(look, furniture=True)
        if look.hidden:
            if name in _BLOCKS:
                self.hidden.run(look.hidden, "\n")
            return look
        return self._open(node, name, look)

    def _open(self, node: Any, name: str, look: _Look) -> _Look:
        layout = self.layout
        if name in _HEADINGS:
            layout.heading(_HEADINGS[name])
        elif name in _PARAGRAPHS:
            # A list in a list goes on with it.
            layout.line() if name in {"ul", "ol", "menu"} and look.depth else layout.block()
        elif name in _LINES and name not in {"td", "th"}:
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
        elif name == "tr":
            self._rows.append(0)
        elif name in {"td", "th"}:
            layout.cell(first=not self._rows or self._rows[-1] == 0)
            if self._rows:
                self._rows[-1] += 1
        elif name == "a":
            self._links.append((node.getattr("href") or "", []))
        return look

    def _leave(self, name: str, look: _Look) -> None:
        if look.hidden:
            if name in _BLOCKS:
                self.hidden.run(look.hidden, "\n")
            return
        layout = self.layout
        if name == "a":
            href, words = self._links.pop() if self._links else ("", [])
            layout.aside = look.furniture
            if (told := target(href, "".join(words))) and words and told not in self._told:
                self._told.add(told)
                layout.text(told)
            return
        if name in {"td", "th"}:
            layout.end_cell()
        elif name == "tr" and self._rows:
            self._rows.pop()
        elif name in {"ul", "ol", "menu"} and self._lists:
            self._lists.pop()
        if name in _HEADINGS or name == "li":
            layout.mark("")
        if name in _HEADINGS or (name in _PARAGRAPHS and not (name in {"ul", "ol", "menu"} and look.depth > 1)):
            layout.block()
        elif name not in {"td", "th"}:
            layout.line()

    def _styled(self, node: Any, look: _Look) -> _Look:
        style = self._styles.of(node)
        gone = look.gone or style.gone or ("display" if node.hasattr("hidden") else "")
        unseen = look.unseen if style.unseen is None else style.unseen
        furniture = look.furniture or (node.getattr("role") or "") in _FURNITURE
        color, background = style.color or look.color, style.background or look.background
        return replace(look, gone=gone, unseen=unseen, color=color, background=background, furniture=furniture)

    def _asides(self, node: Any, look: _Look) -> None:
        for name in _ASIDES:
            if node.hasattr(name):
                self.hidden.add(look.hidden or "attribute", node.getattr(name) or "")
        if node.hasattr("srcdoc"):  # a page in a frame: shown, and not part of this page's text
            self.hidden.add("fallback", _TAG.sub(" ", node.getattr("srcdoc") or ""))

    def _comment(self, value: str) -> None:
        if value.startswith("[if"):  # for old browsers: scripts and style sheets, mostly; what is left is text
            value = _TAG.sub(" ", _CONDITIONAL.sub("", value))
        if value.strip() and not _XML_DECLARATION.match(value):
            self.hidden.add("comment", value)


def _children(node: Any) -> Iterator[Any]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next_sibling
