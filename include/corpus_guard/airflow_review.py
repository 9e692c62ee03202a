"""What the review's Airflow tasks call: what waits after a refresh, what waits too long, and who is told."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from corpus_guard.airflow_notices import MAIL, SLACK, base_url, tell
from corpus_guard.airflow_runs import gauge, note
from corpus_guard.errors import Infrastructure, Misuse

log = logging.getLogger(__name__)

SEEN = "Seen"
ESCALATE = "Escalate them all"
LINKED_RUNS = 1  # more runs than this in one task: the link leads to the whole queue


def summarise_waiting() -> dict[str, Any]:
    """What waits of the refresh runs that led to this one, or in all where none did; empty where nothing waits. People are told."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.notices import waits

    runs = _source_runs()
    with Guard() as guard:
        found = waits(guard.ledger, runs)
    note(found.sentence)
    if not found.items:
        return {}
    link = page_link(runs[0] if len(runs) == LINKED_RUNS else "")
    try:
        tell(found.sentence, f"{found.sentence}.", link)
    except Infrastructure as error:
        log.warning("%s; the task that waits says the same", error)  # the gate opens all the same
    return {**found.as_dict(), "runs": runs, "link": link}


def take_answer(summary: Mapping[str, Any], answer: Mapping[str, Any] | None) -> int:
    """Do what was answered, in the name of who answered; how many items were escalated.

    Raises:
        Misuse: nobody answered, or none of the options.
    """
    from corpus_guard.guard import Guard
    from corpus_guard.review.notices import escalate_run
    from corpus_guard.review.reviewer import Reviewer

    chosen = list((answer or {}).get("chosen_options") or ())
    who = (answer or {}).get("responded_by_user") or {}
    if chosen not in ([SEEN], [ESCALATE]) or not who.get("id"):
        raise Misuse("nobody answered; what waits stays in quarantine")
    if chosen == [SEEN]:
        return 0
    by = Reviewer(str(who["id"]), str(who.get("name") or who["id"]), "Airflow required action")
    with Guard() as guard:
        count = escalate_run(
            guard.ledger,
            guard.policy.review,
            summary["runs"],
            reviewer=by,
            reason="answered in Airflow: escalate them all",
            policy_digest=guard.screening.digest,
        )
    note(f"{count:,} escalated by {by.name}")
    return count


def expire_waiting() -> int:
    """Escalate and mark what waits longer than the policy allows; how many are new."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.notices import waits
    from corpus_guard.review.undoing import expire

    with Guard() as guard:
        gauge("quarantine.waiting", waits(guard.ledger).items)
        expired = expire(guard.ledger, guard.policy.review, policy_digest=guard.screening.digest)
    if expired:
        note(f"{expired:,} marked: nobody decided them for very long")
    return expired


def tell_overdue() -> int:
    """Tell whoever is to be told what nobody decided in time; how many items that are. 0: nobody needs to be told.

    Raises:
        Infrastructure: a message could not be sent; it is tried again.
    """
    from corpus_guard.guard import Guard
    from corpus_guard.review.notices import overdue_news, overdue_sentence, told_overdue

    with Guard() as guard:
        late = overdue_news(guard.ledger, guard.storage, guard.policy.review)
        if late is None:
            note("nobody needs to be told")
            return 0
        sentence = overdue_sentence(late)
        note(sentence)
        roads = tell(sentence, f"{sentence}. Nothing is released by waiting.", page_link())
        if not roads:
            log.warning("nobody was told: neither connection %s nor %s is there", MAIL, SLACK)
        told_overdue(guard.storage, late)
    return int(late["items"])


def page_link(run_id: str = "") -> str:
    """Address of the queue in Airflow's UI."""
    from corpus_guard.web.plugin import deep_link

    return f"{base_url()}/{deep_link('?run_id=' + quote(run_id, safe='') if run_id else '')}"


def _source_runs() -> list[str]:
    """Run ids, as the ledger knows them, of the refreshes whose asset events started this run; several may have come together."""
    from airflow.sdk import get_current_context

    found = get_current_context().get("triggering_asset_events") or {}
    runs = [
        f"{event.source_dag_id}/{event.source_run_id}"
        for events in found.values()
        for event in events
        if event.source_dag_id and event.source_run_id
    ]
    return list(dict.fromkeys(runs))
