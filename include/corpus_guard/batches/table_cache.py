"""Tables kept in memory for steps that read the same batches one after the other."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from corpus_guard.batches.storage import Filters, Storage, select_rows

MAX_BYTES: Final = 256 * 2**20
"""Decoded tables that are kept; the newest is kept whatever its size."""


class TableCache(Storage):
    """A storage that decodes a table once, as long as the tables read since fit into `MAX_BYTES`.

    What a step has compared with the ledger is what the next one uses, whatever happens to the file between them.
    """

    def __init__(self, url: str, max_bytes: int = MAX_BYTES) -> None:
        super().__init__(url)
        self._max_bytes = max_bytes
        self._tables: dict[str, pa.Table] = {}  # the oldest first

    def read_table(self, name: str, *, columns: list[str] | None = None, filters: Filters | None = None) -> pa.Table:
        """Read a table, or some of its columns and rows; raises what `Storage.read_table` raises.

        Only reading all columns keeps a table: who needs few of them may pass over many files.
        """
        table = self._tables.pop(name, None)
        if table is None:
            if columns is not None:
                return super().read_table(name, columns=columns, filters=filters)
            table = super().read_table(name)
        self._tables[name] = table
        while (
            len(self._tables) > 1
            and sum(cached_table.nbytes for cached_table in self._tables.values()) > self._max_bytes
        ):
            del self._tables[next(iter(self._tables))]
        return select_rows(table, columns, filters)

    def write(self, name: str, content: bytes, *, keep_existing: bool = False) -> None:
        """Write a file, and forget the table that it held."""
        self._tables.pop(name, None)
        super().write(name, content, keep_existing=keep_existing)
