"""What a witness remembers: a SQLite store, and beside it a list of heads that only grows.

Rules
    * comparing and remembering happen in one transaction that has the write lock from its start; it is on disk when it ends;
    * a head is in the store before it is in ``heads.log``, and in both before anybody is answered;
    * a store that is behind ``heads.log`` was restored from an older copy; nothing more is read from it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.proof._key_files import write_durably
from corpus_guard.proof.checkpoint import Checkpoint
from corpus_guard.proof.merkle import HASH_BYTES

BUSY_SECONDS = 30  # a transaction waits this long for another's; each lasts milliseconds
_SCHEMA = """
CREATE TABLE logs (origin TEXT NOT NULL, vkey TEXT NOT NULL, PRIMARY KEY (origin, vkey));
CREATE TABLE heads (origin TEXT NOT NULL, size INTEGER NOT NULL, root TEXT NOT NULL, note TEXT NOT NULL, cosigned_at INTEGER NOT NULL,
    PRIMARY KEY (origin, size));
CREATE TABLE refusals (origin TEXT NOT NULL, size INTEGER NOT NULL, root TEXT NOT NULL, note TEXT NOT NULL, reason TEXT NOT NULL,
    against TEXT NOT NULL, refused_at INTEGER NOT NULL, PRIMARY KEY (origin, size, root));
"""


class Memory:
    """The store and ``heads.log`` in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open what `create` made.

        Raises:
            SettingsError: one of the two files is missing.
            Inconsistent: the store is behind ``heads.log``, or a line of that was changed.
        """
        self._store, self._side = folder / "witness.sqlite", folder / "heads.log"
        for file in (self._store, self._side):
            if not file.exists():
                raise SettingsError(
                    f"{file} is missing, and with it what the witness remembers: restore it together with the files beside it"
                )
        self._appending = threading.Lock()
        self._highest = self._side_heads()
        with self.transaction() as store:
            for origin in self._highest:
                self.newest(store, origin)

    @staticmethod
    def create(folder: Path) -> None:
        """Make an empty store and an empty list."""
        with contextlib.closing(sqlite3.connect(folder / "witness.sqlite")) as store:
            store.executescript(_SCHEMA)
        write_durably(folder / "heads.log", b"", 0o600)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction, alone at the store; committed when the block ends, rolled back when it raises."""
        uri = f"{self._store.absolute().as_uri()}?mode=rw"  # a store that was deleted is not made anew
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS)) as store:
            store.row_factory = sqlite3.Row
            # FULL, and the folder too: otherwise a power cut can bring back the journal, and with it the older head.
            store.execute("PRAGMA synchronous=EXTRA")
            store.execute("BEGIN IMMEDIATE")
            try:
                yield store
            except BaseException:
                store.execute("ROLLBACK")
                raise
            store.execute("COMMIT")

    def trust(self, origin: str, vkeys: Sequence[str]) -> None:
        """Remember these keys for the log, and no other."""
        with self.transaction() as store:
            store.execute("DELETE FROM logs WHERE origin = ?", (origin,))
            store.executemany("INSERT INTO logs VALUES (?, ?)", {(origin, vkey) for vkey in vkeys})

    def trusted(self) -> dict[str, list[str]]:
        """The verifier keys of each log, by origin."""
        found: dict[str, list[str]] = {}
        with self.transaction() as store:
            for row in store.execute("SELECT origin, vkey FROM logs ORDER BY origin, vkey"):
                found.setdefault(row["origin"], []).append(row["vkey"])
        return found

    def heads(self) -> list[dict[str, Any]]:
        """The newest head it cosigned of each log: origin, size, root (hex), note, cosigned_at (seconds since 1970)."""
        with self.transaction() as store:
            rows = store.execute("SELECT *, max(size) AS size FROM heads GROUP BY origin ORDER BY origin")
            return [dict(row) for row in rows]

    def refusals(self) -> list[dict[str, Any]]:
        """What it refused although a trusted key signed it: origin, size, root, note, reason, against (a note), refused_at."""
        with self.transaction() as store:
            return [dict(row) for row in store.execute("SELECT * FROM refusals ORDER BY refused_at, size")]

    def newest(self, store: sqlite3.Connection, origin: str) -> Any:
        """The row of the newest head cosigned of a log; None where there is none.

        Raises:
            Inconsistent: it is older than one that was cosigned, or another.
        """
        row = store.execute("SELECT * FROM heads WHERE origin = ? ORDER BY size DESC LIMIT 1", (origin,)).fetchone()
        size, root = self._highest.get(origin, (0, ""))
        found = row["size"] if row else 0
        if found < size or (row and found == size and root and row["root"] != root):
            raise Inconsistent(
                f"the witness's store {self._store} ends at size {found} for {origin}, and it cosigned size {size}: {size - found} leaves "
                f"behind {self._side.name}, restored from an older copy. Nothing is cosigned; restore the newer store, or, if it is lost, "
                "make a new witness with another name"
            )
        return row

    def keep(self, store: sqlite3.Connection, head: Checkpoint, note: str, at: int) -> None:
        """Remember a head that is being cosigned `at` this time (seconds since 1970)."""
        row = (head.origin, head.size, head.root.hex(), note, at)
        store.execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)", row)

    def refuse(self, store: sqlite3.Connection, head: Checkpoint, note: str, reason: str, against: str) -> None:
        """Remember a head that contradicts the note `against`."""
        row = (head.origin, head.size, head.root.hex(), note, reason, against, int(time.time()))
        # Once a head: whoever sends the same one again and again must not fill the disk.
        store.execute("INSERT OR IGNORE INTO refusals VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def append(self, head: Checkpoint) -> None:
        """Put a head that the store has into ``heads.log``; killed before that, the store is ahead, and nobody was answered."""
        with self._appending:
            descriptor = os.open(self._side, os.O_WRONLY | os.O_APPEND)
            try:
                os.write(descriptor, f"{head.size} {head.root.hex()} {head.origin}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._highest[head.origin] = max(self._highest.get(head.origin, (0, "")), (head.size, head.root.hex()))

    def _side_heads(self) -> dict[str, tuple[int, str]]:
        """Size and root of the newest head of each log in ``heads.log``."""
        content = self._side.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # a power cut in the middle of a line; nobody was answered
            os.truncate(self._side, whole)
        highest: dict[str, tuple[int, str]] = {}
        for number, line in enumerate(content[:whole].decode(errors="replace").split("\n")[:-1], 1):
            size, _, rest = line.partition(" ")
            root, _, origin = rest.partition(" ")
            if not size.isdecimal() or len(root) != 2 * HASH_BYTES or not origin:
                raise Inconsistent(
                    f"{self._side}, line {number}, is no head; somebody changed it: restore it from its copy"
                )
            highest[origin] = max(highest.get(origin, (0, "")), (int(size), root))
        return highest
