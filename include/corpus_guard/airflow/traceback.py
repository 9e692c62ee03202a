"""Task functions of `traceback_nightly`: pick reports, trace them, summarise the night, withdraw what was approved."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from corpus_guard.airflow.context import HumanAnswer, all_results, current_run_id, responder_name
from corpus_guard.airflow.notifications import review_pages
from corpus_guard.airflow.run_notes import write_note
from corpus_guard.domain import plural
from corpus_guard.errors import GuardError, Infrastructure, Misuse
from corpus_guard.ledger.states import Purpose

if TYPE_CHECKING:
    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.batch_run import TracedReport
    from corpus_guard.traceback.replays import Replay

log = logging.getLogger(__name__)


class PlannedWithdrawal(TypedDict):
    """Traces and size of the withdrawals that a person is asked about."""

    traces: list[str]  # ids
    documents: int  # each with its copies
    ticked: int  # that are chosen by default


def pick_reports() -> list[list[str]]:
    """Return the ids of tonight's reports, in portions: open ones, and closed ones that are traced again.

    Enhancements past their end are removed first.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.batch_run import select_reports
    from corpus_guard.traceback.enhancement import Enhancements, list_expired
    from corpus_guard.traceback.judge_selection import create_judge

    with Deployment() as deployment:
        if list_expired(deployment.ledger):
            Enhancements(deployment.ledger, deployment.storage, deployment.store, deployment.settings).expire(
                current_run_id()
            )
        try:
            judge = create_judge(deployment.settings, deployment.models, deployment.ledger).digest
        except GuardError as error:
            log.warning("%s; no report is traced again because of another judge", error)
            judge = ""
        selected = select_reports(deployment.ledger, judge=judge, oldest=deployment.settings.traceback_replays)
    log.info(
        "%s reports in %s portions, of them %s closed ones again, %s left for another night",
        sum(map(len, selected.portions)),
        len(selected.portions),
        selected.replays,
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
    from corpus_guard.traceback.batch_run import count_outcomes, total_usage
    from corpus_guard.traceback.proposals import list_proposals
    from corpus_guard.traceback.replays import compare_replays, reopen_regressed
    from corpus_guard.traceback.withdrawal_plan import (
        count_not_reproduced,
        list_pending_traces,
        list_unvouched_records,
    )

    portions, results = all_results(portions), all_results(results)
    run_id = current_run_id()
    outcomes, usage = count_outcomes(portions, results), total_usage(results)
    with Deployment() as deployment:
        ledger = deployment.ledger
        replays = compare_replays(ledger, run_id)
        reopened = reopen_regressed(ledger, run_id, replays)
        if outcomes:
            usage = _log_figures(deployment, run_id, results)
        pending = list_pending_traces(ledger)
        proposals = list_proposals(ledger, pending)
        not_reproduced = count_not_reproduced(ledger)
        unvouched = len(list_unvouched_records(ledger, run_id))
    sentences = [
        _traced(outcomes),
        f"{plural(len(proposals), 'document')} to withdraw or to keep" if proposals else "",
        f"{plural(not_reproduced, 'trace')} not reproduced: read what they accuse" if not_reproduced else "",
        _replayed(replays, len(reopened)) if replays else "",
        f"{unvouched:,} accused records are in no ledger: run guard verify" if unvouched else "",
        _used(usage) if usage else "",
    ]
    write_note("; ".join(filter(None, sentences)))
    if not proposals:
        return {}
    ticked = sum(proposal.ticked for proposal in proposals)
    return PlannedWithdrawal(traces=pending, documents=len(proposals), ticked=ticked)


def _log_figures(deployment: Deployment, run_id: str, results: Sequence[Sequence[TracedReport]]) -> dict[str, float]:
    """Examine the judge with canaries, and log the night in MLflow. Return the usage of the judge's endpoint, canaries included."""
    from corpus_guard.traceback.batch_run import endpoint_usage, select_reports, total_usage
    from corpus_guard.traceback.canaries import examine_judge
    from corpus_guard.traceback.judge_selection import create_judge
    from corpus_guard.tracking.traceback_nightly import log_night

    ledger, settings, models = deployment.ledger, deployment.settings, deployment.models
    usage, canaries = total_usage(results), None
    try:
        judge = create_judge(settings, models, ledger)
        canaries = examine_judge(judge, models.embedder, run_id)
        usage = total_usage(results, endpoint_usage(judge))
    except Infrastructure as error:
        log.warning("%s; the canaries were not traced", error)
    remaining = select_reports(ledger)
    try:
        log_night(
            settings,
            ledger,
            run_id,
            open_reports=remaining.waiting + sum(map(len, remaining.portions)),
            canaries=canaries,
            endpoint_usage=usage,
            note=f"On the review pages: {review_pages('reports')}",
        )
    except Infrastructure as error:
        log.warning("%s; the traces are in the ledger", error)
    return usage


def withdraw_traced(planned: PlannedWithdrawal, answer: HumanAnswer) -> None:
    """Withdraw what was ticked, record what was not, and ask the questions again.

    Raises:
        Misuse: a document that was ticked now stands for other versions than those that were shown.
    """
    from corpus_guard.airflow.approval import WITHDRAW_TICKED
    from corpus_guard.deployment import Deployment
    from corpus_guard.traceback.proposals import divide_by_answer, list_proposals
    from corpus_guard.traceback.withdrawal_plan import plan_withdrawal, refuse_withdrawal, withdraw_all, withdrawn_in

    approver, run_id = responder_name(answer), current_run_id()
    chosen = list(answer.get("chosen_options") or ()) == [WITHDRAW_TICKED]
    switches = {name: chosen and on is True for name, on in (answer.get("params_input") or {}).items()}
    ticked = {name for name, on in switches.items() if on}
    with Deployment() as deployment:
        ledger, settings = deployment.ledger, deployment.settings
        proposals = {proposal.proposal_id: proposal for proposal in list_proposals(ledger, planned["traces"])}
        earlier = withdrawn_in(ledger, run_id)
        if missing := ticked - proposals.keys() - earlier.keys():
            raise Misuse(
                f"withdrawal {min(missing)} was approved, and the same traces no longer propose it: more documents with this "
                "content arrived, or it was decided elsewhere. Nothing was withdrawn; the next night asks again"
            )
        withdrawn, refused = divide_by_answer(proposals.values(), switches)
        for proposal in refused:
            plan = plan_withdrawal(ledger, proposal.traces, [proposal.version_id])
            refuse_withdrawal(ledger, run_id, plan, approver)
        if withdrawn or earlier:  # an earlier attempt of this task was killed, perhaps before Chroma followed
            withdraw_all(
                ledger,
                deployment.storage,
                deployment.store,
                settings,
                [plan_withdrawal(ledger, proposal.traces, [proposal.version_id]) for proposal in withdrawn],
                run_id=run_id,
                policy_digest=deployment.screening.digest,
                by=approver,
                reason="traced from reports, approved in Airflow",
                before=len(earlier),
            )
        answers = {}
        about = {trace_id for proposal in withdrawn for trace_id in proposal.traces}
        if trace_ids := sorted(about.union(*earlier.values())):
            answers = deployment.ask_again(trace_ids, run_id, Purpose.WITHDRAW)
    write_note(
        f"{plural(len(withdrawn) + len(earlier), 'document')} withdrawn, "
        f"{plural(len(refused), 'document')} kept in service, by {approver}; "
        f"{plural(len(answers), 'question')} asked again, {sum(answers.values()):,} still wrong"
    )


def _traced(outcomes: Mapping[str, int]) -> str:
    """Return how many reports were traced, and with what outcomes."""
    if not outcomes:
        return "No report was open"
    total = sum(outcomes.values())
    parts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(outcomes.items()))
    return f"{plural(total, 'report')} traced: {parts}"


def _replayed(replays: list[Replay], reopened: int) -> str:
    """Return what became of the reports that were traced before."""
    from corpus_guard.traceback.replays import count_replays

    counted = count_replays(replays)
    return (
        f"{len(replays):,} traced before: {counted['fixed']:,} fixed, {counted['regressed']:,} regressed, "
        f"{counted['still_wrong']:,} still wrong; {reopened:,} reopened"
    )


def _used(usage: Mapping[str, float]) -> str:
    """Return how much the judge's endpoint was used."""
    tokens = usage["prompt_tokens"] + usage["completion_tokens"]
    return f"judge endpoint: {usage['requests']:,.0f} requests, {tokens:,.0f} tokens"
