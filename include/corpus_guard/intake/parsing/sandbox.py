"""Parsing in a sandbox: a process with limits runs the real parsers; whatever one document does, the others go on.

Rules:

- Every document yields a `ParsedDocument`, in order. A parser that hangs, runs out of memory or dies becomes
  a critical problem of *its* document (``parsing.timeout``, ``parsing.memory``, ``parsing.crashed``); the
  next one gets a fresh process.
- Each sandbox has one worker process, started when first needed, in a process group of its own, with an
  almost empty environment and without the parent's files. Its standard error is dropped: it may quote
  documents.
- A reply is bounded in size and checked in shape: the process has read hostile bytes and is not trusted.
- Rows, UTF-8 text and Markdown (without front matter) up to 1 MiB are read in the calling process: no native
  parser touches them, and a round trip to the worker would cost more than reading them.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import orjson

from corpus_guard.intake.parsing import media, worker
from corpus_guard.intake.parsing.document import ParsedDocument, failed_document, replace_unstorable

if TYPE_CHECKING:
    from corpus_guard.settings import Settings

Key = TypeVar("Key")

_PACKAGES = Path(__file__).resolve().parents[3]  # the folder that holds corpus_guard
_REPLY_OVERHEAD = 2**20  # bytes for everything in a reply that is neither text nor hidden text
_JSON_CHAR = 6  # bytes one code point can take: "\u0000"
_PIPE_BYTES = 2**18
_PATIENCE = 6  # times its CPU time that a document may take by the clock: the machine may be busy with others
# Binary data is not read at all.
_LIGHT = frozenset({media.ROW, media.BROKEN_ROW, media.TEXT, media.MARKDOWN, media.BINARY})
_LIGHT_BYTES = 2**20


class ParsingSandbox:
    """Parser of documents under the module's rules. A context manager; not for two threads at once."""

    def __init__(self, settings: Settings) -> None:
        self._seconds = settings.parse_seconds
        self._memory = settings.parse_memory_bytes
        self._max_chars = settings.max_text_chars
        self._max_bytes = settings.max_document_bytes
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def parse_many(self, documents: Iterable[tuple[Key, bytes, str, str]]) -> Iterator[tuple[Key, ParsedDocument]]:
        """Parse each ``(key, bytes, media type, name)``; yield ``(key, document)`` in the same order."""
        for key, content, media_type, name in documents:
            yield key, self.parse(content, media_type, name)

    def parse(self, content: bytes, media_type: str, name: str) -> ParsedDocument:
        """Parse one document; never raise for anything the document does."""
        if len(content) > self._max_bytes:
            return failed_document(
                "too_large", f"the document has {len(content):,} bytes; the limit is {self._max_bytes:,} bytes"
            )
        decision = media.detect_media_type(content, media_type, name)
        if _is_light(content, decision):
            return worker.parse_safely(content, media_type=media_type, name=name, max_chars=self._max_chars)
        header = {"media_type": media_type, "name": replace_unstorable(name), "max_chars": self._max_chars}
        parsed = self._parse_in_worker(orjson.dumps(header), content)
        return parsed if parsed.media_type else replace(parsed, media_type=decision.media_type)

    def _parse_in_worker(self, header: bytes, content: bytes) -> ParsedDocument:
        deadline = time.monotonic() + _PATIENCE * self._seconds
        try:
            process = self._running_process()
            request = worker.REQUEST.pack(len(header), len(content)) + header + content
            reply = _exchange(process, request, deadline, self._reply_limit())
            parsed = ParsedDocument.from_dict(orjson.loads(reply))
        except TimeoutError:
            self._stop()
            return failed_document(
                "timeout", f"reading the document took longer than {_PATIENCE * self._seconds:g} seconds"
            )
        except (BrokenPipeError, EOFError):
            return self._explain_death()
        except (ValueError, KeyError, TypeError, AttributeError):
            self._stop()
            return failed_document("crashed", "the parsing process sent an invalid reply; it may have been compromised")
        if any(problem.code == "parsing.memory" for problem in parsed.problems):
            self._stop()  # its heap is fragmented: the next document must not suffer for this one
        return parsed

    def _reply_limit(self) -> int:
        return 2 * _JSON_CHAR * self._max_chars + _REPLY_OVERHEAD

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", "-m", worker.__name__, str(self._memory), str(self._seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": str(_PACKAGES), "PYTHONUTF8": "1", "MALLOC_ARENA_MAX": "2", "PATH": os.defpath},
            cwd="/",
            start_new_session=True,
        )
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None  # noqa: S101 - both are pipes
            os.set_blocking(stream.fileno(), False)
        return self._process

    def _explain_death(self) -> ParsedDocument:
        """Turn the worker's exit, or the loss of its pipes, into a problem of the document it was reading."""
        process = self._process
        try:
            status = process.wait(timeout=2) if process is not None else 0
        except subprocess.TimeoutExpired:
            status = 0  # it closed its pipes and lives on: a healthy worker does neither
        self._stop()
        if status == -signal.SIGXCPU:
            return failed_document(
                "timeout", f"reading the document took more than {self._seconds:g} seconds of CPU time"
            )
        if status == -signal.SIGABRT:
            return failed_document(
                "memory", "the parser aborted (SIGABRT), as native parsers do when they get no memory"
            )
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        return failed_document("crashed", f"the parser died while reading the document ({how})")

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # its group, in case it managed to start something
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _exchange(process: subprocess.Popen[bytes], request: bytes, deadline: float, limit: int) -> bytes:
    """Send `request` and return the reply's JSON; write and read at the same time, so that neither side blocks.

    Raises:
        TimeoutError: the deadline (monotonic seconds) passed.
        EOFError, BrokenPipeError: the process closed its pipes.
        ValueError: the reply is longer than `limit` bytes.
    """
    assert process.stdin is not None and process.stdout is not None  # noqa: S101 - both are pipes
    to_worker, from_worker = process.stdin.fileno(), process.stdout.fileno()
    unsent, reply = memoryview(request), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(to_worker, selectors.EVENT_WRITE)
        selector.register(from_worker, selectors.EVENT_READ)
        while True:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError
            for key, _ in selector.select(remaining):
                if key.fd == to_worker:
                    unsent = unsent[os.write(to_worker, unsent[:_PIPE_BYTES]) :]
                    if not unsent:
                        selector.unregister(to_worker)
                    continue
                piece = os.read(from_worker, _PIPE_BYTES)
                if not piece:
                    raise EOFError
                reply += piece
            if len(reply) >= worker.REPLY.size:
                (size,) = worker.REPLY.unpack_from(reply)
                if size > limit or len(reply) > size + worker.REPLY.size:
                    raise ValueError(f"the reply has {size:,} bytes; the limit is {limit:,}")
                if len(reply) == size + worker.REPLY.size and not unsent:
                    return bytes(reply[worker.REPLY.size :])


def _is_light(content: bytes, decision: media.MediaDecision) -> bool:
    """Return whether a document may be read outside the parsing process: decoding and a linear scan.

    Guessing an encoding and reading front matter are not light: both take seconds on some inputs.
    """
    if decision.media_type not in _LIGHT or len(content) > _LIGHT_BYTES:
        return False
    if decision.media_type == media.MARKDOWN and content.startswith(b"---"):
        return False  # 16 kB of hostile YAML take seconds
    try:
        content.decode()
    except UnicodeDecodeError:
        return decision.media_type in {media.BINARY, media.BROKEN_ROW}
    return True
