"""The parsing process: it reads requests from standard input, writes replies to standard output, and nothing else.

    request   4 bytes header length, 8 bytes body length (big-endian), header (JSON), body (the document)
    reply     4 bytes length (big-endian), JSON of `ParsedDocument.as_dict`

It limits itself before it reads a document: address space, CPU time (renewed for each document), no file
writing, no core dump, few open files. An audit hook refuses sockets, subprocesses and writing to files, which
stops a parser's own features (external entities, remote images). It does not stop native code that an exploit
runs: to stop that, run the tasks in a container without a network. The parent limits wall time.

Run by `corpus_guard.intake.parsing.sandbox`: ``python -m corpus_guard.intake.parsing.worker``.
"""

from __future__ import annotations

import math
import os
import resource
import struct
import sys
from dataclasses import replace
from importlib import import_module
from typing import IO

import orjson

from corpus_guard.errors import HostileInput, Unreadable
from corpus_guard.intake.parsing import formats, media
from corpus_guard.intake.parsing.document import ParsedDocument, clean_declared, failed_document, finalize
from corpus_guard.intake.parsing.headings import find_title

REQUEST = struct.Struct(">IQ")
REPLY = struct.Struct(">I")
_MAX_OPEN_FILES = 64
_REFUSED_EVENTS = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "pty.",
    "ftplib.",
    "urllib.",
)
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
    media.EMAIL: "eml",
    media.NOTEBOOK: "ipynb",
}


def main() -> int:
    """Serve until standard input ends; arguments: bytes of memory, seconds of CPU time a document."""
    memory, seconds = int(sys.argv[1]), float(sys.argv[2])
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a parser prints must not count as a reply
    _limit_resources(memory)
    sys.addaudithook(_refuse)
    while (prefix := _read_exactly(requests, REQUEST.size)) is not None:
        header_size, body_size = REQUEST.unpack(prefix)
        header = orjson.loads(_read_exactly(requests, header_size) or b"{}")
        body = _read_exactly(requests, body_size) or b""
        _allow_cpu(seconds)
        parsed = parse_safely(body, **header)
        reply = orjson.dumps(parsed.as_dict())
        replies.write(REPLY.pack(len(reply)) + reply)
        replies.flush()
        del body, parsed, reply
    return 0


def parse_safely(content: bytes, *, media_type: str, name: str, max_chars: int) -> ParsedDocument:
    """Read a document as `read_document` does; turn every failure into a `ParsedDocument` that states it."""
    try:
        return read_document(content, media_type, name, max_chars=max_chars)
    except HostileInput as error:
        return failed_document(
            error.code.removeprefix("parsing."),
            str(error),
            media.detect_media_type(content, media_type, name).media_type,
        )
    except MemoryError:
        return failed_document("memory", "reading the document took more memory than the limit")
    except Exception as error:
        return failed_document(
            "unreadable", f"the document is damaged, or crafted to confuse its reader ({type(error).__name__})"
        )


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
        raise _broken_row(media_type, content)
    if not content.strip():
        return failed_document("empty", f"the document has {len(content)} bytes and no text", decision.media_type)
    # Imported when first needed: a process that parses rows never loads a PDF library.
    reader = import_module(f"{formats.__name__}.{_READERS[decision.media_type]}")
    document: ParsedDocument = reader.read(content)
    problems = (*decision.problems, *document.problems)
    return _entitle(finalize(replace(document, problems=problems, media_type=decision.media_type), max_chars=max_chars))


def _entitle(document: ParsedDocument) -> ParsedDocument:
    """Return a document that declares no title with the heading that names its text, if it has one."""
    if "title" in document.declared:
        return document
    title = find_title(document.text, is_markdown=document.media_type not in {media.TEXT, media.ROW})
    return replace(document, declared=clean_declared({**document.declared, "title": title})) if title else document


def _limit_resources(memory: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _MAX_OPEN_FILES),
    ):
        ceiling = resource.getrlimit(limit)[1]
        bound = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(limit, (bound, bound))


def _allow_cpu(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(used.ru_utime + used.ru_stime + seconds)
    ceiling = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if ceiling == resource.RLIM_INFINITY else min(soft, ceiling), ceiling)
    )


def _refuse(event: str, arguments: tuple[object, ...]) -> None:
    if event.startswith(_REFUSED_EVENTS) or (event == "open" and _writes(arguments)):
        raise PermissionError(f"the parsing process may not do this ({event})")


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _read_exactly(stream: IO[bytes], size: int) -> bytes | None:
    data = stream.read(size)
    return data if len(data) == size else None


def _broken_row(media_type: str, content: bytes) -> Unreadable:
    line = media_type.partition("line=")[2]
    if not (line.isascii() and line.isdigit() and len(line) < 12):
        where = "a line of the file cannot be read as a row"
    elif more := content.rstrip(b"\r\n").count(b"\n"):  # a quote that never closes swallows the rows after it
        where = f"lines {int(line)} to {int(line) + more} of the file cannot be read as rows"
    else:
        where = f"line {int(line)} of the file cannot be read as a row"
    return Unreadable("parsing.broken_row", f"{where}; correct it at the source")


if __name__ == "__main__":
    sys.exit(main())
