"""One document, bytes to `Parsed`, in whatever process it is called."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

from corpus_guard.intake.parsing import formats, media
from corpus_guard.intake.parsing.parsed import Parsed, failure, finish

LIGHT = frozenset({media.ROW, media.BROKEN_ROW, media.TEXT, media.MARKDOWN, media.BINARY})
"""Types whose reading runs no native parser; binary data is not read at all."""
LIGHT_BYTES = 2**20
"""Up to this size, a light UTF-8 document is read in the calling process."""


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


def is_light(content: bytes, kind: media.Kind) -> bool:
    """Whether `read` may run outside the parsing process: decoding and a linear scan.

    Guessing an encoding and reading front matter are not light: both take seconds on some inputs.
    """
    if kind.media_type not in LIGHT or len(content) > LIGHT_BYTES:
        return False
    if kind.media_type == media.MARKDOWN and content.startswith(b"---"):
        return False  # 16 kB of hostile YAML take seconds
    try:
        content.decode()
    except UnicodeDecodeError:
        return kind.media_type in {media.BINARY, media.BROKEN_ROW}
    return True


def read(content: bytes, media_type: str, name: str, *, max_chars: int) -> Parsed:
    """Decide the type and read.

    Raises:
        HostileInput: nothing can be read; its code says why.
        Exception: whatever a format's parser lets through.
    """
    from corpus_guard.intake.parsing.formats import row

    kind = media.decide(content, media_type, name)
    if kind.media_type == media.BINARY:
        return Parsed("", problems=kind.problems, media_type=kind.media_type)
    if kind.media_type == media.BROKEN_ROW:
        raise row.refuse(media_type)
    if not content.strip():
        return failure("empty", f"the document has {len(content)} bytes and no text", kind.media_type)
    parsed = _read_as(kind.media_type, content)
    problems = (*kind.problems, *parsed.problems)
    return finish(replace(parsed, problems=problems, media_type=kind.media_type), max_chars=max_chars)


def _read_as(media_type: str, content: bytes) -> Parsed:
    # Imported when first needed: a process that parses rows never loads a PDF library.
    reader = import_module(f"{formats.__name__}.{_READERS[media_type]}")
    parsed: Parsed = reader.read(content)
    return parsed
