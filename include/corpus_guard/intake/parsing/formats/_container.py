"""The zip that holds DOCX, PPTX, XLSX and EPUB documents, measured before anything in it is used.

Rules:

- Every entry is inflated and counted before any is used: the sizes in the directory are not trusted.
- Names are keys. They never become paths, and a part is only found under its exact name.
- A zip is refused if two entries have one name, its directory miscounts or states other sizes, entries share
  bytes, or a local header names another file than the directory: two readers would see two documents.
- XML is parsed without entities, without a DOCTYPE, without recovery and with libxml2's own limits on depth
  and text.
"""

from __future__ import annotations

import contextlib
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import HostileInput, LimitExceeded, Unreadable
from corpus_guard.intake.parsing import zip_directory
from corpus_guard.intake.parsing.document import make_problem

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MAX_ENTRIES = 2_000
MAX_INFLATED_BYTES = 100 * 2**20
"""Size of all entries together, counted while inflating."""
MAX_RATIO = 200
"""Inflated to stored size of one entry above a megabyte."""
_TEXT_SUFFIXES = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx", ".css", ".vml", "mimetype")
_ARCHIVE_MAGIC = (b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ")
_ENCODING = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml[^>]{0,100}?encoding\s*=\s*[\"']([A-Za-z0-9._-]{1,40})[\"']")
_XML_ENCODINGS = frozenset({"UTF-8", "US-ASCII", "ASCII", "ISO-8859-1", "WINDOWS-1252"})
_EXPECTED = re.compile(
    r"\.(?:png|jpe?g|gif|svgz?|webp|tiff?|bmp|emf|wmf|emz|wmz|ttf|otf|woff2?|mp[34]|m4a|wav|fntdata|odttf)\Z|/embeddings/[^/]+\Z",
    re.IGNORECASE,
)
"""Names of archives that documents are made with: media, and the sheet behind a chart, which `_ooxml` reports."""


@contextlib.contextmanager
def refusing_damage(what: str) -> Iterator[None]:
    """Raise Unreadable for whatever a reader stumbles over in a document that its program would call damaged."""
    try:
        yield
    except (HostileInput, MemoryError):
        raise
    except Exception as error:
        raise Unreadable("parsing.unreadable", f"the {what} is damaged ({type(error).__name__})") from error


class ZipContainer:
    """Parts of a document, all measured; textual ones are kept."""

    def __init__(self, content: bytes, what: str) -> None:
        """Measure `content`; `what` names its format in messages (DOCX, …).

        Raises:
            LimitExceeded: it is a bomb (``parsing.zip_bomb``).
            Unreadable: it is damaged, encrypted, or can be read in two ways.
        """
        self.what = what
        self.problems: list[Finding] = []
        self._parts: dict[str, bytes] = {}
        self._size = 0  # bytes of the entry inflated last
        self.names: list[str] = []
        with refusing_damage(what), zipfile.ZipFile(io.BytesIO(content)) as archive:
            if zip_directory.declared_entry_count(content) not in {-1, len(archive.infolist())}:
                message = f"the directory of the {what} states another number of entries than it lists"
                raise Unreadable("parsing.ambiguous", message)
            self._measure(archive, len(content))

    def part(self, name: str) -> bytes | None:
        """Return a textual part by its exact name."""
        return self._parts.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def matching(self, pattern: str) -> Iterator[tuple[str, bytes]]:
        """Yield the textual parts whose whole name matches, in the order of their names, numbers by value."""
        expression = re.compile(pattern)
        for name in sorted(filter(expression.fullmatch, self._parts), key=_natural_order):
            yield name, self._parts[name]

    def xml(self, name: str) -> Element | None:
        """Return the root of an XML part; None where there is no such part.

        Raises:
            Unreadable: it is not XML, or declares entities.
        """
        part = self._parts.get(name)
        return parse_xml(part, self.what) if part is not None else None

    def main_xml(self, name: str) -> Element:
        """Return the root of the main part; raise Unreadable as `xml` does, and where the part is missing."""
        return parse_xml(self.main_part(name), self.what)

    def main_part(self, name: str) -> bytes:
        """Return the main part; raise Unreadable where it is missing."""
        part = self._parts.get(name)
        if part is None:
            raise Unreadable("parsing.unreadable", f"the {self.what} has no main part")
        return part

    def _measure(self, archive: zipfile.ZipFile, size: int) -> None:
        entries = archive.infolist()
        if len(entries) > MAX_ENTRIES:
            message = f"the {self.what} has {len(entries):,} entries; the limit is {MAX_ENTRIES:,}"
            raise LimitExceeded("parsing.zip_bomb", message)
        folded_names: set[str] = set()
        end, total, nested, odd = 0, 0, 0, 0
        for entry in sorted(entries, key=lambda each: each.header_offset):
            if entry.flag_bits & 1:
                raise Unreadable("parsing.encrypted", f"the {self.what} has encrypted entries")
            folded = entry.filename.casefold()
            if folded in folded_names:
                message = f"the {self.what} has two entries of one name; which one counts depends on its reader"
                raise Unreadable("parsing.ambiguous", message)
            folded_names.add(folded)
            if entry.header_offset < end:
                raise LimitExceeded("parsing.zip_bomb", f"entries of the {self.what} share their bytes, as bombs do")
            end = entry.header_offset + 30 + entry.compress_size
            if end > size:
                raise Unreadable("parsing.unreadable", f"an entry of the {self.what} ends after the file")
            odd += _is_odd_name(entry.filename)
            total, head = self._inflate(archive, entry, total)
            if entry.file_size != self._size:
                message = f"the {self.what} states other sizes than its entries have; which count depends on its reader"
                raise Unreadable("parsing.ambiguous", message)
            if head.startswith(_ARCHIVE_MAGIC) and not _EXPECTED.search(entry.filename):
                nested += 1
        self.names = [entry.filename for entry in entries]
        if odd:
            message = f"{odd} entries of the {self.what} have names that lead out of it or hold control characters"
            self.problems.append(make_problem("names", Severity.MEDIUM, message))
        if nested:
            message = f"{nested} entries of the {self.what} are archives or documents; they were not opened"
            self.problems.append(make_problem("nested", Severity.MEDIUM, message))

    def _inflate(self, archive: zipfile.ZipFile, entry: zipfile.ZipInfo, total: int) -> tuple[int, bytes]:
        keep = entry.filename.lower().endswith(_TEXT_SUFFIXES)
        pieces: list[bytes] = []
        size, head = 0, b""
        with archive.open(entry) as stream:
            while piece := stream.read(2**16):
                head = head or piece[:8]
                size += len(piece)
                if total + size > MAX_INFLATED_BYTES:
                    message = f"the {self.what} inflates to more than {MAX_INFLATED_BYTES // 2**20} MB"
                    raise LimitExceeded("parsing.zip_bomb", message)
                if size > 2**20 and size > MAX_RATIO * max(entry.compress_size, 1):
                    message = f"an entry of the {self.what} inflates more than {MAX_RATIO} times"
                    raise LimitExceeded("parsing.zip_bomb", message)
                if keep:
                    pieces.append(piece)
        if keep:
            self._parts[entry.filename] = b"".join(pieces)
        self._size = size
        return total + size, head


def require_plain_xml(part: bytes, what: str) -> bytes:
    """Return `part` if it declares nothing and its encoding hides nothing.

    Raises:
        Unreadable: it has a DOCTYPE, entities, or another encoding (``parsing.xml_entities``).
    """
    declared = _ENCODING.match(part)
    encoding = declared[1].decode("ascii").upper() if declared else "UTF-8"
    # UTF-16 and UTF-32 hold NUL; EBCDIC and UTF-7 would hide a DOCTYPE from this search.
    if b"<!DOCTYPE" in part or b"<!ENTITY" in part or b"\x00" in part or encoding not in _XML_ENCODINGS:
        message = (
            f"an XML part of the {what} declares entities, or an encoding that could hide them; remove the declaration"
        )
        raise Unreadable("parsing.xml_entities", message)
    return part


def parse_xml(part: bytes, what: str) -> Element:
    """Parse XML that declares nothing; return its root element.

    Raises:
        Unreadable: it is not XML (``parsing.unreadable``), or as `require_plain_xml`.
    """
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False, recover=False, remove_pis=True
    )
    try:
        return etree.fromstring(require_plain_xml(part, what), parser)
    except etree.XMLSyntaxError as error:
        raise Unreadable("parsing.unreadable", f"an XML part of the {what} is damaged (line {error.lineno})") from error


def resolve_part_name(base: str, reference: str) -> str:
    """Return the name of the part that `reference` in the part `base` means; empty where it leads out of the zip."""
    path = reference.partition("#")[0]
    joined = path.lstrip("/") if path.startswith("/") else posixpath.join(posixpath.dirname(base), path)
    name = posixpath.normpath(joined)
    return "" if name.startswith("..") or name == "." else name


def _is_odd_name(name: str) -> bool:
    return name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or any(ord(char) < 32 for char in name)


def _natural_order(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdigit() and part.isascii() else (0, part) for part in re.split(r"(\d{1,9})", name)
    ]
