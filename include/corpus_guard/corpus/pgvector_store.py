"""The vector store in PostgreSQL, with the extension pgvector.

Rules
    * each collection is a table of its own in the schema ``corpus_guard``; who owns it and whose vectors it holds is in the
      table's comment, so that both come and go with it;
    * a write is one transaction: a killed writer leaves a batch or nothing;
    * a record is replaced whole, metadata included;
    * texts are neither compressed nor sampled for statistics, so that a purge finds every copy (`corpus_guard.removal`).

Facts this rests on (PostgreSQL 18, pgvector 0.8.5)
    * ``vector`` keeps each float32 as it is, and `vector_send` returns the bits;
    * an HNSW index can have 2,000 dimensions at most: longer vectors are compared one by one;
    * an index gives `hnsw.ef_search` answers at most, unless it may scan on (``hnsw.iterative_scan``);
    * PostgreSQL's text cannot hold U+0000. Intake replaces it; a record that holds one is refused whole;
    * names of more than 63 bytes are cut silently: they are refused before.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, ClassVar, Final

import numpy as np
import orjson
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects import postgresql

from corpus_guard.corpus.ownership import OWNER_KEY, HeldChunk, require_own
from corpus_guard.corpus.store import (
    IDS_PER_REQUEST,
    LINKS_PER_VECTOR,
    MODEL_KEY,
    RECORDS_PER_REQUEST,
    ChunkRecord,
    CollectionTerms,
    Match,
    NearChunk,
    Store,
)
from corpus_guard.errors import Misuse, StoreRefused, StoreUnavailable
from corpus_guard.ledger import Ledger

SCHEMA: Final = "corpus_guard"
MAX_NAME_BYTES: Final = 63
MAX_INDEXED_DIMENSIONS: Final = 2_000
MAX_EF_SEARCH: Final = 1_000  # what pgvector allows
INDEX_TERMS: Final = f"m = {LINKS_PER_VECTOR}, ef_construction = 256"
"""Links of a vector, and entries that are looked at for them. With 64 entries, pgvector's own number, queries for 300 of 3,000 vectors
missed 7 to 33 of them beside 20 groups of 300 that nearly agree, as footers do; with 128 they missed 2 to 12, with 256 at most one. A
write took 1.5 times as long."""
CANDIDATES_PER_ANSWER: Final = 4  # entries of the index that are looked at for each answer
MIN_CANDIDATES: Final = 100
_OPTIONS: Final = "-c jit=off"  # compiling a query for 200 vectors takes longer than answering it
_NO_CONNECTION: Final = ("08", "57P")  # classes of SQLSTATE: the connection failed, or the server is going down
_ADVICE: Final = "Set CORPUS_GUARD_PGVECTOR_URL or CORPUS_GUARD_COLLECTION_PREFIX to those of this deployment"


class _Vector(sa.types.UserDefinedType[str]):
    """The column type ``vector``, written as text and read by `vector_send`."""

    cache_ok = True

    def get_col_spec(self, **kwargs: object) -> str:
        return "vector"


class PgvectorStore(Store):
    """The collections of one PostgreSQL database."""

    system: ClassVar[str] = "PostgreSQL"

    def __init__(
        self, connect: str | Callable[[], str], prefix: str, ledger: Callable[[], Ledger] | None = None
    ) -> None:
        """Describe a store, without connecting; see `Store`. A URL is SQLAlchemy's, with user and password."""
        super().__init__(connect, prefix, ledger)
        self._prepared = False

    @property
    def address(self) -> str:
        """The URL without its password, for messages."""
        return sa.make_url(self.url).render_as_string(hide_password=True)

    def open(self) -> None:
        with self._transaction():
            pass

    def close(self) -> None:
        if "_engine" in self.__dict__:
            self._engine.dispose()

    def require_own(self, collection: str) -> None:
        with self._transaction() as connection:
            self._existing(connection, collection)

    def delete_collection(self, collection: str) -> None:
        with self._transaction() as connection:
            if collection in _comments(connection):
                connection.execute(sa.schema.DropTable(self._existing(connection, collection)))

    def get(self, collection: str, chunk_ids: Sequence[str]) -> list[ChunkRecord]:
        with self._transaction() as connection:
            table = self._existing(connection, collection)
            return _records(connection, _whole(table).where(table.c.chunk_id.in_(chunk_ids)))

    def scan(self, collection: str, page_size: int = RECORDS_PER_REQUEST) -> Iterator[ChunkRecord]:
        last = None
        while True:
            with self._transaction() as connection:
                table = self._existing(connection, collection)
                page = _records(connection, _after(_whole(table), table, last, page_size))
            yield from page
            if len(page) < page_size:
                return
            last = page[-1].chunk_id

    def ids(self, collection: str) -> Iterator[Sequence[str]]:
        table, last = _table(collection), None
        while True:
            with self._transaction() as connection:
                page = connection.scalars(_after(sa.select(table.c.chunk_id), table, last, IDS_PER_REQUEST)).all()
            yield page
            if len(page) < IDS_PER_REQUEST:
                return
            last = page[-1]

    def sample_vectors(self, collection: str, count: int) -> list[tuple[str, NDArray[np.float32]]]:
        with self._transaction() as connection:
            table = self._existing(connection, collection)
            sample = _records(connection, _after(_whole(table), table, None, count))
        return [(str(record.metadata.get("doc_id", "")), record.vector) for record in sample]

    def _all_names(self) -> list[str]:
        with self._transaction() as connection:
            return list(_comments(connection))

    def _all_terms(self) -> list[tuple[str, CollectionTerms]]:
        with self._transaction() as connection:
            # The distance is part of each query, not of the collection: it cannot be changed from outside.
            return [
                (name, CollectionTerms("ip", str(comment.get(MODEL_KEY))))
                for name, comment in _comments(connection).items()
            ]

    def _write(self, collection: str, records: Sequence[ChunkRecord], model: str, *, anew: bool) -> None:
        rows = [
            {
                "chunk_id": record.chunk_id,
                "text": record.text,
                "embedding": _vector_text(record.vector),
                "metadata": dict(record.metadata),
            }
            for record in records
        ]
        _require_storable(records)
        with self._transaction() as connection:
            table = self._own(connection, collection, model, len(records[0].vector))
            if anew:
                connection.execute(table.delete().where(table.c.chunk_id.in_([record.chunk_id for record in records])))
            insert = postgresql.insert(table)
            values = {name: insert.excluded[name] for name in ("text", "embedding", "metadata")}
            connection.execute(insert.on_conflict_do_update(index_elements=["chunk_id"], set_=values), rows)

    def _remove(self, collection: str, chunk_ids: Sequence[str]) -> None:
        with self._transaction() as connection:
            table = self._existing(connection, collection)
            connection.execute(table.delete().where(table.c.chunk_id.in_(chunk_ids)))

    def _count(self, collection: str) -> int:
        with self._transaction() as connection:
            table = self._existing(connection, collection)
            return int(connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0)

    def _nearest_records(
        self,
        collection: str,
        vector: NDArray[np.float32],
        count: int,
        where: Mapping[str, str | int | float | bool] | None,
    ) -> list[Match]:
        with self._transaction() as connection:
            table = self._existing(connection, collection)
            _look_at_enough(connection, count)
            distance = _distance(table, sa.literal(_vector_text(vector), sa.Text()))
            statement = _whole(table).add_columns(distance).order_by(distance).limit(count)
            if where:
                statement = statement.where(table.c.metadata.contains(dict(where)))
            return [Match(_record(row), collection, -float(row.distance)) for row in connection.execute(statement)]

    def _nearest_chunks(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[NearChunk]]:
        table = _table(collection)
        columns = (table.c.chunk_id, table.c.text, _metadata_text(table))
        return [
            [NearChunk(row.chunk_id, row.text, orjson.loads(row.metadata), -float(row.distance)) for row in rows]
            for rows in self._near(collection, vectors, count, columns)
        ]

    def _nearest_ids(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[tuple[str, float]]]:
        columns = (_table(collection).c.chunk_id,)
        return [
            [(row.chunk_id, 1.0 + float(row.distance)) for row in rows]
            for rows in self._near(collection, vectors, count, columns)
        ]

    def _near(
        self, collection: str, vectors: NDArray[np.float32], count: int, columns: Sequence[sa.ColumnElement[Any]]
    ) -> list[list[Any]]:
        """Return the rows nearest to each vector: one statement for all vectors, one search of the index for each."""
        texts = sa.cast([_vector_text(vector) for vector in vectors], postgresql.ARRAY(sa.Text))
        questions = sa.func.unnest(texts).table_valued("vector", with_ordinality="number").render_derived()
        answers: dict[int, list[Any]] = defaultdict(list)
        with self._transaction() as connection:
            table = self._existing(connection, collection)
            _look_at_enough(connection, count)
            distance = _distance(table, questions.c.vector)
            nearest = sa.select(*columns, distance).order_by(distance).limit(count).lateral("nearest")
            statement = (
                sa.select(questions.c.number, *nearest.c)
                .select_from(questions.join(nearest, sa.true()))
                .order_by(questions.c.number, nearest.c.distance)
            )
            for row in connection.execute(statement):
                answers[row.number].append(row)
        return [answers[number] for number in range(1, len(vectors) + 1)]

    def _own(self, connection: sa.Connection, name: str, model: str, dimensions: int) -> sa.Table:
        """Return a collection to write to; make it if it is missing, and write our id into it if it has none."""
        owner = {OWNER_KEY: self._ledger().deployment_id} if self._ledger else {}
        comment = _comments(connection).get(name)
        if comment is None:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_key())))
            comment = _comments(connection).get(name)  # another process may have been first
        if comment is None:
            comment = {MODEL_KEY: model, **owner}
            _create(connection, name, dimensions, comment)
        table = self._existing(connection, name, comment)
        if owner and OWNER_KEY not in comment and comment.get(MODEL_KEY) == model:
            _write_comment(connection, table, {**comment, **owner})
        self._require_model(name, comment.get(MODEL_KEY), model)
        return table

    def _existing(self, connection: sa.Connection, name: str, comment: Mapping[str, str] | None = None) -> sa.Table:
        """Return a collection, after a look at whose it is."""
        table = _table(name)
        if self._ledger:
            labels = comment if comment is not None else _comments(connection).get(name)
            if labels is None:
                raise StoreRefused(
                    f"{self.system} at {self.address} refused a request (there is no collection {name}). Running again "
                    "creates a missing collection and repeats what was not done"
                )
            owner = labels.get(OWNER_KEY)
            require_own(self._ledger(), name, owner, lambda ids: _held(connection, table, ids), self.address, _ADVICE)
        return table

    @cached_property
    def _engine(self) -> sa.Engine:
        return sa.create_engine(
            self.url,
            hide_parameters=True,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 10, "application_name": "corpus-guard", "options": _OPTIONS},
        )

    @contextlib.contextmanager
    def statements(self) -> Iterator[sa.Connection]:
        """Open a connection on which each statement is a transaction of its own, as VACUUM and CHECKPOINT need it.

        Raises:
            StoreUnavailable: the server does not answer.
            StoreRefused: it refuses a statement.
        """
        with (
            self._translated_errors(),
            self._prepared_engine().execution_options(isolation_level="AUTOCOMMIT").connect() as connection,
        ):
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self._translated_errors(), self._prepared_engine().begin() as connection:
            yield connection

    def _prepared_engine(self) -> sa.Engine:
        with self._opening:
            if not self._prepared:
                with self._engine.begin() as connection:
                    _prepare(connection)
                self._prepared = True
        return self._engine

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DBAPIError as error:
            code = getattr(error.orig, "pgcode", None)
            kind = type(error.orig).__name__
            if code is None or code.startswith(_NO_CONNECTION):
                raise StoreUnavailable(
                    f"{self.system} at {self.address} does not answer ({kind}); start it, or correct "
                    "CORPUS_GUARD_PGVECTOR_URL, then run again"
                ) from error
            raise StoreRefused(
                f"{self.system} at {self.address} refused a request ({kind}, SQLSTATE {code}); its log says why. Running "
                "again creates a missing collection and repeats what was not done"
            ) from error


def _prepare(connection: sa.Connection) -> None:
    """Make the extension and the schema, where they are missing."""
    present = sa.text(
        "SELECT (SELECT count(*) FROM pg_extension WHERE extname = 'vector')"
        " + (SELECT count(*) FROM pg_namespace WHERE nspname = :schema)"
    )
    if connection.scalar(present, {"schema": SCHEMA}) == 2:
        return
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_key())))
    try:
        connection.execute(sa.text("CREATE EXTENSION IF NOT EXISTS vector"))
        connection.execute(sa.schema.CreateSchema(SCHEMA, if_not_exists=True))
    except sa.exc.DBAPIError as error:
        raise Misuse(
            f"PostgreSQL at {connection.engine.url.render_as_string(hide_password=True)} has no extension vector or no "
            f"schema {SCHEMA}, and refuses to make them ({type(error.orig).__name__}). Install pgvector there and let an "
            f"administrator run: CREATE EXTENSION vector; CREATE SCHEMA {SCHEMA} AUTHORIZATION the user of "
            "CORPUS_GUARD_PGVECTOR_URL"
        ) from error


def _create(connection: sa.Connection, name: str, dimensions: int, comment: Mapping[str, str]) -> None:
    table = _table(name)
    quoted = connection.dialect.identifier_preparer.format_table(table).replace(":", "\\:")
    connection.execute(sa.schema.CreateTable(table))
    statements = [f"ALTER COLUMN embedding TYPE vector({dimensions})"]
    for column in ("text", "embedding", "metadata"):
        statements += [f"ALTER COLUMN {column} SET STORAGE EXTERNAL", f"ALTER COLUMN {column} SET STATISTICS 0"]
    connection.execute(sa.text(f"ALTER TABLE {quoted} {', '.join(statements)}"))
    if dimensions <= MAX_INDEXED_DIMENSIONS:
        connection.execute(
            sa.text(f"CREATE INDEX ON {quoted} USING hnsw (embedding vector_ip_ops) WITH ({INDEX_TERMS})")
        )
    _write_comment(connection, table, comment)


def _write_comment(connection: sa.Connection, table: sa.Table, comment: Mapping[str, str]) -> None:
    table.comment = orjson.dumps(dict(comment), option=orjson.OPT_SORT_KEYS).decode()
    connection.execute(sa.schema.SetTableComment(table))


def _comments(connection: sa.Connection) -> dict[str, Mapping[str, str]]:
    """Return what each collection says of itself, by name; nothing of a table whose comment is not ours."""
    statement = sa.text(
        "SELECT relname, obj_description(oid, 'pg_class') AS comment FROM pg_class"
        " WHERE relnamespace = to_regnamespace(:schema) AND relkind = 'r' ORDER BY relname"
    )
    comments: dict[str, Mapping[str, str]] = {}
    for row in connection.execute(statement, {"schema": SCHEMA}):
        try:
            comment = orjson.loads(row.comment or "{}")
        except orjson.JSONDecodeError:
            comment = {}
        comments[row.relname] = comment if isinstance(comment, dict) else {}
    return comments


@cache
def _table(name: str) -> sa.Table:
    if len(name.encode()) > MAX_NAME_BYTES:
        raise Misuse(
            f"collection {name}: expected a name of at most {MAX_NAME_BYTES} bytes, got {len(name.encode())}; shorten "
            "CORPUS_GUARD_COLLECTION_PREFIX"
        )
    return sa.Table(
        name,
        sa.MetaData(schema=SCHEMA),
        sa.Column("chunk_id", sa.Text(collation="C"), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("embedding", _Vector, nullable=False),
        sa.Column("metadata", postgresql.JSONB, nullable=False),
    )


def _metadata_text(table: sa.Table) -> sa.ColumnElement[str]:
    return sa.cast(table.c.metadata, sa.Text).label("metadata")


def _whole(table: sa.Table) -> sa.Select[Any]:
    vector = sa.func.vector_send(table.c.embedding, type_=sa.LargeBinary).label("vector")
    return sa.select(table.c.chunk_id, table.c.text, vector, _metadata_text(table))


def _after(statement: sa.Select[Any], table: sa.Table, last: str | None, count: int) -> sa.Select[Any]:
    """Return the statement for the `count` records after an id, in the order of ids."""
    page = statement.order_by(table.c.chunk_id).limit(count)
    return page if last is None else page.where(table.c.chunk_id > last)


def _distance(table: sa.Table, vector: sa.ColumnElement[str]) -> sa.ColumnElement[float]:
    """Return the negative inner product, which is what the index sorts by."""
    return table.c.embedding.op("<#>", return_type=sa.Float())(sa.cast(vector, _Vector())).label("distance")


def _look_at_enough(connection: sa.Connection, count: int) -> None:
    """Let the index look at more entries than it is to answer with, and go on while a filter leaves too few."""
    candidates = min(MAX_EF_SEARCH, max(MIN_CANDIDATES, CANDIDATES_PER_ANSWER * count))
    for name, value in (("hnsw.ef_search", str(candidates)), ("hnsw.iterative_scan", "strict_order")):
        connection.execute(sa.select(sa.func.set_config(name, value, True)))


def _vector_text(vector: NDArray[np.float32]) -> str:
    """Return the shortest decimals that give the same float32 again, as pgvector reads them."""
    return orjson.dumps(np.ascontiguousarray(vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _require_storable(records: Sequence[ChunkRecord]) -> None:
    for record in records:
        strings = (record.chunk_id, record.text, *record.metadata, *map(str, record.metadata.values()))
        if any("\x00" in string for string in strings):
            raise Misuse(
                f"chunk {record.chunk_id!r}: its text or metadata holds U+0000, which PostgreSQL cannot store; nothing of "
                "its batch was written. Documents that came through `guard refresh` hold none"
            )


def _records(connection: sa.Connection, statement: sa.Select[Any]) -> list[ChunkRecord]:
    return [_record(row) for row in connection.execute(statement)]


def _record(row: sa.Row[Any]) -> ChunkRecord:
    vector = np.frombuffer(row.vector, ">f4", offset=4).astype("<f4")  # before it: number of dimensions, and zeros
    return ChunkRecord(row.chunk_id, row.text, vector, orjson.loads(row.metadata))


def _held(connection: sa.Connection, table: sa.Table, chunk_ids: Sequence[str]) -> list[HeldChunk] | None:
    """Return those of the chunks that the collection holds; None where it holds nothing at all."""
    if connection.execute(sa.select(table.c.chunk_id).limit(1)).first() is None:
        return None
    statement = sa.select(table.c.chunk_id, table.c.text, _metadata_text(table)).where(table.c.chunk_id.in_(chunk_ids))
    return [HeldChunk(row.chunk_id, row.text, orjson.loads(row.metadata)) for row in connection.execute(statement)]


def _lock_key() -> int:
    """Return the key of the advisory lock under which collections are made."""
    return int.from_bytes(b"cgvector", "big", signed=True)
