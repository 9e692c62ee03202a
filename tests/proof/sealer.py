"""What the test of killed seals runs in another process."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from corpus_guard.deployment import Deployment
from corpus_guard.settings import Settings

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["corpus_guard.proof.sealing", "chromadb", "cryptography", "alembic.command"])


def seal_until(settings: Settings, write: int, tape: Path) -> None:
    """Seal, and die before the `write`-th write: a statement that changes something, a commit, a file that is flushed or moved."""
    passed = 0

    def count(what: str) -> None:
        nonlocal passed
        passed += 1
        if passed == write:
            with tape.open("a", encoding="utf-8") as said:
                said.write(what + "\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def statement(connection: Any, cursor: Any, text: str, *rest: Any) -> None:
        if text.lstrip().upper().startswith(("INSERT", "UPDATE", "DELETE")):
            count(text.split()[2])

    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    sa.event.listen(sa.Engine, "commit", lambda connection: count("commit"))
    flush, replace = os.fsync, os.replace
    os.fsync = lambda descriptor: (count("fsync"), flush(descriptor))[1]
    os.replace = lambda *names, **more: (count("replace"), replace(*names, **more))[1]  # type: ignore[assignment]
    with Deployment(settings) as guard:
        guard.seal("killed")


def run(settings: Settings, write: int, tape: Path) -> int | None:
    """The exit code; -9 where it was killed."""
    process = PROCESSES.Process(target=seal_until, args=(settings, write, tape))
    process.start()
    process.join(120)
    return process.exitcode
