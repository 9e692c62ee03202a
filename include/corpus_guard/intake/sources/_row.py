"""A row of a row file, and what its readers have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row lies in its file: enough to seek to it, nothing of what it says."""

    at: int  # JSONL and CSV: byte offset; Parquet: number of the row group
    extent: int  # JSONL and CSV: length in bytes; Parquet: index inside the row group
    line: int  # 1-based: line of the file, for Parquet the row of the file


@dataclass(frozen=True, slots=True)
class Row:
    """One row, or what stands in its place."""

    place: Place
    values: Mapping[str, Any] | None  # None: broken, or too large to look at
    raw: bytes = b""  # the bytes of a broken row
    size: int | None = None  # bytes, where known
    misshapen: bool = False  # more cells than columns, or bytes that are no UTF-8: read, but not as written


class RowFile(Protocol):
    """A reader of one file format. Both methods keep memory flat: one row (Parquet: one batch) at a time."""

    def scan(self, stream: IO[bytes], columns: Sequence[str], limit: int) -> Iterator[Row]:
        """Every row, in order, with the columns after the first: the first holds texts, which listing needs not.

        Raises:
            ValueError: the file as a whole cannot be read as this format; the message fits after "the file".
        """
        ...

    def read(self, stream: IO[bytes], places: Sequence[Place], columns: Sequence[str], limit: int) -> Iterator[Row]:
        """The rows at `places`, in their order, none above `limit` bytes; raises ValueError as `scan` does."""
        ...


def lines(stream: IO[bytes], limit: int) -> Iterator[tuple[int, int, bytes]]:
    """(offset, length, bytes) of each line from where `stream` stands; a line above `limit` comes with no bytes.

    Offsets count from the start of the file. The memory used is one line of at most `limit` bytes.
    """
    offset = stream.tell()
    while line := stream.readline(limit + 1):
        length = len(line)
        if length > limit and not line.endswith(b"\n"):
            while rest := stream.readline(2**16):
                length += len(rest)
                if rest.endswith(b"\n"):
                    break
            line = b""
        yield offset, length, line
        offset += length
