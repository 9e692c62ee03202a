"""A folder of derived files, on disk or in an object store (fsspec).

Rules
    * names are relative to the folder's root, so that the ledger stays right when the folder moves;
    * a file appears under its name only when it is complete;
    * a table's name is a hash of its inputs: an existing table is never made again, and of two that are made
      at the same time the first stands, so that all readers see the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import uuid
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from corpus_guard.batches.filesystem import open_filesystem
from corpus_guard.errors import Inconsistent

log = logging.getLogger(__name__)

ROWS_PER_GROUP = 64  # so that one version is read without the 255 others of its shard

Filters: TypeAlias = list[tuple[str, str, object]]
"""Conditions on rows, as pyarrow takes them: (column, operator, value)."""


class FileDamaged(Inconsistent, pa.ArrowInvalid):  # type: ignore[misc]  # pyarrow has no types
    """A stored file is there, but its bytes are not of the format that was written."""


class Storage:
    """Folder of derived files below an fsspec URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._fs, self._root = open_filesystem(url)
        self._local = isinstance(self._fs, LocalFileSystem)

    def exists(self, name: str) -> bool:
        """Return whether the file `name` exists."""
        return bool(self._fs.exists(self._path(name)))

    def names(self) -> set[str]:
        """Return the names of all files, by one listing: about 100 bytes of memory each."""
        if not self._fs.exists(self._root):
            return set()
        self._fs.invalidate_cache()
        return {str(path).removeprefix(self._root + "/") for path in self._fs.find(self._root)}

    def written_at(self, name: str) -> datetime:
        """Return when a file was last written (UTC); raises Inconsistent like `read`."""
        try:
            return _utc(self._fs.modified(self._path(name)))
        except FileNotFoundError:
            raise self._missing(name) from None

    def size(self, name: str) -> int:
        """Return the size of a file in bytes; raises Inconsistent like `read`."""
        try:
            return int(self._fs.size(self._path(name)))
        except FileNotFoundError:
            raise self._missing(name) from None

    def remove(self, name: str) -> None:
        """Remove a file, unless it is gone, and its folder once that is empty."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._path(name))
        if self._local:
            with contextlib.suppress(OSError):  # an object store has no folders; a full one stays
                Path(self._path(name)).parent.rmdir()

    def keeps_versions(self) -> bool:
        """Return True where what is overwritten or removed is kept, as in a bucket with versions."""
        asks = getattr(self._fs, "keeps_versions", None)  # only object stores have such a method
        return bool(asks and asks(self._root))

    def write(self, name: str, content: bytes, *, keep_existing: bool = False) -> None:
        """Write a file; readers see all of it or nothing.

        Args:
            name: relative to the root.
        """
        if not self._local:  # one request, and no draft
            with contextlib.suppress(FileExistsError):
                self._fs.pipe_file(self._path(name), content, mode="create" if keep_existing else "overwrite")
            return
        with self._draft(name.rpartition("/")[0]) as (stream, draft):
            stream.write(content)
            stream.close()
            self._move(draft, name, keep_existing=keep_existing)

    def write_lines(self, folder: str, lines: Iterable[bytes], suffix: str) -> tuple[str, str, int]:
        """Write lines as they come, in constant memory, under the hash of the content.

        Returns:
            Name, SHA-256 (hex), number of lines.
        """
        hasher = hashlib.sha256()
        count = 0
        with self._draft(folder) as (stream, draft):
            for line in lines:
                stream.write(line + b"\n")
                hasher.update(line + b"\n")
                count += 1
            stream.close()
            name = f"{folder}/{hasher.hexdigest()}{suffix}"
            self._move(draft, name)
        return name, hasher.hexdigest(), count

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            Inconsistent: the file is gone, although the ledger or an earlier step refers to it.
        """
        try:
            return bytes(self._fs.cat_file(self._path(name)))
        except FileNotFoundError:
            raise self._missing(name) from None

    def sha256(self, name: str) -> str:
        """Return the SHA-256 (hex) of a file, in constant memory; raises Inconsistent like `read`."""
        try:
            with self._fs.open(self._path(name), "rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            raise self._missing(name) from None

    def read_lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines of a file, without newlines; raises Inconsistent like `read`."""
        try:
            with self._fs.open(self._path(name), "rb") as stream:
                for line in stream:
                    yield line.removesuffix(b"\n")
        except FileNotFoundError:
            raise self._missing(name) from None

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a Parquet file (zstd); leave an existing one as it is."""
        self.write(name, parquet_bytes(table), keep_existing=True)

    def read_table(self, name: str, *, columns: list[str] | None = None, filters: Filters | None = None) -> pa.Table:
        """Read a Parquet file, or some of its columns and rows.

        Raises:
            FileDamaged: the bytes are not a Parquet file with these columns.
            Inconsistent: the file is gone.
        """
        content = self.read(name)
        try:
            return _parse_table(content, columns, filters)
        # What damaged bytes make pyarrow raise; they are in memory, so an OSError is no failing disk.
        except (pa.ArrowException, OSError, ValueError, LookupError, NotImplementedError) as error:
            raise FileDamaged(
                f"{self._path(name)} is damaged: its {len(content):,} bytes are not readable as Parquet "
                f"({type(error).__name__}). Restore the file from a copy; `guard verify --deep` tells whether it can be made again"
            ) from error

    def has_table(self, name: str) -> bool:
        """Return whether a Parquet file is there and can be read; the log says what is wrong with it."""
        try:
            self.read_table(name)
        except Inconsistent as error:
            log.warning("%s", error)
            return False
        return True

    def write_json(self, name: str, value: object) -> None:
        """Write a JSON file."""
        self.write(name, orjson.dumps(value))

    def read_json(self, name: str) -> Any:
        """Read a JSON file; raises Inconsistent like `read`."""
        return orjson.loads(self.read(name))

    def location(self, name: str) -> str:
        """Return the full path of a file, for people."""
        return self._path(name)

    @contextlib.contextmanager
    def _draft(self, folder: str) -> Iterator[tuple[BinaryIO, str]]:
        path = self._path(folder)
        self._fs.makedirs(path, exist_ok=True)
        draft = f"{path}/.{uuid.uuid4().hex}"
        try:
            with self._fs.open(draft, "wb") as stream:
                yield stream, draft
        except BaseException as error:
            with contextlib.suppress(Exception):
                self._fs.rm_file(draft)
            if isinstance(error, OSError) and not error.filename:
                error.filename = path  # a full disk does not say which
            raise

    def _move(self, draft: str, name: str, *, keep_existing: bool = False) -> None:
        if self._local:
            # The ledger's commits survive a power cut; the files they refer to must, too.
            _flush(Path(draft))
            if keep_existing:
                with contextlib.suppress(FileExistsError):
                    Path(self._path(name)).hardlink_to(draft)  # atomic, and fails where the name is taken
                Path(draft).unlink()
            else:
                # atomic; fsspec's own `mv` copies when the target exists
                Path(draft).replace(self._path(name))
            _flush(Path(draft).parent)
        else:
            self._fs.mv(draft, self._path(name))

    def _missing(self, name: str) -> Inconsistent:
        return Inconsistent(
            f"{self._path(name)} is missing, and the ledger or an earlier step refers to it; restore the storage folder "
            "(CORPUS_GUARD_STORAGE_URL) from a copy"
        )

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def parquet_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file (zstd), whose pages have checksums."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", row_group_size=ROWS_PER_GROUP, write_page_checksum=True)
    return buffer.getvalue()


def _parse_table(content: bytes, columns: list[str] | None, filters: Filters | None) -> pa.Table:
    # Not pq.read_table: with filters, pyarrow 25.0.1 waits for ever on some damaged files (a flipped bit in 1 of 100).
    file = pq.ParquetFile(pa.BufferReader(_copy_to_arrow(content)), page_checksum_verification=True)
    if filters is None:
        return file.read(columns=columns)
    condition = pq.filters_to_expression(filters)
    names = list(dict.fromkeys(name for name, _, _ in filters))
    groups = [
        group
        for group in range(file.num_row_groups)
        if file.read_row_group(group, columns=names).filter(condition).num_rows
    ]
    needed = None if columns is None else list(dict.fromkeys([*columns, *names]))
    return select_rows(file.read_row_groups(groups, columns=needed), columns, filters)


def _copy_to_arrow(content: bytes) -> pa.Buffer:
    """Return the bytes in memory that Arrow owns.

    Arrow's threads release what they have read a moment after the table is returned. Memory of Python is released under the
    interpreter's lock, and a thread that asks for it while the interpreter ends is unwound through a C++ destructor: the process
    aborts with "terminate called without an active exception" (pyarrow 25.0.1, Python 3.11; 7 of 102 short commands on a busy machine).
    """
    buffer = pa.allocate_buffer(len(content))
    memoryview(buffer).cast("B")[:] = content
    return buffer


def select_rows(table: pa.Table, columns: list[str] | None, filters: Filters | None) -> pa.Table:
    """Return the rows of a table that meet all conditions, and some of its columns; all where None is given."""
    if filters is not None:
        table = table.filter(pq.filters_to_expression(filters))
    return table if columns is None else table.select(columns)


def _utc(when: datetime) -> datetime:
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
