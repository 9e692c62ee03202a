"""A folder of derived files, on disk or in an object store (fsspec).

Names are relative to the folder's root: the ledger stays right when the folder moves. A file appears under its name only when
it is whole. A table's name is a hash of what it was made from: one that exists never has to be made again, and of two that are made
at once the first stands, so that everybody reads the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from corpus_guard.errors import Inconsistent

ROW_GROUP = 64  # versions; one item of the quarantine is read without its 255 neighbours


class Storage:
    """Derived files below `url`."""

    def __init__(self, url: str) -> None:
        self._fs, root = url_to_fs(url)
        self._root = root.rstrip("/")
        self._local = isinstance(self._fs, LocalFileSystem)

    def exists(self, name: str) -> bool:
        """Whether `name` was made."""
        return bool(self._fs.exists(self._path(name)))

    def write(self, name: str, content: bytes, *, keep_first: bool = False) -> None:
        """Make `name`; whoever looks sees all of it or nothing.

        Args:
            name: relative to the root.
            content: all of it.
            keep_first: leave a file that is there already as it is.
        """
        with self._draft(name.rpartition("/")[0]) as (stream, draft):
            stream.write(content)
            stream.close()
            self._move(draft, name, keep_first=keep_first)

    def write_lines(self, folder: str, lines: Iterable[bytes], suffix: str) -> tuple[str, str, int]:
        """Write lines as they come, memory flat, under the hash of the content.

        Returns:
            Name, SHA-256 (hex), how many lines.
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
        """The content of `name`.

        Raises:
            Inconsistent: the ledger or an earlier step refers to it, and it is gone.
        """
        try:
            with self._fs.open(self._path(name), "rb") as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            raise self._missing(name) from None

    def lines(self, name: str) -> Iterator[bytes]:
        """The lines of `name`, without newlines, as they are read; raises Inconsistent like `read`."""
        try:
            with self._fs.open(self._path(name), "rb") as stream:
                for line in stream:
                    yield line.removesuffix(b"\n")
        except FileNotFoundError:
            raise self._missing(name) from None

    def write_table(self, name: str, table: pa.Table) -> None:
        """Parquet, zstd; a table that is there already stands."""
        buffer = io.BytesIO()
        pq.write_table(table, buffer, compression="zstd", row_group_size=ROW_GROUP)
        self.write(name, buffer.getvalue(), keep_first=True)

    def read_table(self, name: str, *, columns: list[str] | None = None, filters: Any = None) -> pa.Table:
        """Parquet; raises Inconsistent like `read`."""
        return pq.read_table(io.BytesIO(self.read(name)), columns=columns, filters=filters)

    def write_json(self, name: str, value: Any) -> None:
        """JSON."""
        self.write(name, orjson.dumps(value))

    def read_json(self, name: str) -> Any:
        """JSON; raises Inconsistent like `read`."""
        return orjson.loads(self.read(name))

    def location(self, name: str) -> str:
        """For people: where `name` lies."""
        return self._path(name)

    @contextlib.contextmanager
    def _draft(self, folder: str) -> Iterator[tuple[BinaryIO, str]]:
        path = self._path(folder)
        self._fs.makedirs(path, exist_ok=True)
        draft = f"{path}/.{uuid.uuid4().hex}"
        try:
            with self._fs.open(draft, "wb") as stream:
                yield stream, draft
        except BaseException:
            with contextlib.suppress(Exception):
                self._fs.rm_file(draft)
            raise

    def _move(self, draft: str, name: str, *, keep_first: bool = False) -> None:
        if self._local:
            # The ledger's commits survive a power cut; what they refer to must, too.
            _flush(Path(draft))
            if keep_first:
                with contextlib.suppress(FileExistsError):
                    Path(self._path(name)).hardlink_to(draft)  # atomic, and fails where the name is taken
                Path(draft).unlink()
            else:
                Path(draft).replace(self._path(name))  # atomic; fsspec's own `mv` copies when the target exists
            _flush(Path(draft).parent)
        elif keep_first and self._fs.exists(self._path(name)):
            # An object store offers no such step: between this question and the move the last writer wins.
            self._fs.rm_file(draft)
        else:
            self._fs.mv(draft, self._path(name))

    def _missing(self, name: str) -> Inconsistent:
        return Inconsistent(
            f"{self._path(name)} is missing, and something refers to it; restore the folder (CORPUS_GUARD_STORAGE_URL)"
        )

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
