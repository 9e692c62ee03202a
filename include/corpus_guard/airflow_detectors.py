"""What the Airflow tasks of `detector_training` call: train a probe, compare it with the one in use, promote what was approved."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from corpus_guard.airflow_runs import note, run_id
from corpus_guard.airflow_tasks import APPROVE, answered_by

if TYPE_CHECKING:
    from corpus_guard.evaluation.activations.candidate import Candidate

log = logging.getLogger(__name__)


def train_probe() -> dict[str, Any]:
    """Collect, train, measure and register a probe of the RAG model's activations.

    Returns:
        What a person is asked about; empty where nothing is trained, or where it is no better than what is in use.

    Raises:
        Misuse: the questions leave too little to train on.
        Inconsistent: a probe that was trained on random labels scores; nothing it says can be believed.
        Infrastructure: MLflow cannot be reached; run again, what was collected and trained is kept.
    """
    from corpus_guard.evaluation.activations.candidate import prepare
    from corpus_guard.guard import Guard

    with Guard() as guard:
        if not guard.settings.detector_files:
            note("nothing was trained: set CORPUS_GUARD_DETECTOR_QUESTIONS")
            return {}
        found = prepare(guard)
    log.info("%s", found.as_dict())
    note(_told(found))
    return found.as_dict() if found.better else {}


def promote_probe(planned: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Promote what was approved, in the name of whoever approved it; a refusal leaves everything as it is.

    Raises:
        Inconsistent: the candidate's files are not what was measured.
        Infrastructure: MLflow cannot be reached; run again, the promotion is written once.
    """
    from corpus_guard.evaluation.activations.registry import crown
    from corpus_guard.guard import Guard
    from corpus_guard.traceback.activations.champion import promote

    by = answered_by(answer)
    if list(answer.get("chosen_options") or ()) != [APPROVE]:
        note(f"probe {planned['digest'][:16]} was not promoted: refused by {by}")
        return
    with Guard() as guard:
        told = {"version": planned["version"], "run": planned["run"]}
        promote(guard.ledger, guard.storage, planned["digest"], run_id=run_id(), by=by, **told)
        crown(guard.settings, planned["version"])
    note(f"probe {planned['digest'][:16]}, version {planned['version']}, is in use: approved by {by}")


def _told(found: Candidate) -> str:
    counts = "its word counts" if found.counts else "its word is shown and does not count"
    against = "" if found.champion_auc is None else f", that of the one in use {found.champion_auc:.3f}"
    asked = "" if found.better else "; it is no better, so nobody is asked"
    return f"a {found.kind} probe with AUC {found.auc:.3f}{against}; {counts}{asked}"
