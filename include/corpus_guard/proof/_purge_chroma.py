"""Taking the bytes of deleted records out of Chroma's files. Part of `corpus_guard.proof.purge`.

Facts this rests on (chromadb 1.5.9, its Rust server, each was measured)
    * a deleted record stays: its text in free pages of chroma.sqlite3, its three-letter pieces in the segments of the full-text table,
      its vector in `embeddings_queue` while the collection is small and in `data_level0.bin` once it is not (chroma #7662);
    * deleting the collection empties the tables and leaves the index folder behind; nothing in the database names it any more;
    * an index that is made anew is written from memory that was not cleared: once, and in none of 40 repetitions, its `length.bin` held
      bytes of a purged vector, which the server had read a moment before;
    * `rebuild` of the full-text table and VACUUM from another process are ordinary SQLite transactions: a server that runs goes on
      answering (of 445 queries meanwhile none failed, the slowest took half a second) and brings nothing back when it stops or starts;
    * the journal mode is ``delete``; should another release use a write-ahead log, the checkpoint empties it.

So a collection that held purged records is deleted and published again from Parquet, then the database is packed; and again where the new
index holds old memory. Until that is done, the collection answers with what is back already.
"""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlalchemy as sa

from corpus_guard.corpus import outbox
from corpus_guard.errors import Inconsistent, StoreUnavailable
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import publications, versions

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

PROBE = "corpus-guard-purge-probe"  # a collection that lives for a moment
BUSY_SECONDS = 120  # the server's own transactions last milliseconds
PACKING = (
    "INSERT INTO embedding_fulltext_search(embedding_fulltext_search) VALUES ('rebuild')",
    "VACUUM",
    "PRAGMA wal_checkpoint(TRUNCATE)",
)


def folder_of(guard: Guard) -> Path | None:
    """The folder in which the server that answers keeps its collections; None where this machine does not see it.

    A collection is made and looked for on the disk: an address says nothing of where a server's files lie.
    """
    folder = guard.settings.home / "chroma"
    client = _client(guard)
    with _answering(guard, "probe"):
        made = str(client.get_or_create_collection(PROBE, embedding_function=None).id)
        try:
            return folder if made in _ids(folder, "collections") else None
        finally:
            client.delete_collection(PROBE)


def publish_again(guard: Guard, run_id: str, collections: Iterable[str]) -> None:
    """Delete collections and publish what the ledger says they hold, from Parquet, without any model.

    Killed in between, what is missing waits in the outbox.

    Raises:
        Inconsistent: storage lacks something that is served. Nothing was deleted.
    """
    for collection in collections:
        with guard.ledger.exclusive("publish"):
            _see_that_it_can_be(guard, collection)
            with guard.ledger.write() as connection:
                connection.execute(
                    publications.update()
                    .where(publications.c.collection == collection, publications.c.state == "published")
                    .values(state="pending", changed_at=now(), run_id=run_id)
                )
            client = _client(guard)
            with _answering(guard, collection):
                if collection in {one.name for one in client.list_collections()}:
                    client.delete_collection(collection)
            guard.store.forget()
    outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)


def pack(folder: Path) -> None:
    """Remove index folders that no segment owns, and every free page.

    Raises:
        StoreUnavailable: somebody else keeps the database locked.
    """
    # The folders first: a segment's row is committed before its folder is made, so one without a row is nobody's.
    folders = [path for path in folder.iterdir() if path.is_dir() and _is_id(path.name)]
    owned = _ids(folder, "segments")
    for path in folders:
        if path.name not in owned:
            shutil.rmtree(path)
    with _database(folder) as connection:
        for statement in PACKING:
            connection.execute(statement).fetchall()


def is_of_an_index(folder: Path, place: str) -> bool:
    """Whether a place is a file of a collection's index in Chroma's folder."""
    path = Path(place)
    return path.parent.parent == folder and _is_id(path.parent.name)


def _see_that_it_can_be(guard: Guard, collection: str) -> None:
    statement = (
        sa.select(publications.c.chunk_id, publications.c.version_id, publications.c.vectors, versions.c.batch)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.collection == collection, publications.c.state.in_(("published", "pending")))
    )
    needed: dict[tuple[str, str], set[str]] = {}
    with guard.ledger.read() as connection:
        for row in connection.execute(statement):
            needed.setdefault((row.vectors, "chunk_id"), set()).add(row.chunk_id)
            needed.setdefault((row.batch, "version_id"), set()).add(row.version_id)
    for (name, key), ids in needed.items():
        try:
            missing = ids.difference(guard.storage.read_table(name, columns=[key])[key].to_pylist())
        except pa.ArrowException as error:
            raise Inconsistent(f"{guard.storage.location(name)}: unreadable ({type(error).__name__})") from error
        if missing:
            raise Inconsistent(
                f"{guard.storage.location(name)} lacks {key} {min(missing)}, which {collection} serves; the collection cannot be published "
                "again and was left as it is. Restore the file, then run `guard purge --resume`"
            )


@contextmanager
def _database(folder: Path) -> Iterator[sqlite3.Connection]:
    file = folder / "chroma.sqlite3"
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_SECONDS)
        ) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"{file}: {type(error).__name__} ({error}); see that nothing else keeps it locked and that the disk has room for a copy, "
            "then run `guard purge --resume`"
        ) from error


def _ids(folder: Path, table: str) -> set[str]:
    if not (folder / "chroma.sqlite3").is_file():
        return set()
    with _database(folder) as connection:
        return {row[0] for row in connection.execute(f"SELECT id FROM {table}")}  # noqa: S608 - one of our two words


def _is_id(name: str) -> bool:
    with suppress(ValueError):
        return str(uuid.UUID(name)) == name
    return False


def _client(guard: Guard) -> Any:
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    url = guard.store.url
    with _answering(guard, url):
        host, _, port = url.rpartition("//")[2].partition(":")
        return chromadb.HttpClient(
            host=host,
            port=int(port or (443 if url.startswith("https") else 80)),
            ssl=url.startswith("https"),
            settings=ChromaSettings(anonymized_telemetry=False),
        )


@contextmanager
def _answering(guard: Guard, what: str) -> Iterator[None]:
    try:
        yield
    except (StoreUnavailable, Inconsistent):
        raise
    except Exception as error:  # chromadb raises ValueError, ChromaError and bare httpx errors alike
        raise StoreUnavailable(
            f"Chroma at {guard.store.url} failed ({type(error).__name__}) at {what}; see its log, then run `guard purge --resume`"
        ) from error
