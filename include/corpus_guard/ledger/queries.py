"""Statements that SQLite and PostgreSQL word differently, or that name more ids than one statement may.

All of them run in the transaction of the connection they are given.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from corpus_guard.domain import Counterstatement, Finding, Severity, Span

IdT = TypeVar("IdT", str, int)
RecordT = TypeVar("RecordT")
Row: TypeAlias = "sa.Row[*tuple[Any, ...]]"
"""A row of a statement; its attributes are the selected columns."""
Select: TypeAlias = "sa.Select[*tuple[Any, ...]]"

IDS_PER_STATEMENT: Final = 500
"""Ids that one statement names at most: databases limit the number of a statement's parameters."""


def select_in_batches(
    connection: Connection, statement: Select, column: sa.ColumnElement[Any], ids: Iterable[IdT]
) -> Iterator[Row]:
    """Yield the rows of `statement` whose `column` is one of `ids`, however many ids there are.

    Equal ids are asked for once; the order of the rows is the statement's own only within each batch of ids.
    """
    distinct = sorted(set(ids))
    for start in range(0, len(distinct), IDS_PER_STATEMENT):
        batch = distinct[start : start + IDS_PER_STATEMENT]
        yield from connection.execute(statement.where(column.in_(batch))).all()


def rows_by_id(connection: Connection, statement: Select, ids: Iterable[IdT]) -> dict[IdT, Row]:
    """Return the rows of `statement` for these ids, by id: its first column. Of several rows of an id, one is returned."""
    return {row[0]: row for row in select_in_batches(connection, statement, statement.selected_columns[0], ids)}


def values_by_id(connection: Connection, statement: Select, ids: Iterable[IdT]) -> dict[IdT, Any]:
    """Return the second column of `statement` for these ids, by id: its first column."""
    return {row_id: row[1] for row_id, row in rows_by_id(connection, statement, ids).items()}


def record_from_row(kind: type[RecordT], row: Row, **values: Any) -> RecordT:
    """Return a dataclass whose fields are `values`, and for all others the row's columns of the same names."""
    columns = {field.name: getattr(row, field.name) for field in fields(kind) if field.name not in values}  # type: ignore[arg-type]
    return kind(**columns, **values)


def finding_from_row(row: Row) -> Finding:
    """Return the finding that a row of the table `findings` holds."""
    span = Span(row.span_start, row.span_end) if row.span_start is not None else None
    severity, muted = Severity(row.severity), bool(row.muted)
    counter = Counterstatement.from_dict(row.counterstatement) if row.counterstatement else None
    return Finding(row.check_name, row.code, severity, row.score, row.message, span, tuple(row.tags), muted, counter)


def insert_missing(connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert the rows whose key is not in the table yet."""
    if rows:
        connection.execute(_insert(connection, table).on_conflict_do_nothing(), list(rows))


def upsert(
    connection: Connection,
    table: sa.Table,
    rows: Sequence[Mapping[str, object]],
    update: Sequence[str],
    only: sa.ColumnElement[bool] | None = None,
) -> None:
    """Insert rows; where a key exists, overwrite the columns `update` if the existing row meets `only`."""
    if not rows:
        return
    statement = _insert(connection, table)
    keys = [column.name for column in table.primary_key]
    overwrite = {name: statement.excluded[name] for name in update}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=overwrite, where=only), list(rows))


def is_sqlite(connection: Connection) -> bool:
    """Return whether the ledger is a SQLite file."""
    return connection.dialect.name == "sqlite"


def advisory_lock_key(name: str) -> int:
    """Return the number under which PostgreSQL knows the lock `name`."""
    return zlib.crc32(f"corpus-guard/{name}".encode())


def _insert(connection: Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if is_sqlite(connection) else postgresql.insert(table)
