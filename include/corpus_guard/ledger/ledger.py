"""Opening the ledger, transactions and locks.

Rules
    * every write is one transaction; SQLite takes the write lock at its start (BEGIN IMMEDIATE), so that two writers queue
      instead of failing in the middle;
    * foreign keys are enforced; a commit is on disk when it returns (WAL, synchronous=FULL);
    * events are chained when their transaction is about to commit, under a lock that is taken last: nobody waits for a
      transaction that waits for them;
    * `exclusive` is held by one process at a time and is freed by the operating system or the database when its holder dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, make_url

from corpus_guard.errors import LedgerUnavailable, SettingsError
from corpus_guard.ledger import tables
from corpus_guard.ledger.event_log import BEFORE_THE_FIRST, Event, signable

BUSY_SECONDS = 60  # a writer waits this long for another's transaction; ours last milliseconds
LOCK_SECONDS = 600  # a publisher may have thousands of chunks to write
_HAPPENED = "corpus_guard_happened"  # where a connection keeps the events of its transaction until it commits


class Ledger:
    """A ledger at a URL, migrated to the newest schema when opened."""

    def __init__(self, url: str) -> None:
        """Open and migrate.

        Raises:
            LedgerUnavailable: no database answers at `url`.
            SettingsError: `url` names another kind of database, or a newer release wrote it.
        """
        self.url = _understood(url)
        self._lite = self.url.get_backend_name() == "sqlite"
        if self._lite and self.url.database:
            Path(self.url.database).parent.mkdir(parents=True, exist_ok=True)
        self.engine = sa.create_engine(self.url, pool_pre_ping=not self._lite, **self._arguments())
        if self._lite:
            sa.event.listen(self.engine, "connect", _configure_sqlite)
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        self._migrate()

    @property
    def address(self) -> str:
        """The URL without its password, for messages."""
        return self.url.render_as_string(hide_password=True)

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction; committed when the block ends, rolled back when it raises."""
        now_locked = self.engine.execution_options(begin="BEGIN IMMEDIATE")
        with self._answering(), now_locked.connect() as connection, connection.begin():
            notes = connection.info  # of the driver's connection: it outlives a transaction that fails
            happened = notes[_HAPPENED] = []
            try:
                yield connection
                self._append(connection, happened)
            finally:
                del notes[_HAPPENED]

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view: every statement of the block sees the same moment."""
        steady = self.engine if self._lite else self.engine.execution_options(isolation_level="REPEATABLE READ")
        with self._answering(), steady.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def exclusive(self, name: str, wait: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the lock `name` across processes and machines.

        Args:
            name: what is protected (``publish``).
            wait: seconds to wait for another holder.

        Raises:
            LedgerUnavailable: another process held it for longer than `wait`.
        """
        if self._lite:
            with self._file_lock(name, wait):
                yield
        else:
            with self._advisory_lock(name, wait):
                yield

    def insert_missing(self, connection: Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows whose key is not there yet."""
        insert = sqlite.insert if self._lite else postgresql.insert
        if rows:
            connection.execute(insert(table).on_conflict_do_nothing(), list(rows))

    def upsert(
        self,
        connection: Connection,
        table: sa.Table,
        rows: Sequence[Mapping[str, Any]],
        update: Sequence[str],
        only: sa.ColumnElement[bool] | None = None,
    ) -> None:
        """Insert rows; where the key is there already, overwrite the columns `update` (of rows that meet `only`)."""
        if not rows:
            return
        statement = (sqlite.insert if self._lite else postgresql.insert)(table)
        keys = [column.name for column in table.primary_key]
        overwrite = {name: statement.excluded[name] for name in update}
        connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=overwrite, where=only), list(rows))

    def event(self, connection: Connection, kind: str, subject: str, run_id: str, **body: Any) -> None:
        """Append to the event log, in the transaction of the change it tells of.

        Raises:
            KeyError: the connection is not that of a `write`.
        """
        connection.info[_HAPPENED].append((now(), kind, signable(subject), run_id, signable(body)))

    def _append(self, connection: Connection, happened: Sequence[tuple[datetime, str, str, str, Any]]) -> None:
        """Number and chain what happened, in the order it was told (`corpus_guard.ledger.event_log`)."""
        if not happened:
            return
        if not self._lite:  # SQLite has one writer at a time; here the tip must not move before we commit
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_lock_key("events"))))
        events = tables.events
        tip = connection.execute(
            sa.select(events.c.seq, events.c.leaf_sha256).order_by(events.c.seq.desc()).limit(1)
        ).first()
        seq, leaf = (tip.seq + 1, tip.leaf_sha256) if tip else (0, BEFORE_THE_FIRST)
        rows = []
        for offset, (at, kind, subject, run_id, body) in enumerate(happened):
            event = Event(seq + offset, at, kind, subject, run_id, body, leaf)
            leaf = event.leaf
            rows.append(
                {
                    "seq": event.seq,
                    "at": at,
                    "kind": kind,
                    "subject": subject,
                    "run_id": run_id,
                    "body": body,
                    "leaf_sha256": leaf,
                }
            )
        connection.execute(events.insert(), rows)

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    def _arguments(self) -> dict[str, Any]:
        if self._lite:
            return {"connect_args": {"timeout": BUSY_SECONDS, "check_same_thread": False}}
        return {"connect_args": {"connect_timeout": 10, "application_name": "corpus-guard"}}

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DatabaseError as error:
            # SQLite reports a damaged file by the bare class; its other children are wrong statements, which is no outage.
            if not isinstance(error, sa.exc.OperationalError) and type(error) is not sa.exc.DatabaseError:
                raise
            reason = (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]
            raise LedgerUnavailable(
                f"ledger at {self.address} failed: {reason}. See that it runs and that CORPUS_GUARD_LEDGER_URL is right; "
                "running again converges"
            ) from error

    def _migrate(self) -> None:
        if self._revision() == tables.HEAD:
            return
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with self.exclusive("migrate"):
            if self._revision() == tables.HEAD:  # another process was first
                return
            with self.write() as connection:
                config.attributes["connection"] = connection
                try:
                    command.upgrade(config, "head")
                except CommandError as error:
                    raise SettingsError(
                        f"ledger at {self.address} is at schema {self._revision()}, this release knows up to {tables.HEAD}: a newer "
                        "release wrote it. Install that release, or set CORPUS_GUARD_LEDGER_URL to another database"
                    ) from error

    def _revision(self) -> str | None:
        with self.read() as connection:
            if not sa.inspect(connection).has_table("alembic_version"):
                return None
            found: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
            return found

    @contextlib.contextmanager
    def _file_lock(self, name: str, wait: float) -> Iterator[None]:
        path = Path(f"{self.url.database}.{name}.lock")
        deadline = time.monotonic() + wait
        with path.open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    self._give_up_after(deadline, name)
            yield

    @contextlib.contextmanager
    def _advisory_lock(self, name: str, wait: float) -> Iterator[None]:
        key = _lock_key(name)
        deadline = time.monotonic() + wait
        # A session lock on a connection of its own: PostgreSQL frees it when the connection dies.
        with self._answering(), self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
                self._give_up_after(deadline, name)
            try:
                yield
            finally:
                connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))

    def _give_up_after(self, deadline: float, name: str) -> None:
        if time.monotonic() > deadline:
            raise LedgerUnavailable(
                f"lock {name!r} of the ledger at {self.address} is held by another process; it is still working, or hangs. "
                "Wait for it or stop it, then run again"
            )
        time.sleep(0.05)


def _lock_key(name: str) -> int:
    return zlib.crc32(f"corpus-guard/{name}".encode())


def now() -> datetime:
    """This moment, UTC."""
    return datetime.now(UTC)


def _understood(url: str) -> sa.URL:
    try:
        made = make_url(url)
        kind = made.get_backend_name()
    except sa.exc.ArgumentError:
        kind = "no URL"  # the text is not repeated: it may hold a password
    if kind not in {"sqlite", "postgresql"}:
        raise SettingsError(
            f"CORPUS_GUARD_LEDGER_URL: expected sqlite:///file or postgresql+psycopg2://user:password@host/database, found {kind}"
        )
    return made


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin transactions behind our back
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "recursive_triggers=ON",
        f"busy_timeout={BUSY_SECONDS * 1000}",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))
