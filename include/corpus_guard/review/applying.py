"""Decisions take effect: through the same outbox as a refresh, and may be repeated.

Rules
    * only what stands takes effect: complete, not undone, the last of its version. That is asked again in the transaction that
      publishes, because somebody may undo while vectors are made;
    * a version and its decisions change in one transaction; killed before it nothing happened, killed after it the outbox goes on;
    * what was replaced, purged or vanished since it was decided is not served: `corpus_guard.corpus.publishing` passes it over;
    * what a decision leaves behind (an earlier one, an approval that nobody completed) is marked as settled with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import sqlalchemy as sa

from corpus_guard.batches.tables import split, versions_from_table
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.vectors import embed_chunks
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import begin, end
from corpus_guard.ledger.tables import decisions, standing, versions
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.review._marks import AT_ONCE, rows_of

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

DECIDED = {"release": "released", "reject": "rejected"}


class Applied(TypedDict):
    """What applying decisions did."""

    run_id: str
    released: int
    rejected: int
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str


@dataclass(frozen=True, slots=True)
class _Last:
    """The decision on a version that stands."""

    decision_id: str
    version_id: str
    verdict: str
    batch: str


def unapplied(ledger: Ledger) -> int:
    """How many decisions wait to take effect; half an approval is none."""
    with ledger.read() as connection:
        statement = (
            sa.select(sa.func.count()).select_from(decisions).where(decisions.c.applied_at.is_(None), standing())
        )
        return connection.scalar(statement) or 0


def apply(guard: Guard, run_id: str) -> Applied:
    """Let every decision take effect: released versions are embedded and published, the manifest is sealed anew."""
    last = _standing(guard.ledger)
    begin(guard.ledger, run_id, "release", guard.screening.digest)
    released = [row for row in last if row.verdict == "release"]
    rejected = [row for row in last if row.verdict == "reject"]
    counts = {"released": 0, "rejected": 0}
    for batch in sorted({row.batch for row in released}):
        counts["released"] += _release(guard, run_id, batch, [row for row in released if row.batch == batch])
    for part in split(rejected, AT_ONCE):
        with guard.ledger.write() as connection:
            counts["rejected"] += len(_settle(connection, part))
    published, retired = outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    result = Applied(
        run_id=run_id,
        released=counts["released"],
        rejected=counts["rejected"],
        published=published,
        retired=retired,
        manifest_sha256=seal_corpus(guard, run_id).manifest.sha256,
    )
    end(guard.ledger, run_id, result)
    return result


def _release(guard: Guard, run_id: str, batch: str, rows: Sequence[_Last]) -> int:
    ids = [row.version_id for row in rows]
    chosen = versions_from_table(guard.storage.read_table(batch, filters=[("version_id", "in", ids)]))
    chunks = [(chunk.chunk_id, chunk.text) for version in chosen for chunk in version.chunks]
    vectors, model = embed_chunks(guard.storage, guard.models, batch.rpartition("/")[0], chunks)
    with guard.ledger.write() as connection:
        settled = _settle(connection, rows)
        publishing.request(
            guard.ledger,
            connection,
            run_id,
            [version for version in chosen if version.version_id in settled],
            collection=guard.collection,
            vectors=vectors,
            model=model,
        )
    return len(settled)


def _settle(connection: sa.Connection, rows: Sequence[_Last]) -> set[str]:
    """Mark versions as decided; those whose decision still stands."""
    ids = [row.version_id for row in rows]
    rows_of(connection, ids, lock=True)
    current = {row.version_id: row.decision_id for row in _last(connection, ids)}
    stands = [row for row in rows if current.get(row.version_id) == row.decision_id]
    if not stands:
        return set()
    connection.execute(
        versions.update().where(versions.c.version_id == sa.bindparam("version")).values(state=sa.bindparam("becomes")),
        [{"version": row.version_id, "becomes": DECIDED[row.verdict]} for row in stands],
    )
    connection.execute(
        decisions.update()
        .where(
            decisions.c.version_id == sa.bindparam("version"),
            decisions.c.applied_at.is_(None),
            decisions.c.undone_at.is_(None),
        )
        .values(applied_at=now()),
        [{"version": row.version_id} for row in stands],
    )
    return {row.version_id for row in stands}


def _standing(ledger: Ledger) -> list[_Last]:
    with ledger.read() as connection:
        return _last(connection)


def _last(connection: sa.Connection, ids: Collection[str] | None = None) -> list[_Last]:
    """The last unapplied decision of each version that stands, and the batch its text is in."""
    statement = (
        sa.select(decisions.c.decision_id, decisions.c.version_id, decisions.c.verdict, versions.c.batch)
        .join(versions, versions.c.version_id == decisions.c.version_id)
        .where(decisions.c.applied_at.is_(None), standing())
        .order_by(decisions.c.decided_at, decisions.c.decision_id)
    )
    found: dict[str, Any] = {}
    for part in [None] if ids is None else split(sorted(ids), AT_ONCE):
        limited = statement if part is None else statement.where(decisions.c.version_id.in_(part))
        found.update({row.version_id: _Last(*row) for row in connection.execute(limited)})
    return list(found.values())
