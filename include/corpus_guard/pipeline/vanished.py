"""Documents that a run did not find again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

import sqlalchemy as sa

from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus import publishing
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import documents, runs
from corpus_guard.screening.policy import Policy

log = logging.getLogger(__name__)


def retire_vanished(ledger: Ledger, policy: Policy, run_id: str, listed: Sequence[str]) -> int:
    """Mark documents missing from their sources and retire those past their grace period. Returns the number retired."""
    grace = timedelta(hours=policy.retire.grace_hours)
    retired = 0
    with ledger.write() as connection:
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
            if len(rows) > policy.retire.max_share * total:
                log.warning(
                    "source %s: %d of %d documents vanished at once, more than the policy allows (%.0f %%); none is retired. If this is "
                    "intended, raise retire.max_share in the policy for one run",
                    source, len(rows), total, 100 * policy.retire.max_share,
                )  # fmt: skip
                append_event(connection, "retirement_held", source, run_id, missing=len(rows), total=total)
                continue
            when = now()
            new = [row.doc_id for row in rows if row.missing_since is None]
            for part in in_batches(new, 500):
                connection.execute(documents.update().where(documents.c.doc_id.in_(part)).values(missing_since=when))
            over = [row.doc_id for row in rows if when - (row.missing_since or when) >= grace]
            publishing.retire(connection, run_id, over, "vanished from its source")
            retired += len(over)
    return retired
