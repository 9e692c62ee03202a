"""What Airflow is told of a run: its note, the counts of its asset events, metrics, lineage.

The note on a DAG run is written through Airflow's REST API, because Airflow 3.3 gives tasks no other way. It needs the connection
``corpus_guard_airflow`` (HTTP, with the login of a user who may edit DAG runs; `make up` sets it); without it the counts stand in the
task's log and in the asset event alone.

Metrics go where Airflow's own go (``AIRFLOW__METRICS__STATSD_ON`` or ``…OTEL_ON``), lineage where its OpenLineage provider is told to
(``AIRFLOW__OPENLINEAGE__TRANSPORT``); neither costs anything while it is off, and neither ever fails a run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    import httpx

    from corpus_guard.guard import Guard

log = logging.getLogger(__name__)

CONNECTION = "corpus_guard_airflow"
DOCUMENTS = ("accepted", "quarantined", "rejected", "released", "unchanged", "failed", "vanished")
CHUNKS = ("published", "retired", "served")
SHOWN = (*DOCUMENTS, *CHUNKS)
NOTE = 1_000  # characters Airflow keeps
LINE = 320  # of them for each task that writes a line of its own
TRIES = 3  # to write a line beside those of others


def annotate(counts: Mapping[str, Any], before: str = "") -> None:
    """Put the counts on the DAG run as its note, and count them in the metrics."""
    measure(counts)
    note(before + (", ".join(f"{counts[name]:,} {name}" for name in SHOWN if counts.get(name)) or "nothing changed"))


def note(text: str) -> None:
    """Put a text on the DAG run as its note. Never fails a run: the work is done."""
    log.info("%s", text)
    _write_note(lambda before: text[:NOTE])


def note_line(name: str, text: str) -> None:
    """Put a line on the DAG run's note, in the place of an earlier one of this name; those of other names stay. Never fails a run."""
    log.info("%s: %s", name, text)
    line = f"{name}: {' '.join(text.split())}"
    line = line if len(line) <= LINE else line[: LINE - 1] + "…"
    _write_note(lambda before: with_line(before, name, line))


def with_line(before: str, name: str, line: str) -> str:
    """A note with one line of this name."""
    others = [one for one in before.splitlines() if one.strip() and not one.startswith(f"{name}: ")]
    return "\n".join([*others, line])[-NOTE:]


def _write_note(made: Callable[[str], str]) -> None:
    """Write what `made` makes of the note there is; again where another task wrote meanwhile."""
    import httpx
    from airflow.sdk import Connection, get_current_context
    from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

    try:
        connection = Connection.get(CONNECTION)
    except (AirflowNotFoundException, AirflowRuntimeError):
        return
    context = get_current_context()
    base = f"http://{connection.host}:{connection.port}"
    dag, run = (quote(name, safe="") for name in (context["dag"].dag_id, context["run_id"]))
    url = f"{base}/api/v2/dags/{dag}/dagRuns/{run}"
    try:
        login = {"username": connection.login, "password": connection.password}
        token = httpx.post(f"{base}/auth/token", json=login, timeout=10).raise_for_status().json()["access_token"]
        with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=10) as client:
            for _ in range(TRIES):
                wanted = made(_note_of(client.get(url)))
                client.patch(url, json={"note": wanted}).raise_for_status()
                if made(found := _note_of(client.get(url))) == found:
                    return
    except (httpx.HTTPError, KeyError, ValueError) as error:
        log.warning("the run's note could not be written (%s); the counts are in this log", type(error).__name__)


def _note_of(answer: httpx.Response) -> str:
    return str(answer.raise_for_status().json().get("note") or "")


def run_id() -> str:
    """The run's name in the ledger."""
    from airflow.sdk import get_current_context

    context = get_current_context()
    return f"{context['dag'].dag_id}/{context['run_id']}"


def event_of(counts: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """What an asset event says: run, digest of the manifest, and these counts; never a name or a text of a document."""
    told = {"run_id": counts["run_id"], "manifest_sha256": counts["manifest_sha256"]}
    return {**told, **{name: int(counts[name]) for name in names if name in counts}}


def measure(counts: Mapping[str, Any]) -> None:
    """Count documents and chunks: ``corpus_guard.documents.accepted``, ``corpus_guard.chunks.published`` and so on are counters,
    ``corpus_guard.chunks.served`` is a gauge. A task that is run again counts again.
    """
    from airflow.sdk.observability import stats

    for kind, names in (("documents", DOCUMENTS), ("chunks", CHUNKS)):
        for name in names:
            if name == "served" and name in counts:
                stats.gauge(f"corpus_guard.{kind}.{name}", counts[name])
            elif counts.get(name):
                stats.incr(f"corpus_guard.{kind}.{name}", counts[name])


def gauge(name: str, value: int) -> None:
    """One number as it is now: ``corpus_guard.<name>``."""
    from airflow.sdk.observability import stats

    stats.gauge(f"corpus_guard.{name}", value)


def lineage(guard: Guard, sealed: Mapping[str, Any], sources: list[str]) -> None:
    """Name what a refresh read and wrote in an OpenLineage event of the running task: sources in, collections and manifest out.

    Data sets are named as https://openlineage.io/docs/spec/naming asks, so that they meet those of other tools. Where the provider is not
    installed, or not told where to send events, nothing happens.
    """
    try:
        from airflow.providers.openlineage.api import emit_dataset_lineage, is_openlineage_active
    except ImportError:
        return
    if not is_openlineage_active():
        return
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import dataset_version_dataset, datasource_dataset, ownership_dataset

    from corpus_guard.intake.sources.config import read_declarations
    from corpus_guard.intake.sources.declaring import place

    inputs, collections = [], set()
    folder = str(guard.settings.sources_file.parent)
    for config in read_declarations(guard.settings.sources_file):
        if config.name not in sources:
            continue
        url = place(config)
        collections.add(guard.collection(config.trust))
        facets: Any = {
            "dataSource": datasource_dataset.DatasourceDatasetFacet(name=config.name, uri=url or None),
            "ownership": ownership_dataset.OwnershipDatasetFacet(
                owners=[ownership_dataset.Owner(name=config.owner, type="OWNER")]
            ),
        }
        inputs.append(Dataset(*_named(url, folder, config.name), facets=facets))
    version: Any = {
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=sealed["manifest_sha256"])
    }
    outputs = [Dataset(_chroma(guard.settings.chroma_url), name, facets=version) for name in sorted(collections)]
    outputs.append(Dataset(*_named(guard.storage.location(sealed["manifest"]), "", "manifest"), facets=version))
    emit_dataset_lineage(inputs=inputs, outputs=outputs)


def _named(url: str, folder: str, name: str) -> tuple[str, str]:
    """Namespace and name of a place."""
    if not url:
        return "corpus-guard", name
    if "://" not in url:
        return "file", url if url.startswith("/") or not folder else f"{folder}/{url}"
    parts = urlsplit(url)
    if parts.scheme == "file":
        return "file", parts.path
    return f"{parts.scheme}://{parts.netloc}", parts.path.lstrip("/") or "/"


def _chroma(url: str) -> str:
    return f"chroma://{urlsplit(url).netloc.rpartition('@')[2]}"
