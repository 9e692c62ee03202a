"""EPUB (W3C EPUB 3.3, and 2): the chapters of the spine in their order, each read as a page of `html`.

The book's own style sheets count. Hidden, besides hidden text in a chapter: pages that the spine does not
name, and the package's metadata. A book under digital rights management is encrypted, and refused; mangled
fonts are accepted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from corpus_guard.domain import Finding
from corpus_guard.errors import HostileInput, Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared
from corpus_guard.intake.parsing.formats import _recount, html
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._container import ZipContainer, parse_xml, resolve_part_name
from corpus_guard.intake.parsing.formats._css import StyleSheets
from corpus_guard.intake.parsing.formats._hidden import HiddenText

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MAX_PAGES = 1_000
_PAGE_TYPES = frozenset({"application/xhtml+xml", "text/html"})
_DECLARED = {"title": "title", "creator": "author", "subject": "subject", "date": "date", "description": "description"}
_FONT_METHODS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")
_SELF_CLOSED = re.compile(r"<([A-Za-z][A-Za-z0-9]{0,20})(\s[^<>]{0,2000})?/>")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)


def read(content: bytes) -> ParsedDocument:
    """Read the book's text, chapter after chapter."""
    container = ZipContainer(content, "EPUB")
    try:
        return _read_book(container)
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the EPUB is damaged ({type(error).__name__})") from error


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
    spine = [
        manifest[ref.get("idref", "")][0] for ref in _find_all(root, "itemref") if ref.get("idref", "") in manifest
    ]
    rest = [name for name, media_type in manifest.values() if media_type in _PAGE_TYPES and name not in spine]
    sheets = StyleSheets.parse(plain.decode(part)[0] for _, part in container.matching(r"(?i).*\.css"))
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
        source = _SELF_CLOSED.sub(_expand_tag, source)
        page = html.read_page(source, sheets)
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
