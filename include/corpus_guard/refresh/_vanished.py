"""What a run does with documents that it did not find again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.corpus import publishing
from corpus_guard.guard import Guard
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, runs

log = logging.getLogger(__name__)


def vanish(guard: Guard, run_id: str, listed: Sequence[str]) -> int:
    """Note which documents are missing from their sources; retire those whose grace is over. Returns how many were retired."""
    grace = timedelta(hours=guard.policy.retire.grace_hours)
    retired = 0
    with guard.ledger.write() as connection:
        started = connection.scalar(sa.select(runs.c.started_at).where(runs.c.run_id == run_id))
        for source in listed:
            living = sa.and_(documents.c.source == source, documents.c.retired_at.is_(None))
            total = connection.scalar(sa.select(sa.func.count()).select_from(documents).where(living)) or 0
            rows = connection.execute(
                sa.select(documents.c.doc_id, documents.c.missing_since).where(
                    living, documents.c.last_seen_at < started
                )
            ).all()
            if not rows:
                continue
            if len(rows) > guard.policy.retire.max_share * total:
                log.warning(
                    "source %s: %d of %d documents vanished at once, more than the policy's share of %.0f %%; none is retired. If it is "
                    "meant, raise retire.max_share in the policy for one run",
                    source, len(rows), total, 100 * guard.policy.retire.max_share,
                )  # fmt: skip
                guard.ledger.event(connection, "retirement_held", source, run_id, missing=len(rows), total=total)
                continue
            when = now()
            new = [row.doc_id for row in rows if row.missing_since is None]
            for part in split(new, 500):
                connection.execute(documents.update().where(documents.c.doc_id.in_(part)).values(missing_since=when))
            over = [row.doc_id for row in rows if when - (row.missing_since or when) >= grace]
            publishing.retire(guard.ledger, connection, run_id, over, "vanished from its source")
            retired += len(over)
    return retired
