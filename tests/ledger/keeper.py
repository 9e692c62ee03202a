"""What the ledger's tests run in other processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.runs import at_work, begin_refresh

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["corpus_guard.ledger.ledger", "alembic.command", "psycopg2"])


def write_many(url: str, writer: int, count: int, start: Any) -> None:
    """`count` transactions that read before they write: with a lazily taken lock, one of two such writers fails."""
    ledger = Ledger(url)
    start.wait(60)
    for number in range(count):
        with ledger.write() as connection:
            connection.execute(sa.text("SELECT count(*) FROM events")).scalar()
            append_event(connection, "written", f"{writer}/{number}", "run")
    ledger.close()


def open_at_once(url: str, start: Any) -> None:
    start.wait(60)
    Ledger(url).close()


def hold(url: str, held: Any) -> None:
    """Take the lock, say so, and wait to be killed."""
    with Ledger(url).exclusive("publish"):
        held.set()
        signal.pause()


def work(url: str, run_id: str, sources: list[str], begun: Any) -> None:
    """Begin a refresh, say so, and work on it until killed."""
    ledger = Ledger(url)
    with at_work(ledger, run_id):
        begin_refresh(ledger, run_id, "", sources)
        begun.set()
        signal.pause()


def count_up(url: str, counter: Path, rounds: int, start: Any) -> None:
    """Lose updates unless the lock is exclusive."""
    ledger = Ledger(url)
    start.wait(60)
    for _ in range(rounds):
        with ledger.exclusive("publish"):
            counter.write_text(str(int(counter.read_text()) + 1))
    ledger.close()


def die_while_migrating(url: str, statement: int) -> None:
    """Kill this process before the `statement`-th statement that makes something."""
    passed = 0

    def count(connection: Any, cursor: Any, text: str, *rest: Any) -> None:
        nonlocal passed
        if text.lstrip().startswith(("CREATE", "INSERT")):
            passed += 1
            if passed == statement:
                os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    Ledger(url).close()


def run(target: Any, *arguments: Any) -> Any:
    """A started process."""
    process = PROCESSES.Process(target=target, args=arguments)
    process.start()
    return process


def ended(process: Any, seconds: float = 120) -> int | None:
    """Its exit code; None where it still runs."""
    process.join(seconds)
    code: int | None = process.exitcode
    return code
