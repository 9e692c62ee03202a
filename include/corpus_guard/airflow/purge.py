"""Task functions of `content_purge`: plan, and purge what a person approved."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from corpus_guard.airflow.context import HumanAnswer, current_run_id, responder_name
from corpus_guard.airflow.run_notes import write_note
from corpus_guard.domain import plural
from corpus_guard.errors import Misuse

if TYPE_CHECKING:
    from corpus_guard.removal.purge_plan import PurgeSelectors

log = logging.getLogger(__name__)


class PlannedPurge(TypedDict):
    """Identity and size of a planned purge."""

    purge_id: str
    documents: int
    chunks: int
    selection: dict[str, list[str]]


def plan_purge(parameters: Mapping[str, Sequence[str]]) -> PlannedPurge:
    """Plan a purge and log what it would remove. Changes nothing.

    Raises:
        Misuse: nothing is selected, or no reason is given.
        UnknownSubject: something is not in the ledger, nor in the files of an unfinished run.
        AlreadyAtWork: only a refresh that is at work has it.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.removal import purge_plan

    if not str(parameters["reason"]).strip():
        raise Misuse("parameter reason is empty; give a reason, it is kept in the log")
    with Deployment() as deployment:
        planned = purge_plan.plan_purge(deployment.ledger, deployment.storage, deployment.blobs, _selectors(parameters))
    log.info("%s", planned.as_dict())
    write_note(f"{_size(planned.document_count, len(planned.chunks))} would be purged; waiting for approval")
    return {
        "purge_id": planned.purge_id,
        "documents": planned.document_count,
        "chunks": len(planned.chunks),
        "selection": planned.selectors.as_dict(),
    }


def purge_planned(planned: PlannedPurge, answer: HumanAnswer, reason: str) -> None:
    """Purge what was approved, in the name of the approver.

    Raises:
        Misuse: the selection now matches other versions than those that were approved.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.removal import purge_plan

    approver = responder_name(answer)
    with Deployment() as deployment:
        current = purge_plan.plan_purge(
            deployment.ledger, deployment.storage, deployment.blobs, _selectors(planned["selection"])
        )
        if current.purge_id != planned["purge_id"]:
            raise Misuse(
                f"purge {planned['purge_id']} was approved, but the same selection is now {current.purge_id}: more documents "
                "with this content arrived. Nothing was purged; trigger the DAG again"
            )
        result = deployment.purger.purge(current_run_id(), current, approver, reason)
    log.info("%s", result)
    at_work = f"; refresh {', '.join(result['waits_for'])} may hold more: purge again" if result["waits_for"] else ""
    write_note(f"{_size(planned['documents'], planned['chunks'])} purged, approved by {approver}{at_work}")


def _selectors(selection: Mapping[str, Sequence[str]]) -> PurgeSelectors:
    from corpus_guard.removal.purge_plan import PurgeSelectors

    return PurgeSelectors(*(tuple(selection.get(name) or ()) for name in ("chunks", "documents", "sources", "hashes")))


def _size(documents: int, chunks: int) -> str:
    return f"{plural(documents, 'document')} with {plural(chunks, 'chunk')}"
