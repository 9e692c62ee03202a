"""The retrieval log: questions and what was served for them, for the query bank and for forensics.

Rules
    * equal questions are one row: Unicode form, case, spacing and closing punctuation make no difference;
    * a question that was ever reported stays; one that was only asked, and every retrieval, is deleted after
      ``CORPUS_GUARD_RETRIEVAL_DAYS``;
    * with ``CORPUS_GUARD_RETRIEVAL_LOG=off`` nothing is written; older rows are still deleted in time.

Questions may hold personal data: the log lies in the ledger's database and nowhere else, and no message
quotes a question. Anyone who may ask questions can write to this log: it says what was asked, not who meant
it.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import sqlalchemy as sa

from corpus_guard.domain import digest
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import insert_missing
from corpus_guard.ledger.states import QueryOrigin
from corpus_guard.ledger.tables import queries, retrievals

MAX_QUERY_CHARS = 2_000
MAX_NAME_CHARS = 250  # of a session's name, and of an id: Chroma's may be anybody's
MAX_LISTED_RECORDS = 1_000  # in each list of a retrieval
PRUNE_INTERVAL_SECONDS = 24 * 60 * 60.0  # between prunings by one process


def query_id(text: str) -> str:
    """Return the identity of a question."""
    return digest("query/v1", [_normalised(text)])[:32]


def count_query(connection: sa.Connection, text: str, origin: str, at: datetime) -> str:
    """Count a question, in the transaction of `connection`.

    Args:
        connection: of a `Ledger.write`.
        text: the question; its first 2,000 characters are stored.
        origin: ``log`` or ``report``.
        at: when it was asked or reported.

    Returns:
        Its id.
    """
    key = query_id(text)
    row = {"query_id": key, "text": _storable(text), "origin": origin, "first_seen_at": at, "last_seen_at": at}
    # Counted in a second statement: when two people ask a new question at once, both count.
    insert_missing(connection, queries, [{**row, "count": 0}])
    latest = sa.case((queries.c.last_seen_at < at, at), else_=queries.c.last_seen_at)
    reported = {"origin": origin} if origin == QueryOrigin.REPORT else {}
    connection.execute(
        queries.update()
        .where(queries.c.query_id == key)
        .values(count=queries.c.count + 1, last_seen_at=latest, **reported)
    )
    return key


class RetrievalLog:
    """Writer of the retrieval log. Also deletes old rows, once a day."""

    def __init__(self, ledger: Ledger, days: int) -> None:
        """Write to `ledger`; keep rows for `days` days."""
        self._ledger = ledger
        self._days = days
        self._pruned_at = -PRUNE_INTERVAL_SECONDS

    def write(
        self,
        query: str,
        *,
        session: str,
        checked_by: str,
        served: Sequence[Mapping[str, object]],
        filtered: Sequence[Mapping[str, object]],
        withheld: Sequence[Mapping[str, object]],
        filter_digest: str = "",
        at: datetime | None = None,
    ) -> None:
        """Add one retrieval.

        Raises:
            LedgerUnavailable: the ledger cannot be written.
        """
        when = at or now()
        row = {
            "at": when,
            "session": _storable(session)[:MAX_NAME_CHARS],
            "checked_by": checked_by,
            "filter_digest": filter_digest or None,
            "served": _bounded(served),
            "filtered": _bounded(filtered),
            "withheld": _bounded(withheld),
        }
        with self._ledger.write() as connection:
            key = count_query(connection, query, QueryOrigin.LOG, when)
            connection.execute(retrievals.insert().values(query_id=key, **row))
        if time.monotonic() - self._pruned_at >= PRUNE_INTERVAL_SECONDS:
            self._pruned_at = time.monotonic()
            prune(self._ledger, self._days, when)


def prune(ledger: Ledger, days: int, at: datetime | None = None) -> tuple[int, int]:
    """Delete what is older than `days` days at `at` (default: now).

    Returns:
        Number of retrievals and number of questions that were deleted.
    """
    oldest = (at or now()) - timedelta(days=days)
    with ledger.write() as connection:
        deleted_retrievals = connection.execute(retrievals.delete().where(retrievals.c.at < oldest)).rowcount
        has_retrieval = sa.exists().where(retrievals.c.query_id == queries.c.query_id)
        deleted_queries = connection.execute(
            queries.delete().where(queries.c.origin == QueryOrigin.LOG, queries.c.last_seen_at < oldest, ~has_retrieval)
        ).rowcount
    return deleted_retrievals, deleted_queries


def _normalised(text: str) -> str:
    folded = unicodedata.normalize("NFKC", _storable(text)).casefold()
    return " ".join(folded.split()).rstrip(" .?!")


def _bounded(records: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    return [
        {key: _storable(value)[:MAX_NAME_CHARS] if isinstance(value, str) else value for key, value in record.items()}
        for record in records[:MAX_LISTED_RECORDS]
    ]


def _storable(text: str) -> str:
    # PostgreSQL refuses NUL, and UTF-8 lone surrogates.
    return text[:MAX_QUERY_CHARS].encode("utf-8", "replace").decode().replace("\x00", "�")
