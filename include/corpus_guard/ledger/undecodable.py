"""Text of the ledger that is not UTF-8: SQLite stores any bytes as text, and Python cannot read them back.

Our own writes never leave such text, so somebody changed the database's file. The values are looked for only after a read has
failed: then every text of every table is decoded, and each that cannot be is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from corpus_guard.errors import Inconsistent
from corpus_guard.ledger.row_digests import group_column
from corpus_guard.ledger.tables import metadata

SQLITE_MESSAGE: Final = "Could not decode to UTF-8"
"""Beginning of what the driver says; the rest quotes the text."""
MAX_NAMED: Final = 1_000  # values


@dataclass(frozen=True, slots=True)
class UndecodableValue:
    """A value that is not UTF-8."""

    table: str
    column: str
    key: str  # of its row, in the column by which rows are grouped
    key_column: str

    def __str__(self) -> str:
        return f"table {self.table}, {self.key_column} {self.key[:64]}: column {self.column} is not UTF-8"


class UndecodableText(Inconsistent):
    """The ledger holds text that is not UTF-8.

    Attributes:
        values: the first `MAX_NAMED` of them.
    """

    def __init__(self, address: str, values: Sequence[UndecodableValue]) -> None:
        more = f" ({len(values) - 1:,} more)" if len(values) > 1 else ""
        named = f"{values[0]}{more}" if values else "a value is not UTF-8"
        super().__init__(
            f"ledger at {address}: {named}; the database was changed from outside: restore it from a backup. `guard verify` "
            "names every such value"
        )
        self.values = tuple(values)


def find_undecodable(connection: Connection) -> list[UndecodableValue]:
    """Return the first `MAX_NAMED` values of an SQLite database that are not UTF-8."""
    return list(islice(_undecodable(connection), MAX_NAMED))


def _undecodable(connection: Connection) -> Iterator[UndecodableValue]:
    for table in metadata.sorted_tables:
        key = group_column(table)
        texts = [column for column in table.c if isinstance(column.type, sa.String | sa.JSON)]
        as_bytes = [sa.type_coerce(sa.cast(column, sa.LargeBinary), sa.types.NullType()) for column in (key, *texts)]
        rows = connection.execute(sa.select(*as_bytes).select_from(table).execution_options(yield_per=MAX_NAMED))
        for name, *values in rows:
            for column, value in zip(texts, values, strict=True):
                if isinstance(value, bytes) and not _is_utf8(value):
                    shown = name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)
                    yield UndecodableValue(table.name, column.name, shown, key.name)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
