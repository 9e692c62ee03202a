"""Task functions of `quarantine_release`: bring reviewers' decisions into effect."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from corpus_guard.airflow.context import asset_event_extra, current_run_id
from corpus_guard.errors import GuardError

if TYPE_CHECKING:
    from corpus_guard.deployment import Deployment

log = logging.getLogger(__name__)


def has_pending_decisions() -> bool:
    """Return whether a decision has not taken effect yet."""
    from corpus_guard.deployment import Deployment
    from corpus_guard.review.release import count_pending_decisions

    with Deployment() as deployment:
        return count_pending_decisions(deployment.ledger) > 0


def apply_decisions() -> dict[str, object]:
    """Apply all pending decisions, and ask again what was withdrawn or restored. Returns the extra of the asset event *corpus*."""
    from corpus_guard.airflow.run_notes import write_counts
    from corpus_guard.deployment import Deployment
    from corpus_guard.pipeline.configuration import loosened_in_run

    with Deployment() as deployment:
        applied = deployment.apply_decisions(current_run_id())
        _ask_changed_questions_again(deployment, current_run_id())
        loosened = loosened_in_run(deployment.ledger, current_run_id())
    write_counts(applied, loosened)
    return asset_event_extra(applied, "released", "rejected", "published", "retired")


def _ask_changed_questions_again(deployment: Deployment, run_id: str) -> None:
    """Ask the questions of the reports whose documents this run withdrew or restored, and record the answers."""
    from corpus_guard.traceback.withdrawal_plan import changed_by_run

    changed = changed_by_run(deployment.ledger, run_id)
    try:
        for purpose, trace_ids in changed.items():
            answers = deployment.ask_again(trace_ids, run_id, purpose)
            log.info("after %s: %s asked again, %s still wrong", purpose, len(answers), sum(answers.values()))
    except GuardError as error:  # the decisions are in effect; an answer that is missing undoes none of them
        log.warning("%s; the questions were not asked again", error)
