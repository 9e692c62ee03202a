"""Sitemaps (sitemaps.org) and feeds (RSS, Atom): the URLs in them, read by expat, piece by piece.

A document type declaration is refused: neither format needs one, and entities (bombs, external ones) live in it. Depth, elements and
the length of one text are bounded. What is wrong makes the whole list unusable: half a list would look like deletions.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

MAX_BYTES = 50 * 2**20  # of one sitemap, unpacked: the protocol's own limit
MAX_DEPTH = 100
MAX_TEXT = 8_192  # characters of one URL
_PIECE = 2**16


class BadList(ValueError):
    """Not a sitemap or feed that can be used; the message fits after "it"."""


@dataclass
class Listed:
    """What one file lists."""

    pages: list[str] = field(default_factory=list)
    maps: list[str] = field(default_factory=list)  # of a sitemap index


def read_sitemap(content: bytes, limit: int) -> Listed:
    """The URLs of a sitemap, or of the sitemaps in an index; gzipped or not. Raises BadList."""
    listed = Listed()
    for path, text, _ in _elements(_plain(content), {"urlset", "sitemapindex"}):
        if path[-2:] == ("url", "loc"):
            listed.pages.append(text)
        elif path[-2:] == ("sitemap", "loc"):
            listed.maps.append(text)
        if len(listed.pages) + len(listed.maps) > limit:
            raise BadList(f"lists more than {limit:,} URLs; raise max_pages, or narrow it")
    return listed


def read_feed(content: bytes, limit: int) -> list[str]:
    """The pages an RSS or Atom feed links to, the newest first. Raises BadList."""
    found: list[str] = []
    for path, text, attributes in _elements(_plain(content), {"rss", "feed", "RDF"}):
        if path[-2:] == ("item", "link") and text:
            found.append(text)
        elif path[-2:] == ("entry", "link") and attributes.get("rel", "alternate") == "alternate":
            found.append(attributes.get("href", ""))
        if len(found) > limit:
            raise BadList(f"lists more than {limit:,} pages; raise max_pages")
    return found


def _plain(content: bytes) -> bytes:
    if content[:2] != b"\x1f\x8b":
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            plain = file.read(MAX_BYTES + 1)
    except (OSError, EOFError, ValueError) as error:
        raise BadList("is gzipped and cannot be unpacked") from error
    if len(plain) > MAX_BYTES:
        raise BadList(f"has more than {MAX_BYTES:,} bytes unpacked")
    return plain


def _elements(content: bytes, roots: set[str]) -> Iterator[tuple[tuple[str, ...], str, dict[str, str]]]:
    """(path of local names, text, attributes) of each element, when it ends."""
    parser = expat.ParserCreate(namespace_separator="\n")
    parser.buffer_text = True
    names: list[str] = []
    texts: list[list[str]] = []
    attributes: list[dict[str, str]] = []
    done: list[tuple[tuple[str, ...], str, dict[str, str]]] = []

    def start(name: str, said: dict[str, str]) -> None:
        if len(names) >= MAX_DEPTH:
            raise BadList(f"is nested more than {MAX_DEPTH} deep")
        names.append(name.rpartition("\n")[2])
        if len(names) == 1 and names[0] not in roots:  # a login page may be XML, too
            raise BadList(f"is another document: expected {' or '.join(sorted(roots))} at its top")
        texts.append([])
        attributes.append(said)

    def text(said: str) -> None:
        if texts and sum(map(len, texts[-1])) <= MAX_TEXT:
            texts[-1].append(said)

    def end(name: str) -> None:
        said = "".join(texts.pop())
        if names[-1] in {"loc", "link"} and len(said) > MAX_TEXT:
            raise BadList(f"has a URL of more than {MAX_TEXT:,} characters")
        done.append((tuple(names[-2:]), said.strip(), attributes.pop()))
        names.pop()

    def doctype(*_: object) -> None:
        raise BadList("has a document type declaration, which no sitemap or feed needs")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = text, doctype
    try:
        for at in range(0, len(content), _PIECE):
            parser.Parse(content[at : at + _PIECE], False)
            yield from done
            done.clear()
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if isinstance(error, BadList):
            raise
        raise BadList(f"is no XML that can be read ({type(error).__name__})") from error
    yield from done
