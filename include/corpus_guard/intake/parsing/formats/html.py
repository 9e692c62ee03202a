"""HTML, by resiliparse: what a browser shows becomes text, what it does not show becomes hidden.

Hidden are: elements with ``hidden``; style or a ``<style>`` rule with display:none, visibility:hidden, opacity:0, a
font of nothing, a clip or box of nothing, a place off the screen; text in the colour of its background; comments;
``<template>`` and ``<noscript>``. Not hidden: ``aria-hidden`` (it is on the screen; icons carry it). Scripts are
dropped, and so are navigation and the page's footer, which repeat on every page.

Not seen here: style sheets kept in other files, and what scripts would do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.formats import _css
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.parsed import Parsed, declare, problem

BODY_SHARE = 0.4
"""When a page without its furniture has less than this share of all visible text, all visible text is taken."""
_FURNITURE = ["nav", "body > footer", "[role=navigation]", "[role=search]", "[role=contentinfo]"]
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_CONDITIONAL = re.compile(r"\A\[if[^\]]*\]>|<!\[endif\]\Z")
_TAG = re.compile(r"<[^<>]*>")
_INLINE = frozenset(
    {"a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i", "kbd", "mark", "q", "s", "samp"}
    | {"small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u", "var"}
)
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


def read(content: bytes) -> Parsed:
    """Visible text with its blocks on lines of their own; what is not visible apart."""
    text, problems = _decode(content)
    parsed = from_string(text)
    return replace(parsed, problems=(*problems, *parsed.problems))


def from_string(html: str) -> Parsed:
    """As `read`, from a string."""
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLParserException, HTMLTree

    try:
        tree = HTMLTree.parse(html)
    except HTMLParserException as error:
        # HTML has no syntax errors: this parser fails on nothing but refused memory, and says no more than that.
        raise MemoryError from error
    declared = _declared(tree)
    styles = _css.Styles(tree)
    hidden = _Hidden(styles)
    hidden.take_out(tree.document)
    # resiliparse's own main_content=True drops every bulleted list and takes quadratic time in depth (2.0): not used.
    text = extract_plain_text(tree, preserve_formatting=True)
    body = extract_plain_text(tree, preserve_formatting=True, skip_elements=_FURNITURE)
    if len(body) >= BODY_SHARE * len(text):
        text = body
    problems: tuple[Finding, ...] = ()
    if not styles.complete:
        problems = (problem("styles", Severity.LOW, "too many style rules: some hidden text may count as visible"),)
    return Parsed(text, hidden.text(), declared, problems)


def _decode(content: bytes) -> tuple[str, tuple[Finding, ...]]:
    if content.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return plain.decode(content)
    try:
        return content.decode(), ()
    except UnicodeDecodeError:
        pass
    if match := _CHARSET.search(content[:4096]):
        name = match[1].decode("ascii", "replace")
        try:
            return content.decode(name), ()
        except (LookupError, UnicodeDecodeError, ValueError):
            message = "the document is not in the encoding it declares; it was guessed"
            text, problems = plain.decode(content)
            return text, (*problems, problem("encoding", Severity.LOW, message))
    return plain.decode(content)


def _declared(tree: Any) -> Any:
    pairs: dict[str, Any] = {"title": tree.title}
    for meta in tree.document.query_selector_all("meta[content]").values()[:200]:
        name = (meta.getattr("name") or meta.getattr("property") or "").lower()
        if name in _META:
            pairs.setdefault(_META[name], meta.getattr("content"))
    return declare(pairs)


@dataclass(frozen=True, slots=True)
class _Look:
    """What a node inherits from those around it."""

    gone: bool = False  # not rendered, whatever lies inside
    unseen: bool = False  # visibility or font size: inside, it can be taken back
    color: _css.Color | None = _css.BLACK
    background: _css.Color | None = _css.WHITE

    @property
    def hidden(self) -> bool:
        return (
            self.gone or self.unseen or (self.color is not None and self.color in {self.background, _css.TRANSPARENT})
        )


@dataclass(slots=True)
class _Hidden:
    """Takes hidden text out of a tree. Iterative: depth is the document's choice."""

    styles: _css.Styles
    _pieces: list[str] = field(default_factory=list)

    def take_out(self, root: Any) -> None:
        stack: list[tuple[Any, _Look]] = [(root, _Look())]
        while stack:
            node, look = stack.pop()
            name = node.node_name
            if name == "#text":
                if look.hidden and node.value:
                    self._pieces.append(node.value)
                    node.value = ""
                continue
            if name == "#comment":
                self._comment(node.value or "")
                continue
            if name in {"SCRIPT", "STYLE", "TITLE", "script", "style", "title"}:
                continue
            if hasattr(node, "attribute_names"):  # an element, not the document or its type
                look = self._element(node, name.lower(), look)
            children = list(_children(node))
            stack.extend((child, look) for child in reversed(children))

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._pieces).split("\n"))
        return "\n".join(line for line in lines if line)

    def _element(self, node: Any, name: str, look: _Look) -> _Look:
        if name == "template":  # its content is a document of its own
            self._pieces.append("\n" + _TAG.sub(" ", node.html) + "\n")
        if node.attribute_names or node in self.styles:
            look = _styled(look, self.styles.of(node), gone=node.hasattr("hidden"))
        if name == "noscript":
            look = replace(look, gone=True)
        if look.hidden:
            if name not in _INLINE:
                self._pieces.append("\n")
            if node.hasattr("alt"):
                self._pieces.append(f"{node.getattr('alt')}\n")
                node.setattr("alt", "")
        return look

    def _comment(self, value: str) -> None:
        if value.startswith("[if"):  # for old browsers: scripts and style sheets, mostly; what is left is text
            value = _TAG.sub(" ", _CONDITIONAL.sub("", value))
        if value.strip():
            self._pieces.append(f"\n{value}\n")


def _children(node: Any) -> Iterator[Any]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next_sibling


def _styled(look: _Look, style: _css.Style, *, gone: bool) -> _Look:
    unseen = look.unseen if style.unseen is None else style.unseen
    return _Look(
        look.gone or style.gone or gone, unseen, style.color or look.color, style.background or look.background
    )
