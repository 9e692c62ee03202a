"""Task functions of `integrity_nightly`: verify, heal, accept a new baseline."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from corpus_guard.airflow.context import HumanAnswer, current_run_id, responder_name
from corpus_guard.airflow.metrics import gauge
from corpus_guard.airflow.run_notes import write_note

if TYPE_CHECKING:
    from corpus_guard.proof.incidents import Incident

log = logging.getLogger(__name__)


def verify_corpus() -> str:
    """Verify the corpus and log the figures in MLflow.

    Returns:
        The id of the incident if anything deviates, "" if everything was checked and holds.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.errors import Infrastructure
    from corpus_guard.ledger.event_log import append_event
    from corpus_guard.proof.incidents import examine, open_incident
    from corpus_guard.tracking.integrity_nightly import log_verification

    with Deployment() as deployment:
        examination = examine(deployment.ledger, deployment.storage, deployment.store, deployment.settings)
        verification = examination.verification
        log.info("%s", {key: value for key, value in verification.as_dict().items() if key != "deviations"})
        try:
            log_verification(deployment.settings, verification)
        except Infrastructure as error:
            log.warning("%s; the figures are in this log", error)  # the verification itself is done
        gauge("integrity.deviations", len(verification.deviations))
        gauge("integrity.records", verification.records)
        if examination.clean:
            counts = {
                "records": verification.records,
                "vectors": verification.queried,
                "events": verification.events,
            }
            with deployment.ledger.write() as connection:
                append_event(connection, "verified", "corpus", current_run_id(), **counts)
            write_note("The corpus holds: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
            return ""
        deviations = examination.unanswered or verification.deviations
        incident = open_incident(deployment.ledger, deployment.storage, current_run_id(), deviations)
    write_note(_summary(incident))
    return incident.incident_id


def heal_incident(incident_id: str) -> str:
    """Restore from the batches what can be restored, and verify again.

    Returns:
        The id of the incident that is left, "" if none is.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.errors import Inconsistent
    from corpus_guard.ledger.states import IncidentState
    from corpus_guard.proof.healing import heal
    from corpus_guard.proof.incidents import end_incident, examine, find_incident, load_deviations, open_incident

    run_id = current_run_id()
    with Deployment() as deployment:
        ledger, storage, store, settings = (
            deployment.ledger,
            deployment.storage,
            deployment.store,
            deployment.settings,
        )
        incident = find_incident(ledger, incident_id)
        log.info("%s", heal(ledger, storage, store, run_id, load_deviations(storage, incident)))
        try:
            deployment.seal(run_id)
        except Inconsistent as error:
            log.warning("%s", error)  # the examination below names what is left
        examination = examine(ledger, storage, store, settings)
        remaining = None
        if not examination.clean:
            deviations = examination.unanswered or examination.verification.deviations
            remaining = open_incident(ledger, storage, run_id, deviations)
        if incident.state == IncidentState.OPEN and (
            remaining is None or remaining.incident_id != incident.incident_id
        ):
            reason = f"in part; the rest is incident {remaining.incident_id}" if remaining else "published again"
            incident = end_incident(
                ledger,
                settings,
                incident_id,
                IncidentState.HEALED,
                by="integrity_nightly",
                reason=reason,
                run_id=run_id,
            )
    write_note(_summary(remaining or incident))
    return remaining.incident_id if remaining else ""


def accept_incident(incident_id: str, answer: HumanAnswer) -> None:
    """Accept the deviations of an incident as the new baseline, in the name of the approver, and seal it."""
    from corpus_guard.deployment import Deployment
    from corpus_guard.ledger.states import IncidentState
    from corpus_guard.proof.incidents import end_incident, find_incident

    run_id = current_run_id()
    with Deployment() as deployment:
        if find_incident(deployment.ledger, incident_id).state == IncidentState.OPEN:  # a repeated task finds it closed
            end_incident(
                deployment.ledger,
                deployment.settings,
                incident_id,
                IncidentState.ACCEPTED,
                by=responder_name(answer),
                reason="approved in Airflow",
                run_id=run_id,
            )
        deployment.seal(run_id)


def _summary(incident: Incident) -> str:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in incident.counts.items())
    return (
        f"Incident {incident.incident_id} is {incident.state}: {counts}. "
        f"Details: guard incident show {incident.incident_id[:8]}"
    )
