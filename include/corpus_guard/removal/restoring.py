"""Withdrawals and restores that people decided: how a withdrawal is taken back, and how both take effect.

Rules
    * a restore brings back what the withdrawal took out of service, with every version of equal content that was served
      then; what waited in quarantine before waits again, what was rejected before stays rejected;
    * it is a release: the policy says where it needs two people, the decision is logged and signed, and can be undone
      until it takes effect;
    * the hashes that the withdrawal blocked are unblocked, the version is published through the outbox, and the
      traced reports are noted: they do not accuse it again (`corpus_guard.traceback.withdrawal_plan`);
    * what was purged since cannot be restored, nor what a newer version of its document has replaced: it is said so;
    * a decision to withdraw takes effect only where it names every version of the same content: nobody saw the others;
    * killed anywhere, the same call again completes the work; called twice, it changes nothing.

What it does not do: decide that a document is honest. `guard trace` may accuse it on other reports.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.corpus import outbox
from corpus_guard.corpus.store import Store
from corpus_guard.domain import EMPTY_TEXT_SHA256, JsonRecord
from corpus_guard.errors import Misuse, Stale, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.queries import Row, select_in_batches
from corpus_guard.ledger.runs import begin_run
from corpus_guard.ledger.states import SERVABLE_STATES, Purpose, RunKind, VersionState
from corpus_guard.ledger.tables import (
    blocked,
    decision_stands,
    decisions,
    documents,
    events,
    publications,
    purges,
    versions,
)
from corpus_guard.models import Models
from corpus_guard.proof.sealing import seal_run
from corpus_guard.removal import withdrawal
from corpus_guard.removal.purge_targets import group_by_content, removal_targets, versions_with_equal_content
from corpus_guard.review.decisions import Decision, decide
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.records import current_revisions, load_reviews, load_versions
from corpus_guard.review.serving import serve_batch
from corpus_guard.screening.policy import ReviewRules
from corpus_guard.settings import Settings

if TYPE_CHECKING:
    from corpus_guard.screening.runner import Screening

log = logging.getLogger(__name__)

MAX_WITHDRAWALS = 1_000  # listed where nothing else bounds the list, newest first


@dataclass(frozen=True, slots=True)
class WithdrawnDocument(JsonRecord):
    """A version that a withdrawal took out of service, and what became of it."""

    version_id: str
    source: str
    uri: str  # hostile text
    trust: str
    withdrawal_id: str
    withdrawn_at: datetime
    withdrawn_by: str
    reason: str
    reports: tuple[str, ...]  # ids of the reports whose traces accused it
    status: str  # withdrawn, restore_waits (for a second person or the next release), restored, rejected, purged
    approvals_missing: int  # of a restore that waits
    problem: str  # why it cannot be restored; empty: it can
    restores: tuple[str, ...]  # versions of equal content that one restore brings back, this one among them


class AppliedRestores(NamedTuple):
    """Changes of restores in the ledger, before the outbox serves them."""

    version_ids: list[str]  # that were restored now
    reopened: int  # served versions that the trusted ones among them contradict
    drained: outbox.Drained  # what waited in the outbox and was served before


class RestoreResult(TypedDict):
    """Counts of a restore."""

    run_id: str
    restored: int  # versions
    reopened: int  # versions that are served, and that a restored trusted one contradicts
    published: int  # chunks
    manifest_sha256: str


def list_withdrawn(
    ledger: Ledger, *, version_ids: Collection[str] | None = None, report_id: str | None = None
) -> list[WithdrawnDocument]:
    """Return what withdrawals took out of service, the newest withdrawal of each version, newest first.

    Args:
        version_ids: only these versions, and those of equal content; None: all.
        report_id: only withdrawals that followed from this report.
    """
    statement = sa.select(events).where(events.c.kind == "withdrawn").order_by(events.c.seq.desc())
    with ledger.read() as connection:
        wanted = None if version_ids is None else versions_with_equal_content(connection, set(version_ids))
        taken: dict[str, Row] = {}
        is_bounded = version_ids is not None or report_id is not None
        for event in connection.execute(statement if is_bounded else statement.limit(MAX_WITHDRAWALS)):
            if report_id is not None and report_id not in _reports(connection, event.body):
                continue
            for version_id in _served_before(connection, event.body):
                if wanted is None or version_id in wanted:
                    taken.setdefault(version_id, event)
        rows = load_versions(connection, taken)
        places = _places(connection, taken)
        reviews = load_reviews(connection, list(taken))
        gone = _purged_hashes(connection, rows.values())
        stopped = _blocked_hashes(connection, rows.values())
        groups = group_by_content(connection, set(taken))
        listed = []
        for version_id, event in taken.items():
            row = rows[version_id]
            open_decision = reviews[version_id].last_open_decision
            waits = open_decision if open_decision and open_decision.purpose == Purpose.RESTORE else None
            status, problem = _status(row, purged=row.content_sha256 in gone, is_blocked=row.content_sha256 in stopped)
            listed.append(
                WithdrawnDocument(
                    version_id=version_id,
                    source=row.source,
                    uri=places[version_id],
                    trust=row.trust,
                    withdrawal_id=event.subject,
                    withdrawn_at=event.at,
                    withdrawn_by=str(event.body["by"]),
                    reason=str(event.body["reason"]),
                    reports=tuple(sorted(_reports(connection, event.body))),
                    status="restore_waits" if waits and status == "withdrawn" else status,
                    approvals_missing=waits.lacking if waits else 0,
                    problem=problem,
                    restores=tuple(sorted(groups[version_id] & taken.keys())),
                )
            )
    return listed


def request_restore(
    ledger: Ledger,
    rules: ReviewRules,
    version_ids: Collection[str],
    act: ReviewAct,
) -> list[Decision]:
    """Decide to bring withdrawn versions back, with those of equal content. It takes effect by `apply_restores`.

    Returns:
        The decisions; none for versions that are served again, or whose restore is decided and waits to take effect.

    Raises:
        Misuse: nothing is named, or the content was purged.
        UnknownSubject: no withdrawal took one of these versions.
        Stale: a version was rejected since, or changed meanwhile.
        NotAllowed: it needs two people, and this reviewer cannot be one of them.
    """
    if not version_ids:
        raise Misuse("nothing is named that could be restored; `guard trace restore` lists what was withdrawn")
    withdrawn = {document.version_id: document for document in list_withdrawn(ledger, version_ids=version_ids)}
    for version_id in sorted(version_ids):
        if version_id not in withdrawn:
            raise UnknownSubject(
                f"version {version_id[:64]!r}: it is not among the withdrawn versions; `guard trace restore` lists them"
            )
        if problem := withdrawn[version_id].problem:
            raise (Misuse if withdrawn[version_id].status == "purged" else Stale)(f"{version_id}: {problem}")
    to_decide = [
        document.version_id
        for document in withdrawn.values()
        if document.status == "withdrawn" or document.approvals_missing
    ]
    if not to_decide:
        return []
    with ledger.read() as connection:
        items = current_revisions(connection, load_versions(connection, to_decide).values())
    return decide(ledger, rules, items, "release", act, purpose=Purpose.RESTORE)


def restore(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    models: Models,
    screening: Screening,
    settings: Settings,
    run_id: str,
) -> RestoreResult:
    """Bring the restores that were decided into effect, and seal. See `apply_restores`."""
    begin_run(ledger, run_id, RunKind.RELEASE, screening.digest)
    applied = apply_restores(ledger, storage, store, models, screening, run_id)
    published = applied.drained.published + outbox.drain(ledger, storage, store, run_id).published
    counts = {"restored": len(applied.version_ids), "reopened": applied.reopened, "published": published}
    manifest = seal_run(ledger, storage, store, settings, run_id, counts).manifest
    return RestoreResult(
        run_id=run_id,
        restored=len(applied.version_ids),
        reopened=applied.reopened,
        published=published,
        manifest_sha256=manifest.sha256,
    )


def apply_restores(
    ledger: Ledger, storage: Storage, store: Store, models: Models, screening: Screening, run_id: str
) -> AppliedRestores:
    """Unblock, release and ask the outbox for the versions whose restore is decided by everybody it needs.

    What a killed run accepted is served first: it is compared with what is restored.

    Raises:
        BatchDamaged: a batch does not hold what was withdrawn; nothing of it is published.
    """
    with ledger.read() as connection:
        pending = _pending(connection, Purpose.RESTORE)
    restored: list[str] = []
    reopened = 0
    drained = outbox.drain(ledger, storage, store, run_id) if pending else outbox.Drained(0, 0)
    for batch in sorted({row.batch for row in pending}):
        version_ids = [row.version_id for row in pending if row.batch == batch]
        confirmed, opposed = serve_batch(
            ledger, storage, store, models, screening, run_id, batch, version_ids, partial(_confirm, run_id, batch)
        )
        restored += sorted(confirmed)
        reopened += opposed
    return AppliedRestores(restored, reopened, drained)


def apply_withdrawals(ledger: Ledger, run_id: str) -> list[str]:
    """Take out of service what people decided to withdraw on the review pages.

    Returns:
        Ids of the versions that were withdrawn now. A version with equal content that nobody decided on keeps its whole
        content in service: the decision waits, and a warning says so.
    """
    with ledger.write() as connection:
        pending = {row.version_id: row for row in _pending(connection, Purpose.WITHDRAW)}
        groups: dict[tuple[str, str], list[str]] = {}
        for version_id, row in sorted(pending.items()):
            equal = versions_with_equal_content(connection, {version_id})
            rejected = select_in_batches(
                connection,
                sa.select(versions.c.version_id).where(versions.c.state == VersionState.REJECTED),
                versions.c.version_id,
                equal,
            )
            if unseen := equal - pending.keys() - {row.version_id for row in rejected}:
                log.warning("withdrawal of %s waits: %d versions of equal content came since", version_id, len(unseen))
                continue
            groups.setdefault((row.reviewer, row.reason), []).append(version_id)
        for (reviewer, reason), version_ids in sorted(groups.items()):
            targets = removal_targets(connection, version_ids)
            withdrawal.withdraw_versions(
                connection,
                run_id,
                withdrawal.withdrawal_id(version_ids),
                version_ids,
                targets.content_sha256,
                targets.text_sha256,
                policy_digest="",
                by=reviewer,
                reason=reason,
                decided=True,
            )
    return sorted(version_id for version_ids in groups.values() for version_id in version_ids)


def _confirm(run_id: str, batch: str, connection: sa.Connection) -> Collection[str]:
    """Bring back the versions of a batch whose restore still counts. Return their ids."""
    pending = {row.version_id: row for row in _pending(connection, Purpose.RESTORE) if row.batch == batch}
    ready = _without_purged(connection, pending)
    if ready:
        _bring_back(connection, run_id, ready)
    return ready.keys()


def _bring_back(connection: sa.Connection, run_id: str, ready: Mapping[str, Row]) -> None:
    """Write the rows of a restore: blocks, states, documents, decisions, and its event."""
    group = versions_with_equal_content(connection, set(ready))
    before = _states_before(connection, group)
    waited = [version_id for version_id in group - ready.keys() if before.get(version_id) == VersionState.QUARANTINED]
    rows = load_versions(connection, waited, lock=True)
    stopped = _blocked_hashes(connection, rows.values())
    waiting = sorted(
        version_id
        for version_id, row in rows.items()
        if row.state == VersionState.REJECTED and row.content_sha256 in stopped
    )
    targets = removal_targets(connection, {*ready, *waiting})
    withdrawal.unblock_content(connection, targets.content_sha256 | targets.text_sha256)
    withdrawal.mark_applied(connection, ready)
    withdrawal.set_state(connection, ready, VersionState.RELEASED)
    withdrawal.set_state(connection, waiting, VersionState.QUARANTINED)
    owners = select_in_batches(connection, sa.select(versions.c.doc_id), versions.c.version_id, {*ready, *waiting})
    for doc_id in sorted({row.doc_id for row in owners}):
        retired = sa.and_(documents.c.doc_id == doc_id, documents.c.retired_at.is_not(None))
        connection.execute(documents.update().where(retired).values(retired_at=None, missing_since=None))
    accusing = withdrawal.accusing_traces(connection, ready)
    append_event(
        connection,
        "restored",
        withdrawal.withdrawal_id(ready),
        run_id,
        versions=sorted(ready),
        waiting=waiting,
        content_sha256=sorted(targets.content_sha256),
        text_sha256=sorted(targets.text_sha256),
        traces=sorted(accusing),
        reports=sorted(set(accusing.values())),
        by=sorted({row.reviewer for row in ready.values()}),
        decisions=sorted(row.decision_id for row in ready.values()),
    )


def _pending(connection: sa.Connection, purpose: Purpose) -> list[Row]:
    """Return the decisions of a purpose that count and have not taken effect, one of each version, by time."""
    columns = (decisions.c.decision_id, decisions.c.version_id, decisions.c.reviewer, decisions.c.reason)
    statement = (
        sa.select(*columns, versions.c.batch, versions.c.content_sha256, versions.c.text_sha256)
        .join(versions, versions.c.version_id == decisions.c.version_id)
        .where(decisions.c.applied_at.is_(None), decision_stands(), decisions.c.purpose == purpose)
        .order_by(decisions.c.decided_at, decisions.c.decision_id)
    )
    return list({row.version_id: row for row in connection.execute(statement)}.values())


def _without_purged(connection: sa.Connection, ready: Mapping[str, Row]) -> dict[str, Row]:
    gone = _purged_hashes(connection, ready.values())
    return {version_id: row for version_id, row in ready.items() if not {row.content_sha256, row.text_sha256} & gone}


def _status(row: Row, *, purged: bool, is_blocked: bool) -> tuple[str, str]:
    """Return what became of a withdrawn version, and why it cannot be restored."""
    if purged:
        return "purged", "its content was purged: it is erased for good and cannot be restored"
    if row.state in SERVABLE_STATES:
        return "restored", ""
    if row.state != VersionState.REJECTED or not is_blocked:
        return "rejected", f"it was restored and is {row.state} since; `guard quarantine show` tells by whom"
    if row.text_sha256 == EMPTY_TEXT_SHA256:
        return "withdrawn", (
            "a later fetch replaced its text in the ledger (an older release did so); add the document at its source "
            "again under other bytes"
        )
    return "withdrawn", ""


def _served_before(connection: sa.Connection, body: Mapping[str, object]) -> set[str]:
    """Return the versions of a withdrawal's event that could be served before it."""
    version_ids = _texts(body["versions"])
    states = body.get("states")
    if isinstance(states, Mapping):
        return {version_id for version_id in version_ids if states.get(version_id) in SERVABLE_STATES}
    published = sa.select(publications.c.version_id).distinct()  # an older release logged no states
    return {row.version_id for row in select_in_batches(connection, published, publications.c.version_id, version_ids)}


def _states_before(connection: sa.Connection, version_ids: Collection[str]) -> dict[str, str]:
    """Return the state that each version had before its newest withdrawal."""
    statement = sa.select(events.c.body).where(events.c.kind == "withdrawn").order_by(events.c.seq.desc())
    before: dict[str, str] = {}
    for body in connection.scalars(statement):
        for version_id, state in (body.get("states") or {}).items():
            if version_id in version_ids:
                before.setdefault(version_id, state)
    return before


def _reports(connection: sa.Connection, body: Mapping[str, object]) -> set[str]:
    if "reports" in body:
        return set(_texts(body["reports"]))
    return set(withdrawal.accusing_traces(connection, _texts(body["versions"])).values())  # an older release


def _texts(value: object) -> Sequence[str]:
    return [str(member) for member in value] if isinstance(value, list | tuple) else []


def _places(connection: sa.Connection, version_ids: Iterable[str]) -> dict[str, str]:
    statement = sa.select(versions.c.version_id, documents.c.uri).join(
        documents, documents.c.doc_id == versions.c.doc_id
    )
    rows = select_in_batches(connection, statement, versions.c.version_id, version_ids)
    return {row.version_id: row.uri for row in rows}


def _purged_hashes(connection: sa.Connection, rows: Iterable[Row]) -> set[str]:
    by_purge = sa.select(blocked.c.sha256).join(purges, purges.c.purge_id == blocked.c.purge_id)
    hashes = {sha256 for row in rows for sha256 in (row.content_sha256, row.text_sha256)}
    return {row.sha256 for row in select_in_batches(connection, by_purge, blocked.c.sha256, hashes)}


def _blocked_hashes(connection: sa.Connection, rows: Iterable[Row]) -> set[str]:
    hashes = {row.content_sha256 for row in rows}
    statement = sa.select(blocked.c.sha256)
    return {row.sha256 for row in select_in_batches(connection, statement, blocked.c.sha256, hashes)}
