"""Which questions were asked, and what was served for them: material for the query bank and for forensics.

Rules
    * equal questions are one row: Unicode form, case, spacing and closing punctuation make no difference;
    * a question that was ever reported stays; one that was only asked, and every retrieval, is forgotten after
      ``CORPUS_GUARD_RETRIEVAL_DAYS``;
    * with ``CORPUS_GUARD_RETRIEVAL_LOG=off`` nothing is written; what was written before is still forgotten in time.

Questions may hold personal data; the log lies in the ledger's database and nowhere else, and no question is ever put into a message.
Whoever may ask questions can write to this log: it says what was asked, not who meant it.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from corpus_guard.domain import digest
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import queries, retrievals

LONGEST = 2_000  # characters kept of a question
NAME = 250  # characters kept of a session's name, and of an id: Chroma's may be anybody's
LISTED = 1_000  # records kept of one list
PRUNE_EVERY = 24 * 60 * 60.0  # seconds between prunings by one process


def query_id(text: str) -> str:
    """Identity of a question."""
    return digest("query/v1", [_normalised(text)])[:32]


def note(ledger: Ledger, connection: sa.Connection, text: str, origin: str, at: datetime) -> str:
    """Count a question, in the transaction of `connection`.

    Args:
        ledger: where `connection` belongs to.
        connection: a writing one.
        text: the question; its first 2,000 characters are kept.
        origin: ``log`` or ``report``.
        at: when it was asked or reported.

    Returns:
        Its id.
    """
    key = query_id(text)
    row = {"query_id": key, "text": _storable(text), "origin": origin, "first_seen_at": at, "last_seen_at": at}
    # Counted in a second statement: of two that ask a new question at once, both count.
    ledger.insert_missing(connection, queries, [{**row, "count": 0}])
    latest = sa.case((queries.c.last_seen_at < at, at), else_=queries.c.last_seen_at)
    reported = {"origin": origin} if origin == "report" else {}
    connection.execute(
        queries.update()
        .where(queries.c.query_id == key)
        .values(count=queries.c.count + 1, last_seen_at=latest, **reported)
    )
    return key


class RetrievalLog:
    """Writes what was retrieved, and forgets it in time."""

    def __init__(self, ledger: Ledger, days: int) -> None:
        """Write to `ledger`; keep for `days` days."""
        self._ledger = ledger
        self._days = days
        self._pruned_at = -PRUNE_EVERY

    def write(
        self,
        query: str,
        *,
        session: str,
        checked_by: str,
        served: Sequence[Mapping[str, Any]],
        filtered: Sequence[Mapping[str, Any]],
        withheld: Sequence[Mapping[str, Any]],
        filter_digest: str = "",
        at: datetime | None = None,
    ) -> None:
        """Add one retrieval; once a day a process also forgets what is old enough.

        Raises:
            LedgerUnavailable: the ledger cannot be written.
        """
        moment = at or now()
        row = {
            "at": moment,
            "session": _storable(session)[:NAME],
            "checked_by": checked_by,
            "filter_digest": filter_digest or None,
            "served": _listed(served),
            "filtered": _listed(filtered),
            "withheld": _listed(withheld),
        }
        with self._ledger.write() as connection:
            key = note(self._ledger, connection, query, "log", moment)
            connection.execute(retrievals.insert().values(query_id=key, **row))
        if time.monotonic() - self._pruned_at >= PRUNE_EVERY:
            self._pruned_at = time.monotonic()
            prune(self._ledger, self._days, moment)


def prune(ledger: Ledger, days: int, at: datetime | None = None) -> tuple[int, int]:
    """Forget what is older than `days` days at `at` (default: now).

    Returns:
        How many retrievals and how many questions were deleted.
    """
    oldest = (at or now()) - timedelta(days=days)
    with ledger.write() as connection:
        gone = connection.execute(retrievals.delete().where(retrievals.c.at < oldest)).rowcount
        served = sa.exists().where(retrievals.c.query_id == queries.c.query_id)
        forgotten = connection.execute(
            queries.delete().where(queries.c.origin == "log", queries.c.last_seen_at < oldest, ~served)
        ).rowcount
    return gone, forgotten


def _normalised(text: str) -> str:
    folded = unicodedata.normalize("NFKC", _storable(text)).casefold()
    return " ".join(folded.split()).rstrip(" .?!")


def _listed(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {key: _storable(value)[:NAME] if isinstance(value, str) else value for key, value in record.items()}
        for record in records[:LISTED]
    ]


def _storable(text: str) -> str:
    # PostgreSQL refuses NUL, and UTF-8 lone surrogates.
    return text[:LONGEST].encode("utf-8", "replace").decode().replace("\x00", "�")
