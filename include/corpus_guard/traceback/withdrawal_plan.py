"""Withdrawal that traces propose: taken out of service once somebody approves, with its evidence kept.

Rules
    * only texts that a trace with the outcome *traced* accuses are withdrawn, and only what was planned and
      approved: the plan is made again, and a different one is refused;
    * with a version goes every version of any document that has the same bytes or the same text; all of them
      are rejected by a decision in the approver's name, blocked by hash so that they cannot return, retired
      through the outbox, and the corpus is sealed;
    * each document is proposed by itself, with what somebody needs to answer for it (`list_proposals`); nothing is
      proposed from a report alone whose wrong answer the RAG model, asked again, does not give;
    * a pending proposal is made every night until somebody approves or refuses it; a refusal is recorded, and the
      same reports do not accuse the document again. Nor do they after it was restored;
    * afterwards the question is asked again, and the answer is stored beside the earlier one;
    * killed anywhere, the same call again completes the work.

What it does not do: bring back (`corpus_guard.removal.restoring`), or erase. Raw bytes, batches and vectors stay on
disk as evidence; `guard purge` erases them. A record that somebody wrote directly into Chroma is not in the ledger:
it is listed, and `guard verify` and `guard incident heal` remove it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TypedDict

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.corpus import outbox
from corpus_guard.corpus.store import Store
from corpus_guard.domain import sha256_text, to_storable
from corpus_guard.errors import JudgeFailed, Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import rows_by_id, select_in_batches, values_by_id
from corpus_guard.ledger.runs import at_work, begin_run
from corpus_guard.ledger.states import SERVABLE_STATES, Label, Purpose, RunKind, TraceOutcome, VersionState
from corpus_guard.ledger.tables import blocked, decision_stands, decisions, events, reports, suspects, traces, versions
from corpus_guard.proof.sealing import seal_run
from corpus_guard.removal import withdrawal
from corpus_guard.removal.purge_targets import removal_targets, versions_with_equal_content
from corpus_guard.settings import Settings
from corpus_guard.traceback.cleared import cleared_versions
from corpus_guard.traceback.rag_model import RagModel, repeats
from corpus_guard.traceback.records import MAX_ANSWER_LENGTH, find_not_reproduced
from corpus_guard.traceback.retrieval import Complaint, SearchableCorpus

PENDING_PERIOD = timedelta(days=30)  # after which a trace is no longer proposed by itself
MAX_TRACES = 1_000  # in one plan


@dataclass(frozen=True, slots=True)
class WithdrawalPlan:
    """Versions to take out of service, and what goes with them."""

    traces: tuple[str, ...]  # ids
    versions: tuple[str, ...]  # ids
    documents: int
    chunks: int
    content_sha256: tuple[str, ...]
    text_sha256: tuple[str, ...]
    unvouched: tuple[str, ...]  # accused records that are not in the ledger: not withdrawn here

    @property
    def withdrawal_id(self) -> str:
        """Id of the withdrawal; the same versions are the same withdrawal."""
        return withdrawal.withdrawal_id(self.versions)

    def as_dict(self) -> dict[str, object]:
        """Return the plan as JSON-ready values."""
        return {"withdrawal_id": self.withdrawal_id, **asdict(self)}


class WithdrawalResult(TypedDict):
    """Counts of a withdrawal."""

    withdrawal_id: str
    run_id: str
    versions: int  # rejected now; those rejected before are not counted
    retired: int  # chunks
    manifest_sha256: str


def list_pending_traces(ledger: Ledger) -> list[str]:
    """Return traces of the last 30 days that accuse a servable version that nobody cleared, oldest first.

    Left out are traces whose RAG model, asked again, did not give the reported answer: nothing is proposed from them.
    """
    accusing, refuted = _accusing_traces(ledger)
    return [trace_id for trace_id in accusing if trace_id not in refuted][:MAX_TRACES]


def count_not_reproduced(ledger: Ledger) -> int:
    """Return how many traces `list_pending_traces` leaves out: only a person who reads them can decide."""
    return len(_accusing_traces(ledger)[1])


def _accusing_traces(ledger: Ledger) -> tuple[Iterable[str], set[str]]:
    """Return the traces that accuse a servable version, oldest first, and those of them that were not reproduced."""
    since = now() - PENDING_PERIOD
    statement = (
        sa.select(traces.c.trace_id, traces.c.report_id, suspects.c.version_id)
        .join(suspects, suspects.c.trace_id == traces.c.trace_id)
        .join(versions, versions.c.version_id == suspects.c.version_id)
        .where(
            traces.c.outcome == TraceOutcome.TRACED,
            traces.c.finished_at > since,
            suspects.c.label == Label.POISONED,
            versions.c.state.in_(SERVABLE_STATES),
        )
        .order_by(traces.c.finished_at, traces.c.trace_id)
    )
    with ledger.read() as connection:
        cleared = cleared_versions(connection)
        decided = versions_with_decided_withdrawal(connection)
        pending = dict.fromkeys(
            row.trace_id
            for row in connection.execute(statement)
            if (row.report_id, row.version_id) not in cleared and row.version_id not in decided
        )
        return pending, find_not_reproduced(connection, pending)


def versions_with_decided_withdrawal(connection: sa.Connection) -> set[str]:
    """Return the versions that somebody decided to withdraw on the review pages, before it has taken effect."""
    return set(
        connection.scalars(
            sa.select(decisions.c.version_id).where(
                decisions.c.applied_at.is_(None), decision_stands(), decisions.c.purpose == Purpose.WITHDRAW
            )
        )
    )


def list_unvouched_records(ledger: Ledger, run_id: str) -> list[str]:
    """Return the records that the traces of a run accuse and the ledger does not know, by collection and id.

    A withdrawal does not remove them.
    """
    statement = (
        sa.select(suspects.c.chunk_id)
        .join(traces, traces.c.trace_id == suspects.c.trace_id)
        .where(
            traces.c.run_id == run_id,
            traces.c.outcome == TraceOutcome.TRACED,
            suspects.c.label == Label.POISONED,
            suspects.c.version_id == "",
        )
        .distinct()
    )
    return sorted(ledger.scalars(statement))


def plan_withdrawal(
    ledger: Ledger, trace_ids: Collection[str], version_ids: Collection[str] | None = None
) -> WithdrawalPlan:
    """Return what these traces would take out of service. Changes nothing.

    Args:
        version_ids: only the accused among these versions, with what has equal content; None: all that the traces accuse
            and nobody cleared.

    Raises:
        Misuse: a trace is unknown, or did not end as *traced*, or accuses none of these versions.
    """
    with ledger.read() as connection:
        outcomes = values_by_id(connection, sa.select(traces.c.trace_id, traces.c.outcome), trace_ids)
        for trace_id in trace_ids:
            if trace_id not in outcomes:
                raise Misuse(f"trace {trace_id} is not in the ledger; `guard trace list` shows the traces")
            if outcomes[trace_id] != TraceOutcome.TRACED:
                raise Misuse(
                    f"trace {trace_id}: got outcome {outcomes[trace_id]}, expected traced; only a trace with "
                    "the outcome traced accuses texts"
                )
        poisoned = (
            sa.select(suspects.c.chunk_id, suspects.c.version_id, traces.c.report_id)
            .join(traces, traces.c.trace_id == suspects.c.trace_id)
            .where(suspects.c.label == Label.POISONED)
        )
        accused = list(select_in_batches(connection, poisoned, suspects.c.trace_id, trace_ids))
        named = {row.version_id for row in accused if row.version_id}
        if version_ids is None:
            cleared = cleared_versions(connection)
            named = {
                row.version_id for row in accused if row.version_id and (row.report_id, row.version_id) not in cleared
            }
        elif unknown := set(version_ids) - named:
            raise Misuse(
                f"version {min(unknown)[:64]!r} is not accused by {'this trace' if len(trace_ids) == 1 else 'these traces'}; "
                "`guard trace show` lists the accused texts"
            )
        else:
            named = set(version_ids)
        unvouched = {row.chunk_id for row in accused if not row.version_id}
        return _withdrawal(connection, named, trace_ids, unvouched)


def withdrawal_of_versions(
    ledger: Ledger, version_ids: Collection[str], trace_ids: Collection[str] = ()
) -> WithdrawalPlan:
    """Return what taking these versions out of service means, whether a trace accuses them or a person. Changes nothing.

    Args:
        version_ids: ids of versions; what has equal content goes along.
    """
    with ledger.read() as connection:
        return _withdrawal(connection, set(version_ids), trace_ids, ())


def _withdrawal(
    connection: sa.Connection, version_ids: set[str], trace_ids: Collection[str], unvouched: Collection[str]
) -> WithdrawalPlan:
    whole = versions_with_equal_content(connection, version_ids)
    targets = removal_targets(connection, whole)
    owners = select_in_batches(connection, sa.select(versions.c.doc_id), versions.c.version_id, whole)
    return WithdrawalPlan(
        traces=tuple(sorted(trace_ids)),
        versions=tuple(sorted(targets.versions)),
        documents=len({row.doc_id for row in owners}),
        chunks=len(targets.chunks),
        content_sha256=tuple(sorted(targets.content_sha256)),
        text_sha256=tuple(sorted(targets.text_sha256)),
        unvouched=tuple(sorted(unvouched)),
    )


def withdraw(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    settings: Settings,
    plan: WithdrawalPlan,
    *,
    run_id: str,
    policy_digest: str,
    by: str,
    reason: str,
) -> WithdrawalResult:
    """Take the planned versions out of service, and seal; see `withdraw_all`."""
    count, retired, manifest_sha256 = withdraw_all(
        ledger, storage, store, settings, [plan], run_id=run_id, policy_digest=policy_digest, by=by, reason=reason
    )
    return WithdrawalResult(
        withdrawal_id=plan.withdrawal_id,
        run_id=run_id,
        versions=count,
        retired=retired,
        manifest_sha256=manifest_sha256,
    )


def withdraw_all(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    settings: Settings,
    plans: Sequence[WithdrawalPlan],
    *,
    run_id: str,
    policy_digest: str,
    by: str,
    reason: str,
    before: int = 0,
) -> tuple[int, int, str]:
    """Take the versions of all plans out of service, and seal once. Killed anywhere, the same call completes the work.

    Args:
        before: versions that an earlier attempt of this run withdrew.

    Returns:
        The number of versions, with those of before; of chunks that are gone from the store; the digest of the manifest.

    Raises:
        Misuse: no approver or no reason is named, or more of the same content arrived since a plan was made; what the other
            plans name is withdrawn.
        StoreUnavailable: the vector store does not answer; the ledger holds the decision, and running again does the
            rest.
    """
    by, reason = by.strip(), reason.strip()
    if not by or not reason:
        raise Misuse('a withdrawal needs an approver and a reason; give --reason "..."')
    count = before
    with at_work(ledger, run_id):
        begin_run(ledger, run_id, RunKind.WITHDRAWAL, policy_digest)
        refusals: list[Misuse] = []
        for plan in plans:
            try:
                count += _record_withdrawal(ledger, plan, run_id, policy_digest, by, reason)
            except Misuse as error:
                refusals.append(error)
        if refusals and not count:
            raise refusals[0]
        _, retired = outbox.drain(ledger, storage, store, run_id)
        sealed = seal_run(ledger, storage, store, settings, run_id, {"versions": count, "retired": retired})
        if refusals:
            raise refusals[0]
    return count, retired, sealed.manifest.sha256


def _record_withdrawal(
    ledger: Ledger, plan: WithdrawalPlan, run_id: str, policy_digest: str, by: str, reason: str
) -> int:
    """Write a withdrawal into the ledger. Return the number of versions that were still in service."""
    with ledger.write() as connection:
        if versions_with_equal_content(connection, set(plan.versions)) != set(plan.versions):
            raise Misuse(
                "more documents with this content arrived since the plan was made; nothing of it was changed, run it again"
            )
        version_ids = _versions_in_service(connection, plan)
        if version_ids:
            withdrawal.withdraw_versions(
                connection,
                run_id,
                plan.withdrawal_id,
                version_ids,
                plan.content_sha256,
                plan.text_sha256,
                policy_digest=policy_digest,
                by=by,
                reason=reason,
            )
    return len(version_ids)


def withdrawn_in(ledger: Ledger, run_id: str) -> dict[str, list[str]]:
    """Return the withdrawals that an earlier attempt of this run wrote to the ledger: id → traces."""
    statement = sa.select(events.c.subject, events.c.body).where(
        events.c.kind == "withdrawn", events.c.run_id == run_id
    )
    return {subject: list(body["traces"]) for subject, body in ledger.rows(statement)}


def refuse_withdrawal(ledger: Ledger, run_id: str, plan: WithdrawalPlan, by: str, reason: str = "") -> None:
    """Record that somebody refused the plan: the same reports do not accuse these versions again."""
    with ledger.write() as connection:
        about = select_in_batches(connection, sa.select(traces.c.report_id), traces.c.trace_id, plan.traces)
        append_event(
            connection,
            "withdrawal_refused",
            plan.withdrawal_id,
            run_id,
            traces=list(plan.traces),
            reports=sorted({row.report_id for row in about}),
            versions=list(plan.versions),
            by=by,
            reason=reason,
        )


def ask_again(
    ledger: Ledger,
    corpus: SearchableCorpus,
    rag_model: RagModel,
    trace_ids: Sequence[str],
    run_id: str,
    after: Purpose = Purpose.WITHDRAW,
) -> dict[str, bool]:
    """Ask the questions of traces again after their texts were withdrawn, restored or purged, and store the answers.

    Args:
        run_id: id of the run, for the event log; a question that this run has asked before is skipped.

    Returns:
        Whether the new answer still makes the reported claim, by trace; a trace is missing if the
        model gave no answer.
    """
    still_wrong: dict[str, bool] = {}
    for row in _questions_to_ask(ledger, run_id, trace_ids):
        retrieved = corpus.retrieve(row.complaint.query, row.k)
        try:
            reply = rag_model.answer(row.complaint.query, [text.text for text in retrieved])
        except JudgeFailed:
            continue
        answer = to_storable(reply, MAX_ANSWER_LENGTH)
        still_wrong[row.trace_id] = repeats(answer, row.complaint)
        with ledger.write() as connection:
            connection.execute(traces.update().where(traces.c.trace_id == row.trace_id).values(answer_after=answer))
            append_event(
                connection,
                "asked_again",
                row.report_id,
                run_id,
                trace_id=row.trace_id,
                after=after.value,
                answer_sha256=sha256_text(answer),
                agreed_before=None if row.answer_before is None else repeats(row.answer_before, row.complaint),
                agrees=still_wrong[row.trace_id],
            )
    return still_wrong


def changed_by_run(ledger: Ledger, run_id: str) -> dict[Purpose, list[str]]:
    """Return the traces whose texts a run withdrew or restored, the newest of each report, by what it did."""
    kinds = {"withdrawn": Purpose.WITHDRAW, "restored": Purpose.RESTORE}
    statement = sa.select(events.c.kind, events.c.body).where(events.c.kind.in_(kinds), events.c.run_id == run_id)
    columns = sa.select(traces.c.trace_id, traces.c.report_id, traces.c.finished_at)
    changed: dict[Purpose, list[str]] = {}
    with ledger.read() as connection:
        for row in connection.execute(statement):
            accusing = select_in_batches(connection, columns, traces.c.trace_id, row.body["traces"])
            newest = {each.report_id: each.trace_id for each in sorted(accusing, key=lambda each: each.finished_at)}
            changed.setdefault(kinds[row.kind], []).extend(sorted(newest.values()))
    return changed


@dataclass(frozen=True, slots=True)
class _TracedQuestion:
    """Question of a trace, with the reported answer and the model's answer before the withdrawal."""

    trace_id: str
    report_id: str
    k: int
    answer_before: str | None
    complaint: Complaint


def _questions_to_ask(ledger: Ledger, run_id: str, trace_ids: Sequence[str]) -> list[_TracedQuestion]:
    columns = (*traces.c["trace_id", "report_id", "k", "answer_before"], *reports.c["query", "output", "correct"])
    statement = sa.select(*columns).join(reports, reports.c.report_id == traces.c.report_id)
    logged = sa.select(events.c.body).where(events.c.kind == "asked_again", events.c.run_id == run_id)
    with ledger.read() as connection:
        asked_before = {body["trace_id"] for body in connection.scalars(logged)}
        rows = select_in_batches(connection, statement, traces.c.trace_id, set(trace_ids) - asked_before)
        return [
            _TracedQuestion(
                row.trace_id, row.report_id, row.k, row.answer_before, Complaint(row.query, row.output, row.correct)
            )
            for row in rows
        ]


def _versions_in_service(connection: sa.Connection, plan: WithdrawalPlan) -> list[str]:
    """Return the versions of the plan that are not both rejected and blocked yet."""
    columns = sa.select(versions.c.version_id, versions.c.state, versions.c.content_sha256)
    rows = rows_by_id(connection, columns, plan.versions).values()
    stopped = rows_by_id(connection, sa.select(blocked.c.sha256), {row.content_sha256 for row in rows})
    return [row.version_id for row in rows if row.state != VersionState.REJECTED or row.content_sha256 not in stopped]
