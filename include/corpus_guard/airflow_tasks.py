"""What Airflow tasks call: a step of the library inside a guard that is opened and closed for it.

The only file of the library that knows Airflow, and only inside functions: DAG files import it when they are parsed.

The note on a DAG run is written through Airflow's REST API, because Airflow 3.3 gives tasks no other way. It needs the connection
``corpus_guard_airflow`` (HTTP, with the login of a user who may edit DAG runs; `make up` sets it); without it the counts stand in the
task's log and in the asset event alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

log = logging.getLogger(__name__)

CONNECTION = "corpus_guard_airflow"
SHOWN = (
    "accepted",
    "quarantined",
    "rejected",
    "released",
    "unchanged",
    "failed",
    "vanished",
    "published",
    "retired",
    "served",
)


def step(name: str, *arguments: Any) -> Any:
    """Run one step of `corpus_guard.refresh.steps` for the DAG run of the current task."""
    from corpus_guard.guard import Guard
    from corpus_guard.refresh import steps

    with Guard() as guard:
        result = getattr(steps, name)(guard, _run_id(), *arguments)
    if isinstance(result, dict):
        log.info("%s", {key: value for key, value in result.items() if isinstance(value, int)})
    return result


def decisions_wait() -> bool:
    """Whether a decision has not taken effect yet."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.decisions import unapplied

    with Guard() as guard:
        return unapplied(guard.ledger) > 0


def apply_decisions() -> Mapping[str, Any]:
    """Let every decision take effect."""
    from corpus_guard.guard import Guard
    from corpus_guard.review.decisions import apply

    with Guard() as guard:
        return apply(guard, _run_id())


def verify_corpus() -> str:
    """Verify; the id of the incident when something deviates, "" when everything was checked and holds. Metrics go to MLflow."""
    from corpus_guard.errors import Infrastructure
    from corpus_guard.evaluation.integrity import track
    from corpus_guard.guard import Guard
    from corpus_guard.proof.incidents import examine, open_incident

    with Guard() as guard:
        examined = examine(guard)
        found = examined.found
        log.info("%s", {key: value for key, value in found.as_dict().items() if key != "deviations"})
        try:
            track(guard.settings, found)
        except Infrastructure as error:
            log.warning("%s; the figures are in this log", error)  # what was verified stays verified
        return (
            ""
            if examined.clean
            else open_incident(guard, _run_id(), examined.unanswered or found.deviations).incident_id
        )


def heal_incident(incident: str) -> str:
    """Undo what can be undone and verify again; the id of the incident that is left, "" when nothing is."""
    from corpus_guard.errors import Inconsistent
    from corpus_guard.guard import Guard
    from corpus_guard.proof.healing import heal
    from corpus_guard.proof.incidents import deviations_of, end, examine, find, open_incident
    from corpus_guard.proof.sealing import seal_corpus

    with Guard() as guard:
        known = find(guard.ledger, incident)
        log.info("%s", heal(guard, _run_id(), deviations_of(guard, known)))
        try:
            seal_corpus(guard, _run_id())
        except Inconsistent as error:
            log.warning("%s", error)  # what is left says so, too
        examined = examine(guard)
        left = examined.unanswered or examined.found.deviations
        remaining = "" if examined.clean else open_incident(guard, _run_id(), left).incident_id
        if known.state == "open" and remaining != known.incident_id:
            reason = (
                f"published again in part; what is left is incident {remaining}" if remaining else "published again"
            )
            end(guard, incident, "healed", by="integrity_nightly", reason=reason, run_id=_run_id())
        return remaining


def accept_incident(incident: str, answer: Mapping[str, Any]) -> None:
    """Take what deviates for the new baseline, in the name of whoever approved it, and seal it."""
    from corpus_guard.guard import Guard
    from corpus_guard.proof.incidents import end, find
    from corpus_guard.proof.sealing import seal_corpus

    by = (answer.get("responded_by_user") or {}).get("name") or "unknown"
    with Guard() as guard:
        if find(guard.ledger, incident).state == "open":  # not so when this task is run again
            end(guard, incident, "accepted", by=by, reason="approved in Airflow", run_id=_run_id())
        seal_corpus(guard, _run_id())


def annotate(counts: Mapping[str, Any]) -> None:
    """Put the counts on the DAG run as its note. Never fails a run: the work is done and sealed."""
    import httpx
    from airflow.sdk import Connection, get_current_context
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    note = ", ".join(f"{counts[name]:,} {name}" for name in SHOWN if counts.get(name)) or "nothing changed"
    log.info("%s", note)
    try:
        connection = Connection.get(CONNECTION)
    except (AirflowNotFoundException, AirflowRuntimeError):
        return
    context = get_current_context()
    base = f"http://{connection.host}:{connection.port}"
    dag, run = (quote(name, safe="") for name in (context["dag"].dag_id, context["run_id"]))
    try:
        login = {"username": connection.login, "password": connection.password}
        token = httpx.post(f"{base}/auth/token", json=login, timeout=10).raise_for_status().json()["access_token"]
        httpx.patch(
            f"{base}/api/v2/dags/{dag}/dagRuns/{run}",
            json={"note": note[:1000]},
            headers={"Authorization": f"Bearer {token}"},
            timeout=10,
        ).raise_for_status()
    except (httpx.HTTPError, KeyError, ValueError) as error:
        log.warning("the run's note could not be written (%s); the counts are in this log", type(error).__name__)


def _run_id() -> str:
    from airflow.sdk import get_current_context

    context = get_current_context()
    return f"{context['dag'].dag_id}/{context['run_id']}"
