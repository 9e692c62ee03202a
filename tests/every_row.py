"""A ledger with rows in every table, made from the schema alone: a table or a column that is added tomorrow is in it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from corpus_guard.corpus.retrieval_log import query_id
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import UtcDateTime, metadata
from material import START

GROUPS = 32
"""Rows in each table; row 3 of a table names row 3 of the tables it refers to."""

MADE_BY_OTHERS = ("events", "heads", "deployment")
"""Tables that nobody writes to in this way: the log's, and one that a migration fills."""

TABLES = tuple(table for table in metadata.sorted_tables if table.name not in MADE_BY_OTHERS)


def allowed_words(column: sa.Column[Any]) -> list[str]:
    """The words that a constraint allows; empty: any."""
    for constraint in column.table.constraints:
        if isinstance(constraint, sa.CheckConstraint) and str(constraint.sqltext).startswith(f"{column.name} IN"):
            return re.findall(r"'([^']*)'", str(constraint.sqltext))
    return []


def value_of(column: sa.Column[Any], number: int) -> Any:
    """The value of a column in row `number`."""
    if words := allowed_words(column):
        return words[0]
    if column.name == "query_id":
        return query_id(f"Question {number}")
    kind = column.type
    if isinstance(kind, UtcDateTime):
        return START + timedelta(minutes=number)
    if isinstance(kind, sa.JSON):
        return {"number": number}
    if isinstance(kind, sa.LargeBinary):
        return bytes([number])
    if isinstance(kind, sa.Boolean):
        return True
    if isinstance(kind, sa.Float):
        return number + 0.25
    if isinstance(kind, sa.Integer):
        return number
    if (column.table.name, column.name) == ("queries", "text"):
        return f"Question {number}"
    return f"{number:032x}"[-(getattr(kind, "length", None) or 32) :]


def fill(ledger: Ledger) -> None:
    """Write GROUPS rows into each table, as our own code writes: through `Ledger.write`."""
    with ledger.write() as connection:
        insert_rows(connection)


def insert_rows(connection: sa.Connection, *, without: tuple[str, ...] = ()) -> None:
    """Insert GROUPS rows into each table."""
    for table in TABLES:
        if table.name not in without:
            rows = [{column.name: value_of(column, number) for column in table.c} for number in range(GROUPS)]
            connection.execute(table.insert(), rows)


def another_value(column: sa.Column[Any], number: int) -> Any:
    """A value, as SQLite stores it, that is not that of row `number` nor of any other."""
    if words := allowed_words(column):
        return words[-1]
    kind = column.type
    if isinstance(kind, UtcDateTime):
        return "2199-01-01 00:00:00.000000"
    if isinstance(kind, sa.JSON):
        return '{"number": 77}'
    if isinstance(kind, sa.LargeBinary):
        return b"another"
    if isinstance(kind, sa.Boolean):
        return 0
    if isinstance(kind, sa.Float):
        return 77.5
    return 77_000 + number if isinstance(kind, sa.Integer) else f"{number:016x}{'f' * 16}"


@contextmanager
def edited(file: Path) -> Iterator[sqlite3.Connection]:
    """The file of a ledger in the hands of somebody who owns it: without triggers and foreign keys."""
    with closing(sqlite3.connect(file)) as database, database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        yield database
