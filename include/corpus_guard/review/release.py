"""Applying decisions: through the same outbox as a refresh, repeatable at any time.

Rules
    * a text is embedded and published only if it is the one that was judged: the batch is compared with the
      hashes of the ledger first;
    * only a decision that counts takes effect: complete, not undone, the last of its version. This is
      checked again in the transaction that publishes, because somebody may undo it while vectors are
      computed;
    * a trusted version that is released or restored reopens what it contradicts and is served (`corpus_guard.review.reopening`);
    * a version that was reopened is served already: released, it stays as it is; rejected, it leaves the service;
    * a version and its decisions change in one transaction: a crash before it leaves everything as it was,
      after a crash behind it the outbox continues;
    * a version that was replaced, purged or vanished since the decision is not served:
      `corpus_guard.corpus.publishing` skips it;
    * withdrawals and restores take effect in `corpus_guard.removal.restoring`, in the same run;
    * earlier decisions on the same version, and approvals that nobody completed, are marked as applied with
      it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypedDict

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches
from corpus_guard.corpus import outbox, publishing
from corpus_guard.corpus.store import Store
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, select_in_batches
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.states import STATE_AFTER_DECISION, ReviewAction, RunKind, VersionState
from corpus_guard.ledger.tables import decision_stands, decisions, versions
from corpus_guard.models import Models
from corpus_guard.proof.sealing import seal_run
from corpus_guard.review.records import load_versions
from corpus_guard.review.serving import serve_batch
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.screening.runner import Screening


class ReleaseResult(TypedDict):
    """Counts of a run that applied decisions."""

    run_id: str
    released: int  # versions
    rejected: int  # versions
    reopened: int  # versions that are served, and that a released or restored trusted one contradicts
    published: int  # chunks
    retired: int  # chunks
    manifest_sha256: str


@dataclass(frozen=True, slots=True)
class _PendingDecision:
    """The decision on a version that counts, before it has taken effect."""

    decision_id: str
    version_id: str
    verdict: str
    batch: str  # storage path of the batch that holds the version's text


def count_pending_decisions(ledger: Ledger) -> int:
    """Return the number of decisions that wait to take effect. A first approval of two is not counted."""
    with ledger.read() as connection:
        statement = (
            sa.select(sa.func.count()).select_from(decisions).where(decisions.c.applied_at.is_(None), decision_stands())
        )
        return connection.scalar(statement) or 0


def apply_decisions(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    models: Models,
    screening: Screening,
    settings: Settings,
    run_id: str,
    reopened: int = 0,
    drained: outbox.Drained | None = None,
) -> ReleaseResult:
    """Apply all pending decisions: embed and publish released versions, then seal the corpus.

    `reopened` and `drained` count what restores have done in this run already.
    """
    with ledger.read() as connection:
        pending = _pending_decisions(connection)
    begin_run(ledger, run_id, RunKind.RELEASE, screening.digest)
    releases = [decision for decision in pending if decision.verdict == ReviewAction.RELEASE]
    rejections = [decision for decision in pending if decision.verdict == ReviewAction.REJECT]
    released = rejected = 0
    # What a killed run accepted is served first: it is compared with what is released.
    drains = [drained] if drained else []
    if releases:
        drains.append(outbox.drain(ledger, storage, store, run_id))
    for batch in sorted({decision.batch for decision in releases}):
        own = [each for each in releases if each.batch == batch]
        version_ids = [decision.version_id for decision in own]
        confirm = partial(_apply_to_versions, pending=own)
        confirmed, opposed = serve_batch(ledger, storage, store, models, screening, run_id, batch, version_ids, confirm)
        released, reopened = released + len(confirmed), reopened + opposed
    for part in in_batches(rejections):
        with ledger.write() as connection:
            before = load_versions(connection, [decision.version_id for decision in part], lock=True)
            applied = _apply_to_versions(connection, part)
            served = [(row.doc_id, version_id) for version_id, row in before.items() if row.reopened_at is not None]
            publishing.stop_serving(
                connection, run_id, [pair for pair in served if pair[1] in applied], store.collection_name
            )
            rejected += len(applied)
    drains.append(outbox.drain(ledger, storage, store, run_id))
    result = ReleaseResult(
        run_id=run_id,
        released=released,
        rejected=rejected,
        reopened=reopened,
        published=sum(drain.published for drain in drains),
        retired=sum(drain.retired for drain in drains),
        manifest_sha256="",
    )
    result["manifest_sha256"] = seal_run(ledger, storage, store, settings, run_id, result).manifest.sha256
    return result


def _apply_to_versions(connection: sa.Connection, pending: Sequence[_PendingDecision]) -> set[str]:
    """Set the state of the versions whose decision still counts, and mark their decisions as applied.

    Return their ids.
    """
    version_ids = [decision.version_id for decision in pending]
    rows = load_versions(connection, version_ids, lock=True)
    current = {decision.version_id: decision.decision_id for decision in _pending_decisions(connection, version_ids)}
    confirmed = [decision for decision in pending if current.get(decision.version_id) == decision.decision_id]
    if not confirmed:
        return set()
    connection.execute(
        versions.update()
        .where(versions.c.version_id == sa.bindparam("version"))
        .values(state=sa.bindparam("new_state"), reopened_at=None),
        [
            {"version": decision.version_id, "new_state": _state_after(decision, rows[decision.version_id])}
            for decision in confirmed
        ],
    )
    connection.execute(
        decisions.update()
        .where(
            decisions.c.version_id == sa.bindparam("version"),
            decisions.c.applied_at.is_(None),
            decisions.c.undone_at.is_(None),
        )
        .values(applied_at=now()),
        [{"version": decision.version_id} for decision in confirmed],
    )
    return {decision.version_id for decision in confirmed}


def _state_after(decision: _PendingDecision, row: Row) -> str:
    # What is served says in its metadata that it was accepted; writing it again would change nothing else.
    if row.reopened_at is not None and decision.verdict == ReviewAction.RELEASE:
        return VersionState.ACCEPTED.value
    return STATE_AFTER_DECISION[decision.verdict].value


def _pending_decisions(connection: sa.Connection, version_ids: Collection[str] | None = None) -> list[_PendingDecision]:
    """Return the decision of each version that counts and has not taken effect; of all versions if none are named."""
    statement = (
        sa.select(decisions.c.decision_id, decisions.c.version_id, decisions.c.verdict, versions.c.batch)
        .join(versions, versions.c.version_id == decisions.c.version_id)
        .where(decisions.c.applied_at.is_(None), decision_stands(), decisions.c.purpose.is_(None))
        .order_by(decisions.c.decided_at, decisions.c.decision_id)
    )
    if version_ids is None:
        rows: Iterable[Row] = connection.execute(statement)
    else:
        rows = select_in_batches(connection, statement, decisions.c.version_id, version_ids)
    return list({row.version_id: _PendingDecision(*row) for row in rows}.values())
