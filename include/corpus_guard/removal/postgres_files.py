"""Erasing the bytes of deleted records from PostgreSQL's files.

Facts this rests on (PostgreSQL 18, pgvector 0.8.5; each was measured)
    * a deleted row stays in its table's file, and its vector in the index, until VACUUM or another row overwrites it;
      VACUUM FULL writes table and indexes anew with the rows that anybody may still see, and removes the old files with
      the next checkpoint;
    * the write-ahead log holds every row as it was written. A segment is removed by the second checkpoint after the log
      went on to the next one, or renamed and kept for reuse with its old bytes unless ``wal_recycle`` is off;
    * a row that an old transaction, a replica or a replication slot may still need is kept: the search then finds it, and
      the purge stays open.

Searched are the files of the collections' tables, their indexes and large values, files of the database that belong to
nothing, temporary files, and the write-ahead log. The rest of the database is not: other tables, such as the ledger, hold
no text of a chunk. Needed are the rights of a superuser, and this machine has to see the server's disk.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from corpus_guard.corpus.pgvector_store import SCHEMA, PgvectorStore
from corpus_guard.errors import StoreRefused
from corpus_guard.removal.store_files import SearchableFile, files_on_disk

PROBE_TABLE: Final = "purge_probe"  # exists for a moment
_RELATION_FILE = re.compile(r"(\d+)(?:_[a-z]+)?(?:\.\d+)?")
_OTHER_FILES = sa.text(
    "WITH ours AS (SELECT oid, reltoastrelid FROM pg_class WHERE relnamespace = to_regnamespace(:schema)),"
    " kept AS (SELECT oid FROM ours UNION SELECT reltoastrelid FROM ours UNION"
    "  SELECT indexrelid FROM pg_index JOIN ours ON indrelid = ours.reltoastrelid)"
    " SELECT pg_relation_filenode(oid) FROM pg_class WHERE oid NOT IN (SELECT oid FROM kept)"
)


@dataclass(frozen=True)
class PostgresFiles:
    """Files of the database that holds the collections."""

    store: PgvectorStore
    folder: Path  # the server's data folder
    database: Path  # the database's folder below it

    @property
    def location(self) -> str:
        """Folder of the files."""
        return str(self.folder)

    def files(self) -> Iterator[SearchableFile]:
        """Yield every file that may hold a text or a vector of the collections."""
        with self.store.statements() as connection:
            others = {str(node) for node in connection.scalars(_OTHER_FILES, {"schema": SCHEMA}) if node is not None}
        relations = (
            path
            for path in self.database.iterdir()
            if (match := _RELATION_FILE.fullmatch(path.name)) is None or match[1] not in others
        )
        yield from files_on_disk(relations)
        yield from files_on_disk((self.folder / "base" / "pgsql_tmp").rglob("*"))
        yield from files_on_disk((self.folder / "pg_wal").rglob("*"))

    def rewrite(self, run_id: str, collections: Sequence[str]) -> None:
        """Write the collections' tables and indexes anew, and let the write-ahead log begin a new segment."""
        with self.store.statements() as connection:
            preparer = connection.dialect.identifier_preparer
            for collection in set(collections) & set(self.store.names()):
                self.store.require_own(collection)
                table = preparer.format_table(sa.table(collection, schema=SCHEMA)).replace(":", "\\:")
                connection.execute(sa.text(f"VACUUM (FULL) {table}"))
            connection.execute(sa.text("CHECKPOINT"))
            for _ in range(2):  # the last but one checkpoint's segment is kept
                connection.execute(sa.text("SELECT pg_switch_wal()"))
                connection.execute(sa.text("CHECKPOINT"))

    def finish_rewriting(self) -> None:
        """Do nothing: a table that was not written anew is as it was."""

    def is_rewritten(self, location: str) -> bool:
        """Return whether the file belongs to the server: all of them may be gone after the next checkpoint."""
        return Path(location).is_relative_to(self.folder)


def find_postgres_files(store: PgvectorStore) -> PostgresFiles | None:
    """Return the files of the server if this process can read them, else None.

    A probe with a random text is written and looked for on disk: a path alone does not tell on which machine it is.

    Raises:
        StoreUnavailable: PostgreSQL does not answer.
    """
    probe = uuid.uuid4().hex
    table = f"{SCHEMA}.{PROBE_TABLE}_{probe}"
    with suppress(StoreRefused, OSError), store.statements() as connection:
        folder = Path(str(connection.scalar(sa.text("SHOW data_directory"))))
        connection.execute(sa.text(f"CREATE TABLE {table} AS SELECT CAST(:probe AS text) AS probe"), {"probe": probe})
        try:
            connection.execute(sa.text("CHECKPOINT"))
            file = folder / str(connection.scalar(sa.text("SELECT pg_relation_filepath(:table)"), {"table": table}))
            if _holds(file, probe):
                return PostgresFiles(store, folder, file.parent)
        finally:
            connection.execute(sa.text(f"DROP TABLE {table}"))
    return None


def _holds(file: Path, text: str) -> bool:
    return text.encode() in file.read_bytes()
