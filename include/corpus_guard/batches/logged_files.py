"""Hashes of stored files in the event log, so that a changed file is noticed whatever it holds.

Rules
    * the SHA-256 of a file that shall stay as it is stands in an event of kind ``stored``, written in the
      transaction that records what the file holds; of several events that name a file the newest counts;
    * what decides on documents, verdicts and vectors, is used again only as it was logged;
    * who writes such a file anew logs its new hash first, and who deletes it logs that it is gone: killed in
      between, the file deviates until the work is repeated;
    * files of releases that logged no hashes are compared by their content alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from corpus_guard.batches.storage import Storage
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.tables import events

STORED_EVENT: Final = "stored"


@dataclass(frozen=True, slots=True)
class FileRemoval:
    """The logged removal of a file."""

    at: datetime  # UTC
    run_id: str

    def __str__(self) -> str:
        """Return when and by which run, in words."""
        return f"removed on {self.at:%Y-%m-%d} by {self.run_id}"


def hash_files(storage: Storage, names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 (hex) of each of these files; raises Inconsistent if one is gone."""
    return {name: storage.sha256(name) for name in names}


def log_files(connection: sa.Connection, run_id: str, hashes: Mapping[str, str] | Mapping[str, None]) -> None:
    """Log the hashes of files, but for those that are logged so: one event for each folder. Log a file once in a transaction.

    Args:
        hashes: storage name → SHA-256; None: the file is gone from now on.
    """
    by_folder: dict[str, dict[str, str | None]] = {}
    for name, sha256 in hashes.items():
        by_folder.setdefault(name.rpartition("/")[0], {})[name] = sha256
    for folder, files in sorted(by_folder.items()):
        logged = logged_hashes(connection, folder)
        new = {name: sha256 for name, sha256 in files.items() if name not in logged or logged[name] != sha256}
        if new:
            append_event(connection, STORED_EVENT, folder, run_id, files=new)


def logged_hashes(connection: sa.Connection, folder: str | None = None) -> dict[str, str | None]:
    """Return the newest logged hash of each file, of one folder or of all; None: deleted."""
    statement = sa.select(events.c.body).where(events.c.kind == STORED_EVENT).order_by(events.c.seq)
    if folder is not None:
        statement = statement.where(events.c.subject == folder)
    hashes: dict[str, str | None] = {}
    for body in connection.scalars(statement):
        hashes |= body["files"]
    return hashes


def verified_hash(connection: sa.Connection, storage: Storage, name: str) -> str | None:
    """Return the hash of a file that has the one logged last; None if it has another one, is gone or was never logged."""
    sha256 = logged_hashes(connection, name.rpartition("/")[0]).get(name)
    return sha256 if sha256 and storage.exists(name) and storage.sha256(name) == sha256 else None


def find_removal(connection: sa.Connection, name: str) -> FileRemoval | None:
    """Return the event that removed a file on purpose; None if the newest event about it did not."""
    of_folder = sa.select(events.c.at, events.c.run_id, events.c.body).where(
        events.c.kind == STORED_EVENT, events.c.subject == name.rpartition("/")[0]
    )
    for row in connection.execute(of_folder.order_by(events.c.seq.desc())):
        if name in row.body["files"]:
            return FileRemoval(row.at, row.run_id) if row.body["files"][name] is None else None
    return None
