"""What kind of document some bytes are: content decides, the name only helps where content does not tell.

A document whose name says one thing and whose bytes say another gets the finding ``parsing.type_mismatch``: a reader, a
browser and this parser would then see different documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing.parsed import problem

TEXT = "text/plain"
MARKDOWN = "text/markdown"
HTML = "text/html"
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
ROW = "application/x-row+json"
BROKEN_ROW = "application/x-broken-row"
BINARY = "application/octet-stream"

_BY_SUFFIX = {
    ".txt": TEXT,
    ".text": TEXT,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".pdf": PDF,
    ".docx": DOCX,
}
_UNICODE_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# Formats that are none of ours and that a lenient decoder would turn into garbage text.
_FOREIGN = (
    b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd",
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"RIFF", b"OggS", b"ID3", b"\x00asm",
    b"\x7fELF", b"MZ\x90", b"\xd0\xcf\x11\xe0", b"SQLite format 3\x00", b"PAR1", b"{\\rtf", b"%!PS",
)  # fmt: skip
_HTML_START = re.compile(
    rb"(?:\s|<\?xml[^>]{0,200}\?>|<!--(?:[^-]|-(?!->)){0,500}-->){0,9}<(?:!doctype\s+html|html|head|body)[\s>]",
    re.IGNORECASE,
)
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b")) + b"\x7f"


@dataclass(frozen=True, slots=True)
class Kind:
    """A decision: the type to parse as, and what was odd about it."""

    media_type: str
    problems: tuple[Finding, ...] = ()


def by_name(name: str) -> str:
    """What `name`'s extension suggests; ``application/octet-stream`` where it suggests nothing known."""
    return _BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), BINARY)


def decide(content: bytes, media_type: str, name: str) -> Kind:
    """The media type to parse `content` as. Cheap: looks at the first and last few kilobytes, and scans for NUL.

    Args:
        content: the whole document.
        media_type: as its source says; rows (`ROW`, `BROKEN_ROW`) are made by our own connector and taken at its word.
        name: its place, for the extension only.
    """
    base = media_type.partition(";")[0].strip().lower()
    if base in {ROW, BROKEN_ROW}:
        return Kind(base)
    expected = base if base in _BY_SUFFIX.values() else by_name(name)
    found = _by_content(content)
    if found is None and _is_binary(content):
        found = BINARY
    if found is None:  # text of some kind, where the name may choose between kinds of text
        found = expected if expected in {TEXT, MARKDOWN, HTML} else TEXT
    if found == BINARY:
        reason = "the document is binary data of a kind that is not read here"
        return Kind(BINARY, (*_mismatch(expected, found), problem("binary", Severity.CRITICAL, reason)))
    return Kind(found, _mismatch(expected, found))


def _by_content(content: bytes) -> str | None:
    head = content[:4096]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n\x00").startswith(b"%PDF-"):
        return PDF
    # Readers accept a header anywhere in the first kilobyte; together with the trailer it is a PDF to them.
    if b"%PDF-" in head[:1024] and b"%%EOF" in content[-2048:]:
        return PDF
    if head.startswith(b"PK\x03\x04") and b"word/document.xml" in content:
        return DOCX
    if head.startswith(_FOREIGN):
        return BINARY
    return HTML if _HTML_START.match(_as_ascii(head)) else None


def _as_ascii(head: bytes) -> bytes:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", "replace").encode("ascii", "replace")
    return head.removeprefix(b"\xef\xbb\xbf")


def _is_binary(content: bytes) -> bool:
    if not content or content.startswith(_UNICODE_MARKS):
        return False
    if content.count(0) > len(content) // 10:
        return True
    head = content[:65_536]
    if len(head) - len(head.translate(None, _CONTROL)) <= len(head) // 50:
        return False
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return False


def _mismatch(expected: str, found: str) -> tuple[Finding, ...]:
    if expected in {found, BINARY}:
        return ()
    return (problem("type_mismatch", Severity.MEDIUM, f"the name says {expected}, the bytes say {found}"),)
