"""Task functions of `traceback_nightly`: pick reports, trace them, summarise the night, withdraw what was approved."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypedDict

from corpus_guard.airflow.context import HumanAnswer, current_run_id, is_approved, responder_name
from corpus_guard.airflow.run_notes import write_note
from corpus_guard.errors import Infrastructure, Misuse

if TYPE_CHECKING:
    from corpus_guard.traceback.batch_run import TracedReport

log = logging.getLogger(__name__)


class PlannedWithdrawal(TypedDict):
    """Identity and size of a withdrawal that a person is asked about."""

    withdrawal_id: str
    traces: list[str]  # ids
    documents: int
    versions: int
    chunks: int


def pick_reports() -> list[list[str]]:
    """Return the ids of tonight's reports, in portions. Enhancements past their end are removed first."""
    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.batch_run import select_reports
    from corpus_guard.traceback.enhancement import Enhancements, list_expired

    with Deployment() as deployment:
        if list_expired(deployment.ledger):
            Enhancements(deployment.ledger, deployment.storage, deployment.store, deployment.settings).expire(
                current_run_id()
            )
        selected = select_reports(deployment.ledger)
    log.info(
        "%s reports in %s portions, %s left for another night",
        sum(map(len, selected.portions)),
        len(selected.portions),
        selected.waiting,
    )
    return selected.portions


def trace_reports(report_ids: Sequence[str]) -> list[TracedReport]:
    """Trace a portion of the reports."""
    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.batch_run import trace_portion
    from corpus_guard.traceback.judge_selection import create_judge, create_rag_model
    from corpus_guard.traceback.trace_run import CorpusAccess

    with Deployment() as deployment:
        settings, ledger, models = deployment.settings, deployment.ledger, deployment.models
        return trace_portion(
            CorpusAccess(ledger, deployment.storage, deployment.store, models),
            current_run_id(),
            report_ids,
            judge=create_judge(settings, models, ledger),
            k=settings.traceback_k,
            rag_model=create_rag_model(settings, models, ledger),
        )


def summarise_night(
    portions: Sequence[Sequence[str]] | None, results: Sequence[Sequence[TracedReport]] | None
) -> PlannedWithdrawal | dict[str, object]:
    """Balance the counts of the night, log its figures in MLflow, and plan the pending withdrawal.

    Returns:
        The withdrawal that a person is asked about; empty if there is none.

    Raises:
        Inconsistent: a report was picked but did not end, or ended twice.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.batch_run import count_outcomes, endpoint_usage, select_reports, total_usage
    from corpus_guard.traceback.canaries import examine_judge
    from corpus_guard.traceback.judge_selection import create_judge
    from corpus_guard.traceback.withdrawal_plan import list_pending_traces, list_unvouched_records, plan_withdrawal
    from corpus_guard.tracking.traceback_nightly import log_night

    portions, results = list(portions or ()), list(results or ())
    run_id = current_run_id()
    outcomes, usage = count_outcomes(portions, results), total_usage(results)
    with Deployment() as deployment:
        ledger, settings, models = deployment.ledger, deployment.settings, deployment.models
        if outcomes:
            canaries = None
            try:
                judge = create_judge(settings, models, ledger)
                canaries = examine_judge(judge, models.embedder, run_id)
                usage = total_usage(results, endpoint_usage(judge))
            except Infrastructure as error:
                log.warning("%s; the canaries were not traced", error)
            remaining = select_reports(ledger)
            open_reports = remaining.waiting + sum(map(len, remaining.portions))
            try:
                log_night(settings, ledger, run_id, open_reports=open_reports, canaries=canaries, endpoint_usage=usage)
            except Infrastructure as error:
                log.warning("%s; the traces are in the ledger", error)
        plan = plan_withdrawal(ledger, list_pending_traces(ledger))
        unvouched = len(list_unvouched_records(ledger, run_id))
    sentences = [
        ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items())) or "No report was open",
        f"{len(plan.versions):,} version{'s' * (len(plan.versions) != 1)} to withdraw",
    ]
    if unvouched:
        sentences.append(f"{unvouched:,} accused records are in no ledger: run guard verify")
    if usage:
        tokens = usage["prompt_tokens"] + usage["completion_tokens"]
        sentences.append(f"judge endpoint: {usage['requests']:,.0f} requests, {tokens:,.0f} tokens")
    write_note("; ".join(sentences))
    if not plan.versions:
        return {}
    return PlannedWithdrawal(
        withdrawal_id=plan.withdrawal_id,
        traces=list(plan.traces),
        documents=plan.documents,
        versions=len(plan.versions),
        chunks=plan.chunks,
    )


def withdraw_traced(planned: PlannedWithdrawal, answer: HumanAnswer) -> None:
    """Withdraw what was approved and ask the questions again; record a refusal.

    Raises:
        Misuse: the same traces now accuse other versions than those that were approved.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.judge_selection import create_rag_model
    from corpus_guard.traceback.live_corpus import LiveCorpus
    from corpus_guard.traceback.withdrawal_plan import ask_again, plan_withdrawal, refuse_withdrawal, withdraw

    approver, run_id = responder_name(answer), current_run_id()
    with Deployment() as deployment:
        ledger, settings, models = deployment.ledger, deployment.settings, deployment.models
        plan = plan_withdrawal(ledger, planned["traces"])
        if plan.withdrawal_id != planned["withdrawal_id"]:
            raise Misuse(
                f"withdrawal {planned['withdrawal_id']} was approved, but the same traces now give {plan.withdrawal_id}: more "
                "documents with this content arrived. Nothing was withdrawn; the next night asks again"
            )
        size = f"{len(plan.versions):,} version{'s' * (len(plan.versions) != 1)}"
        if not is_approved(answer):
            refuse_withdrawal(ledger, run_id, plan, approver)
            write_note(f"{size} stay in service: refused by {approver}")
            return
        result = withdraw(
            ledger,
            deployment.storage,
            deployment.store,
            settings,
            plan,
            run_id=run_id,
            policy_digest=deployment.screening.digest,
            by=approver,
            reason="traced from reports, approved in Airflow",
        )
        corpus = LiveCorpus(ledger, deployment.store, models.embedder)
        answers = ask_again(ledger, corpus, create_rag_model(settings, models, ledger), plan.traces, run_id)
    write_note(
        f"{size} withdrawn, approved by {approver}; {len(answers):,} questions asked again, {sum(answers.values()):,} still wrong"
    )
    log.info("%s", result)
