"""Task functions of `quarantine_review` and `quarantine_watch`: summarise the queue, take the answer, remind reviewers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from corpus_guard.airflow.context import HumanAnswer
from corpus_guard.airflow.metrics import gauge
from corpus_guard.airflow.notifications import notify, review_pages
from corpus_guard.airflow.run_notes import write_note
from corpus_guard.domain import plural
from corpus_guard.errors import Infrastructure, Misuse

log = logging.getLogger(__name__)

SEEN = "Seen"
ESCALATE = "Escalate them all"


def summarise_waiting() -> dict[str, Any]:
    """Count what waits in the quarantine of the refreshes that triggered this run (of all, if none did), and notify reviewers.

    Returns:
        The summary for the required action; empty if nothing waits.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.review.notices import count_waiting

    runs = _triggering_runs()
    with Deployment() as deployment:
        queue = count_waiting(deployment.ledger, runs)
    write_note(queue.sentence)
    if not queue.items:
        return {}
    link = queue_link(runs[0] if len(runs) == 1 else "")
    try:
        notify(queue.sentence, f"{queue.sentence}.", link)
    except Infrastructure as error:
        log.warning("%s; the required action says the same", error)
    return {**queue.as_dict(), "runs": runs, "link": link}


def apply_answer(summary: Mapping[str, Any], answer: HumanAnswer | None) -> int:
    """Apply the answer to the required action, in the name of the person who gave it. Returns how many items were escalated.

    Raises:
        Misuse: nobody answered, or with an unknown option.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.review.identities import ReviewAct
    from corpus_guard.review.notices import escalate_undecided
    from corpus_guard.review.reviewer import Reviewer

    options = list((answer or {}).get("chosen_options") or ())
    user = (answer or {}).get("responded_by_user")
    if options not in ([SEEN], [ESCALATE]) or user is None or not user.get("id"):
        raise Misuse("nobody answered; the items stay in quarantine")
    if options == [SEEN]:
        return 0
    reviewer = Reviewer(str(user["id"]), str(user.get("name") or user["id"]), "Airflow required action")
    with Deployment() as deployment:
        escalated = escalate_undecided(
            deployment.ledger,
            deployment.policy.review,
            summary["runs"],
            ReviewAct(reviewer, "answered in Airflow: escalate them all", deployment.screening.digest),
        )
    write_note(f"{plural(escalated, 'item')} escalated by {reviewer.name}")
    return escalated


def expire_waiting() -> int:
    """Escalate and mark items that wait longer than the policy allows. Returns how many are new."""
    from corpus_guard.deployment import Deployment
    from corpus_guard.ledger.runs import interrupted_runs
    from corpus_guard.review.notices import count_waiting
    from corpus_guard.review.undo import escalate_expired

    with Deployment() as deployment:
        gauge("quarantine.waiting", count_waiting(deployment.ledger).items)
        gauge("runs.interrupted", len(interrupted_runs(deployment.ledger)))
        expired = escalate_expired(
            deployment.ledger, deployment.policy.review, policy_digest=deployment.screening.digest
        )
    if expired:
        write_note(f"{plural(expired, 'item')} escalated: the time to decide is over")
    return expired


def notify_overdue() -> int:
    """Notify reviewers of items that nobody decided in time. Returns how many items; 0 if no message was due.

    Raises:
        Infrastructure: a message could not be sent; the task is tried again.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.review.notices import mark_overdue_reported, overdue_message, overdue_to_report

    with Deployment() as deployment:
        overdue = overdue_to_report(deployment.ledger, deployment.storage, deployment.policy.review)
        if overdue is None:
            write_note("No reminder is due")
            return 0
        sentence = overdue_message(overdue)
        write_note(sentence)
        notify(sentence, f"{sentence}. Waiting never releases an item.", queue_link())
        mark_overdue_reported(deployment.storage, overdue)
    return int(overdue["items"])


def queue_link(run_id: str = "") -> str:
    """Return the address of the review queue in Airflow's UI, of one run or of all."""
    return review_pages(f"?run_id={quote(run_id, safe='')}" if run_id else "")


def _triggering_runs() -> list[str]:
    """Return the ledger's ids of the refreshes whose asset events started this run."""
    from airflow.sdk import get_current_context

    triggering = get_current_context().get("triggering_asset_events") or {}
    runs = [
        f"{event.source_dag_id}/{event.source_run_id}"
        for events in triggering.values()
        for event in events
        if event.source_dag_id and event.source_run_id
    ]
    return list(dict.fromkeys(runs))
