"""EPUB (W3C EPUB 3.3, and 2): the chapters of the spine in their order, each read as `html` reads a page.

The book's own style sheets count. Hidden are, beside what is hidden in a chapter: pages that the spine does not name, and the
package's metadata. A book under digital rights management is encrypted, and refused; mangled fonts are no text.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from corpus_guard.domain import Finding
from corpus_guard.errors import HostileInput, Unreadable
from corpus_guard.intake.parsing.formats import _second, html
from corpus_guard.intake.parsing.formats import text as plain
from corpus_guard.intake.parsing.formats._container import Container, parse_xml, resolve
from corpus_guard.intake.parsing.formats._hidden import Hidden
from corpus_guard.intake.parsing.parsed import Parsed, declare

MAX_PAGES = 1_000
_PAGES = frozenset({"application/xhtml+xml", "text/html"})
_DECLARED = {"title": "title", "creator": "author", "subject": "subject", "date": "date", "description": "description"}
_FONTS = (b"http://www.idpf.org/2008/embedding", b"http://ns.adobe.com/pdf/enc#RC")

_CLOSED = re.compile(r"<([A-Za-z][A-Za-z0-9]{0,20})(\s[^<>]{0,2000})?/>")
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"}
)


def read(content: bytes) -> Parsed:
    """The book's text, chapter after chapter."""
    container = Container(content, "EPUB")
    try:
        return _read(container)
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the EPUB is damaged ({type(error).__name__})") from error


def _read(container: Container) -> Parsed:
    sealed = container.part("META-INF/encryption.xml") or b""
    if sealed.count(b"EncryptionMethod") > sum(map(sealed.count, _FONTS)):
        raise Unreadable("parsing.encrypted", "the EPUB is under digital rights management")
    package, root = _package(container)
    manifest: dict[str, tuple[str, str]] = {}  # by id: the part's name, its type
    for item in _all(root, "item"):
        manifest[item.get("id", "")] = (resolve(package, unquote(item.get("href", ""))), item.get("media-type", ""))
    spine = [manifest[ref.get("idref", "")][0] for ref in _all(root, "itemref") if ref.get("idref", "") in manifest]
    rest = [name for name, kind in manifest.values() if kind in _PAGES and name not in spine]
    sheets = [plain.decode(part)[0] for _, part in container.matching(r"(?i).*\.css")]
    hidden, problems, texts = Hidden(), list(container.problems), []
    chars = counted = 0
    for number, name in enumerate(dict.fromkeys([*spine, *rest])):
        part = container.part(name)
        if part is None or number >= MAX_PAGES:
            if number >= MAX_PAGES or name in spine:
                raise Unreadable("parsing.unreadable", f"the EPUB lacks a chapter, or has more than {MAX_PAGES:,}")
            continue
        if b"<!ENTITY" in part:
            raise Unreadable("parsing.xml_entities", "a page of the EPUB declares entities")
        source, told = plain.decode(part)
        source = _CLOSED.sub(_opened, source)
        page = html.page(source, sheets)
        problems += [*told, *page.problems]
        chars += page.chars
        counted += _second.html_chars(source) or 0
        hidden.update(page.hidden)
        if name in spine:
            texts.append(page.text)
        else:
            for (
                line
            ) in page.text.splitlines():  # a table of contents repeats the headings: asides are compared with the text
                hidden.add("unused", line.lstrip("-# 0123456789.").partition(" (")[0])
    declared: dict[str, Any] = {}
    for element in root.iter():
        key = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""
        if (element.text or "").strip() and key not in {"identifier", "language"}:
            hidden.add("metadata", element.text)
            if key in _DECLARED:
                declared.setdefault(_DECLARED[key], element.text)
    text = "\n\n".join(filter(None, texts))
    problems += _second.compare("EPUB", chars, counted)
    concealed, told = hidden.settle(text)
    return Parsed(text, concealed, declare(declared), (*_once(problems), *told))


def _opened(tag: re.Match[str]) -> str:
    """An element that XML closes at once, as HTML writes it: ``<title/>`` would swallow the page."""
    return tag[0] if tag[1].lower() in _VOID else f"<{tag[1]}{tag[2] or ''}></{tag[1]}>"


def _package(container: Container) -> tuple[str, Any]:
    root = container.xml("META-INF/container.xml", needed=True)
    paths = [file.get("full-path", "") for file in _all(root, "rootfile")]
    name = resolve("", paths[0]) if paths else ""
    part = container.part(name)
    if part is None:
        raise Unreadable("parsing.unreadable", "the EPUB lacks its package document")
    return name, parse_xml(part, "EPUB")


def _all(root: Any, name: str) -> list[Any]:
    return [each for each in root.iter() if isinstance(each.tag, str) and each.tag.rpartition("}")[2] == name]


def _once(problems: list[Finding]) -> list[Finding]:
    return list({finding.code: finding for finding in reversed(problems)}.values())[::-1]
