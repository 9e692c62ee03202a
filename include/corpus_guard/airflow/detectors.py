"""Task functions of `detector_training`: train a detector, compare it with the champion, promote what was approved."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal

from corpus_guard.airflow.context import HumanAnswer, current_run_id, is_approved, responder_name
from corpus_guard.airflow.run_notes import write_note_line

if TYPE_CHECKING:
    from corpus_guard.deployment import Deployment

log = logging.getLogger(__name__)

DetectorName = Literal["judge", "filter", "probe"]


def train_detector(name: DetectorName) -> dict[str, Any]:
    """Train, measure and register a candidate.

    Returns:
        The proposal for a person (``summary``, ``digest``, ``version``, ``run``); empty if nothing was trained, or if the candidate is
        not better than the champion.

    Raises:
        Misuse: a file of questions cannot be read, or a row is wrong.
        Inconsistent: a probe trained on random labels scores; no probe of this run can be trusted.
        Infrastructure: MLflow or the vector store does not answer; run again, finished readings and trainings are reused.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.errors import NotEnough

    with Deployment() as deployment:
        if not deployment.settings.detector_files:
            write_note_line(name, "not trained: set CORPUS_GUARD_DETECTOR_QUESTIONS")
            return {}
        try:
            candidate = _train(name, deployment)
        except NotEnough as error:
            write_note_line(name, f"not trained: {str(error).partition(': ')[2]}")  # the line begins with the subject
            return {}
    log.info("%s", candidate)
    verdict = "waiting for approval" if candidate["better"] else "no better than the champion, so not proposed"
    write_note_line(name, f"{verdict}. {candidate['summary']}")
    return candidate if candidate["better"] else {}


def promote_detector(name: DetectorName, candidate: dict[str, Any], answer: HumanAnswer) -> None:
    """Promote what was approved, in the name of the approver; a refusal changes nothing.

    Raises:
        Inconsistent: the candidate's files are not the measured ones.
        Infrastructure: MLflow does not answer; run again, a promotion is recorded once.
    """
    from corpus_guard.deployment import Deployment
    from corpus_guard.detectors.candidates import setting_note
    from corpus_guard.models.champion import Detector, configured_file, promote, read_detector
    from corpus_guard.traceback.activations import champion
    from corpus_guard.tracking.model_registry import set_champion_alias

    approver = responder_name(answer)
    digest, version = str(candidate["digest"]), int(candidate["version"])
    if not is_approved(answer):
        write_note_line(name, f"{digest[:16]} was not promoted: refused by {approver}")
        return
    details = {"run_id": current_run_id(), "by": approver, "version": version, "run": candidate["run"]}
    with Deployment() as deployment:
        ledger, storage, settings = deployment.ledger, deployment.storage, deployment.settings
        detector = Detector.PROBE if name == "probe" else Detector(name)
        if detector is Detector.PROBE:
            champion.promote_probe(ledger, storage, digest, **details)
        else:
            read_detector(storage, detector, digest)
            promote(ledger, detector, digest, **details)
        set_champion_alias(settings, detector, version)
    override = setting_note(detector, configured_file(settings, detector))
    status = "promoted" if override else "in use"
    write_note_line(name, f"{digest[:16]}, version {version}, is {status}: approved by {approver}{override}")


def _train(name: DetectorName, deployment: Deployment) -> dict[str, Any]:
    parts = (deployment.ledger, deployment.storage, deployment.models, deployment.settings)
    if name == "judge":
        from corpus_guard.detectors.judge_candidate import train_judge_candidate

        return train_judge_candidate(*parts).as_dict()
    if name == "filter":
        from corpus_guard.detectors.filter_candidate import train_filter_candidate

        return train_filter_candidate(*parts).as_dict()
    from corpus_guard.detectors.probe_candidate import train_probe_candidate

    return train_probe_candidate(*parts).as_dict()
