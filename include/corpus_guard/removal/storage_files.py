"""Purged texts and vectors in the storage folder: finding them, taking traces of them, and erasing them.

Rules
    * a row is erased when its version is purged, or when its text or bytes are: a batch that no run has
      recorded yet holds them, too;
    * a table is replaced as a whole or not at all; `versions.parquet`, which tells what to look for in the
      others, comes last;
    * a batch that nothing refers to is removed as a whole: a run that continues makes it again;
    * content that a remaining document holds, too, may stay and is not searched for;
    * Parquet is compressed: a file is searched both as it is and decoded.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.filesystem import open_filesystem
from corpus_guard.batches.logged_files import log_files
from corpus_guard.batches.storage import ROWS_PER_GROUP, parquet_bytes
from corpus_guard.batches.tables import in_batches
from corpus_guard.domain import sha256_bytes, sha256_text
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, publications, queries, versions
from corpus_guard.removal.purge_targets import PurgeTargets
from corpus_guard.removal.text_traces import TextTrace, TraceIndex, spread_traces, text_traces

if TYPE_CHECKING:
    from corpus_guard.intake.blobs import BlobStore

ROWS_PER_BLOCK: Final = 256  # of a table, decoded at a time
LEDGER_TEXTS_PER_SEARCH: Final = 500
_PARQUET_MAGIC = b"PAR1"
_BLOB_NAME: Final = re.compile(r"raw/sha256/[0-9a-f]{2}/[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class BatchTargets:
    """A batch folder with rows to be erased."""

    folder: str
    tables: tuple[str, ...]  # storage names of all its tables, `versions.parquet` last
    versions: frozenset[str]
    chunks: frozenset[str]


@dataclass(frozen=True, slots=True)
class SearchTraces:
    """Traces to search for, and what cannot be searched for."""

    traces: tuple[TextTrace, ...]
    shared: tuple[str, ...]  # chunks whose every window a remaining document holds, too
    untraced: tuple[str, ...]  # chunks (or versions, for hidden text) that are too short or too plain to be recognised


class StorageFiles:
    """Files of the storage folder, raw bytes included."""

    def __init__(self, ledger: Ledger, storage: Storage, blobs: BlobStore) -> None:
        self._ledger, self._storage, self._blobs = ledger, storage, blobs
        self._fs, self._root = open_filesystem(storage.url)

    def names(self) -> list[str]:
        """Return the names of all files, also the drafts of killed writers."""
        return sorted(self._storage.names())

    def version_tables(self) -> list[str]:
        """Return the names of the tables that hold texts."""
        return [name for name in self._table_names() if name.endswith("/versions.parquet")]

    def blob_names(self) -> list[str]:
        """Return the names of all raw bytes, without drafts and other files that lie among them."""
        return [name for name in self.names() if _BLOB_NAME.fullmatch(name)]

    def has_blob(self, sha256: str) -> bool:
        """Return whether raw bytes with this hash exist."""
        return bool(self._fs.exists(f"{self._root}/{self._blob_name(sha256)}"))

    def rows(self, name: str, columns: list[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, with some of its columns; a few are in memory at a time. Nothing if it is gone.

        Raises:
            Inconsistent: the table is unreadable.
        """
        with contextlib.suppress(FileNotFoundError), self.open(name) as stream, _require_readable(name):
            table = pq.ParquetFile(stream, page_checksum_verification=True)
            for block in table.iter_batches(ROWS_PER_GROUP, columns=columns):
                yield from block.to_pylist()

    def batches_with(self, targets: PurgeTargets) -> Iterator[BatchTargets]:
        """Yield the batch folders that hold rows to be erased.

        Raises:
            Inconsistent: a table is unreadable.
        """
        tables_by_folder: dict[str, list[str]] = {}
        for name in self._table_names():
            tables_by_folder.setdefault(name.rpartition("/")[0], []).append(name)
        for folder, tables in tables_by_folder.items():
            version_ids, chunk_ids = self._targets_in(folder, tables, targets)
            if version_ids or chunk_ids:
                last = f"{folder}/versions.parquet"
                ordered = tuple(sorted(tables, key=lambda name: (name == last, name)))
                yield BatchTargets(folder, ordered, version_ids, chunk_ids)

    def blobs_of(self, targets: PurgeTargets) -> list[str]:
        """Return the names of the raw bytes to be erased that exist."""
        return [self._blob_name(sha256) for sha256 in sorted(targets.content_sha256) if self.has_blob(sha256)]

    def take_traces(self, targets: PurgeTargets) -> SearchTraces:
        """Return traces of every chunk and hidden text to be erased, without those that remaining content leaves, too."""
        candidates: dict[str, list[list[TextTrace]]] = {chunk_id: [] for chunk_id in targets.chunks}
        batches = {batch.folder: batch for batch in self.batches_with(targets)}
        for batch in batches.values():
            for owner, content in self._contents(batch):
                candidates.setdefault(owner, []).append(text_traces(content))
        index = TraceIndex(trace for pieces in candidates.values() for piece in pieces for trace in piece)
        remaining = self._remaining_traces(index, batches, targets) if len(index) else set()
        unique = {
            owner: [[trace for trace in piece if trace not in remaining] for piece in pieces]
            for owner, pieces in candidates.items()
        }
        return SearchTraces(
            tuple(sorted({trace for pieces in unique.values() for piece in pieces for trace in spread_traces(piece)})),
            tuple(sorted(owner for owner, pieces in unique.items() if any(candidates[owner]) and not any(pieces))),
            tuple(sorted(owner for owner, pieces in candidates.items() if not any(pieces))),
        )

    def erase(self, targets: PurgeTargets, run_id: str) -> None:
        """Erase rows and raw bytes, and remove what killed writers left behind; `run_id` is for the event log."""
        for name in self.names():
            # Half a compressed file may hold a text and cannot be searched. A writer at work loses its draft,
            # fails, and is run again.
            if name.startswith(("batches/", "raw/")) and name.rpartition("/")[2].startswith("."):
                self._storage.remove(name)
        for batch in self.batches_with(targets):
            if not self.is_referenced(batch.folder):
                self._log(run_id, dict.fromkeys(batch.tables))
                for name in batch.tables:
                    self._storage.remove(name)
                continue
            for name in batch.tables:
                table = self._read_table(name)
                remaining = _remaining_rows(table, batch)
                if len(remaining) < len(table):
                    content = parquet_bytes(remaining)
                    self._log(run_id, {name: sha256_bytes(content)})
                    self._storage.write(name, content)
        for name in self.blobs_of(targets):
            self._storage.remove(name)

    def is_referenced(self, folder: str) -> bool:
        """Return whether the ledger names a table of the batch."""
        by_version = sa.select(versions.c.version_id).where(versions.c.batch == f"{folder}/versions.parquet")
        by_chunk = sa.select(publications.c.chunk_id).where(
            publications.c.vectors.startswith(f"{folder}/", autoescape=True)
        )
        with self._ledger.read() as connection:
            return any(connection.execute(statement.limit(1)).first() for statement in (by_version, by_chunk))

    def remove(self, name: str) -> None:
        """Remove a file, unless it is gone."""
        self._storage.remove(name)

    def open(self, name: str) -> BinaryIO:
        """Open a file for searching."""
        stream: BinaryIO = self._fs.open(f"{self._root}/{name}", "rb")
        return stream

    def _log(self, run_id: str, hashes: Mapping[str, str] | Mapping[str, None]) -> None:
        with self._ledger.write() as connection:
            log_files(connection, run_id, hashes)

    def _table_names(self) -> list[str]:
        return [name for name in self.names() if name.startswith("batches/") and name.endswith(".parquet")]

    def _targets_in(
        self, folder: str, tables: Sequence[str], targets: PurgeTargets
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the ids of versions and of chunks to be erased in a batch."""
        version_ids: set[str] = set()
        chunk_ids: set[str] = set()
        for name in tables:
            if name == f"{folder}/versions.parquet":
                for row in self._read_table(name, ["version_id", "stamp", "text", "chunks"]).to_pylist():
                    if (
                        row["version_id"] in targets.versions
                        or orjson.loads(row["stamp"])["content_sha256"] in targets.content_sha256
                        or sha256_text(row["text"]) in targets.text_sha256
                    ):
                        version_ids.add(row["version_id"])
                        chunk_ids |= {chunk["chunk_id"] for chunk in row["chunks"]}
            else:
                key, ids = _row_key(self._read_schema(name), targets.versions, targets.chunks)
                present = self._read_table(name, [key])[key].to_pylist() if key else []
                (version_ids if key == "version_id" else chunk_ids).update(ids.intersection(present))
        return frozenset(version_ids), frozenset(chunk_ids)

    def _read_schema(self, name: str) -> pa.Schema:
        with _require_readable(name), self.open(name) as stream:
            return pq.read_schema(stream)

    def _read_table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        with _require_readable(name):
            return self._storage.read_table(name, columns=columns)

    def _contents(self, batch: BatchTargets) -> Iterator[tuple[str, bytes]]:
        """Yield (chunk id, its text or vector) and (version id, its hidden text)."""
        for name in batch.tables:
            table = self._read_table(name)
            if "vector" in table.column_names:
                column = table["vector"].combine_chunks()
                vectors = np.asarray(column.flatten(), "<f4").reshape(len(column), column.type.list_size)
                for chunk_id, vector in zip(table["chunk_id"].to_pylist(), vectors, strict=True):
                    if chunk_id in batch.chunks:
                        yield chunk_id, vector.tobytes()
            elif "text" in table.column_names:
                for row in table.to_pylist():
                    if row["version_id"] in batch.versions:
                        if row["hidden"]:
                            yield row["version_id"], _utf8(row["hidden"])
                        for chunk in row["chunks"]:
                            yield chunk["chunk_id"], _utf8(row["text"][chunk["start"] : chunk["end"]])

    def _remaining_traces(
        self, index: TraceIndex, batches: Mapping[str, BatchTargets], targets: PurgeTargets
    ) -> set[TextTrace]:
        """Return the traces that remaining documents, names of documents and questions hold, too."""
        hits: set[TextTrace] = set()
        for name in self._table_names():
            table = self._read_table(name)
            batch = batches.get(name.rpartition("/")[0])
            hits |= _search_batches(index, (_remaining_rows(table, batch) if batch else table).to_batches())
        for name in self._remaining_blobs(targets):
            with contextlib.suppress(FileNotFoundError), self.open(name) as stream:
                hits |= index.found_in_stream(stream)
        with self._ledger.read() as connection:
            for column in (documents.c.uri, queries.c.text):
                texts = connection.scalars(sa.select(column).execution_options(yield_per=LEDGER_TEXTS_PER_SEARCH))
                for batch_of_texts in in_batches(texts, LEDGER_TEXTS_PER_SEARCH):
                    hits |= index.found_in(_utf8("\n".join(batch_of_texts)))
        return hits

    def _remaining_blobs(self, targets: PurgeTargets) -> Iterator[str]:
        hashes = sa.select(versions.c.content_sha256).distinct()
        with self._ledger.read() as connection:
            for sha256 in connection.scalars(hashes.execution_options(yield_per=LEDGER_TEXTS_PER_SEARCH)):
                if sha256 not in targets.content_sha256:
                    yield self._blob_name(sha256)

    def _blob_name(self, sha256: str) -> str:
        return self._blobs.path(sha256).removeprefix(self._root + "/")


def holds_trace(index: TraceIndex, stream: BinaryIO, location: str) -> bool:
    """Return whether a file holds a trace, as it is or, if it is Parquet, decoded.

    Args:
        stream: the file, seekable.

    Raises:
        Inconsistent: the file is Parquet and unreadable, so nothing can be said about its content.
    """
    magic = stream.read(len(_PARQUET_MAGIC))
    stream.seek(0)
    if index.found_in_stream(stream):
        return True
    if magic != _PARQUET_MAGIC:
        return False
    stream.seek(0)
    with _require_readable(location):
        # Without threads: one that holds memory of Python when the interpreter ends aborts the process (pyarrow 25.0.1).
        return bool(_search_batches(index, pq.ParquetFile(stream).iter_batches(ROWS_PER_BLOCK, use_threads=False)))


@contextlib.contextmanager
def _require_readable(location: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, ValueError, OSError) as error:  # a wrong checksum of a page is an OSError
        raise Inconsistent(
            f"{location}: unreadable ({type(error).__name__}), so it may still hold purged content; "
            "restore or remove the file, then run again"
        ) from error


def _search_batches(index: TraceIndex, batches: Iterable[pa.RecordBatch]) -> set[TextTrace]:
    hits: set[TextTrace] = set()
    for batch in batches:
        for column in batch.columns:
            for buffer in column.buffers():
                if buffer is not None:
                    hits |= index.found_in(memoryview(buffer))
    return hits


def _row_key(schema: pa.Schema, version_ids: frozenset[str], chunk_ids: frozenset[str]) -> tuple[str, frozenset[str]]:
    """Return a table's key column and the ids of that kind; "" for a table without such a column."""
    for key, ids in (("version_id", version_ids), ("chunk_id", chunk_ids)):
        if key in schema.names:
            return key, ids
    return "", frozenset()


def _remaining_rows(table: pa.Table, batch: BatchTargets) -> pa.Table:
    """Return the rows that stay, in memory of their own."""
    key, erased = _row_key(table.schema, batch.versions, batch.chunks)
    if not key:
        return table
    return table.filter(pa.array([row_id not in erased for row_id in table[key].to_pylist()], pa.bool_()))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
