"""Notes on DAG runs: what a run did, in one line that Airflow's UI shows.

The note is written through Airflow's REST API, because Airflow 3.3 gives tasks no other way. This needs the connection
``corpus_guard_airflow`` (HTTP, with the login of a user who may edit DAG runs; `make up` creates it). Without it the counts are in the
task's log and in the asset event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from corpus_guard.airflow.context import find_connection
from corpus_guard.airflow.metrics import CHUNK_COUNTS, DOCUMENT_COUNTS, count_run

if TYPE_CHECKING:
    import httpx
    from airflow.sdk import Connection

log = logging.getLogger(__name__)

AIRFLOW_CONNECTION = "corpus_guard_airflow"
MAX_NOTE = 1_000  # characters that Airflow keeps
MAX_LINE = 320  # characters of a line that one task writes beside those of others
WRITE_ATTEMPTS = 3  # several tasks may write at once


def write_counts(counts: Mapping[str, Any], prefix: str = "") -> None:
    """Write the counts of a run on its note, and send them as metrics."""
    count_run(counts)
    write_note(prefix + summarize_counts(counts))


def summarize_counts(counts: Mapping[str, Any]) -> str:
    """Return the counts of a run in one line, without those that are zero."""
    shown = [f"{counts[name]:,} {name}" for name in (*DOCUMENT_COUNTS, *CHUNK_COUNTS) if counts.get(name)]
    shown += [f"{number:,} skipped in {source} ({reason})" for source, reason, number in _skips(counts)]
    return ", ".join(shown) or "nothing changed"


def _skips(counts: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """Return (source, reason, number) of what the sources hold and is no document, but for what include and exclude ask to leave out."""
    from corpus_guard.intake.sources.source import SkipReason

    return [
        (source, reason, number)
        for source, reasons in counts.get("skipped", {}).items()
        for reason, number in reasons.items()
        if reason != SkipReason.LEFT_OUT
    ]


def write_note(text: str) -> None:
    """Replace the note of the current run. Logs a warning if the note cannot be written; never raises."""
    log.info("%s", text)
    _write(lambda existing: text[:MAX_NOTE])


def write_note_line(name: str, text: str, *, first: bool = False) -> None:
    """Write or replace the line of the note that begins with `name`; other lines stay. Never raises."""
    log.info("%s: %s", name, text)
    line = f"{name}: {' '.join(text.split())}"
    line = line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"
    _write(lambda existing: replace_line(existing, name, line, first=first))


def replace_line(note: str, name: str, line: str, *, first: bool = False) -> str:
    """Return the note with `line` in place of the lines that begin with `name`, as its last or first line.

    Airflow's page reads notes as Markdown: only an empty line keeps two lines apart.
    """
    others = [other for other in note.splitlines() if other.strip() and not other.startswith(f"{name}: ")]
    return "\n\n".join([line, *others])[:MAX_NOTE] if first else "\n\n".join([*others, line])[-MAX_NOTE:]


def _write(edit: Callable[[str], str]) -> None:
    """Apply `edit` to the note; again if another task wrote at the same time."""
    import httpx
    from airflow.sdk import get_current_context
    from airflow.sdk.exceptions import AirflowRuntimeError

    try:
        connection = find_connection(AIRFLOW_CONNECTION)
    except (AirflowRuntimeError, PermissionError) as error:
        log.warning("the run's note could not be written (%s); the counts are in this log", type(error).__name__)
        return
    if connection is None:
        return
    context = get_current_context()
    base = api_address(connection)
    dag, run = (quote(name, safe="") for name in (context["dag"].dag_id, context["run_id"]))
    url = f"{base}/api/v2/dags/{dag}/dagRuns/{run}"
    try:
        login = {"username": connection.login, "password": connection.password}
        token = httpx.post(f"{base}/auth/token", json=login, timeout=10).raise_for_status().json()["access_token"]
        with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=10) as client:
            for _ in range(WRITE_ATTEMPTS):
                client.patch(url, json={"note": edit(_note_of(client.get(url)))}).raise_for_status()
                written = _note_of(client.get(url))
                if edit(written) == written:
                    return
    except (httpx.HTTPError, KeyError, ValueError) as error:
        log.warning("the run's note could not be written (%s); the counts are in this log", type(error).__name__)


def api_address(connection: Connection) -> str:
    """Return the address of Airflow's API server, over https where the connection's schema or type is that."""
    scheme = "https" if "https" in (connection.schema, connection.conn_type) else "http"
    return f"{scheme}://{connection.host}" + (f":{connection.port}" if connection.port else "")


def _note_of(response: httpx.Response) -> str:
    return str(response.raise_for_status().json().get("note") or "")
