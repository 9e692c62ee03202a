"""Opening the ledger, transactions and locks.

Rules
    * every write is one transaction; SQLite takes the write lock at its start (BEGIN IMMEDIATE), so that two
      writers queue instead of failing in the middle;
    * foreign keys are enforced; a commit is on disk when it returns (WAL, synchronous=FULL);
    * events are chained when their transaction is about to commit (`corpus_guard.ledger.event_log`), with the
      digests of the rows that it changed (`corpus_guard.ledger.row_digests`);
    * `exclusive` is held by one process at a time, `shared` by several; the operating system or the database
      frees both when their holder dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, make_url

from corpus_guard.errors import Inconsistent, LedgerUnavailable, SettingsError
from corpus_guard.ledger import tables
from corpus_guard.ledger.event_log import chained_events
from corpus_guard.ledger.queries import Row, advisory_lock_key
from corpus_guard.ledger.row_digests import note_change
from corpus_guard.ledger.undecodable import SQLITE_MESSAGE, UndecodableText, find_undecodable

BUSY_SECONDS = 60  # a writer waits this long for another's transaction; ours last milliseconds
LOCK_SECONDS = 600  # a publisher may have thousands of chunks to write
POLL_SECONDS = 0.05  # between two tries to take a lock
FULL_BYTES = 2**17  # a disk with less is full: opening a ledger takes 32 KiB, a commit more
PROBES = 3  # a lock is held if so many tries meet it: another process that only looks takes it for microseconds
# Seconds, seconds and packets: a lost machine frees its locks in two minutes.
KEEPALIVE = {"idle": 60, "interval": 20, "count": 3}


class Ledger:
    """Ledger at a URL, migrated to the newest schema when opened."""

    def __init__(self, url: str) -> None:
        """Open and migrate.

        Raises:
            LedgerUnavailable: no database answers at `url`.
            SettingsError: `url` names another kind of database or a folder that does not exist, or a newer release wrote it.
        """
        self.url = _parsed(url)
        self._is_sqlite = self.url.get_backend_name() == "sqlite"
        if self._is_sqlite and self.url.database and not (folder := Path(self.url.database).parent).is_dir():
            # Never made here: a mistyped path would look like a new and empty ledger.
            raise SettingsError(
                f"CORPUS_GUARD_LEDGER_URL: there is no folder {folder}; correct the path, or create the folder"
            )
        self.engine = sa.create_engine(
            self.url, pool_pre_ping=not self._is_sqlite, connect_args=self._connect_arguments()
        )
        sa.event.listen(self.engine, "before_execute", note_change)
        if self._is_sqlite:
            sa.event.listen(self.engine, "connect", _configure_sqlite)
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        self._migrate()

    @property
    def address(self) -> str:
        """The URL without its password, for messages."""
        return self.url.render_as_string(hide_password=True)

    @cached_property
    def deployment_id(self) -> str:
        """The id of the deployment, 32 hexadecimal digits; made with the ledger, and never changed.

        Raises:
            Inconsistent: somebody removed it, or added another.
        """
        with self.read() as connection:
            ids = connection.scalars(sa.select(tables.deployment.c.deployment_id)).all()
        if len(ids) != 1:
            raise Inconsistent(
                f"table deployment of the ledger at {self.address}: expected one deployment id, got {len(ids)}; the "
                "database was changed from outside: restore it from a backup"
            )
        return str(ids[0])

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Open one transaction; commit it when the block ends, roll it back when the block raises."""
        immediate = self.engine.execution_options(begin="BEGIN IMMEDIATE")
        with (
            self._translated_errors(),
            immediate.connect() as connection,
            connection.begin(),
            chained_events(connection),
        ):
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a consistent view: every statement of the block sees the same moment."""
        engine = self.engine if self._is_sqlite else self.engine.execution_options(isolation_level="REPEATABLE READ")
        with self._translated_errors(), engine.connect() as connection, connection.begin():
            yield connection

    def rows(self, statement: sa.Executable) -> Sequence[Row]:
        """Return all rows of one statement; to stream many, or to see one moment in several statements, use `read`."""
        with self.read() as connection:
            return connection.execute(statement).all()

    def first(self, statement: sa.Executable) -> Row | None:
        """Return the first row of one statement; None if there is none."""
        with self.read() as connection:
            return connection.execute(statement).first()

    def scalars(self, statement: sa.Executable) -> list[Any]:
        """Return the first column of all rows of one statement."""
        with self.read() as connection:
            return list(connection.scalars(statement))

    def scalar(self, statement: sa.Executable) -> Any:
        """Return the first column of the first row of one statement; None if there is no row."""
        with self.read() as connection:
            return connection.scalar(statement)

    def execute(self, statement: sa.Executable) -> None:
        """Change something by one statement, in a transaction of its own."""
        with self.write() as connection:
            connection.execute(statement)

    @contextlib.contextmanager
    def exclusive(self, name: str, wait: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the lock `name` across processes and machines.

        Args:
            name: what is protected (``publish``).

        Raises:
            LedgerUnavailable: another process held it for longer than `wait`.
        """
        with self._file_lock(name, wait) if self._is_sqlite else self._advisory_lock(name, wait):
            yield

    @contextlib.contextmanager
    def shared(self, name: str) -> Iterator[None]:
        """Hold the lock `name` together with others, so that `is_held` is true while the block runs."""
        with self._shared_file_lock(name) if self._is_sqlite else self._advisory_lock(name, LOCK_SECONDS, "_shared"):
            yield

    def is_held(self, name: str) -> bool:
        """Return whether a process holds the lock `name`: on this machine (SQLite) or on any (PostgreSQL)."""
        return self._is_file_locked(name) if self._is_sqlite else self._is_advisory_locked(name)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def _connect_arguments(self) -> dict[str, object]:
        if self._is_sqlite:
            return {"timeout": BUSY_SECONDS, "check_same_thread": False}
        return {"connect_timeout": 10, "application_name": "corpus-guard"}

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        try:
            yield
        except sa.exc.DatabaseError as error:
            # SQLite reports a damaged file by the bare class; its other children are wrong statements, not
            # outages.
            if not isinstance(error, sa.exc.OperationalError) and type(error) is not sa.exc.DatabaseError:
                raise
            if self._is_sqlite and SQLITE_MESSAGE in str(error.orig):
                with self.engine.connect() as connection:
                    raise UndecodableText(self.address, find_undecodable(connection)) from None  # the cause quotes it
            reason = (str(error.orig).strip() or type(error.orig).__name__).splitlines()[0]
            raise LedgerUnavailable(
                f"ledger at {self.address} failed: {reason}. {self._advice(reason)}, then run again"
            ) from error

    def _advice(self, reason: str) -> str:
        folder = Path(self.url.database or ".").absolute().parent
        if self._is_sqlite and not os.access(folder, os.W_OK):
            return f"{folder} cannot be written: a read-only disk, or the folder of another user. Make it writable"
        if self._is_sqlite and "locked" in reason:
            return (
                f"Another process has had it locked for {BUSY_SECONDS} seconds, such as a database shell or a copying program "
                f"(fuser {self.url.database} names it): end that"
            )
        # Where not even its shared memory fits, SQLite says "disk I/O error".
        if self._is_sqlite and ("full" in reason or shutil.disk_usage(folder).free < FULL_BYTES):
            return f"The disk of {folder} is full; what was acknowledged is kept. Free space on it"
        return "See that it runs and that CORPUS_GUARD_LEDGER_URL is right"

    def _migrate(self) -> None:
        if self._revision() == tables.SCHEMA_REVISION:
            return
        from alembic import command
        from alembic.config import Config
        from alembic.util import CommandError

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with self.exclusive("migrate"):
            if self._revision() == tables.SCHEMA_REVISION:  # another process was first
                return
            with self.write() as connection:
                config.attributes["connection"] = connection
                try:
                    command.upgrade(config, "head")
                except CommandError as error:
                    raise SettingsError(
                        f"ledger at {self.address} is at schema {self._revision()}, this release knows schemas up to "
                        f"{tables.SCHEMA_REVISION}: a newer release wrote it. Install that release, or set "
                        "CORPUS_GUARD_LEDGER_URL to another database"
                    ) from error

    def _revision(self) -> str | None:
        with self.read() as connection:
            if not sa.inspect(connection).has_table("alembic_version"):
                return None
            revision: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
            return revision

    @contextlib.contextmanager
    def _file_lock(self, name: str, wait: float) -> Iterator[None]:
        deadline = time.monotonic() + wait
        with self._lock_path(name).open("w") as file:
            while not _try_lock(file, fcntl.LOCK_EX):
                self._wait_until(deadline, name)
            yield

    @contextlib.contextmanager
    def _shared_file_lock(self, name: str) -> Iterator[None]:
        """Hold a lock whose file is removed by the last who leaves: there is one for each run."""
        path = self._lock_path(name)
        with contextlib.ExitStack() as closing:
            while True:
                file = closing.enter_context(path.open("w"))
                if _try_lock(file, fcntl.LOCK_SH) and _is_at(file, path):
                    break
                file.close()  # somebody looks, or removed the file meanwhile
                time.sleep(POLL_SECONDS)
            try:
                yield
            finally:
                if _try_lock(file, fcntl.LOCK_EX):
                    path.unlink(missing_ok=True)

    def _is_file_locked(self, name: str) -> bool:
        try:
            file = self._lock_path(name).open()
        except FileNotFoundError:
            return False
        with file:
            for _ in range(PROBES):
                if _try_lock(file, fcntl.LOCK_EX):
                    return False
                time.sleep(POLL_SECONDS)
        return True

    def _lock_path(self, name: str) -> Path:
        return Path(f"{self.url.database}.{name}.lock")

    @contextlib.contextmanager
    def _advisory_lock(self, name: str, wait: float, kind: str = "") -> Iterator[None]:
        key = advisory_lock_key(name)
        take, free = (getattr(sa.func, f"pg_{verb}{kind}") for verb in ("try_advisory_lock", "advisory_unlock"))
        deadline = time.monotonic() + wait
        # A session lock on a connection of its own: PostgreSQL frees it when the connection dies.
        with (
            self._translated_errors(),
            self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            for parameter, value in KEEPALIVE.items():
                connection.exec_driver_sql(f"SET tcp_keepalives_{parameter} = {value}")
            while not connection.scalar(sa.select(take(key))):
                self._wait_until(deadline, name)
            try:
                yield
            finally:
                # Whoever only shared the lock lost nothing with the connection.
                with contextlib.suppress(*[sa.exc.DBAPIError] if kind else []):
                    connection.execute(sa.select(free(key)))

    def _is_advisory_locked(self, name: str) -> bool:
        locks = sa.table(
            "pg_locks", *map(sa.column, ("locktype", "database", "classid", "objid", "objsubid", "granted"))
        )
        database = sa.text("(SELECT oid FROM pg_database WHERE datname = current_database())")
        is_granted = sa.exists().where(
            locks.c.locktype == "advisory",
            locks.c.database == database,
            locks.c.classid == 0,  # the upper half of the key
            locks.c.objid == advisory_lock_key(name),
            locks.c.objsubid == 1,  # of one key, not of two
            locks.c.granted,
        )
        with self.read() as connection:
            return bool(connection.scalar(sa.select(is_granted)))

    def _wait_until(self, deadline: float, name: str) -> None:
        if time.monotonic() > deadline:
            raise LedgerUnavailable(
                f"lock {name!r} of the ledger at {self.address} is held by another process, which is still working or "
                "hangs. Wait for it or stop it, then run again"
            )
        time.sleep(POLL_SECONDS)


def now() -> datetime:
    """Return the current time, UTC."""
    return datetime.now(UTC)


def _parsed(url: str) -> sa.URL:
    try:
        parsed = make_url(url)
        kind = parsed.get_backend_name()
    except (sa.exc.ArgumentError, ValueError):  # ValueError: its port is no number
        kind = "no URL"  # the text is not repeated: it may hold a password
    if kind not in {"sqlite", "postgresql"}:
        raise SettingsError(
            "CORPUS_GUARD_LEDGER_URL: expected sqlite:///file or "
            f"postgresql+psycopg2://user:password@host/database, got {kind}"
        )
    return parsed


def _try_lock(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: IO[str], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _configure_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions behind our back
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout={BUSY_SECONDS * 1000}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "recursive_triggers=ON",
    ):
        _retry_while_busy(partial(cursor.execute, f"PRAGMA {pragma}"))
    cursor.close()


def _retry_while_busy(execute: Callable[[], object]) -> None:
    """Run a statement until no other process is in its way: SQLite does not wait when two make a new file a WAL one."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            execute()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begin", "BEGIN"))
