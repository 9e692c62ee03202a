"""The parsing process: reads requests from standard input, writes replies to standard output, does nothing else.

    request   4 bytes header length, 8 bytes body length (big-endian), header (JSON), body (the document)
    reply     4 bytes length (big-endian), JSON of `Parsed.as_dict`

It limits itself before it looks at a document: address space, CPU time (renewed for each document), no file writing, no
core dump, few open files. An audit hook refuses sockets, subprocesses and writing to files, which stops a parser's own
features (external entities, remote images); it does not stop native code that an exploit runs. Who needs that runs the
tasks in a container without a network. Wall time is the parent's to limit.

Run by `corpus_guard.intake.parsing.sandbox`: ``python -m corpus_guard.intake.parsing.worker``.
"""

from __future__ import annotations

import os
import resource
import struct
import sys
from typing import IO, Any

import orjson

from corpus_guard.errors import HostileInput
from corpus_guard.intake.parsing import media
from corpus_guard.intake.parsing.parsed import Parsed, failure
from corpus_guard.intake.parsing.reading import read

REQUEST = struct.Struct(">IQ")
REPLY = struct.Struct(">I")
_OPEN_FILES = 64
_REFUSED = (
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


def main() -> int:
    """Serve until standard input ends; the limits come as arguments: bytes of memory, seconds of CPU a document."""
    memory, seconds = int(sys.argv[1]), float(sys.argv[2])
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a parser that prints must not be taken for a reply
    _limit(memory)
    sys.addaudithook(_refuse)
    while (head := _exactly(requests, REQUEST.size)) is not None:
        header_size, body_size = REQUEST.unpack(head)
        header = orjson.loads(_exactly(requests, header_size) or b"{}")
        body = _exactly(requests, body_size) or b""
        _allow_cpu(seconds)
        parsed = answer(body, **header)
        reply = orjson.dumps(parsed.as_dict())
        replies.write(REPLY.pack(len(reply)) + reply)
        replies.flush()
        del body, parsed, reply
    return 0


def answer(content: bytes, *, media_type: str, name: str, max_chars: int) -> Parsed:
    """`read`, with every way a parser can fail turned into a `Parsed` that says so."""
    try:
        return read(content, media_type, name, max_chars=max_chars)
    except HostileInput as error:
        return failure(
            error.code.removeprefix("parsing."), str(error), media.decide(content, media_type, name).media_type
        )
    except MemoryError:
        return failure("memory", "reading the document took more memory than it may have")
    except Exception as error:
        return failure("unreadable", f"the document is damaged, or made to confuse its reader ({type(error).__name__})")


def _limit(memory: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        ceiling = resource.getrlimit(limit)[1]
        bound = value if ceiling == resource.RLIM_INFINITY else min(value, ceiling)
        resource.setrlimit(limit, (bound, bound))


def _allow_cpu(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 2
    ceiling = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if ceiling == resource.RLIM_INFINITY else min(soft, ceiling), ceiling)
    )


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    if event.startswith(_REFUSED) or (event == "open" and _writes(arguments)):
        raise PermissionError(f"the parsing process may not do this ({event})")


def _writes(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _exactly(stream: IO[bytes], size: int) -> bytes | None:
    data = stream.read(size)
    return data if len(data) == size else None


if __name__ == "__main__":
    sys.exit(main())
