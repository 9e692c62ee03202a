"""EPUB (W3C EPUB 3.3, and 2): the chapters of the spine in their order, each read as a page of `html`.

A chapter is read as the XML that it is, where it is well formed: reading systems do, and HTML would show other parts of it.
The style sheets that a chapter names count, with those that they import. Hidden, besides hidden text in a chapter: pages that the
spine does not name, or names as ones out of line to which no page links, and the package's metadata. A book under digital
rights management is encrypted, and refused; mangled fonts are accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from html.entities import html5
from typing import TYPE_CHECKING
from urllib.parse import unquote

from corpus_guard.domain import Finding
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared
from corpus_guard.intake.parsing.formats import _recount, html
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._container import ZipContainer, parse_xml, refusing_damage, resolve_part_name
from corpus_guard.intake.parsing.formats._css import StyleSheets
from corpus_guard.intake.parsing.formats._hidden import HiddenText

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MAX_PAGES = 1_000
_PAGE_TYPES = frozenset({"application/xhtml+xml", "text/html"})
_DECLARED = {"title": "title", "creator": "author", "subject": "subject", "date": "date", "description": "description"}
_FONT_METHODS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")
_SELF_CLOSED = re.compile(r"<([A-Za-z][A-Za-z0-9]{0,20})(\s[^<>]{0,2000})?/>")
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]{0,500}>")
_DECLARATION = re.compile(r"\A\ufeff?\s*<\?xml[^>]{0,200}\?>")
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,40};)")
_OF_XML = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})
_PAGE_NAMESPACES = frozenset(
    {"", "http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg", "http://www.w3.org/1998/Math/MathML"}
)
_LINK = re.compile(rb"(?:href|src)\s*=\s*[\"']([^\"'<>]{1,1000})[\"']")
_SHEET_LINK = re.compile(r"<(?:[\w-]{1,20}:)?link\s[^<>]{0,1000}>|<\?xml-stylesheet\s[^<>]{0,1000}\?>", re.IGNORECASE)
_HREF = re.compile(r"href\s*=\s*[\"']([^\"']{1,500})[\"']", re.IGNORECASE)
_IMPORT = re.compile(
    r"@import\s++(?:url\(\s*+)?[\"']?([^\"')\s;]{1,500})[\"']?\s*+\)?\s*+(?:all|screen)?\s*+;", re.IGNORECASE
)
_MAX_IMPORTS = 50
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)


def read(content: bytes) -> ParsedDocument:
    """Read the book's text, chapter after chapter."""
    container = ZipContainer(content, "EPUB")
    with refusing_damage("EPUB"):
        return _read_book(container)


def _read_book(container: ZipContainer) -> ParsedDocument:
    encryption = container.part("META-INF/encryption.xml") or b""
    if encryption.count(b"EncryptionMethod") > sum(map(encryption.count, _FONT_METHODS)):
        raise Unreadable("parsing.encrypted", "the EPUB is protected by digital rights management (DRM)")
    package, root = _read_package(container)
    manifest: dict[str, tuple[str, str]] = {}  # by id: the part's name and media type
    for item in _find_all(root, "item"):
        manifest[item.get("id", "")] = (
            resolve_part_name(package, unquote(item.get("href", ""))),
            item.get("media-type", ""),
        )
    references = [ref for ref in _find_all(root, "itemref") if ref.get("idref", "") in manifest]
    aside = [ref for ref in references if ref.get("linear") == "no"]
    linked = _find_linked(container) if aside else frozenset[str]()
    spine = [
        name for ref in references if (name := manifest[ref.get("idref", "")][0]) in linked or ref.get("linear") != "no"
    ]
    rest = [name for name, media_type in manifest.values() if media_type in _PAGE_TYPES and name not in spine]
    rest += [name for ref in aside if (name := manifest[ref.get("idref", "")][0]) not in spine and name not in rest]
    kinds = dict(manifest.values())
    sheets = _Sheets(container)
    hidden, problems, texts = HiddenText(), list(container.problems), []
    chars = counted = 0
    for number, name in enumerate(dict.fromkeys([*spine, *rest])):
        part = container.part(name)
        if part is None or number >= MAX_PAGES:
            if number >= MAX_PAGES or name in spine:
                raise Unreadable(
                    "parsing.unreadable", f"the EPUB lacks a chapter, or has more than {MAX_PAGES:,} pages"
                )
            continue
        if b"<!ENTITY" in part:
            raise Unreadable("parsing.xml_entities", "a page of the EPUB declares entities")
        source, encoding_problems = plain.decode(part)
        named = sheets.of(name, source)
        source = (_to_html(source) if kinds.get(name) != "text/html" else "") or _SELF_CLOSED.sub(_expand_tag, source)
        page = html.read_page(source, named)
        problems += [*encoding_problems, *page.problems]
        chars += page.chars
        counted += _recount.count_html_chars(source)
        hidden.update(page.hidden)
        if name in spine:
            texts.append(page.text)
        else:
            # A table of contents repeats the headings: asides are compared with the text.
            for line in page.text.splitlines():
                hidden.add("unused", line.lstrip("-# 0123456789.").partition(" (")[0])
    declared: dict[str, str] = {}
    for element in root.iter():
        key = _local_name(element) if isinstance(element.tag, str) else ""
        if (element.text or "").strip() and key not in {"identifier", "language"}:
            hidden.add("metadata", element.text)
            if key in _DECLARED:
                declared.setdefault(_DECLARED[key], element.text)
    text = "\n\n".join(filter(None, texts))
    problems += _recount.compare_counts("EPUB", chars, counted)
    hidden_text, findings = hidden.summarize(text)
    problems = _first_of_each_code(problems)
    return ParsedDocument(text, hidden_text, clean_declared(declared), (*problems, *findings))


class _Sheets:
    """The style sheets of a book."""

    def __init__(self, container: ZipContainer) -> None:
        self._container = container
        self._parse = lru_cache(maxsize=64)(self._parse_parts)

    def of(self, page: str, source: str) -> StyleSheets:
        """Return the style sheets that a page names, with those that they import."""
        tags = [tag for tag in _SHEET_LINK.findall(source) if "stylesheet" in tag.lower()]
        names = [resolve_part_name(page, unquote(href[1])) for tag in tags if (href := _HREF.search(tag))]
        names += [resolve_part_name(page, unquote(target)) for target in _IMPORT.findall(source)]
        return self._parse(tuple(dict.fromkeys(names)))

    def _parse_parts(self, names: tuple[str, ...]) -> StyleSheets:
        visited: set[str] = set()
        return StyleSheets.parse(sheet for name in names for sheet in self._read(name, visited))

    def _read(self, name: str, visited: set[str]) -> Iterator[str]:
        part = self._container.part(name)
        if part is None or name in visited or len(visited) >= _MAX_IMPORTS:
            return
        visited.add(name)
        sheet = plain.decode(part)[0]
        for target in _IMPORT.findall(sheet):
            yield from self._read(resolve_part_name(name, unquote(target)), visited)
        yield sheet


def _find_linked(container: ZipContainer) -> frozenset[str]:
    """Return the names of the parts to which another page, or the table of contents, links."""
    return frozenset(
        target
        for name, part in container.matching(r"(?i).*\.(?:x?html?|ncx)")
        for link in _LINK.findall(part)
        if (target := resolve_part_name(name, unquote(link.decode("utf-8", "replace")))) != name
    )


def _to_html(source: str) -> str:
    """Write a page of XML as HTML that shows the same; return nothing where the page is not well formed."""
    from lxml import etree

    source = _ENTITY.sub(_expand_entity, _DOCTYPE.sub("", _DECLARATION.sub("", source), count=1))
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False, remove_pis=True
    )
    try:
        root = etree.fromstring(source.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return ""
    for element in root.iter():
        if element.tag is etree.Comment:
            element.text = f" {(element.text or '').replace('>', ' ')} "  # HTML ends some comments sooner
        elif isinstance(element.tag, str):
            namespace, _, name = element.tag.rpartition("}")
            element.tag = name if namespace.removeprefix("{") in _PAGE_NAMESPACES else "span"
            for key in [key for key in element.attrib if key.startswith("{")]:
                del element.attrib[key]
            if element.tag.lower() in {"script", "style"} and element.text:
                element.text = element.text.replace("</", "<\\/")
    etree.cleanup_namespaces(root)
    html_source: str = etree.tostring(root, method="html", encoding="unicode")
    return html_source


def _expand_entity(entity: re.Match[str]) -> str:
    return (
        entity[0]
        if entity[1] in _OF_XML or entity[1] not in html5
        else "".join(f"&#{ord(char)};" for char in html5[entity[1]])
    )


def _expand_tag(tag: re.Match[str]) -> str:
    """Write an element that XML closes at once as HTML does: ``<title/>`` would swallow the page."""
    return tag[0] if tag[1].lower() in _VOID else f"<{tag[1]}{tag[2] or ''}></{tag[1]}>"


def _read_package(container: ZipContainer) -> tuple[str, Element]:
    """Return the name and the root element of the package document."""
    root = container.main_xml("META-INF/container.xml")
    paths = [file.get("full-path", "") for file in _find_all(root, "rootfile")]
    name = resolve_part_name("", paths[0]) if paths else ""
    part = container.part(name)
    if part is None:
        raise Unreadable("parsing.unreadable", "the EPUB lacks its package document")
    return name, parse_xml(part, "EPUB")


def _find_all(root: Element | None, name: str) -> list[Element]:
    elements = root.iter() if root is not None else ()
    return [element for element in elements if isinstance(element.tag, str) and _local_name(element) == name]


def _local_name(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def _first_of_each_code(problems: list[Finding]) -> list[Finding]:
    return list({finding.code: finding for finding in reversed(problems)}.values())[::-1]
