"""Reading one document, bytes to `ParsedDocument`, in whatever process calls it."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from corpus_guard.errors import Unreadable
from corpus_guard.intake.parsing import formats, media
from corpus_guard.intake.parsing.document import ParsedDocument, failed_document, finalize

LIGHT = frozenset({media.ROW, media.BROKEN_ROW, media.TEXT, media.MARKDOWN, media.BINARY})
"""Types read without a native parser; binary data is not read at all."""
LIGHT_BYTES = 2**20
"""Size up to which a light UTF-8 document is read in the calling process."""


_READERS = {
    media.ROW: "row",
    media.TEXT: "text",
    media.MARKDOWN: "markdown",
    media.HTML: "html",
    media.PDF: "pdf",
    media.DOCX: "docx",
    media.PPTX: "pptx",
    media.XLSX: "xlsx",
    media.EPUB: "epub",
}


def is_light(content: bytes, decision: media.MediaDecision) -> bool:
    """Return whether `read_document` may run outside the parsing process: decoding and a linear scan.

    Guessing an encoding and reading front matter are not light: both take seconds on some inputs.
    """
    if decision.media_type not in LIGHT or len(content) > LIGHT_BYTES:
        return False
    if decision.media_type == media.MARKDOWN and content.startswith(b"---"):
        return False  # 16 kB of hostile YAML take seconds
    try:
        content.decode()
    except UnicodeDecodeError:
        return decision.media_type in {media.BINARY, media.BROKEN_ROW}
    return True


def read_document(content: bytes, media_type: str, name: str, *, max_chars: int) -> ParsedDocument:
    """Detect the media type and read the document.

    Raises:
        HostileInput: the document cannot be read; the code says why.
        Exception: any other error of a format's parser.
    """
    decision = media.detect_media_type(content, media_type, name)
    if decision.media_type == media.BINARY:
        return ParsedDocument("", problems=decision.problems, media_type=decision.media_type)
    if decision.media_type == media.BROKEN_ROW:
        raise _broken_row(media_type)
    if not content.strip():
        return failed_document("empty", f"the document has {len(content)} bytes and no text", decision.media_type)
    # Imported when first needed: a process that parses rows never loads a PDF library.
    reader = import_module(f"{formats.__name__}.{_READERS[decision.media_type]}")
    document: ParsedDocument = reader.read(content)
    problems = (*decision.problems, *document.problems)
    return finalize(replace(document, problems=problems, media_type=decision.media_type), max_chars=max_chars)


def _broken_row(media_type: str) -> Unreadable:
    line = media_type.partition("line=")[2]
    where = f"line {int(line)}" if line.isascii() and line.isdigit() and len(line) < 12 else "a line"
    return Unreadable("parsing.broken_row", f"{where} of the file cannot be read as a row; correct it at the source")
