"""Plain text in any encoding; UTF-8 unless a byte-order mark, or the declaration of an XML file, says otherwise."""

from __future__ import annotations

import codecs
import re

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.document import ParsedDocument, make_problem
from corpus_guard.intake.parsing.encodings import guess_encoding, name_encoding, sample_lines
from corpus_guard.intake.parsing.media import detect_unmarked_utf16

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Python has codecs of these names, and no mail program or browser has; some take quadratic time.
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"})
_XML_ENCODING = re.compile(rb"\s*<\?xml\s[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]{1,40})[\"']")
_UTF8_SEQUENCE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe1-\xef][\x80-\xbf]{2}|\xe0[\xa0-\xbf][\x80-\xbf]|[\xf0-\xf4][\x80-\xbf]{3}"
)
_MAX_CHARACTER_BYTES = 4
_GUESS_BYTES = 64 * 1024  # read by charset_normalizer; its guess must then fit the whole document


def read(content: bytes) -> ParsedDocument:
    """Read the text as it is."""
    text, problems = decode(content)
    return ParsedDocument(text, problems=problems)


def decode(content: bytes) -> tuple[str, tuple[Finding, ...]]:
    """Return the text, and a problem where the encoding was guessed or some bytes could not be read.

    Raises:
        Unreadable: no encoding fits (``parsing.binary``).
    """
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return _decode_as(content.removeprefix(mark) if encoding == "utf-8" else content, encoding)
    if encoding := detect_unmarked_utf16(content):
        message = f"the document has no byte-order mark; it was read as {encoding.upper()}, which is a guess"
        text, problems = _decode_as(content, encoding)
        return text, (*problems, make_problem("encoding", Severity.LOW, message, score=0.5))
    try:
        return content.decode(), ()
    except UnicodeDecodeError:
        declared = _XML_ENCODING.match(content)
        if declared and (fitting := decode_declared(content, declared[1].decode("ascii", "replace"))) is not None:
            return fitting, ()
        return _guess_and_decode(content)


def decode_declared(content: bytes, charset: str) -> str | None:
    """Return the text in the encoding that a document declares; None where there is no such encoding, or it does not fit."""
    try:
        return None if codecs.lookup(charset).name.replace("_", "-") in _NO_CHARSETS else content.decode(charset)
    except (LookupError, ValueError):
        return None


def _decode_as(content: bytes, encoding: str) -> tuple[str, tuple[Finding, ...]]:
    try:
        return content.decode(encoding), ()
    except UnicodeDecodeError:
        message = f"some bytes are not {encoding.upper()}, which the first bytes announce; they were replaced by U+FFFD"
        return content.decode(encoding, "replace"), (make_problem("encoding", Severity.MEDIUM, message),)


def _guess_and_decode(content: bytes) -> tuple[str, tuple[Finding, ...]]:
    text = content.decode("utf-8", "replace")
    if _is_damaged_utf8(content, text):
        message = "some bytes are not UTF-8, in which most of the document is written; they were replaced by U+FFFD"
        return text, (make_problem("encoding", Severity.MEDIUM, message),)
    guess = guess_encoding(content)
    encoding = guess.encoding if guess else _guess_unexplained(content)
    try:
        fitting = content.decode(encoding)
    except (UnicodeDecodeError, LookupError):
        message = (
            "some bytes are not UTF-8, and no other encoding fits the whole document; they were replaced by U+FFFD"
        )
        return text, (make_problem("encoding", Severity.MEDIUM, message),)
    message = f"the document is not UTF-8; it was read as {name_encoding(encoding)}, which is a guess"
    if guess is None or guess.rival is None:
        return fitting, (make_problem("encoding", Severity.LOW, message, score=0.5),)
    message += f"; {name_encoding(guess.rival)} fits nearly as well and gives other letters: if these are wrong, save it as UTF-8"
    return fitting, (make_problem("encoding", Severity.MEDIUM, message, score=0.5),)


def _is_damaged_utf8(content: bytes, text: str) -> bool:
    """Return whether more characters than broken places hold several bytes, which other encodings give by chance only."""
    broken = text.count("\ufffd")
    return sum(1 for _ in _UTF8_SEQUENCE.finditer(content)) > broken


def _guess_unexplained(content: bytes) -> str:
    from charset_normalizer import from_bytes

    sample = b"\n".join(sample_lines(content, _GUESS_BYTES))
    for end in range(len(sample), max(0, len(sample) - _MAX_CHARACTER_BYTES), -1):  # the cut may divide a character
        if best := from_bytes(sample[:end]).best():
            return best.encoding
    raise Unreadable("parsing.binary", "the document is not text in any known encoding")
