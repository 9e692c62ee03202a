"""Memory of a witness: a SQLite database, and beside it a list of heads that only grows.

Rules
    * comparing and remembering happen in one transaction that holds the write lock from its start; it is on
      disk when it ends;
    * a head is in the database before it is in ``heads.log``, and in both before any request is answered;
    * a database that is behind ``heads.log`` was restored from an older copy; nothing more is read from it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypedDict, cast

from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.key_files import write_durably
from corpus_guard.proof.log.merkle import HASH_BYTES

LOCK_SECONDS: Final = 30  # a transaction waits this long for another one; each lasts milliseconds
_SCHEMA = """
CREATE TABLE logs (origin TEXT NOT NULL, vkey TEXT NOT NULL, PRIMARY KEY (origin, vkey));
CREATE TABLE heads (origin TEXT NOT NULL, size INTEGER NOT NULL, root TEXT NOT NULL, note TEXT NOT NULL, cosigned_at INTEGER NOT NULL,
    PRIMARY KEY (origin, size));
CREATE TABLE refusals (origin TEXT NOT NULL, size INTEGER NOT NULL, root TEXT NOT NULL, note TEXT NOT NULL, reason TEXT NOT NULL,
    against TEXT NOT NULL, refused_at INTEGER NOT NULL, PRIMARY KEY (origin, size, root));
"""


class CosignedHead(TypedDict):
    """A head that the witness cosigned."""

    origin: str
    size: int  # leaves
    root: str  # hex
    note: str
    cosigned_at: int  # seconds since 1970


class RefusedHead(TypedDict):
    """A head that the witness refused although a trusted key signed it."""

    origin: str
    size: int  # leaves
    root: str  # hex
    note: str
    reason: str
    against: str  # note of the head that it contradicts
    refused_at: int  # seconds since 1970


class WitnessStore:
    """The database and ``heads.log`` in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open what `create` made.

        Raises:
            SettingsError: one of the two files is missing.
            Inconsistent: the database is behind ``heads.log``, or a line of the latter was changed.
        """
        self._file, self._heads_log = folder / "witness.sqlite", folder / "heads.log"
        for file in (self._file, self._heads_log):
            if not file.exists():
                raise SettingsError(
                    f"{file} is missing, and with it the witness's memory: restore it together with the files beside it"
                )
        self._appending = threading.Lock()
        self._largest = self._largest_logged_heads()
        with self.transaction() as connection:
            for origin in self._largest:
                self.newest_head(connection, origin)

    @staticmethod
    def create(folder: Path) -> None:
        """Make an empty database and an empty list."""
        with contextlib.closing(sqlite3.connect(folder / "witness.sqlite")) as connection:
            connection.executescript(_SCHEMA)
        write_durably(folder / "heads.log", b"", 0o600)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in an exclusive transaction; commit when it ends, roll back when it raises."""
        uri = f"{self._file.absolute().as_uri()}?mode=rw"  # a deleted database is not made again
        with contextlib.closing(
            sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCK_SECONDS)
        ) as connection:
            connection.row_factory = sqlite3.Row
            # EXTRA syncs the folder, too: otherwise a power cut can bring back the journal, and with it the
            # older head.
            connection.execute("PRAGMA synchronous=EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def trust(self, origin: str, vkeys: Sequence[str]) -> None:
        """Trust these keys for a log, and no others."""
        with self.transaction() as connection:
            connection.execute("DELETE FROM logs WHERE origin = ?", (origin,))
            connection.executemany("INSERT INTO logs VALUES (?, ?)", {(origin, vkey) for vkey in vkeys})

    def trusted_keys(self) -> dict[str, list[str]]:
        """Return the verifier keys of each log, by origin."""
        by_origin: dict[str, list[str]] = {}
        with self.transaction() as connection:
            for row in connection.execute("SELECT origin, vkey FROM logs ORDER BY origin, vkey"):
                by_origin.setdefault(row["origin"], []).append(row["vkey"])
        return by_origin

    def heads(self) -> list[CosignedHead]:
        """Return the newest cosigned head of each log."""
        with self.transaction() as connection:
            rows = connection.execute("SELECT *, max(size) AS size FROM heads GROUP BY origin ORDER BY origin")
            return [cast("CosignedHead", dict(row)) for row in rows]

    def refusals(self) -> list[RefusedHead]:
        """Return the refused heads, the oldest first."""
        with self.transaction() as connection:
            rows = connection.execute("SELECT * FROM refusals ORDER BY refused_at, size")
            return [cast("RefusedHead", dict(row)) for row in rows]

    def newest_head(self, connection: sqlite3.Connection, origin: str) -> CosignedHead | None:
        """Return the newest cosigned head of a log; None if there is none.

        Raises:
            Inconsistent: ``heads.log`` has a larger head, or another one of this size.
        """
        newest = "SELECT * FROM heads WHERE origin = ? ORDER BY size DESC LIMIT 1"
        row = connection.execute(newest, (origin,)).fetchone()
        logged_size, logged_root = self._largest.get(origin, (0, ""))
        size = row["size"] if row else 0
        is_other = row and size == logged_size and logged_root and row["root"] != logged_root
        if size < logged_size or is_other:
            raise Inconsistent(
                f"the witness's database {self._file} ends at size {size} for {origin}, and size "
                f"{logged_size} was cosigned: {logged_size - size} leaves behind {self._heads_log.name}, so "
                "it was restored from an older copy. Nothing is cosigned; restore the newer database, or, if "
                "it is lost, make a new witness with another name"
            )
        return cast("CosignedHead", dict(row)) if row else None

    def record_cosigned(self, connection: sqlite3.Connection, head: Checkpoint, note: str, at: int) -> None:
        """Remember a head that is being cosigned `at` this time (seconds since 1970)."""
        row = (head.origin, head.size, head.root.hex(), note, at)
        connection.execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)", row)

    def record_refusal(
        self, connection: sqlite3.Connection, head: Checkpoint, note: str, reason: str, against: str
    ) -> None:
        """Remember a head that contradicts the note `against`."""
        row = (head.origin, head.size, head.root.hex(), note, reason, against, int(time.time()))
        # Once for each head: sending the same one again and again must not fill the disk.
        connection.execute("INSERT OR IGNORE INTO refusals VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def append(self, head: Checkpoint) -> None:
        """Append a head of the database to ``heads.log``.

        If the process is killed before, the database is ahead, and no request was answered.
        """
        with self._appending:
            descriptor = os.open(self._heads_log, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, f"{head.size} {head.root.hex()} {head.origin}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            logged = self._largest.get(head.origin, (0, ""))
            self._largest[head.origin] = max(logged, (head.size, head.root.hex()))

    def _largest_logged_heads(self) -> dict[str, tuple[int, str]]:
        """Return size and root of the largest head of each log in ``heads.log``."""
        content = self._heads_log.read_bytes()
        complete = content.rfind(b"\n") + 1
        if complete < len(content):  # a power cut in the middle of a line; nothing was answered
            os.truncate(self._heads_log, complete)
        largest: dict[str, tuple[int, str]] = {}
        for number, line in enumerate(content[:complete].decode(errors="replace").split("\n")[:-1], 1):
            size, _, rest = line.partition(" ")
            root, _, origin = rest.partition(" ")
            if not size.isdecimal() or len(root) != 2 * HASH_BYTES or not origin:
                raise Inconsistent(
                    f"{self._heads_log}, line {number}, is not a head; it was changed: restore the file from a backup"
                )
            largest[origin] = max(largest.get(origin, (0, "")), (int(size), root))
        return largest
