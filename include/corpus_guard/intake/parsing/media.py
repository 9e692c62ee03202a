"""Detection of a document's media type: content decides, the name only helps where content is ambiguous.

A document whose name and bytes disagree gets the finding ``parsing.type_mismatch``: a reader, a browser and
this parser would see different documents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from posixpath import splitext

from corpus_guard.domain import Finding, Severity
from corpus_guard.intake.parsing import zip_directory
from corpus_guard.intake.parsing.document import make_problem

TEXT = "text/plain"
MARKDOWN = "text/markdown"
HTML = "text/html"
PDF = "application/pdf"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
EPUB = "application/epub+zip"
EMAIL = "message/rfc822"
NOTEBOOK = "application/x-ipynb+json"
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
    ".eml": EMAIL,
    ".mbox": EMAIL,
    ".ipynb": NOTEBOOK,
}
_WITHOUT_TEXT = frozenset({
    ".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tif", ".tiff", ".avif", ".heic",
    ".mp3", ".wav", ".ogg", ".oga", ".flac", ".m4a", ".aac", ".opus",
    ".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg",
    ".ttf", ".otf", ".woff", ".woff2", ".eot",
})  # fmt: skip
_LEGACY_SUFFIXES = {".doc", ".xls", ".ppt", ".rtf", ".odt", ".ods", ".odp", ".dot", ".xlsb", ".pages", ".wpd"}
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
# Formats that are not read here and that a lenient decoder would turn into garbage text.
_FOREIGN_MAGIC = (
    b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"Rar!", b"\x28\xb5\x2f\xfd",
    b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"RIFF", b"OggS", b"ID3", b"\x00asm",
    b"\x7fELF", b"MZ\x90", b"SQLite format 3\x00", b"PAR1", b"%!PS",
)  # fmt: skip
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAIN_PARTS = {"word/document.xml": DOCX, "ppt/presentation.xml": PPTX, "xl/workbook.xml": XLSX}
# A second format in the same bytes: another reader would see another document.
_HTML_TAG = re.compile(rb"<(?:!doctype\s+html|html|script|body|iframe)[\s>]", re.IGNORECASE)
_HTML_START = re.compile(
    rb"(?:\s|<\?xml[^>]{0,200}\?>|<!--(?:[^-]|-(?!->)){0,500}-->){0,9}<(?:!doctype\s+html|html|head|body)[\s>]",
    re.IGNORECASE,
)
# The files of a Maildir have no extension. Other programs write headers of this form too, but not these.
_MAIL_HEADERS = re.compile(rb"(?:From [^\r\n]{3,200}\r?\n)?(?:[!-9;-~]{2,60}:[^\n]*\n(?:[ \t][^\n]*\n)*){3,}\r?\n")
_MAIL_NAMES = (rb"^From:", rb"^(?:Date|Message-ID):", rb"^(?:To|Cc|Subject|Received|Return-Path|Delivered-To):")
_MAX_HEADER_BYTES = 65_536
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\x1b")) + b"\x7f"


@dataclass(frozen=True, slots=True)
class MediaDecision:
    """The media type to parse a document as, and the problems met while detecting it."""

    media_type: str
    problems: tuple[Finding, ...] = ()


def guess_by_name(name: str) -> str:
    """Return the type that `name`'s extension suggests; ``application/octet-stream`` for an unknown one."""
    return _BY_SUFFIX.get(splitext(name)[1].lower(), BINARY)


def names_no_text(name: str) -> bool:
    """Return True if a file's extension is that of a picture, a sound, a video or a font."""
    return splitext(name)[1].lower() in _WITHOUT_TEXT


def detect_media_type(content: bytes, media_type: str, name: str) -> MediaDecision:
    """Detect the media type to parse `content` as, from its first and last few kilobytes and a scan for NUL.

    Args:
        content: the whole document.
        media_type: as its source states; rows (`ROW`, `BROKEN_ROW`) come from our own connector, which is
            believed.
        name: its place, for the extension only.
    """
    base = media_type.partition(";")[0].strip().lower()
    if base in {ROW, BROKEN_ROW}:
        return MediaDecision(base)
    expected = base if base in _BY_SUFFIX.values() else guess_by_name(name)
    actual = _detect_by_content(content)
    if actual is None and (unsupported := _unsupported_problem(content)) is not None:
        return MediaDecision(BINARY, (*_mismatch_problems(expected, BINARY), unsupported))
    if actual is None and _is_binary(content):
        actual = BINARY
    if actual is None:  # text of some kind, where the name may choose between kinds of text
        is_named = expected in {TEXT, MARKDOWN, HTML, EMAIL, NOTEBOOK}
        actual = expected if is_named else EMAIL if _is_mail(content) else TEXT
    problems = (
        *_mismatch_problems(expected, actual),
        *_polyglot_problems(content, actual),
        *_legacy_name_problems(name, actual),
    )
    if actual == BINARY:
        reason = "the document is binary data of a kind that is not read here"
        return MediaDecision(BINARY, (*problems, make_problem("binary", Severity.CRITICAL, reason)))
    return MediaDecision(actual, problems)


def _detect_by_content(content: bytes) -> str | None:
    head = content[:4096]
    if head.lstrip(b"\xef\xbb\xbf \t\r\n\x00").startswith(b"%PDF-"):
        return PDF
    # Readers accept a header anywhere in the first kilobyte; with the trailer it is a PDF to them.
    if b"%PDF-" in head[:1024] and b"%%EOF" in content[-2048:]:
        return PDF
    if head.startswith(b"PK\x03\x04") and (zipped := _detect_zipped(content)) is not None:
        return zipped
    if head.startswith((_OLE_MAGIC, b"{\\rtf")):
        return None
    if head.startswith(_FOREIGN_MAGIC) and not _is_open_document(content):
        return BINARY
    return HTML if _HTML_START.match(_as_ascii(head)) else None


def _detect_zipped(content: bytes) -> str | None:
    """Detect the format of a zip by its directory, or by its first bytes where it was truncated and has none."""
    names = zip_directory.list_names(content)
    mimetype = zip_directory.read_first_stored(content, b"mimetype").strip()
    if mimetype == EPUB.encode() or "META-INF/container.xml" in names:
        return EPUB
    for part, media_type in _MAIN_PARTS.items():
        if part in names or (not names and part.encode() in content):
            return media_type
    if "[Content_Types].xml" in names:
        folders = {name.partition("/")[0] for name in names}
        return next((media_type for part, media_type in _MAIN_PARTS.items() if part.partition("/")[0] in folders), None)
    return None


def _is_mail(content: bytes) -> bool:
    """Return whether text of no known name begins as mails do."""
    headers = _MAIL_HEADERS.match(content[:_MAX_HEADER_BYTES])
    return headers is not None and all(
        re.search(name, headers[0], re.IGNORECASE | re.MULTILINE) for name in _MAIL_NAMES
    )


def _is_open_document(content: bytes) -> bool:
    return b"opendocument" in zip_directory.read_first_stored(content, b"mimetype")


def _unsupported_problem(content: bytes) -> Finding | None:
    """Return the problem of a document in an office format that is not read here; None for any other."""
    if content.startswith(_OLE_MAGIC):
        if "EncryptedPackage".encode("utf-16-le") in content:
            message = "the document is encrypted; save it without a password"
            return make_problem("encrypted", Severity.CRITICAL, message)
        kind = "a document of Office 97 to 2003, or another compound file; save it as DOCX, PPTX or XLSX"
    elif content.startswith(b"{\\rtf"):
        kind = "an RTF document; save it as DOCX"
    elif content.startswith(b"PK\x03\x04") and _is_open_document(content):
        kind = "an OpenDocument; save it as DOCX, PPTX or XLSX"
    else:
        return None
    return make_problem("unsupported", Severity.CRITICAL, f"the document is {kind}")


def _legacy_name_problems(name: str, actual: str) -> tuple[Finding, ...]:
    suffix = PurePosixPath(name).suffix.lower()
    if suffix not in _LEGACY_SUFFIXES or actual == BINARY:
        return ()
    return (make_problem("type_mismatch", Severity.MEDIUM, f"the name ends in {suffix}, the bytes are {actual}"),)


def _polyglot_problems(content: bytes, actual: str) -> tuple[Finding, ...]:
    """Return a problem where the bytes are a document of another format as well."""
    others = []
    if actual != BINARY and not content.startswith(b"PK\x03\x04") and zip_directory.find_end_record(content) >= 0:
        others.append("a zip")
    if actual not in {PDF, TEXT, MARKDOWN} and b"%PDF-" in content[:1024] and b"%%EOF" in content[-2048:]:
        others.append("a PDF")
    if actual in _MAIN_PARTS.values() and sum(part in zip_directory.list_names(content) for part in _MAIN_PARTS) > 1:
        others.append("another Office document")
    if actual in {PDF, BINARY} and _HTML_TAG.search(content[:1024]):
        others.append("HTML")
    if not others:
        return ()
    message = f"the bytes are {actual} and {' and '.join(others)} at once: readers would see different documents"
    return (make_problem("polyglot", Severity.HIGH, message),)


def _as_ascii(head: bytes) -> bytes:
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return head.decode("utf-16", "replace").encode("ascii", "replace")
    return head.removeprefix(b"\xef\xbb\xbf")


def _is_binary(content: bytes) -> bool:
    if not content or content.startswith(_BYTE_ORDER_MARKS) or detect_unmarked_utf16(content):
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


def detect_unmarked_utf16(content: bytes) -> str:
    """Return the codec of UTF-16 text without a byte-order mark; empty for all else.

    The sign is NUL in nearly every second place, and in no other.
    """
    head = content[:4096]
    if len(content) < 16 or len(content) % 2:
        return ""
    even, odd = head[::2].count(0), head[1::2].count(0)
    half = len(head) // 2
    if odd > 0.7 * half and even == 0:
        return "utf-16-le"
    return "utf-16-be" if even > 0.7 * half and odd == 0 else ""


def _mismatch_problems(expected: str, actual: str) -> tuple[Finding, ...]:
    if expected in {actual, BINARY}:
        return ()
    return (make_problem("type_mismatch", Severity.MEDIUM, f"the name suggests {expected}, the bytes are {actual}"),)
