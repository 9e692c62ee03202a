"""Purged texts and vectors in the storage folder: where they lie, what is traced of them, and taking them out.
Part of `corpus_guard.proof.purge`.

Rules
    * a row goes when its version is purged, or when its text or bytes are: a batch that no run recorded yet holds them as well;
    * a table is replaced as a whole or not at all; `versions.parquet`, which tells what to look for in the others, comes last;
    * a batch nothing refers to is removed whole: a run that comes back makes it again;
    * what a living document holds too is lawfully there and is not searched for;
    * Parquet is compressed: it is searched as written and as it reads.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from fsspec.core import url_to_fs

from corpus_guard.batches.storage import ROW_GROUP
from corpus_guard.batches.tables import split
from corpus_guard.domain import sha256_text
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger.tables import documents, publications, queries, versions
from corpus_guard.proof._purge_traces import Trace, Traces, spread, traces_of

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

_PARQUET = b"PAR1"
_ROWS = 256  # of a table, decoded at a time


@dataclass(frozen=True, slots=True)
class Doomed:
    """What has to go."""

    versions: frozenset[str]  # ids
    chunks: frozenset[str]  # ids
    content_sha256: frozenset[str]
    text_sha256: frozenset[str]  # without that of the empty text


@dataclass(frozen=True, slots=True)
class Held:
    """A batch folder that holds some of it."""

    folder: str
    tables: tuple[str, ...]  # names of all its tables, `versions.parquet` last
    versions: frozenset[str]
    chunks: frozenset[str]


@dataclass(frozen=True, slots=True)
class Traced:
    """What to search for."""

    traces: tuple[Trace, ...]
    shared: tuple[str, ...]  # chunks of which a living document holds every window
    untraced: tuple[str, ...]  # chunks too short or too plain to be told from others


class Disk:
    """The files of the storage folder, raw bytes included."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._fs, root = url_to_fs(guard.settings.storage)
        self._root = root.rstrip("/")

    def files(self) -> list[str]:
        """Names of all, drafts of killed writers among them."""
        if not self._fs.exists(self._root):
            return []
        self._fs.invalidate_cache()
        return sorted(str(path).removeprefix(self._root + "/") for path in self._fs.find(self._root))

    def held(self, doomed: Doomed) -> Iterator[Held]:
        """Batch folders with doomed rows."""
        folders: dict[str, list[str]] = {}
        for name in self.files():
            if name.startswith("batches/") and name.endswith(".parquet"):
                folders.setdefault(name.rpartition("/")[0], []).append(name)
        for folder, tables in folders.items():
            ids, chunks = self._doomed_in(folder, tables, doomed)
            if ids or chunks:
                last = f"{folder}/versions.parquet"
                yield Held(folder, tuple(sorted(tables, key=lambda name: (name == last, name))), ids, chunks)

    def blobs(self, doomed: Doomed) -> list[str]:
        """Names of the doomed raw bytes that are there."""
        names = (self._blob(sha) for sha in sorted(doomed.content_sha256))
        return [name for name in names if self._fs.exists(f"{self._root}/{name}")]

    def trace(self, doomed: Doomed) -> Traced:
        """Traces of every doomed chunk, and of hidden text, that no living document and no question leaves as well."""
        candidates: dict[str, list[list[Trace]]] = {chunk: [] for chunk in doomed.chunks}
        batches = {held.folder: held for held in self.held(doomed)}
        for held in batches.values():
            for owner, content in self._contents(held):
                candidates.setdefault(owner, []).append(traces_of(content))
        wanted = Traces(trace for pieces in candidates.values() for piece in pieces for trace in piece)
        lawful = self._lawful(wanted, batches, doomed) if len(wanted) else set()
        own = {
            owner: [[trace for trace in piece if trace not in lawful] for piece in pieces]
            for owner, pieces in candidates.items()
        }
        return Traced(
            tuple(sorted({trace for pieces in own.values() for piece in pieces for trace in spread(piece)})),
            tuple(sorted(owner for owner, pieces in own.items() if any(candidates[owner]) and not any(pieces))),
            tuple(sorted(owner for owner, pieces in candidates.items() if not any(pieces))),
        )

    def erase(self, doomed: Doomed) -> None:
        """Take doomed rows and raw bytes out, and remove what killed writers left."""
        for name in self.files():
            # Half a compressed file may hold a text and cannot be searched. A writer at work loses its draft, fails, and is run again.
            if name.startswith(("batches/", "raw/")) and name.rpartition("/")[2].startswith("."):
                self._remove(name)
        for held in self.held(doomed):
            if not self._referred_to(held.folder):
                for name in held.tables:
                    self._remove(name)
                continue
            for name in held.tables:
                table = self._table(name)
                kept = _without(table, held)
                if len(kept) < len(table):
                    buffer = io.BytesIO()
                    pq.write_table(kept, buffer, compression="zstd", row_group_size=ROW_GROUP)
                    self._guard.storage.write(name, buffer.getvalue())
        for name in self.blobs(doomed):
            self._remove(name)

    def open(self, name: str) -> BinaryIO:
        """To be searched."""
        stream: BinaryIO = self._fs.open(f"{self._root}/{name}", "rb")
        return stream

    def _doomed_in(self, folder: str, tables: Sequence[str], doomed: Doomed) -> tuple[frozenset[str], frozenset[str]]:
        ids: set[str] = set()
        chunks: set[str] = set()
        for name in tables:
            if name == f"{folder}/versions.parquet":
                columns = ["version_id", "stamp", "text", "chunks"]
                for row in self._table(name, columns=columns).to_pylist():
                    if (
                        row["version_id"] in doomed.versions
                        or orjson.loads(row["stamp"])["content_sha256"] in doomed.content_sha256
                        or sha256_text(row["text"]) in doomed.text_sha256
                    ):
                        ids.add(row["version_id"])
                        chunks |= {chunk["chunk_id"] for chunk in row["chunks"]}
            else:
                key, wanted = _keyed(self._schema(name), doomed.versions, doomed.chunks)
                found = self._table(name, columns=[key])[key].to_pylist() if key else []
                (ids if key == "version_id" else chunks).update(wanted.intersection(found))
        return frozenset(ids), frozenset(chunks)

    def _schema(self, name: str) -> pa.Schema:
        with _readable(name), self.open(name) as stream:
            return pq.read_schema(stream)

    def _table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        with _readable(name):
            return self._guard.storage.read_table(name, columns=columns)

    def _contents(self, held: Held) -> Iterator[tuple[str, bytes]]:
        """(chunk id, its text or vector) and (version id, its hidden text)."""
        for name in held.tables:
            table = self._table(name)
            if "vector" in table.column_names:
                column = table["vector"].combine_chunks()
                rows = np.asarray(column.flatten(), "<f4").reshape(len(column), column.type.list_size)
                for chunk, row in zip(table["chunk_id"].to_pylist(), rows, strict=True):
                    if chunk in held.chunks:
                        yield chunk, row.tobytes()
            elif "text" in table.column_names:
                for row in table.to_pylist():
                    if row["version_id"] in held.versions:
                        if row["hidden"]:
                            yield row["version_id"], _utf8(row["hidden"])
                        for chunk in row["chunks"]:
                            yield chunk["chunk_id"], _utf8(row["text"][chunk["start"] : chunk["end"]])

    def _lawful(self, wanted: Traces, batches: Mapping[str, Held], doomed: Doomed) -> set[Trace]:
        """What living documents, names of documents and questions hold."""
        found: set[Trace] = set()
        for name in self.files():
            if name.startswith("batches/") and name.endswith(".parquet"):
                table = self._table(name)
                held = batches.get(name.rpartition("/")[0])
                found |= _in_buffers(wanted, (_without(table, held) if held else table).to_batches())
        for name in self._living_blobs(doomed):
            with contextlib.suppress(FileNotFoundError), self.open(name) as stream:
                found |= wanted.found_in_stream(stream)
        with self._guard.ledger.read() as connection:
            for column in (documents.c.uri, queries.c.text):
                for part in split(connection.scalars(sa.select(column).execution_options(yield_per=500)), 500):
                    found |= wanted.found_in(_utf8("\n".join(part)))
        return found

    def _living_blobs(self, doomed: Doomed) -> Iterator[str]:
        living = sa.select(versions.c.content_sha256).distinct().execution_options(yield_per=500)
        with self._guard.ledger.read() as connection:
            for sha in connection.scalars(living):
                if sha not in doomed.content_sha256:
                    yield self._blob(sha)

    def _referred_to(self, folder: str) -> bool:
        by_version = sa.select(versions.c.version_id).where(versions.c.batch == f"{folder}/versions.parquet")
        by_chunk = sa.select(publications.c.chunk_id).where(
            publications.c.vectors.startswith(f"{folder}/", autoescape=True)
        )
        with self._guard.ledger.read() as connection:
            return any(connection.execute(one.limit(1)).first() for one in (by_version, by_chunk))

    def _blob(self, sha: str) -> str:
        return self._guard.blobs.path(sha).removeprefix(self._root + "/")

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._root}/{name}")


def search(traces: Traces, stream: BinaryIO, place: str) -> bool:
    """Whether a file holds one of them, as written or as it reads.

    Raises:
        Inconsistent: a Parquet file that cannot be read: nothing can be said of it.
    """
    head = stream.read(len(_PARQUET))
    stream.seek(0)
    if traces.found_in_stream(stream):
        return True
    if head != _PARQUET:
        return False
    stream.seek(0)
    with _readable(place):
        return bool(_in_buffers(traces, pq.ParquetFile(stream).iter_batches(_ROWS)))


@contextlib.contextmanager
def _readable(place: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, ValueError) as error:
        raise Inconsistent(
            f"{place}: unreadable ({type(error).__name__}), so nobody can say what it holds; restore or remove the file, then run again"
        ) from error


def _in_buffers(traces: Traces, batches: Iterable[pa.RecordBatch]) -> set[Trace]:
    found: set[Trace] = set()
    for batch in batches:
        for column in batch.columns:
            for buffer in column.buffers():
                if buffer is not None:
                    found |= traces.found_in(memoryview(buffer))
    return found


def _keyed(schema: pa.Schema, *ids: frozenset[str]) -> tuple[str, frozenset[str]]:
    """The column by which a table's rows are known, and which of them are doomed; "" for a table of another kind."""
    for key, wanted in zip(("version_id", "chunk_id"), ids, strict=True):
        if key in schema.names:
            return key, wanted
    return "", frozenset()


def _without(table: pa.Table, held: Held) -> pa.Table:
    """The rows that stay, in memory of their own."""
    key, gone = _keyed(table.schema, held.versions, held.chunks)
    if not key:
        return table
    return table.filter(pa.array([one not in gone for one in table[key].to_pylist()], pa.bool_()))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")
