"""Trained detectors in MLflow's model registry, without pickle.

A version is a folder of a run with the detector's own files; nothing of it is ever loaded through MLflow. The
alias *challenger* marks the version that was trained last, *champion* the one that was promoted. The registry
only shows this: whether a detector is in use is decided by the guard's own ledger
(`corpus_guard.models.champion`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corpus_guard.models.champion import Detector
from corpus_guard.settings import Settings
from corpus_guard.tracking.mlflow_runs import mlflow_client, mlflow_errors

MODEL_NAMES: Final = {
    Detector.PROBE: "corpus-guard-activation-probe",
    Detector.JUDGE: "corpus-guard-judge",
    Detector.FILTER: "corpus-guard-retrieval-filter",
}
MODEL_DESCRIPTIONS: Final = {
    Detector.PROBE: "Detects poisoned answers from a model's activations (RevPRAG).",
    Detector.JUDGE: "Decides whether a retrieved text led to a reported answer (RAGForensics).",
    Detector.FILTER: "Drops poisoned texts from what is retrieved (ML-FilterRAG).",
}
CHAMPION_ALIAS: Final = "champion"
CHALLENGER_ALIAS: Final = "challenger"
# Below the run's artifacts.
ARTIFACT_FOLDERS: Final = {
    Detector.PROBE: "probe",
    Detector.JUDGE: "judge",
    Detector.FILTER: "filter",
}
_UNREACHABLE: Final = ("MLflow's model registry", "check that it runs, then run again")


def register_challenger(settings: Settings, detector: Detector, run_id: str, tags: Mapping[str, str]) -> int:
    """Register the files of a run as a new version, mark it as the challenger, and return its number.

    Args:
        detector: its files lie in the run's folder `ARTIFACT_FOLDERS`.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses the version.
    """
    model = MODEL_NAMES[detector]
    with mlflow_errors(*_UNREACHABLE):
        client = mlflow_client(settings)
        if not client.search_registered_models(f"name = '{model}'"):
            client.create_registered_model(model, description=MODEL_DESCRIPTIONS[detector])
        source = f"{client.get_run(run_id).info.artifact_uri}/{ARTIFACT_FOLDERS[detector]}"
        version = int(client.create_model_version(model, source, run_id=run_id, tags=dict(tags)).version)
        client.set_registered_model_alias(model, CHALLENGER_ALIAS, str(version))
    return version


def set_champion_alias(settings: Settings, detector: Detector, version: int) -> None:
    """Mark a version as the champion.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses the alias.
    """
    with mlflow_errors(*_UNREACHABLE):
        mlflow_client(settings).set_registered_model_alias(MODEL_NAMES[detector], CHAMPION_ALIAS, str(version))
