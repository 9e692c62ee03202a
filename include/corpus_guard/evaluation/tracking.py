"""Experiments in MLflow: on the server that ``MLFLOW_TRACKING_URI`` names, else in a SQLite file below the guard's home."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpus_guard.errors import Infrastructure
from corpus_guard.settings import Settings

METRICS_AT_ONCE = 1_000  # what MLflow takes in one request
# Before mlflow is imported: nothing is reported to its makers, no pickle is read, a dead server is given up on in seconds.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
}


def tracking_uri(settings: Settings) -> str:
    """Where runs are kept."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{settings.home / 'mlflow' / 'mlflow.db'}"


def log_run(
    settings: Settings,
    experiment: str,
    *,
    params: Mapping[str, Any],
    metrics: Mapping[str, float],
    artifacts: Path,
    series: Mapping[str, Sequence[float]] | None = None,
) -> str:
    """Keep one finished evaluation.

    Args:
        settings: whose home holds the runs where no server is named.
        experiment: made where it is missing, e.g. ``corpus-guard/screening``.
        params: what the figures depend on.
        metrics: name → value.
        artifacts: a folder, kept whole.
        series: name → values of the steps 1, 2, …, such as the loss of each epoch.

    Returns:
        The run's id.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses the run.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param
    from mlflow.exceptions import MlflowException

    uri = tracking_uri(settings)
    local = None
    if uri.startswith("sqlite:"):
        home = settings.home / "mlflow"
        home.mkdir(parents=True, exist_ok=True)
        local = (home / "artifacts").as_uri()
    try:
        client = MlflowClient(uri)
        found = client.get_experiment_by_name(experiment)
        number = found.experiment_id if found else client.create_experiment(experiment, artifact_location=local)
        run = str(client.create_run(number).info.run_id)
        when = time.time_ns() // 1_000_000
        values = [Metric(name, value, when, 0) for name, value in metrics.items()]
        for name, curve in (series or {}).items():
            values += [Metric(name, value, when, step) for step, value in enumerate(curve, 1)]
        client.log_batch(run, params=[Param(name, str(value)) for name, value in params.items()])
        for start in range(0, len(values), METRICS_AT_ONCE):
            client.log_batch(run, metrics=values[start : start + METRICS_AT_ONCE])
        client.log_artifacts(run, str(artifacts))
        client.set_terminated(run)
    except (MlflowException, OSError) as error:
        raise Infrastructure(
            f"MLflow at {_without_password(uri)}: {type(error).__name__}; see that it runs, or pass --no-mlflow"
        ) from error
    return run


def client_of(settings: Settings) -> Any:
    """A client of the tracking server and registry, quiet; raises what mlflow raises."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    uri = tracking_uri(settings)
    if uri.startswith("sqlite:"):
        (settings.home / "mlflow").mkdir(parents=True, exist_ok=True)
    return MlflowClient(uri, registry_uri=uri)


def _without_password(uri: str) -> str:
    before, at, after = uri.rpartition("@")
    return f"{before.partition('//')[0]}//***@{after}" if at else uri
