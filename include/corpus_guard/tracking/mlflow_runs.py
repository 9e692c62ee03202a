"""Runs in MLflow, on the server that ``MLFLOW_TRACKING_URI`` names.

The default is a SQLite file below the guard's home.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from corpus_guard.errors import Infrastructure
from corpus_guard.settings import Settings
from corpus_guard.traceback.importers.mlflow_traces import quieten_mlflow, tracking_uri, without_password

if TYPE_CHECKING:
    from mlflow import MlflowClient

METRICS_PER_REQUEST = 1_000  # MLflow's limit


def log_run(
    settings: Settings,
    experiment: str,
    *,
    params: Mapping[str, object],
    metrics: Mapping[str, float],
    artifacts: Path,
    series: Mapping[str, Sequence[float]] | None = None,
    tags: Mapping[str, str] | None = None,
    name: str | None = None,
    note: str = "",
) -> str:
    """Log one finished evaluation, and return the run's id.

    Args:
        experiment: created if missing, e.g. ``corpus-guard/screening``.
        artifacts: a folder that is stored as a whole.
        series: name → values of the steps 1, 2, …, such as the loss of each epoch.
        name: what the list of runs shows; None: a made-up one of MLflow's.
        note: Markdown that the page of the run shows first, such as a link to the review pages; "": none.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses the run.
    """
    uri = tracking_uri(settings)
    local = (settings.home / "mlflow" / "artifacts").as_uri() if uri.startswith("sqlite:") else None
    with mlflow_errors(
        f"MLflow at {without_password(uri)}", "check that it runs; a command goes on without it with --no-mlflow"
    ):
        from mlflow.entities import Metric, Param

        client = mlflow_client(settings)
        existing = client.get_experiment_by_name(experiment)
        experiment_id = (
            existing.experiment_id if existing else client.create_experiment(experiment, artifact_location=local)
        )
        all_tags = {**(tags or {}), **({"mlflow.note.content": note} if note else {})}
        run_id = str(client.create_run(experiment_id, tags=all_tags, run_name=name).info.run_id)
        timestamp = time.time_ns() // 1_000_000
        values = [Metric(metric, value, timestamp, 0) for metric, value in metrics.items()]
        for metric, curve in (series or {}).items():
            values += [Metric(metric, value, timestamp, step) for step, value in enumerate(curve, 1)]
        try:
            client.log_batch(run_id, params=[Param(param, str(value)) for param, value in params.items()])
            for start in range(0, len(values), METRICS_PER_REQUEST):
                client.log_batch(run_id, metrics=values[start : start + METRICS_PER_REQUEST])
            client.log_artifacts(run_id, str(artifacts))
        except BaseException:
            with contextlib.suppress(Exception):  # it may be MLflow itself that fails
                client.set_terminated(run_id, "FAILED")
            raise
        client.set_terminated(run_id)
    return run_id


@contextlib.contextmanager
def mlflow_errors(subject: str, advice: str) -> Iterator[None]:
    """Turn what mlflow raises into `Infrastructure`."""
    quieten_mlflow()
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:  # its text may quote what was logged
        raise Infrastructure(f"{subject}: {error.error_code}; {advice}") from error
    except OSError as error:
        raise Infrastructure(f"{subject}: {type(error).__name__}; {advice}") from error


def mlflow_client(settings: Settings) -> MlflowClient:
    """Return a quiet client of the tracking server and the model registry; raises what mlflow raises."""
    quieten_mlflow()
    from mlflow import MlflowClient

    uri = tracking_uri(settings)
    if uri.startswith("sqlite:"):
        (settings.home / "mlflow").mkdir(parents=True, exist_ok=True)
    return MlflowClient(uri, registry_uri=uri)
