"""Task functions of `integrity_nightly`: verify, heal, report what nobody has acknowledged, take the answer, clean."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypedDict

from corpus_guard.airflow.context import HumanAnswer, current_run_id, responder_name, source_connection
from corpus_guard.airflow.metrics import gauge
from corpus_guard.airflow.notifications import notify, review_pages
from corpus_guard.airflow.run_notes import write_note, write_note_line
from corpus_guard.domain import plural
from corpus_guard.errors import Infrastructure

if TYPE_CHECKING:
    from corpus_guard.proof.incidents import Incident

log = logging.getLogger(__name__)

ACKNOWLEDGE: Final = "Acknowledge"
ACCEPT: Final = "Accept as the new baseline"
LEAVE_RED: Final = "Leave red"
MAX_NAMED_INCIDENTS: Final = 5  # in a message
NOTE_LINE: Final = "Incidents"


class RedIncidents(TypedDict):
    """Incidents that nobody has acknowledged, as the required action shows them."""

    incidents: list[str]  # ids
    unhealed: str  # id of the one whose deviations are still there; "" if there is none
    sentence: str
    link: str  # to the review pages


def verify_corpus() -> str:
    """Verify the corpus and log the figures in MLflow.

    Returns:
        The id of the incident if anything deviates, "" if everything was checked and holds, or nothing was sealed yet.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.ledger.event_log import append_event
    from corpus_guard.proof.incidents import examine, is_never_sealed, open_incident
    from corpus_guard.tracking.integrity_nightly import log_verification

    with Deployment() as deployment:
        examination = examine(deployment.ledger, deployment.storage, deployment.store, deployment.settings)
        verification = examination.verification
        if is_never_sealed(deployment.ledger, verification):
            write_note("Nothing is sealed yet. The first run of corpus_refresh seals the corpus.")
            return ""
        log.info("%s", {key: value for key, value in verification.as_dict().items() if key != "deviations"})
        incident = None
        if not examination.clean:
            deviations = examination.unanswered or verification.deviations
            incident = open_incident(deployment.ledger, deployment.storage, current_run_id(), deviations)
        try:
            incident_id = incident.incident_id if incident else ""
            page = review_pages(f"incidents/{incident_id}" if incident_id else "corpus")
            log_verification(deployment.settings, verification, incident_id, note=f"On the review pages: {page}")
        except Infrastructure as error:
            log.warning("%s; the figures are in this log", error)  # the verification itself is done
        gauge("integrity.deviations", len(verification.deviations))
        gauge("integrity.records", verification.records)
        if incident is None:
            counts = {"records": verification.records, "vectors": verification.queried, "events": verification.events}
            with deployment.ledger.write() as connection:
                append_event(connection, "verified", "corpus", current_run_id(), **counts)
            write_note("The corpus holds: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
            return ""
    write_note(_summary(incident))
    return incident.incident_id


def heal_incident(incident_id: str) -> str:
    """Restore from the batches and the sources what can be restored, and verify again.

    Returns:
        The id of the incident that is left, "" if none is.
    """
    from corpus_guard.deployment import Deployment

    with Deployment(connections=source_connection) as deployment:
        healing = deployment.heal_incident(incident_id, current_run_id(), by="integrity_nightly")
    write_note(_summary(healing.remaining or healing.incident))
    return healing.remaining.incident_id if healing.remaining else ""


def report_incidents(unhealed: str | None) -> RedIncidents:
    """Write the incidents that nobody has acknowledged on the run's note, and notify people of them.

    Args:
        unhealed: id of the incident that healing left; "" or None if it left none.

    Raises:
        AirflowSkipException: every incident is acknowledged.
    """
    from airflow.sdk.exceptions import AirflowSkipException

    from corpus_guard.deployment import Deployment
    from corpus_guard.proof.incidents import list_red_incidents

    with Deployment() as deployment:
        red = list_red_incidents(deployment.ledger)
    gauge("integrity.incidents", len(red))
    if not red:
        raise AirflowSkipException("every incident is acknowledged")
    subject = f"{plural(len(red), 'incident')} not acknowledged"
    sentence = f"{subject}: {_named(red)}"
    write_note_line(NOTE_LINE, sentence, first=True)
    link = review_pages(f"incidents/{red[0].incident_id}" if len(red) == 1 else "corpus")
    text = (
        f"The corpus is not, or was not, what was sealed. {sentence}. Find the cause, then acknowledge with a reason on the "
        "review page or under Required Actions."
    )
    try:
        notify(subject, text, link)
    except Infrastructure as error:
        log.warning("%s; the required action says the same", error)
    return RedIncidents(
        incidents=[incident.incident_id for incident in red], unhealed=unhealed or "", sentence=sentence, link=link
    )


def settle_incidents(red: RedIncidents, answer: HumanAnswer) -> None:
    """Acknowledge or accept the incidents that the required action showed, in the name of the person who answered.

    Incidents that were acknowledged elsewhere meanwhile stay as they are.

    Raises:
        AirflowFailException: incidents are still red, or their deviations are still there; the task is not tried again.
    """
    from airflow.sdk.exceptions import AirflowFailException

    from corpus_guard.deployment import Deployment
    from corpus_guard.ledger.states import IncidentState
    from corpus_guard.proof.incidents import end_incident, find_incident

    run_id = current_run_id()
    option = next(iter(answer.get("chosen_options") or ()), LEAVE_RED)
    reason = str((answer.get("params_input") or {}).get("reason") or "").strip()
    with Deployment() as deployment:
        waiting = [find_incident(deployment.ledger, incident_id) for incident_id in red["incidents"]]
        waiting = [incident for incident in waiting if incident.is_red]
        if waiting and (option == LEAVE_RED or not reason):
            raise AirflowFailException(
                f"still red, because nobody acknowledged with a reason: {_named(waiting)}. Do that on the review page or with "
                "`guard incident acknowledge`, then clear this task; or clear `acknowledge` to be asked again"
            )
        by = responder_name(answer)
        for incident in waiting:
            if option == ACCEPT and incident.state == IncidentState.OPEN:
                _, report = deployment.accept_incident(incident.incident_id, run_id, by=by, reason=reason)
                log.info("%s", report)
            else:
                ledger, settings = deployment.ledger, deployment.settings
                state = IncidentState.CLOSED
                end_incident(ledger, settings, incident.incident_id, state, by=by, reason=reason, run_id=run_id)
        if option == ACCEPT:
            deployment.seal(run_id)
    if waiting:
        write_note_line(NOTE_LINE, f"acknowledged by {by}: {reason}", first=True)
    if red["unhealed"] and option == ACKNOWLEDGE:
        raise AirflowFailException(
            f"incident {red['unhealed']} is acknowledged, and its deviations are still there: repair them, or accept them as the "
            "new baseline; the next night opens a new incident"
        )


def clean_storage() -> None:
    """Remove stored files that nobody needs any more, and write on the run's note how many."""
    from corpus_guard.deployment import Deployment
    from corpus_guard.pipeline.cleaning import clean

    with Deployment() as deployment:
        result = clean(deployment.ledger, deployment.storage, deployment.settings, current_run_id())
    log.info("%s", result)
    removed = {kind: totals["files"] for kind, totals in result["removed"].items()}
    gauge("integrity.cleaned", sum(removed.values()))
    for name in result["changed"]:
        log.warning("%s is not as it was logged, and was not removed; run `guard verify --deep`", name)
    if removed:
        write_note_line("Cleaned", ", ".join(f"{count:,} {kind}" for kind, count in removed.items()))


def _named(incidents: Sequence[Incident]) -> str:
    """Return the incidents in words, the first ones by name."""
    names = [f"{incident.incident_id[:8]} ({incident.summary})" for incident in incidents[:MAX_NAMED_INCIDENTS]]
    hidden = len(incidents) - len(names)
    return ", ".join([*names, *([f"{hidden:,} more"] if hidden else [])])


def _summary(incident: Incident) -> str:
    counts = ", ".join(f"{count:,} {kind}" for kind, count in incident.counts.items())
    return (
        f"Incident {incident.incident_id} is {incident.state}: {counts}. "
        f"Details: guard incident show {incident.incident_id[:8]}"
    )
