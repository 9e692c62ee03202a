"""A table, or a read-only query, as a source: each row is a document.

- kind: sql
  name: articles
  connection: my_postgres   # Airflow's; or url: sqlite:///kb.sqlite, postgresql+psycopg2://host/database (no password)
  table: kb.articles        # or query: SELECT … (one statement)
  fields: {id: article_id, text: body, title: subject, modified: updated_at, metadata: [author]}
  watermark: updated_at
  owner: kb@example.org
  trust: reviewed

Rules:

- Every run reads all ids and their watermarks, in one pass and one transaction, and then only the texts of
  rows whose watermark is not the one that was kept. So a deleted row is noticed: a query for newer watermarks
  never shows it.
- A watermark must change whenever the row does: a version number, a row hash, a time as fine as the changes.
  Without one every row is read and hashed each time. CORPUS_GUARD_REFETCH_DAYS reads them all now and then,
  in case a writer forgets it.
- The watermark is read again with the text, in one statement, so it always belongs to these bytes.
- An id names one row. A row without an id, or with the id of another row, is a failure, not a guess.
- SQLite may hold text that is not UTF-8: it is a finding of its row, and stops no other.
- Names of tables and columns are quoted by SQLAlchemy and taken as they are spelt, case included. Values are
  bound.
- The transaction is read-only where the database offers it: PostgreSQL and SQLite. With other databases the
  login must have no right to write, and ``unsafe_may_write: true`` states that somebody checked this. Rows
  are streamed; the server does not send a text above the limit.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self
from uuid import UUID

import sqlalchemy as sa
from pydantic import Field, field_validator, model_validator

from corpus_guard.batches.tables import in_batches
from corpus_guard.domain import canonical_json, digest
from corpus_guard.errors import SettingsError, SourceUnavailable
from corpus_guard.intake.parsing.document import replace_unstorable
from corpus_guard.intake.sources.config import ConnectionName, RowFields, SourceConfig
from corpus_guard.intake.sources.row_documents import make_row_document
from corpus_guard.intake.sources.source import (
    ConfiguredSource,
    FetchFailed,
    Outcome,
    SourceContext,
    SourceItem,
    as_utc,
    oversize_failure,
    utf8_path,
)

ROWS_PER_STATEMENT = 500  # while fetching
ROWS_STREAMED = 1_000  # held in memory while listing
STATEMENT_SECONDS = 600  # time limit, on PostgreSQL
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_DRIVERS = {"postgres": "postgresql+psycopg2", "postgresql": "postgresql+psycopg2", "sqlite": "sqlite"}

Column = sa.ColumnElement[Any]


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as the database holds it."""

    values: Mapping[str, object]  # by column
    text_bytes: int | None
    watermark: object


RowsById = dict[str, list[StoredRow]]
"""Rows by their id as JSON; several where the id is not unique."""


class TableFields(RowFields):
    """Names of a table's columns; its rows need an id."""

    id: str = Field(min_length=1)


class SqlConfig(SourceConfig):
    """A table or query; exactly one of `url` and `connection`, and of `table` and `query`."""

    kind: Literal["sql"]
    url: str | None = None
    """An SQLAlchemy URL without a password."""
    connection: ConnectionName | None = None
    table: str | None = Field(default=None, pattern=r"^[^.]+(\.[^.]+)?$")
    """``table`` or ``schema.table``."""
    query: str | None = None
    """A SELECT; it is read as a subquery, so it is one statement without a semicolon."""
    fields: TableFields
    watermark: str | None = None
    """A column that changes whenever the row does."""
    unsafe_may_write: bool = False
    """Accept a database on which a transaction cannot be made read-only."""

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            parsed = sa.engine.make_url(url)
        except sa.exc.ArgumentError as error:
            raise ValueError("expected an SQLAlchemy URL, such as postgresql+psycopg2://host/database") from error
        if parsed.password is not None:
            raise ValueError("expected no password in a file that people read; name a connection instead")
        return url

    @field_validator("query")
    @classmethod
    def _one_statement(cls, query: str | None) -> str | None:
        if query is not None and ";" in _QUOTED.sub("", query).strip().rstrip(";"):
            raise ValueError("expected one SELECT without a semicolon in it")
        return query.strip().rstrip(";") if query else query

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.url is None) == (self.connection is None):
            raise ValueError("give exactly one of url and connection: where the database is")
        if (self.table is None) == (self.query is None):
            raise ValueError("give exactly one of table and query: what to read")
        return self

    def beside(self, folder: Path) -> Self:
        """Return a copy with the path of a SQLite file made absolute."""
        url = sa.engine.make_url(self.url) if self.url else None
        if url is None or url.get_backend_name() != "sqlite" or not url.database:
            return self
        return self.model_copy(update={"url": str(url.set(database=str(folder / url.database)))})


class SqlSource(ConfiguredSource[SqlConfig]):
    """Source over the rows of a table or query; see the module's rules."""

    Config = SqlConfig

    def __init__(self, config: SqlConfig, context: SourceContext) -> None:
        super().__init__(config, context)
        # Another column for the text, or another query, makes other bytes of the same row.
        shape = [config.table or "", config.query or "", canonical_json(config.fields.model_dump(mode="json")).decode()]
        self._shape = digest("sql/v1", shape)[:16]

    def list(self) -> Iterator[SourceItem]:
        """Yield the place of every row, with its watermark; raise SourceUnavailable (see `Source`)."""
        config, rows = self._config, self._from_clause()
        modified = config.fields.modified
        columns = [
            self._column(config.fields.id),
            self._column(config.watermark or config.fields.id),
            self._column(modified or config.fields.id),
        ]
        listed: set[bytes] = set()  # hashes of ids
        with self._reading() as connection:
            self._check_columns(connection)
            result = connection.execution_options(yield_per=ROWS_STREAMED).execute(
                sa.select(*_labelled(columns)).select_from(rows)
            )
            for number, (identity, watermark, changed) in enumerate(result, start=1):
                validator = self._validator(watermark) if config.watermark else None
                when = as_utc(changed) if modified and isinstance(changed, datetime) else None
                yield self._make_item(identity, number, listed, validator, when)

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield the rows, `ROWS_PER_STATEMENT` in a statement."""
        for batch in in_batches(items, ROWS_PER_STATEMENT):
            located = [json.loads(item.locator) for item in batch]
            identities = [_from_tagged(locator["id"]) for locator in located if "id" in locator]
            try:
                rows = self._read(identities)
            except SourceUnavailable as error:
                for item in batch:
                    yield FetchFailed(item, "intake.unreadable", str(error))
                continue
            for item, locator in zip(batch, located, strict=True):
                yield self._outcome(item, locator, rows)

    def _check_columns(self, connection: sa.Connection) -> None:
        """Check the configured names: SQLite would take a quoted name that is not a column for a text."""
        fields = self._config.fields
        statement = sa.select(sa.text("*")).select_from(self._from_clause()).limit(0)
        present = list(connection.execute(statement).keys())
        named = (fields.id, fields.text, fields.title, fields.modified, self._config.watermark, *fields.metadata)
        if missing := [name for name in dict.fromkeys(named) if name and name not in present]:
            raise SourceUnavailable(
                f"source {self.name}: {self._config.table or 'its query'} has no column "
                f"{', '.join(map(repr, missing))}; it has {', '.join(map(repr, present[:50]))}. "
                "Spell names as the database does"
            )

    def _make_item(
        self, identity: object, number: int, listed: set[bytes], validator: str | None, modified_at: datetime | None
    ) -> SourceItem:
        subject = self._config.table or self.name
        tagged = _to_tagged(identity)
        if tagged is None:
            return SourceItem(f"{subject}#row-{number}", None, modified_at, json.dumps({"why": "no_id"}))
        name = utf8_path(str(identity))
        key = hashlib.blake2b(name.encode(), digest_size=16).digest()  # 1 and "1" would be one document
        if key in listed:
            locator = json.dumps({"why": "duplicate"})
            return SourceItem(f"{subject}#{name}~row-{number}", None, modified_at, locator)
        listed.add(key)
        return SourceItem(f"{subject}#{name}", None, modified_at, json.dumps({"id": tagged}), validator)

    def _outcome(self, item: SourceItem, locator: Mapping[str, object], rows: RowsById) -> Outcome:
        if locator.get("why") == "no_id":
            message = f"the row has no {self._config.fields.id!r}, or one that is not a plain value"
            return FetchFailed(item, "intake.no_id", message)
        matches = rows.get(json.dumps(locator.get("id")), [])
        if locator.get("why") == "duplicate" or len(matches) > 1:
            message = f"several rows have this {self._config.fields.id!r}; it must be unique"
            return FetchFailed(item, "intake.no_id", message)
        if not matches:
            return FetchFailed(
                item, "intake.gone", "the row was listed and is gone; the next run will see it as vanished"
            )
        row = matches[0]
        limit = self._context.max_bytes
        if row.text_bytes is not None and row.text_bytes > limit:
            return oversize_failure(item, row.text_bytes, limit)
        document = make_row_document(item, row.values, self._config.fields, limit, "")
        if isinstance(document, FetchFailed):
            return document
        return replace(document, validator=self._validator(row.watermark) if self._config.watermark else None)

    def _read(self, identities: Sequence[object]) -> RowsById:
        if not identities:
            return {}
        fields, limit = self._config.fields, self._context.max_bytes
        text = self._column(fields.text)
        others = [name for name in dict.fromkeys((fields.title, fields.modified, *fields.metadata)) if name]
        rows: RowsById = {}
        with self._reading() as connection:
            self._check_columns(connection)
            size = _byte_length(connection, text)
            identity = self._column(fields.id)
            watermark = self._column(self._config.watermark or fields.id)
            bounded = sa.case((size <= limit, text), else_=None)
            columns = _labelled([identity, watermark, size, bounded, *map(self._column, others)])
            statement = sa.select(*columns).select_from(self._from_clause()).where(identity.in_(identities))
            for row_id, mark, length, body, *rest in connection.execution_options(yield_per=50).execute(statement):
                values = {**dict(zip(others, map(_plain, rest), strict=True)), fields.text: _plain(body)}
                rows.setdefault(json.dumps(_to_tagged(row_id)), []).append(StoredRow(values, length, mark))
        return rows

    def _validator(self, watermark: object) -> str | None:
        if watermark is None:
            return None
        text = watermark.hex() if isinstance(watermark, bytes | memoryview) else str(watermark)
        return f"{self._shape}:{type(watermark).__name__}:{text}" if len(text) <= 500 else None

    def _column(self, name: str) -> Column:
        return sa.column(sa.sql.quoted_name(name, quote=True))

    def _from_clause(self) -> sa.FromClause:
        if self._config.query:
            columns = [self._config.fields.id]  # any column makes the text a subquery
            return sa.text(self._config.query).columns(*map(sa.column, columns)).subquery("corpus_guard")
        schema, _, table = (self._config.table or "").rpartition(".")
        quoted = sa.sql.quoted_name
        return sa.table(quoted(table, quote=True), schema=quoted(schema, quote=True) if schema else None)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """Open a read-only transaction on a connection of its own."""
        try:
            url = self._url()
            backend = url.get_backend_name()
            options = (
                {"postgresql_readonly": True, "isolation_level": "REPEATABLE READ"} if backend == "postgresql" else {}
            )
            engine = sa.create_engine(url, poolclass=sa.NullPool, execution_options=options, **_engine_options(backend))
            try:
                with engine.connect() as connection, connection.begin():
                    if backend == "sqlite":
                        connection.exec_driver_sql("PRAGMA query_only=ON")
                        _take_any_bytes(connection)
                    yield connection
            finally:
                engine.dispose()
        except (sa.exc.SQLAlchemyError, OSError, ValueError, OverflowError) as error:  # a date that Python cannot hold
            # The driver's message quotes the statement and may quote values.
            kind = type(getattr(error, "orig", None) or error).__name__
            raise SourceUnavailable(
                f"source {self.name}: {self._config.table or 'its query'} cannot be read ({kind}); check the "
                "connection, the table, and the columns under fields and watermark, spelt as the database spells them"
            ) from None

    def _url(self) -> sa.URL:
        if self._config.connection:
            login = self._context.connections(self._config.connection)
            if login.kind not in _DRIVERS and not self._config.unsafe_may_write:
                raise _may_write_error(self.name, login.kind)
            url = sa.URL.create(
                str(login.extra.get("sqlalchemy_driver") or _DRIVERS.get(login.kind, login.kind)),
                login.login or None,
                login.password or None,
                login.host or None,
                login.port,
                login.schema or None,
            )
            if login.kind == "sqlite":  # Airflow keeps the file's path as the host
                url = sa.URL.create("sqlite", database=login.host or login.schema)
        else:
            url = sa.engine.make_url(self._config.url or "")
        backend = url.get_backend_name()
        if backend not in {"postgresql", "sqlite"} and not self._config.unsafe_may_write:
            raise _may_write_error(self.name, backend)
        if backend == "sqlite":
            url = url.set(database=f"file:{url.database}", query={"mode": "ro", "uri": "true"})
        return url


def _may_write_error(name: str, kind: str) -> SettingsError:
    return SettingsError(
        f"source {name}: a transaction on {kind!r} cannot be made read-only, as on PostgreSQL and SQLite. Use a login "
        "that has no right to write, and set unsafe_may_write: true"
    )


def _engine_options(backend: str) -> dict[str, Any]:
    if backend == "postgresql":
        options = f"-c statement_timeout={STATEMENT_SECONDS * 1000} -c default_transaction_read_only=on"
        return {"connect_args": {"connect_timeout": 10, "application_name": "corpus-guard", "options": options}}
    return {"connect_args": {"timeout": 60}} if backend == "sqlite" else {}


def _take_any_bytes(connection: sa.Connection) -> None:
    """Let SQLite give texts that are not UTF-8, which nothing keeps a writer from storing; else one stops all others."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)  # noqa: S101 - as its backend says
    driver.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")


def _byte_length(connection: sa.Connection, text: Column) -> Column:
    if connection.dialect.name == "sqlite":
        return sa.func.length(sa.cast(text, sa.LargeBinary))
    return sa.func.octet_length(sa.cast(text, sa.Text))


def _labelled(columns: Sequence[Column]) -> Sequence[sa.Label[Any]]:
    """Label columns with unique names: one column may be selected twice."""
    return [column.label(f"c{number}") for number, column in enumerate(columns)]


def _to_tagged(value: object) -> int | str | list[str] | None:
    """Convert an id to JSON that `_from_tagged` turns back into it; return None where it is not a plain value."""
    match value:
        case bool() | None:
            return None
        case int() | str():
            text = str(value)
            return value if len(text) <= 1_000 and text.strip() and text == replace_unstorable(text) else None
        case UUID():
            return ["uuid", str(value)]
        case Decimal():
            return ["decimal", str(value)]
        case datetime() | date():
            return [type(value).__name__, value.isoformat()]
    return None


def _from_tagged(tagged: int | str | list[str]) -> object:
    if not isinstance(tagged, list):
        return tagged
    kind, text = tagged
    parsers: Mapping[str, Callable[[str], object]] = {
        "uuid": UUID,
        "decimal": Decimal,
        "date": date.fromisoformat,
        "datetime": datetime.fromisoformat,
    }
    return parsers[kind](text)


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, memoryview) else value
