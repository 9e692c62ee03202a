"""A table, or a read-only query, as a source: each row is a document.

- kind: sql
  name: articles
  connection: my_postgres          # Airflow's; or url: sqlite:///kb.sqlite, postgresql+psycopg2://host/database (no password in it)
  table: kb.articles               # or query: SELECT … (one statement)
  fields: {id: article_id, text: body, title: subject, modified: updated_at, metadata: [author]}
  watermark: updated_at
  owner: kb@example.org
  trust: reviewed

Rules:

- Every run reads all ids and their watermarks, in one pass and one transaction, and the texts of those rows alone whose watermark is not
  the one that is kept. So a row that was deleted is seen to be gone: a watermark asked as "newer than" never says so.
- A watermark must change whenever the row does: a version number, a row hash, a time as fine as the changes. Without one every row
  is read and hashed each time. CORPUS_GUARD_REFETCH_DAYS reads them all now and then, for writers who forget it.
- The watermark is read again with the text, in one statement: it never belongs to other bytes.
- An id names one row. A row without an id, or with one that another row has, is a failure, not a guess.
- Names of tables and columns are quoted by SQLAlchemy and taken as they are spelt, case included. Values are bound.
- The transaction is read-only: PostgreSQL's and SQLite's own. Of other databases the login must have no right to write, and
  ``unsafe_may_write: true`` says that somebody saw to it. Rows are streamed; a text above the limit is not sent by the server.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, Self
from uuid import UUID

import sqlalchemy as sa
from pydantic import Field, field_validator, model_validator

from corpus_guard.batches.tables import split
from corpus_guard.domain import canonical_json, digest
from corpus_guard.errors import SettingsError, SourceUnavailable
from corpus_guard.intake.sources._row_document import row_document
from corpus_guard.intake.sources.declared import ConnectionName, Declared, RowFields
from corpus_guard.intake.sources.source import FetchFailed, Item, Opening, Outcome, as_utc, storable, too_large

AT_ONCE = 500  # rows asked for in one statement
STREAMED = 1_000  # rows held while listing
SECONDS = 600  # one statement may take, on PostgreSQL
_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_DRIVERS = {"postgres": "postgresql+psycopg2", "postgresql": "postgresql+psycopg2", "sqlite": "sqlite"}


Rows = dict[str, list[tuple[dict[str, Any], int | None, Any]]]
"""By id, as JSON: values, bytes of the text, watermark of the rows that have it."""


class TableFields(RowFields):
    """Which column is what; a table's rows need an id."""

    id: str = Field(min_length=1)


class SqlConfig(Declared):
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
    unsafe_may_write: bool = False

    @field_validator("url")
    @classmethod
    def _no_password(cls, url: str | None) -> str | None:
        if url is None:
            return None
        try:
            made = sa.engine.make_url(url)
        except sa.exc.ArgumentError as error:
            raise ValueError("expected an SQLAlchemy URL, such as postgresql+psycopg2://host/database") from error
        if made.password is not None:
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
            raise ValueError("give exactly one of table and query: what is read of it")
        return self

    def beside(self, folder: Path) -> Self:
        """With the path of a SQLite file made absolute."""
        made = sa.engine.make_url(self.url) if self.url else None
        if made is None or made.get_backend_name() != "sqlite" or not made.database:
            return self
        return self.model_copy(update={"url": str(made.set(database=str(folder / made.database)))})


class SqlSource:
    """See the module's rules."""

    Config = SqlConfig

    def __init__(self, config: SqlConfig, opening: Opening) -> None:
        self.name = config.name
        self.owner = config.owner
        self.trust = config.trust
        self._config = config
        self._opening = opening
        # Another column for the text, or another query, makes other bytes of the same row.
        shape = [config.table or "", config.query or "", canonical_json(config.fields.model_dump(mode="json")).decode()]
        self._shape = digest("sql/v1", shape)[:16]

    def list(self) -> Iterator[Item]:
        """The id and watermark of every row; raises SourceUnavailable (see `Source`)."""
        config, rows = self._config, self._rows()
        asked = [self._column(config.fields.id), self._column(config.watermark or config.fields.id)]
        modified = config.fields.modified
        asked.append(self._column(modified or config.fields.id))
        seen: set[bytes] = set()
        with self._reading() as connection:
            self._check_columns(connection)
            found = connection.execution_options(yield_per=STREAMED).execute(
                sa.select(*_labelled(asked)).select_from(rows)
            )
            for number, (identity, watermark, changed) in enumerate(found, start=1):
                validator = self._validator(watermark) if config.watermark else None
                when = as_utc(changed) if modified and isinstance(changed, datetime) else None
                yield self._item(identity, number, seen, validator, when)

    def fetch(self, items: Sequence[Item]) -> Iterator[Outcome]:
        """The rows, `AT_ONCE` in a statement."""
        for part in split(items, AT_ONCE):
            located = [json.loads(item.locator) for item in part]
            wanted = [_value(where["id"]) for where in located if "id" in where]
            try:
                rows = self._read(wanted)
            except SourceUnavailable as error:
                for item in part:
                    yield FetchFailed(item, "intake.unreadable", str(error))
                continue
            for item, where in zip(part, located, strict=True):
                yield self._outcome(item, where, rows)

    def _check_columns(self, connection: sa.Connection) -> None:
        """SQLite takes a quoted name that is no column for a text: every row would say the name of its column."""
        fields = self._config.fields
        there = list(connection.execute(sa.select(sa.text("*")).select_from(self._rows()).limit(0)).keys())
        named = (fields.id, fields.text, fields.title, fields.modified, self._config.watermark, *fields.metadata)
        if missing := [name for name in dict.fromkeys(named) if name and name not in there]:
            raise SourceUnavailable(
                f"source {self.name}: {self._config.table or 'its query'} has no column {', '.join(map(repr, missing))}; it has "
                f"{', '.join(map(repr, there[:50]))}. Names are spelt as the database has them"
            )

    def _item(self, identity: Any, number: int, seen: set[bytes], validator: str | None, when: datetime | None) -> Item:
        what = self._config.table or self.name
        tagged = _tagged(identity)
        if tagged is None:
            return Item(f"{what}#row-{number}", None, when, json.dumps({"why": "no_id"}))
        name = storable(str(identity))
        key = hashlib.blake2b(name.encode(), digest_size=16).digest()  # 1 and "1" would be one document
        if key in seen:
            return Item(f"{what}#{name}~row-{number}", None, when, json.dumps({"why": "duplicate"}))
        seen.add(key)
        return Item(f"{what}#{name}", None, when, json.dumps({"id": tagged}), validator)

    def _outcome(self, item: Item, where: dict[str, Any], rows: Rows) -> Outcome:
        if where.get("why") == "no_id":
            return FetchFailed(
                item, "intake.no_id", f"the row has no {self._config.fields.id!r}, or one that is no plain value"
            )
        found = rows.get(json.dumps(where.get("id")), [])
        if where.get("why") == "duplicate" or len(found) > 1:
            return FetchFailed(
                item, "intake.no_id", f"several rows have this {self._config.fields.id!r}; it must name one"
            )
        if not found:
            return FetchFailed(
                item, "intake.gone", "the row was listed and is gone; the next run will see it as vanished"
            )
        values, size, watermark = found[0]
        limit = self._opening.max_bytes
        if size is not None and size > limit:
            return too_large(item, size, limit)
        made = row_document(item, values, self._config.fields, limit, "")
        if isinstance(made, FetchFailed):
            return made
        validator = self._validator(watermark) if self._config.watermark else None
        return type(made)(item, made.content, made.media_type, made.declared, made.problems, validator)

    def _read(self, identities: Sequence[Any]) -> Rows:
        """By id: (values, bytes of the text, watermark) of the rows that have it."""
        if not identities:
            return {}
        fields, limit = self._config.fields, self._opening.max_bytes
        text = self._column(fields.text)
        others = [name for name in dict.fromkeys((fields.title, fields.modified, *fields.metadata)) if name]
        found: Rows = {}
        with self._reading() as connection:
            self._check_columns(connection)
            size = _bytes(connection, text)
            identity = self._column(fields.id)
            watermark = self._column(self._config.watermark or fields.id)
            short = sa.case((size <= limit, text), else_=None)
            asked = _labelled([identity, watermark, size, short, *map(self._column, others)])
            statement = sa.select(*asked).select_from(self._rows()).where(identity.in_(identities))
            for own, mark, length, body, *rest in connection.execution_options(yield_per=50).execute(statement):
                values = {**dict(zip(others, map(_plain, rest), strict=True)), fields.text: _plain(body)}
                found.setdefault(json.dumps(_tagged(own)), []).append((values, length, mark))
        return found

    def _validator(self, watermark: Any) -> str | None:
        if watermark is None:
            return None
        said = watermark.hex() if isinstance(watermark, bytes | memoryview) else str(watermark)
        return f"{self._shape}:{type(watermark).__name__}:{said}" if len(said) <= 500 else None

    def _column(self, name: str) -> sa.ColumnElement[Any]:
        return sa.column(sa.sql.quoted_name(name, quote=True))

    def _rows(self) -> sa.FromClause:
        if self._config.query:
            named = [self._config.fields.id]  # any column makes the text a subquery
            return sa.text(self._config.query).columns(*map(sa.column, named)).subquery("corpus_guard")
        schema, _, table = (self._config.table or "").rpartition(".")
        quoted = sa.sql.quoted_name
        return sa.table(quoted(table, quote=True), schema=quoted(schema, quote=True) if schema else None)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """A read-only transaction on a connection of its own."""
        try:
            url = self._url()
            kind = url.get_backend_name()
            options = (
                {"postgresql_readonly": True, "isolation_level": "REPEATABLE READ"} if kind == "postgresql" else {}
            )
            engine = sa.create_engine(url, poolclass=sa.NullPool, execution_options=options, **_arguments(kind))
            try:
                with engine.connect() as connection, connection.begin():
                    if kind == "sqlite":
                        connection.exec_driver_sql("PRAGMA query_only=ON")
                    yield connection
            finally:
                engine.dispose()
        except (sa.exc.SQLAlchemyError, OSError) as error:
            # The driver's message quotes the statement and may quote values.
            what = type(getattr(error, "orig", None) or error).__name__
            raise SourceUnavailable(
                f"source {self.name}: {self._config.table or 'its query'} cannot be read ({what}); check connection, table and the columns "
                "under fields and watermark, spelt as the database has them"
            ) from None

    def _url(self) -> sa.URL:
        if self._config.connection:
            known = self._opening.connections(self._config.connection)
            if known.kind not in _DRIVERS and not self._config.unsafe_may_write:
                raise _not_read_only(self.name, known.kind)
            url = sa.URL.create(
                str(known.extra.get("sqlalchemy_driver") or _DRIVERS.get(known.kind, known.kind)),
                known.login or None,
                known.password or None,
                known.host or None,
                known.port,
                known.schema or None,
            )
            if known.kind == "sqlite":  # Airflow keeps the file's path as the host
                url = sa.URL.create("sqlite", database=known.host or known.schema)
        else:
            url = sa.engine.make_url(self._config.url or "")
        kind = url.get_backend_name()
        if kind not in {"postgresql", "sqlite"} and not self._config.unsafe_may_write:
            raise _not_read_only(self.name, kind)
        if kind == "sqlite":
            url = url.set(database=f"file:{url.database}", query={"mode": "ro", "uri": "true"})
        return url


def _not_read_only(name: str, kind: str) -> SettingsError:
    return SettingsError(
        f"source {name}: of {kind!r} databases the guard cannot make a transaction read-only, as of PostgreSQL and SQLite. Give it a "
        "login that has no right to write, and say so with unsafe_may_write: true"
    )


def _arguments(kind: str) -> dict[str, Any]:
    if kind == "postgresql":
        options = f"-c statement_timeout={SECONDS * 1000} -c default_transaction_read_only=on"
        return {"connect_args": {"connect_timeout": 10, "application_name": "corpus-guard", "options": options}}
    return {"connect_args": {"timeout": 60}} if kind == "sqlite" else {}


def _bytes(connection: sa.Connection, text: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    if connection.dialect.name == "sqlite":
        return sa.func.length(sa.cast(text, sa.LargeBinary))
    return sa.func.octet_length(sa.cast(text, sa.Text))


def _labelled(columns: Sequence[sa.ColumnElement[Any]]) -> Sequence[sa.Label[Any]]:
    """Under names of our own: one column may be asked for twice."""
    return [column.label(f"c{number}") for number, column in enumerate(columns)]


def _tagged(value: Any) -> Any:
    """An id as JSON that `_value` gives back as it was; None where it is no plain value."""
    match value:
        case bool() | None:
            return None
        case int() | str():
            return value if len(str(value)) <= 1_000 and str(value).strip() else None
        case UUID():
            return ["uuid", str(value)]
        case Decimal():
            return ["decimal", str(value)]
        case datetime() | date():
            return [type(value).__name__, value.isoformat()]
    return None


def _value(tagged: Any) -> Any:
    if not isinstance(tagged, list):
        return tagged
    kind, text = tagged
    made = {"uuid": UUID, "decimal": Decimal, "date": date.fromisoformat, "datetime": datetime.fromisoformat}
    return made[kind](text)  # type: ignore[operator]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
