"""Digests of rows: what our own transactions wrote, told by the event log.

Rules
    * rows are digested in groups: those with one value in the table's group column (all findings of a version);
    * before a statement of `Ledger.write` changes a group, its digest is taken, and again when the transaction
      is about to commit; groups that differ stand in an event of kind ``rows``, one for each table: key of the
      group → ``before>after``, without ``before>`` for a new group, with nothing after it for one that is gone;
    * so each event names the digest that the one before it left: a change from outside stays visible after our
      own next write to the group;
    * a column that is null or holds its server default is left out: a migration that adds one changes no
      digest;
    * every table and every column is digested, except those that `UNLOGGED` names with a reason.

A statement is noticed if it is one of SQLAlchemy's on a table of `corpus_guard.ledger.tables`. SQL text and a
migration's own tables are not: a migration that changes rows calls `corpus_guard.ledger.adoption.adopt_rows`.

Not done here: comparing. `corpus_guard.proof.verify.rows` does.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.sql import operators

from corpus_guard.ledger.queries import IDS_PER_STATEMENT, Row, is_sqlite
from corpus_guard.ledger.tables import events, metadata

ROWS_EVENT: Final = "rows"
"""Kind of the events that hold digests; their subject is the table."""
ADOPTED_EVENT: Final = "adopted"
"""The same, for rows that were written before digests were logged: recorded as they were, not proved."""

GROUPS: Final = "groups"  # field of these events' bodies: key of a group → its digest
GROUPS_PER_EVENT: Final = 500
ROWS_PER_FETCH: Final = 1_000
DIGEST_BYTES: Final = 16
ABSENT: Final = ""  # digest of a group without rows

UNLOGGED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "events": "it is the log: each row has the leaf hash of its line, and the heads are signed over the leaves",
        "heads": "each row repeats its signed note, with which it is compared",
        "heads.signed_at": "no age is taken from it; that of a head is the time of its newest event",
        "queries": "a row's id is the hash of its text, with which it is compared; counts and times come from the "
        "retrieval log, and decide no verdict",
        "retrievals": "one row for each search of an application: it decides nothing that is served, and is deleted "
        "after a time",
        "retrieved_chunks": "rows of `retrievals`: what is exposed is counted from them, nothing is decided by them",
        "deployment": "every collection names the same id, and each opening compares the two",
        "runs.awaited_until": "each task of a run writes it; only what people are told about a run, and when the next cleaning is, "
        "depend on it, and a time beyond the next task does not count",
        "documents.last_seen_at": "each refresh writes it for every listed document; only a time in the future would "
        "keep a vanished document, and that is looked for",
    }
)
"""``table`` or ``table.column`` → why no event holds its digest."""

# Of all other tables: the first column of the primary key.
_GROUP_COLUMNS: Final = MappingProxyType(
    {"bands": "version_id", "chunks": "version_id", "publications": "doc_id", "seals": "run_id"}
)

DIGESTED_TABLES: Final[Mapping[str, sa.Table]] = MappingProxyType(
    {table.name: table for table in metadata.sorted_tables if table.name not in UNLOGGED}
)

Changes: TypeAlias = defaultdict[str, dict[Any, str]]
"""Table → key of each group that the open transaction touched → its digest before."""

_CHANGES: Final = "corpus_guard_row_changes"  # key of `connection.info`


class LoggedGroup(NamedTuple):
    """A group of rows, as the log tells it."""

    key: str
    digest: str
    broken_at: int | None  # number of the event before which somebody else had changed the group
    expected: str  # digest by the event before that one
    met: str  # digest that it met instead


@contextlib.contextmanager
def noticed_changes(connection: Connection) -> Iterator[Changes]:
    """Notice the changes of a transaction while the block runs."""
    info = connection.info  # of the driver's connection: it outlives a transaction that fails
    changes: Changes = defaultdict(dict)
    info[_CHANGES] = changes
    try:
        yield changes
    finally:
        del info[_CHANGES]


def note_change(
    connection: Connection,
    statement: object,
    multiparams: Sequence[Mapping[str, Any]],
    params: Mapping[str, Any],
    _options: Mapping[str, Any],
) -> None:
    """Take the digests of the groups that `statement` is about to change (SQLAlchemy's ``before_execute``)."""
    changes: Changes | None = connection.info.get(_CHANGES)
    if changes is None or not isinstance(statement, sa.Insert | sa.Update | sa.Delete):
        return
    table = statement.table
    if not isinstance(table, sa.Table) or DIGESTED_TABLES.get(table.name) is not table:
        return
    if isinstance(statement, sa.Update) and _leaves_digests(statement, table):
        return
    parameter_sets = multiparams or [params]
    digests = changes[table.name]
    keys: set[Any] = set()
    for parameters in parameter_sets:
        keys.update(_touched_keys(connection, statement, group_column(table), parameters))
    keys.difference_update(digests)
    digests.update(group_digests(connection, table, keys, lock=True))


def _leaves_digests(statement: sa.Update, table: sa.Table) -> bool:
    """Return True for an UPDATE that names its columns, none of which digests cover."""
    assigned: Iterable[Any] = statement._values or ()  # no public name in SQLAlchemy 2.0; None: parameters name them
    names = {str(getattr(column, "key", column)) for column in assigned}
    return bool(names) and names.isdisjoint(column.key for column in digested_columns(table))


def changed_groups(connection: Connection, changes: Changes) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield (table, key → digests) for the groups that differ from what they were, GROUPS_PER_EVENT at a time."""
    for name, before in changes.items():
        after = group_digests(connection, DIGESTED_TABLES[name], before)
        different = {
            str(key): f"{before[key]}>{digest}" if before[key] else digest
            for key, digest in after.items()
            if digest != before[key]
        }
        ordered = sorted(different.items())
        for start in range(0, len(ordered), GROUPS_PER_EVENT):
            yield name, dict(ordered[start : start + GROUPS_PER_EVENT])


def group_column(table: sa.Table) -> sa.Column[Any]:
    """Return the column whose equal values make a group."""
    if table.name in _GROUP_COLUMNS:
        return table.c[_GROUP_COLUMNS[table.name]]
    return next(iter(table.primary_key))


def digested_columns(table: sa.Table) -> list[sa.Column[Any]]:
    """Return the columns of a table that digests cover."""
    return [column for column in table.c if f"{table.name}.{column.name}" not in UNLOGGED]


def group_digests(
    connection: Connection, table: sa.Table, keys: Iterable[Any], *, lock: bool = False
) -> dict[Any, str]:
    """Return the digest of each of these groups; ABSENT where there are no rows.

    Args:
        lock: keep other transactions from changing the rows that exist (PostgreSQL; SQLite has one writer). Rows that
            refer to them may be added meanwhile: forbidding that, too, ends in deadlocks.
    """
    group = group_column(table)
    statement = _select(table, digested_columns(table), group)
    statement = statement.with_for_update(key_share=True) if lock else statement
    ordered = sorted(keys)
    digests: dict[Any, str] = dict.fromkeys(ordered, ABSENT)
    encode = _RowEncoder(table, digested_columns(table))
    for start in range(0, len(ordered), IDS_PER_STATEMENT):
        lines: dict[Any, list[bytes]] = defaultdict(list)
        batch = ordered[start : start + IDS_PER_STATEMENT]
        for key, *values in connection.execute(statement.where(group.in_(batch))):
            lines[key].append(encode(values))
        digests.update((key, _digest(rows)) for key, rows in lines.items())
    return digests


def stored_digests(
    connection: Connection, table: sa.Table, columns: Sequence[sa.Column[Any]] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield (key, digest) of every group of a table, by key; memory stays flat.

    Args:
        columns: that exist; all of `digested_columns` if None.
    """
    columns = digested_columns(table) if columns is None else columns
    key = _sort_key(connection, group_column(table))
    statement = _select(table, columns, key).order_by(key).execution_options(yield_per=ROWS_PER_FETCH)
    encode = _RowEncoder(table, columns)
    for value, rows in groupby(connection.execute(statement), key=lambda row: row[0]):
        yield str(value), _digest([encode(row[1:]) for row in rows])


def logged_digests(connection: Connection, table: sa.Table) -> Iterator[LoggedGroup]:
    """Yield what the log says about every group of a table, by key; memory stays flat.

    Groups that are gone are yielded with the digest ABSENT.
    """
    if is_sqlite(connection):  # the database's file may have been edited: any text may lie in the body
        is_json = sa.func.json_valid(sa.cast(events.c.body, sa.Text))
        body = sa.case((is_json == 1, sa.cast(events.c.body, sa.Text)), else_="{}")
        pairs = sa.func.json_each(body, f"$.{GROUPS}").table_valued("key", "value")
    else:
        pairs = sa.func.json_each_text(events.c.body[GROUPS]).table_valued("key", "value")
    key = _sort_key(connection, pairs.c.key)
    statement = (
        sa.select(key, pairs.c.value, events.c.kind, events.c.seq)
        .select_from(events.join(pairs, sa.true()))
        .where(events.c.kind.in_((ROWS_EVENT, ADOPTED_EVENT)), events.c.subject == table.name)
        .order_by(key, events.c.seq)
        .execution_options(yield_per=ROWS_PER_FETCH)
    )
    for value, group_events in groupby(connection.execute(statement), key=lambda row: row[0]):
        yield _followed(str(value), group_events)


def _followed(key: str, group_events: Iterable[Row]) -> LoggedGroup:
    """Follow a group through the events that tell of it."""
    group = LoggedGroup(key, ABSENT, None, "", "")
    for _, value, kind, seq in group_events:
        before, _, after = str(value).rpartition(">")
        if kind == ADOPTED_EVENT:
            group = LoggedGroup(key, after, None, "", "")
        elif before and before != group.digest and group.broken_at is None:
            group = LoggedGroup(key, after, seq, group.digest, before)
        else:
            group = group._replace(digest=after)
    return group


def _touched_keys(
    connection: Connection,
    statement: sa.Insert | sa.Update | sa.Delete,
    group: sa.Column[Any],
    parameters: Mapping[str, Any],
) -> Iterable[Any]:
    """Return the keys of the groups that a statement may change with these parameters.

    Raises:
        TypeError: an INSERT does not say to which group its row belongs.
    """
    if isinstance(statement, sa.Insert):
        if group.name not in parameters:
            parameters = statement.compile(dialect=connection.dialect).params
        if group.name not in parameters:
            raise TypeError(
                f"an INSERT into {group.table} must give {group.name} as a value: its rows are logged by it"
            )
        return [parameters[group.name]]
    condition = statement.whereclause
    named = _named_keys(condition, group, parameters)
    if named is not None:
        return named
    statement_of_keys = sa.select(group).distinct()
    if condition is not None:
        statement_of_keys = statement_of_keys.where(condition)
    return connection.execute(statement_of_keys, dict(parameters)).scalars().all()


def _named_keys(
    condition: sa.ColumnElement[Any] | None, group: sa.Column[Any], parameters: Mapping[str, Any]
) -> Sequence[Any] | None:
    """Return the keys that a condition names itself (``doc_id = …``, ``doc_id IN …``); None if it names none."""
    is_conjunction = isinstance(condition, sa.BooleanClauseList) and condition.operator is operators.and_
    for part in condition.clauses if is_conjunction and condition is not None else [condition]:
        if not isinstance(part, sa.BinaryExpression) or part.left is not group:
            continue
        if not isinstance(part.right, sa.BindParameter):
            continue
        value = parameters.get(part.right.key, part.right.effective_value)
        if part.operator is operators.eq:
            return [value]
        if part.operator is operators.in_op:
            return list(value)
    return None


class _RowEncoder:
    """Byte form of rows: canonical JSON of their values by column, as the database stores them."""

    def __init__(self, table: sa.Table, columns: Sequence[sa.Column[Any]]) -> None:
        self._names = [str(column.name) for column in columns]  # SQLAlchemy's are a kind of str
        self._defaults = {str(column.name): _default(column) for column in columns if column.server_default is not None}
        self._table = table

    def __call__(self, values: Iterable[Any]) -> bytes:
        row = {name: value for name, value in zip(self._names, values, strict=True) if value is not None}
        for name, default in self._defaults.items():
            if row.get(name) == default:
                del row[name]
        return orjson.dumps(row, default=_plain, option=orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATETIME)


def _default(column: sa.Column[Any]) -> str:
    default = column.server_default
    return str(default.arg).strip("'") if isinstance(default, sa.DefaultClause) else ""


def _plain(value: object) -> str:
    if isinstance(value, datetime):  # PostgreSQL gives it in the time zone of the session
        return value.astimezone(UTC).isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return str(value)


def _digest(lines: list[bytes]) -> str:
    return hashlib.sha256(b"\n".join(sorted(lines))).digest()[:DIGEST_BYTES].hex()


def _select(table: sa.Table, columns: Iterable[sa.Column[Any]], key: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Return a SELECT of the key and of the columns as they are stored: text that no longer parses is read too."""
    stored = [
        sa.cast(column, sa.Text) if isinstance(column.type, sa.JSON) else sa.type_coerce(column, sa.types.NullType())
        for column in columns
    ]
    return sa.select(key, *stored).select_from(table)


def _sort_key(connection: Connection, column: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    """Return a column as text in the order of its bytes, in which Python sorts too."""
    text = column if isinstance(column.type, sa.String) else sa.cast(column, sa.Text)
    return text if is_sqlite(connection) else sa.collate(text, "C")
