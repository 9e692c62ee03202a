"""How much SQLite does for a piece of work: a measure that neither the machine nor what runs beside it changes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import sqlalchemy as sa

from corpus_guard.ledger import Ledger

STEP = 1  # instructions between two counts: those of a statement that takes fewer are not counted


def sqlite_steps(ledger: Ledger, work: Callable[[], object]) -> int:
    """Return how many instructions SQLite's machine takes while `work` runs."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    def listen(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_progress_handler(count, STEP)

    sa.event.listen(ledger.engine, "checkout", listen)
    try:
        work()
    finally:
        sa.event.remove(ledger.engine, "checkout", listen)
    return counted
