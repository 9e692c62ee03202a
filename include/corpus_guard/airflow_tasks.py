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
