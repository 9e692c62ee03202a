"""Detectors in MLflow's registry: each a version of its model with its run's artifacts, and no pickle anywhere.

A version is a folder of a run with the detector's own files; nothing of it is ever loaded through MLflow. The alias *challenger* is the one
that was trained last, *champion* the one that was promoted. The registry shows what is so; that a detector is used follows from the
guard's own ledger (`corpus_guard.models.champion`).
"""

from __future__ import annotations

from typing import Any, Final

from corpus_guard.errors import Infrastructure
from corpus_guard.evaluation.tracking import client_of
from corpus_guard.models.champion import Detector
from corpus_guard.settings import Settings

MODEL: Final = {
    Detector.PROBE: "corpus-guard-activation-probe",
    Detector.JUDGE: "corpus-guard-judge",
    Detector.FILTER: "corpus-guard-retrieval-filter",
}
ABOUT: Final = {
    Detector.PROBE: "What sees poisoned answers in a model's activations (RevPRAG).",
    Detector.JUDGE: "What says of a retrieved text whether it led to a reported answer (RAGForensics).",
    Detector.FILTER: "What drops poisoned texts from what is retrieved (ML-FilterRAG).",
}
CHAMPION: Final = "champion"
CHALLENGER: Final = "challenger"
FOLDER: Final = {
    Detector.PROBE: "probe",
    Detector.JUDGE: "judge",
    Detector.FILTER: "filter",
}  # below the run's artifacts


def register(settings: Settings, detector: Detector, run: str, tags: dict[str, str]) -> int:
    """Make a version of the files that a run holds, and the challenger of it.

    Args:
        settings: whose MLflow.
        detector: which; its files lie in the run's `FOLDER`.
        run: id of the run.
        tags: of the version, such as the detector's digest.

    Returns:
        The version's number.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses it.
    """
    from mlflow.exceptions import MlflowException

    model = MODEL[detector]
    try:
        client = client_of(settings)
        if not client.search_registered_models(f"name = '{model}'"):
            client.create_registered_model(model, description=ABOUT[detector])
        source = f"{client.get_run(run).info.artifact_uri}/{FOLDER[detector]}"
        version = int(client.create_model_version(model, source, run_id=run, tags=tags).version)
        client.set_registered_model_alias(model, CHALLENGER, str(version))
    except (MlflowException, OSError) as error:
        raise _refused(error) from error
    return version


def crown(settings: Settings, detector: Detector, version: int) -> None:
    """Make a version the champion.

    Raises:
        Infrastructure: MLflow cannot be reached or refuses it.
    """
    from mlflow.exceptions import MlflowException

    try:
        client_of(settings).set_registered_model_alias(MODEL[detector], CHAMPION, str(version))
    except (MlflowException, OSError) as error:
        raise _refused(error) from error


def _refused(error: Any) -> Infrastructure:
    return Infrastructure(f"MLflow's registry: {type(error).__name__}; see that it runs, then run again")
