"""Sitemaps (sitemaps.org) and feeds (RSS, Atom): their URLs, read by expat, piece by piece.

A document type declaration is refused: neither format needs one, and entities (bombs, external ones) live in
it. Depth, elements and the length of one text are bounded. A fault anywhere makes the whole list unusable:
half a list would look like deletions.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urljoin
from xml.parsers import expat

MAX_BYTES = 50 * 2**20  # of one sitemap, unpacked: the protocol's own limit
MAX_DEPTH = 100
MAX_ELEMENTS = 2_000_000  # 50,000 URLs, the protocol's own limit, with 40 elements each; read in some 10 seconds
MAX_URL_CHARS = 8_192
_PIECE_BYTES = 2**16
_XML_BASE = "http://www.w3.org/XML/1998/namespace\nbase"


class ListError(ValueError):
    """A sitemap or feed that cannot be used; the message fits after "it"."""


@dataclass
class SitemapUrls:
    """URLs of one sitemap file."""

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)  # of a sitemap index


@dataclass
class FeedUrls:
    """URLs of the pages of one feed."""

    pages: list[str] = field(default_factory=list)
    unlinked: int = 0  # entries that link to no page


class _Element(NamedTuple):
    path: tuple[str, ...]  # local names of its parent and itself
    text: str
    attributes: dict[str, str]
    base: str  # as xml:base states it, relative to the list


def read_sitemap(content: bytes, limit: int) -> SitemapUrls:
    """Read the URLs of a sitemap, or of the sitemaps in an index; gzipped or not.

    Raises:
        ListError: it cannot be read, or has more than `limit` URLs.
    """
    urls = SitemapUrls()
    for element in _read_elements(_unpack(content), {"urlset", "sitemapindex"}):
        if element.path == ("url", "loc"):
            urls.pages.append(element.text)
        elif element.path == ("sitemap", "loc"):
            urls.sitemaps.append(element.text)
        if len(urls.pages) + len(urls.sitemaps) > limit:
            raise ListError(f"lists more than {limit:,} URLs; raise max_pages, or narrow it")
    return urls


def read_feed(content: bytes, limit: int) -> FeedUrls:
    """Read the URLs of the pages an RSS or Atom feed links to, the newest first; they may be relative to the feed's.

    A page is an entry's link, or in RSS its permanent id where it has no link.

    Raises:
        ListError: it cannot be read, or has more than `limit` pages.
    """
    urls = FeedUrls()
    links: list[str] = []  # of the entry that is open
    guid = ""
    for element in _read_elements(_unpack(content), {"rss", "feed", "RDF"}):
        parent, name = element.path[0], element.path[-1]
        if name in {"item", "entry"} and parent not in {"item", "entry"}:
            pages = links or ([guid] if guid else [])
            urls.pages += pages
            urls.unlinked += not pages
            links, guid = [], ""
        elif parent in {"item", "entry"} and name == "link":
            if link := _link_of(element):
                links.append(join_url(element.base, link))
        elif parent == "item" and name == "guid" and element.attributes.get("isPermaLink", "true") == "true":
            guid = element.text if "://" in element.text else ""
        if len(urls.pages) + len(links) > limit:
            raise ListError(f"lists more than {limit:,} pages; raise max_pages")
    return urls


def _link_of(element: _Element) -> str:
    """Return the page that a link leads to; empty where it leads to something else."""
    if "href" not in element.attributes:
        return element.text
    relation = element.attributes.get("rel", "alternate").rpartition("/")[2]  # RFC 4287, 4.2.7.2: may be an IRI
    return element.attributes["href"].strip() if relation.lower() == "alternate" else ""


def join_url(base: str, url: str) -> str:
    """Return a URL that may be relative to `base`; one that makes no sense comes back as it is."""
    try:
        return urljoin(base, url)
    except ValueError:
        return url


def _unpack(content: bytes) -> bytes:
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            unpacked = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, ValueError) as error:
        raise ListError("is gzipped and cannot be unpacked") from error
    if len(unpacked) > MAX_BYTES:
        raise ListError(f"has more than {MAX_BYTES:,} bytes unpacked")
    return unpacked


def _read_elements(content: bytes, roots: set[str]) -> Iterator[_Element]:
    """Yield each element when it ends."""
    parser = expat.ParserCreate(namespace_separator="\n")
    parser.buffer_text = True
    names: list[str] = []
    texts: list[list[str]] = []
    lengths: list[int] = []  # of the texts
    attributes: list[dict[str, str]] = []
    bases = [""]
    ended: list[_Element] = []
    started = 0

    def start_element(name: str, values: dict[str, str]) -> None:
        nonlocal started
        started += 1
        if started > MAX_ELEMENTS:
            raise ListError(f"has more than {MAX_ELEMENTS:,} elements")
        if len(names) >= MAX_DEPTH:
            raise ListError(f"is nested more than {MAX_DEPTH} deep")
        names.append(name.rpartition("\n")[2])
        if len(names) == 1 and names[0] not in roots:  # a login page may be XML, too
            raise ListError(f"is another document: expected {' or '.join(sorted(roots))} at its top")
        texts.append([])
        lengths.append(0)
        attributes.append(values)
        bases.append(join_url(bases[-1], values[_XML_BASE]) if _XML_BASE in values else bases[-1])

    def add_text(piece: str) -> None:
        if texts and lengths[-1] <= MAX_URL_CHARS:
            texts[-1].append(piece)
            lengths[-1] += len(piece)

    def end_element(name: str) -> None:
        text = "".join(texts.pop())
        lengths.pop()
        if names[-1] in {"loc", "link"} and len(text) > MAX_URL_CHARS:
            raise ListError(f"has a URL of more than {MAX_URL_CHARS:,} characters")
        ended.append(_Element(tuple(names[-2:]), text.strip(), attributes.pop(), bases.pop()))
        names.pop()

    def refuse_doctype(*_: object) -> None:
        raise ListError("has a document type declaration, which no sitemap or feed needs")

    parser.StartElementHandler, parser.EndElementHandler = start_element, end_element
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = add_text, refuse_doctype
    try:
        for start in range(0, len(content), _PIECE_BYTES):
            parser.Parse(content[start : start + _PIECE_BYTES], False)
            yield from ended
            ended.clear()
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, ListError):
            raise
        raise ListError(f"is not XML that can be read ({type(error).__name__})") from error
    yield from ended
