"""What kind of document some bytes are: content decides, the name only helps where content does not tell.

A document whose name says one thing and whose bytes say another gets the finding ``parsing.type_mismatch``: a reader, a
browser and this parser would then see different documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing import directory
from corpus_guard.intake.parsing.parsed import problem

TEXT = "text/plain"
MARKDOWN = "text/markdown"
HTML = "text/html"
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
EPUB = "application/epub+zip"
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
    ".docm": DOCX,
    ".dotx": DOCX,
    ".pptx": PPTX,
    ".pptm": PPTX,
    ".ppsx": PPTX,
    ".xlsx": XLSX,
    ".xlsm": XLSX,
    ".xltx": XLSX,
    ".epub": EPUB,
}
_LEGACY = {".doc", ".xls", ".ppt", ".rtf", ".odt", ".ods", ".odp", ".dot", ".xlsb", ".pages", ".wpd"}
_UNICODE_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# Formats that are none of ours and that a lenient decoder would turn into garbage text.
_FOREIGN = (
    b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd",
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"RIFF", b"OggS", b"ID3", b"\x00asm",
    b"\x7fELF", b"MZ\x90", b"SQLite format 3\x00", b"PAR1", b"%!PS",
)  # fmt: skip
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PARTS = {"word/document.xml": DOCX, "ppt/presentation.xml": PPTX, "xl/workbook.xml": XLSX}
# A second format in the same bytes: another reader would see another document.
_SECOND = re.compile(rb"<(?:!doctype\s+html|html|script|body|iframe)[\s>]", re.IGNORECASE)
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
    if found is None and (told := _old(content)) is not None:
        return Kind(BINARY, (*_mismatch(expected, BINARY), told))
    if found is None and _is_binary(content):
        found = BINARY
    if found is None:  # text of some kind, where the name may choose between kinds of text
        found = expected if expected in {TEXT, MARKDOWN, HTML} else TEXT
    problems = (*_mismatch(expected, found), *_also(content, found), *_old_name(name, found))
    if found == BINARY:
        reason = "the document is binary data of a kind that is not read here"
        return Kind(BINARY, (*problems, problem("binary", Severity.CRITICAL, reason)))
    return Kind(found, problems)


def _by_content(content: bytes) -> str | None:
    head = content[:4096]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n\x00").startswith(b"%PDF-"):
        return PDF
    # Readers accept a header anywhere in the first kilobyte; together with the trailer it is a PDF to them.
    if b"%PDF-" in head[:1024] and b"%%EOF" in content[-2048:]:
        return PDF
    if head.startswith(b"PK\x03\x04") and (zipped := _zipped(content)) is not None:
        return zipped
    if head.startswith((_OLE, b"{\\rtf")):
        return None
    if head.startswith(_FOREIGN) and not _is_open_document(content):
        return BINARY
    return HTML if _HTML_START.match(_as_ascii(head)) else None


def _zipped(content: bytes) -> str | None:
    """Which of our formats a zip is, by its directory; a truncated one has none, and is told by its first bytes."""
    listed = directory.names(content)
    if directory.stored_first(content, b"mimetype").strip() == EPUB.encode() or "META-INF/container.xml" in listed:
        return EPUB
    for part, kind in _PARTS.items():
        if part in listed or (not listed and part.encode() in content):
            return kind
    if "[Content_Types].xml" in listed:
        folders = {name.partition("/")[0] for name in listed}
        return next((kind for part, kind in _PARTS.items() if part.partition("/")[0] in folders), None)
    return None


def _is_open_document(content: bytes) -> bool:
    return b"opendocument" in directory.stored_first(content, b"mimetype")


def _old(content: bytes) -> Finding | None:
    """Why a document of an office format that is not read here is refused; None where it is none."""
    if content.startswith(_OLE):
        if "EncryptedPackage".encode("utf-16-le") in content:
            message = "the document is encrypted; it can be read when it is saved without a password"
            return problem("encrypted", Severity.CRITICAL, message)
        kind = "a document of Office 97 to 2003, or another compound file; save it as DOCX, PPTX or XLSX"
    elif content.startswith(b"{\\rtf"):
        kind = "an RTF document; save it as DOCX"
    elif content.startswith(b"PK\x03\x04") and _is_open_document(content):
        kind = "an OpenDocument; save it as DOCX, PPTX or XLSX"
    else:
        return None
    return problem("unsupported", Severity.CRITICAL, f"the document is {kind}")


def _old_name(name: str, found: str) -> tuple[Finding, ...]:
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in _LEGACY or found == BINARY:
        return ()
    return (problem("type_mismatch", Severity.MEDIUM, f"the name ends in {suffix}, the bytes say {found}"),)


def _also(content: bytes, found: str) -> tuple[Finding, ...]:
    """Whether the bytes are a second document as well."""
    others = []
    if found != BINARY and not content.startswith(b"PK\x03\x04") and directory.end_of(content) >= 0:
        others.append("a zip")
    if found not in {PDF, TEXT, MARKDOWN} and b"%PDF-" in content[:1024] and b"%%EOF" in content[-2048:]:
        others.append("a PDF")
    if found in _PARTS.values() and sum(part in directory.names(content) for part in _PARTS) > 1:
        others.append("another Office document")
    if found in {PDF, BINARY} and _SECOND.search(content[:1024]):
        others.append("HTML")
    if not others:
        return ()
    message = f"the bytes are {found} and {' and '.join(others)} at once: readers would see different documents"
    return (problem("polyglot", Severity.HIGH, message),)


def _as_ascii(head: bytes) -> bytes:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", "replace").encode("ascii", "replace")
    return head.removeprefix(b"\xef\xbb\xbf")


def _is_binary(content: bytes) -> bool:
    if not content or content.startswith(_UNICODE_MARKS) or unmarked_utf16(content):
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


def unmarked_utf16(content: bytes) -> str:
    """The byte order of UTF-16 without a byte-order mark: NUL at nearly every second place and at no other. Empty for all else."""
    head = content[:4096]
    if len(content) < 16 or len(content) % 2:
        return ""
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > 0.7 * half and even == 0:
        return "utf-16-le"
    return "utf-16-be" if even > 0.7 * half and odd == 0 else ""


def _mismatch(expected: str, found: str) -> tuple[Finding, ...]:
    if expected in {found, BINARY}:
        return ()
    return (problem("type_mismatch", Severity.MEDIUM, f"the name says {expected}, the bytes say {found}"),)
