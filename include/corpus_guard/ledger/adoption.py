"""Adoption: digests of rows that were written before row digests were logged.

The digests record the rows as they are when the ledger is migrated. Nobody vouched for them before: an event
of kind ``adopted`` proves that they did not change since, and says nothing about what they were earlier.
"""

from __future__ import annotations

from itertools import islice

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from corpus_guard.ledger.event_log import append_event, write_pending_events
from corpus_guard.ledger.row_digests import (
    ADOPTED_EVENT,
    DIGESTED_TABLES,
    GROUPS_PER_EVENT,
    digested_columns,
    stored_digests,
)


def adopt_rows(connection: Connection) -> None:
    """Log the digests of all rows as they are now, GROUPS_PER_EVENT groups an event; memory stays flat.

    Columns that a later migration adds are not there yet, and count as null.

    Raises:
        KeyError: the connection does not come from `Ledger.write`.
    """
    inspector = sa.inspect(connection)
    existing = set(inspector.get_table_names())
    for name, table in DIGESTED_TABLES.items():
        if name not in existing:
            continue
        present = {column["name"] for column in inspector.get_columns(name)}
        columns = [column for column in digested_columns(table) if column.name in present]
        digests = stored_digests(connection, table, columns)
        while groups := dict(islice(digests, GROUPS_PER_EVENT)):
            append_event(connection, ADOPTED_EVENT, name, "", groups=groups)
            write_pending_events(connection)
