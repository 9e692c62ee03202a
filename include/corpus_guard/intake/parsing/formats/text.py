"""Plain text in any encoding; UTF-8 unless a byte-order mark says otherwise."""

from __future__ import annotations

import codecs

from corpus_guard.domain import Finding, Severity
from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing.media import unmarked_utf16
from corpus_guard.intake.parsing.parsed import Parsed, problem

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_GUESS_BYTES = 64 * 1024  # what the encoding is guessed from; the guess must then fit the whole


def read(content: bytes) -> Parsed:
    """The text as it is."""
    text, problems = decode(content)
    return Parsed(text, problems=problems)


def decode(content: bytes) -> tuple[str, tuple[Finding, ...]]:
    """Text, and a problem where the encoding had to be guessed or some bytes could not be read.

    Raises:
        Unreadable: no encoding fits at all (``parsing.binary``).
    """
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return _strict_or_replaced(content.removeprefix(mark) if encoding == "utf-8" else content, encoding)
    if encoding := unmarked_utf16(content):
        message = f"the document has no byte-order mark; it was read as {encoding.upper()}, which is a guess"
        text, problems = _strict_or_replaced(content, encoding)
        return text, (*problems, problem("encoding", Severity.LOW, message, score=0.5))
    try:
        return content.decode(), ()
    except UnicodeDecodeError:
        return _guessed(content)


def _strict_or_replaced(content: bytes, encoding: str) -> tuple[str, tuple[Finding, ...]]:
    try:
        return content.decode(encoding), ()
    except UnicodeDecodeError:
        message = f"some bytes are not {encoding.upper()}, as the first bytes promise; they were replaced by U+FFFD"
        return content.decode(encoding, "replace"), (problem("encoding", Severity.MEDIUM, message),)


def _guessed(content: bytes) -> tuple[str, tuple[Finding, ...]]:
    from charset_normalizer import from_bytes

    best = from_bytes(content[:_GUESS_BYTES]).best()
    if best is None:
        raise Unreadable("parsing.binary", "the document is text in no encoding known here")
    try:
        text = content.decode(best.encoding)
    except (UnicodeDecodeError, LookupError):
        text = content.decode("utf-8", "replace")
        message = "some bytes are not UTF-8, nor is the whole in another encoding; they were replaced by U+FFFD"
        return text, (problem("encoding", Severity.MEDIUM, message),)
    message = f"the document is not UTF-8; it was read as {best.encoding}, which is a guess"
    return text, (problem("encoding", Severity.LOW, message, score=0.5),)
