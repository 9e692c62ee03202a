"""Probes in MLflow's registry: each a version of `corpus-guard-activation-probe` with its run's artifacts, and no pickle anywhere.

A version is the folder with ``probe.json`` and ``probe.safetensors``; nothing of it is ever loaded through MLflow. The alias *challenger*
is the one that was trained last, *champion* the one that was promoted. The registry shows what is so; that a probe is asked follows from
the guard's own ledger (`corpus_guard.traceback.activations.champion`).
"""

from __future__ import annotations

from typing import Any, Final

from corpus_guard.errors import Infrastructure
from corpus_guard.evaluation.tracking import client_of
from corpus_guard.settings import Settings

MODEL: Final = "corpus-guard-activation-probe"
CHAMPION: Final = "champion"
CHALLENGER: Final = "challenger"
FOLDER: Final = "probe"  # below the run's artifacts


def register(settings: Settings, run: str, tags: dict[str, str]) -> int:
    """Make a version of what a run holds under ``probe/``, and the challenger of it.

    Args:
        settings: whose MLflow.
        run: id of the run.
        tags: of the version, such as the probe's digest.

    Returns:
        The version's number.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses it.
    """
    from mlflow.exceptions import MlflowException

    try:
        client = client_of(settings)
        if not client.search_registered_models(f"name = '{MODEL}'"):
            client.create_registered_model(
                MODEL, description="What sees poisoned answers in a model's activations (RevPRAG)."
            )
        source = f"{client.get_run(run).info.artifact_uri}/{FOLDER}"
        version = int(client.create_model_version(MODEL, source, run_id=run, tags=tags).version)
        client.set_registered_model_alias(MODEL, CHALLENGER, str(version))
    except (MlflowException, OSError) as error:
        raise _refused(error) from error
    return version


def crown(settings: Settings, version: int) -> None:
    """Make a version the champion.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses it.
    """
    from mlflow.exceptions import MlflowException

    try:
        client_of(settings).set_registered_model_alias(MODEL, CHAMPION, str(version))
    except (MlflowException, OSError) as error:
        raise _refused(error) from error


def _refused(error: Any) -> Infrastructure:
    return Infrastructure(f"MLflow's registry: {type(error).__name__}; see that it runs, then run again")
