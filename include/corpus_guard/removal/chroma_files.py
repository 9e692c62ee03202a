"""Erasing the bytes of deleted records from Chroma's files.

Facts this rests on (chromadb 1.5.9, its Rust server; each was measured)
    * a deleted record leaves traces: its text in free pages of chroma.sqlite3, its three-letter pieces in the
      segments of the full-text table, its vector in `embeddings_queue` while the collection is small and in
      `data_level0.bin` once it is not (chroma #7662);
    * deleting the collection empties the tables and leaves the index folder behind, which nothing in the
      database names any more;
    * a new index is written from memory that was not cleared: in one of three servers its files held bytes of a
      purged vector, and again each time the collection was made again. `corpus.server` therefore lets the C
      library overwrite memory; a server that was started otherwise should do the same (MALLOC_PERTURB_=165);
    * `rebuild` of the full-text table and VACUUM from another process are ordinary SQLite transactions: a
      running server keeps answering (of 445 queries meanwhile none failed, the slowest took half a second)
      and brings nothing back when it stops or starts;
    * the journal mode is ``delete``; if another release uses a write-ahead log, the checkpoint empties it.

So a collection that held purged records is deleted and published again from Parquet, then the database is
compacted; and again if the new index holds old memory. Meanwhile the collection answers with the records that
are back.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.corpus import outbox
from corpus_guard.corpus.chroma_store import connect_to_chroma
from corpus_guard.corpus.store import Store
from corpus_guard.errors import Inconsistent, StoreUnavailable
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import LIVE_STATES, PublicationState
from corpus_guard.ledger.tables import publications, versions
from corpus_guard.removal.store_files import SearchableFile, files_on_disk

if TYPE_CHECKING:
    from chromadb.api import ClientAPI

PROBE_COLLECTION: Final = "corpus-guard-purge-probe"  # exists for a moment
LOCK_SECONDS: Final = 120  # the server's own transactions last milliseconds
COMPACTION_STATEMENTS: Final = (
    "INSERT INTO embedding_fulltext_search(embedding_fulltext_search) VALUES ('rebuild')",
    "VACUUM",
    "PRAGMA wal_checkpoint(TRUNCATE)",
)


@dataclass(frozen=True)
class ChromaFiles:
    """Chroma's folder; the collections are filled again from the batches."""

    ledger: Ledger
    storage: Storage
    store: Store
    folder: Path

    @property
    def location(self) -> str:
        """Folder of the files."""
        return str(self.folder)

    def files(self) -> Iterator[SearchableFile]:
        """Yield every file that may hold a text or a vector of the collections."""
        return files_on_disk(self.folder.rglob("*"))

    def rewrite(self, run_id: str, collections: Sequence[str]) -> None:
        """Publish the remaining records into new collections, and take the old ones' bytes out of Chroma's files."""
        republish_collections(self.ledger, self.storage, self.store, run_id, collections)
        compact(self.folder)

    def finish_rewriting(self) -> None:
        """Take out the bytes of collections that were deleted, if their indexes are still in the folder."""
        if _folders_without_owner(self.folder):
            compact(self.folder)

    def is_rewritten(self, location: str) -> bool:
        """Return whether the file belongs to a collection's index."""
        return is_index_file(self.folder, location)


def find_chroma_folder(store: Store, folder: Path) -> Path | None:
    """Return `folder` if the server that answers keeps its collections there, else None.

    A probe collection is created and looked for on disk: a URL does not tell where a server's files lie.

    Raises:
        StoreUnavailable: Chroma does not answer, or its database is locked.
    """
    client = _client(store)
    with _translated_errors(store, "probe"):
        probe_id = str(client.get_or_create_collection(PROBE_COLLECTION, embedding_function=None).id)
        try:
            return folder if probe_id in _row_ids(folder, "collections") else None
        finally:
            client.delete_collection(PROBE_COLLECTION)


def republish_collections(
    ledger: Ledger, storage: Storage, store: Store, run_id: str, collections: Iterable[str]
) -> None:
    """Delete collections and publish what the ledger says they hold, from Parquet, without any model.

    If the process is killed, the missing chunks stay in the outbox.

    Raises:
        ForeignCollection: a collection belongs to another deployment; it was not deleted.
        Inconsistent: storage lacks something that is served; this collection was not deleted.
        StoreUnavailable: Chroma does not answer.
    """
    for collection in collections:
        with ledger.exclusive("publish"):
            _require_republishable(ledger, storage, collection)
            if collection in store.names():
                store.require_own(collection)
            ledger.execute(
                publications.update()
                .where(publications.c.collection == collection, publications.c.state == PublicationState.PUBLISHED)
                .values(state=PublicationState.PENDING, changed_at=now(), run_id=run_id)
            )
            store.delete_collection(collection)
    outbox.drain(ledger, storage, store, run_id)


def compact(folder: Path) -> None:
    """Remove index folders that no segment owns, and every free page of the database.

    Raises:
        StoreUnavailable: another process keeps the database locked.
    """
    without_owner = _folders_without_owner(folder)
    with _database(folder) as connection:
        for statement in COMPACTION_STATEMENTS:
            connection.execute(statement).fetchall()
    for path in without_owner:  # last: while they are there, whoever goes on knows that this was not done
        shutil.rmtree(path)


def _folders_without_owner(folder: Path) -> list[Path]:
    """Return the index folders that no segment owns."""
    # The folders first: a segment's row is committed before its folder is made, so a folder without a row has
    # no owner.
    index_folders = [path for path in folder.iterdir() if path.is_dir() and _is_uuid(path.name)]
    segments = _row_ids(folder, "segments")
    return [path for path in index_folders if path.name not in segments]


def is_index_file(folder: Path, location: str) -> bool:
    """Return whether `location` is a file of a collection's index in Chroma's folder."""
    path = Path(location)
    return path.parent.parent == folder and _is_uuid(path.parent.name)


def _require_republishable(ledger: Ledger, storage: Storage, collection: str) -> None:
    statement = (
        sa.select(publications.c.chunk_id, publications.c.version_id, publications.c.vectors, versions.c.batch)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.collection == collection, publications.c.state.in_(LIVE_STATES))
    )
    required: dict[tuple[str, str], set[str]] = {}
    with ledger.read() as connection:
        for row in connection.execute(statement):
            required.setdefault((row.vectors, "chunk_id"), set()).add(row.chunk_id)
            required.setdefault((row.batch, "version_id"), set()).add(row.version_id)
    for (name, key), ids in required.items():
        try:
            missing = ids.difference(storage.read_table(name, columns=[key])[key].to_pylist())
        except pa.ArrowException as error:
            raise Inconsistent(f"{storage.location(name)}: unreadable ({type(error).__name__})") from error
        if missing:
            raise Inconsistent(
                f"{storage.location(name)} lacks {key} {min(missing)}, which {collection} serves; the "
                "collection cannot be published again and was not changed. Restore the file, then run `guard "
                "purge --resume`"
            )


@contextmanager
def _database(folder: Path) -> Iterator[sqlite3.Connection]:
    file = folder / "chroma.sqlite3"
    uri = f"{file.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=LOCK_SECONDS)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"{file}: {type(error).__name__} ({error}); check that no other process keeps it locked and that "
            "the disk has room for a copy, then run `guard purge --resume`"
        ) from error


def _row_ids(folder: Path, table: str) -> set[str]:
    if not (folder / "chroma.sqlite3").is_file():
        return set()
    with _database(folder) as connection:
        return {row[0] for row in connection.execute(f"SELECT id FROM {table}")}  # noqa: S608 - one of our two words


def _is_uuid(name: str) -> bool:
    with suppress(ValueError):
        return str(uuid.UUID(name)) == name
    return False


def _client(store: Store) -> ClientAPI:
    with _translated_errors(store, store.url):
        return connect_to_chroma(store.url)


@contextmanager
def _translated_errors(store: Store, subject: str) -> Iterator[None]:
    try:
        yield
    except (StoreUnavailable, Inconsistent):
        raise
    except Exception as error:  # chromadb raises ValueError, ChromaError and bare httpx errors alike
        raise StoreUnavailable(
            f"Chroma at {store.url} failed ({type(error).__name__}) at {subject}; see its log, then run "
            "`guard purge --resume`"
        ) from error
