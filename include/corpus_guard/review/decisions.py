"""Release and reject.

Rules
    * a decision is about bytes: the same bytes fetched again keep it, other bytes are a new version and a new question;
    * decisions are appended, never changed; of several on one version the last stands;
    * only what waits can be decided; what changed or vanished meanwhile cannot, and what vanishes after it was released is not
      served again;
    * deciding changes nothing that is served: `apply` does, through the same outbox as a refresh, and may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import sqlalchemy as sa

from corpus_guard.batches.tables import versions_from_table
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.vectors import embed_chunks
from corpus_guard.domain import digest
from corpus_guard.errors import Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.runs import begin, end
from corpus_guard.ledger.tables import decisions, documents, versions
from corpus_guard.proof.sealing import seal_corpus
from corpus_guard.review.queue import find

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

Choice = Literal["release", "reject"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided about a version's bytes."""

    decision_id: str
    version_id: str
    verdict: Choice
    reviewer: str
    reason: str


class Applied(TypedDict):
    """What applying decisions did."""

    run_id: str
    released: int
    rejected: int
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str


def decide(ledger: Ledger, name: str, verdict: Choice, *, reviewer: str, reason: str, policy_digest: str) -> Decision:
    """Record a decision on a waiting item.

    Args:
        ledger: the ledger.
        name: the item's id, or the beginning of it.
        verdict: release or reject.
        reviewer: who decides.
        reason: why, in their words; required.
        policy_digest: the policy in force when they decided.

    Raises:
        Misuse: no reason, no reviewer, or the item does not wait.
        UnknownSubject: no such item.
    """
    if not reason.strip() or not reviewer.strip():
        raise Misuse(f'a decision on {name} needs a reviewer and a reason; give --reason "..."')
    item = find(ledger, name)
    when = now()
    decision = Decision(
        digest("decision/v1", [item.version_id, verdict, reviewer, when.isoformat()])[:32],
        item.version_id,
        verdict,
        reviewer.strip(),
        reason.strip(),
    )
    with ledger.write() as connection:
        row = connection.execute(
            sa.select(versions.c.state, versions.c.content_sha256, documents.c.latest_version, documents.c.retired_at)
            .join(documents, documents.c.doc_id == versions.c.doc_id)
            .where(versions.c.version_id == item.version_id)
        ).one()
        if row.state != "quarantined":
            raise Misuse(f"item {item.version_id} does not wait: it is {row.state}; nothing was changed")
        if row.latest_version != item.version_id:
            raise Misuse(
                f"item {item.version_id} was replaced by {row.latest_version} at its source; decide on that one"
            )
        if row.retired_at is not None:
            raise Misuse(f"item {item.version_id} vanished from its source; nothing was changed")
        connection.execute(
            decisions.insert().values(
                decision_id=decision.decision_id,
                version_id=item.version_id,
                content_sha256=row.content_sha256,
                verdict=verdict,
                reviewer=decision.reviewer,
                reason=decision.reason,
                policy_digest=policy_digest,
                decided_at=when,
            )
        )
        ledger.event(
            connection,
            "decided",
            item.version_id,
            "",
            decision_id=decision.decision_id,
            content_sha256=row.content_sha256,
            verdict=verdict,
            reviewer=decision.reviewer,
            reason=decision.reason,
        )
    return decision


def unapplied(ledger: Ledger) -> int:
    """How many decisions wait to take effect."""
    with ledger.read() as connection:
        statement = sa.select(sa.func.count()).select_from(decisions).where(decisions.c.applied_at.is_(None))
        return connection.scalar(statement) or 0


def apply(guard: Guard, run_id: str) -> Applied:
    """Let every decision take effect: released versions are embedded and published, the manifest is sealed anew."""
    rows = _unapplied(guard.ledger)
    begin(guard.ledger, run_id, "release", guard.screening.digest)
    last = {row.version_id: row for row in rows}  # in the order of time: of several the last stands
    released = [row for row in last.values() if row.verdict == "release"]
    rejected = [row for row in last.values() if row.verdict == "reject"]
    for batch in sorted({row.batch for row in released}):
        _release(guard, run_id, batch, [row for row in released if row.batch == batch])
    with guard.ledger.write() as connection:
        _mark(connection, rejected, "rejected")
        _applied(connection, [row.decision_id for row in rows if row is not last[row.version_id]])
    published, retired = outbox.drain(guard.ledger, guard.storage, lambda: guard.store, run_id)
    manifest = seal_corpus(guard, run_id).manifest
    result = Applied(
        run_id=run_id,
        released=len(released),
        rejected=len(rejected),
        published=published,
        retired=retired,
        manifest_sha256=manifest.sha256,
    )
    end(guard.ledger, run_id, result)
    return result


def _release(guard: Guard, run_id: str, batch: str, rows: Sequence[Any]) -> None:
    ids = [row.version_id for row in rows]
    chosen = versions_from_table(guard.storage.read_table(batch, filters=[("version_id", "in", ids)]))
    chunks = [(chunk.chunk_id, chunk.text) for version in chosen for chunk in version.chunks]
    vectors, model = embed_chunks(guard.storage, guard.models, batch.rpartition("/")[0], chunks)
    with guard.ledger.write() as connection:
        _mark(connection, rows, "released")
        publishing.request(
            guard.ledger, connection, run_id, chosen, collection=guard.collection, vectors=vectors, model=model
        )


def _mark(connection: sa.Connection, rows: Sequence[Any], state: str) -> None:
    for row in rows:
        connection.execute(versions.update().where(versions.c.version_id == row.version_id).values(state=state))
    _applied(connection, [row.decision_id for row in rows])


def _applied(connection: sa.Connection, ids: Sequence[str]) -> None:
    for decision in ids:
        connection.execute(decisions.update().where(decisions.c.decision_id == decision).values(applied_at=now()))


def _unapplied(ledger: Ledger) -> Sequence[Any]:
    statement = (
        sa.select(decisions.c.decision_id, decisions.c.version_id, decisions.c.verdict, versions.c.batch)
        .join(versions, versions.c.version_id == decisions.c.version_id)
        .where(decisions.c.applied_at.is_(None))
        .order_by(decisions.c.decided_at)
    )
    with ledger.read() as connection:
        return connection.execute(statement).all()
