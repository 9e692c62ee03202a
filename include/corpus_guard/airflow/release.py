"""Task functions of `quarantine_release`: bring reviewers' decisions into effect."""

from __future__ import annotations

from corpus_guard.airflow.context import asset_event_extra, current_run_id


def has_pending_decisions() -> bool:
    """Return whether a decision has not taken effect yet."""
    from corpus_guard.deployment import Deployment
    from corpus_guard.review.release import count_pending_decisions

    with Deployment() as deployment:
        return count_pending_decisions(deployment.ledger) > 0


def apply_decisions() -> dict[str, object]:
    """Apply all pending decisions. Returns the extra of the asset event *corpus*."""
    from corpus_guard.airflow.run_notes import write_counts
    from corpus_guard.deployment import Deployment
    from corpus_guard.pipeline.configuration import loosened_in_run

    with Deployment() as deployment:
        applied = deployment.apply_decisions(current_run_id())
        loosened = loosened_in_run(deployment.ledger, current_run_id())
    write_counts(applied, loosened)
    return asset_event_extra(applied, "released", "rejected", "published", "retired")
