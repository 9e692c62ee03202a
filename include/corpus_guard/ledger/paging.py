"""Pages of long lists: each begins behind the sort values of the last row before it.

Rows that come or go meanwhile shift no other row to another page, as page numbers would.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
import sqlalchemy as sa

from corpus_guard.errors import Misuse
from corpus_guard.ledger.tables import UtcDateTime


@dataclass(frozen=True, slots=True)
class PageOrder:
    """The order of a list, and the cursors that say where its pages end."""

    subject: str  # what is listed, for messages: "queue"
    sort: str  # name of the order; a cursor of another one is refused
    keys: tuple[tuple[sa.ColumnElement[Any], bool], ...]  # columns that together tell rows apart; True: descending

    @property
    def columns(self) -> list[sa.ColumnElement[Any]]:
        """The columns for ``order_by``."""
        return [column.desc() if descending else column.asc() for column, descending in self.keys]

    def behind(self, position: Sequence[object]) -> sa.ColumnElement[bool]:
        """Select the rows behind these values of the columns."""
        values = [sa.literal(value, column.type) for (column, _), value in zip(self.keys, position, strict=True)]
        if len({descending for _, descending in self.keys}) == 1:  # one comparison, which an index can answer
            columns, last = sa.tuple_(*(column for column, _ in self.keys)), sa.tuple_(*values)
            return columns < last if self.keys[0][1] else columns > last
        alternatives = []
        for index, (column, descending) in enumerate(self.keys):
            equal = [earlier == values[number] for number, (earlier, _) in enumerate(self.keys[:index])]
            alternatives.append(sa.and_(*equal, column < values[index] if descending else column > values[index]))
        return sa.or_(*alternatives)

    def cursor(self, position: Sequence[object]) -> str:
        """Return the values of the last row of a page as a token that needs no escaping in a URL."""
        return base64.urlsafe_b64encode(orjson.dumps([self.sort, *position])).decode().rstrip("=")

    def position(self, cursor: str) -> list[object]:
        """Return the values that a cursor holds. It may come from anybody.

        Raises:
            Misuse: no page of this list in this order gave it.
        """
        try:
            sort, *values = orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True))
            if sort != self.sort:
                raise ValueError(f"not by {self.sort}")  # noqa: TRY301 - the same answer as to any other wrong cursor
            return [_checked(value, column.type) for (column, _), value in zip(self.keys, values, strict=True)]
        except (TypeError, ValueError) as error:
            raise Misuse(
                f"the page cursor does not belong to this {self.subject} and order; start from the first page"
            ) from error


def _checked(value: object, kind: sa.types.TypeEngine[Any]) -> object:
    if isinstance(kind, sa.Float) and isinstance(value, int | float):
        return float(value)
    if isinstance(value, str) and "\x00" not in value:
        if isinstance(kind, sa.String):
            return value
        if isinstance(kind, UtcDateTime) and (when := datetime.fromisoformat(value)).tzinfo is not None:
            return when
    raise ValueError(f"not a {kind!r}")
