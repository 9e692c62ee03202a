"""What the Airflow tasks of `detector_training` call: train a detector, compare it with the one in use, promote what was approved."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from corpus_guard.airflow_runs import note_line, run_id
from corpus_guard.airflow_tasks import APPROVE, answered_by

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

log = logging.getLogger(__name__)

Name = Literal["judge", "filter", "probe"]


def train_detector(name: Name) -> dict[str, Any]:
    """Train, measure and register a candidate.

    Returns:
        What a person is asked about: ``told``, ``digest``, ``version``, ``run``; empty where nothing is trained, or where it is no better
        than what is in use.

    Raises:
        Misuse: a file of questions cannot be read, or a row is wrong.
        Inconsistent: of a probe: one that was trained on random labels scores; nothing it says can be believed.
        Infrastructure: MLflow or Chroma cannot be reached; run again, what was read and trained is kept.
    """
    from corpus_guard.errors import NotEnough
    from corpus_guard.guard import Guard

    with Guard() as guard:
        if not guard.settings.detector_files:
            note_line(name, "not trained: set CORPUS_GUARD_DETECTOR_QUESTIONS")
            return {}
        try:
            found = _prepare(name, guard)
        except NotEnough as error:
            note_line(name, f"not trained: {str(error).partition(': ')[2]}")  # the line begins with its subject
            return {}
    asked = "somebody is asked" if found["better"] else "it is no better than what is in use, so nobody is asked"
    log.info("%s", found)
    note_line(name, f"{asked}. {found['told']}")
    return found if found["better"] else {}


def promote_detector(name: Name, planned: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    """Promote what was approved, in the name of whoever approved it; a refusal leaves everything as it is.

    Raises:
        Inconsistent: the candidate's files are not what was measured.
        Infrastructure: MLflow cannot be reached; run again, the promotion is written once.
    """
    from corpus_guard.evaluation.detectors.candidate import named_by
    from corpus_guard.evaluation.detectors.registry import crown
    from corpus_guard.guard import Guard
    from corpus_guard.models.champion import Detector, promote, read
    from corpus_guard.traceback.activations import champion

    by = answered_by(answer)
    digest, version = str(planned["digest"]), int(planned["version"])
    if list(answer.get("chosen_options") or ()) != [APPROVE]:
        note_line(name, f"{digest[:16]} was not promoted: refused by {by}")
        return
    told = {"run_id": run_id(), "by": by, "version": version, "run": planned["run"]}
    with Guard() as guard:
        detector = Detector.PROBE if name == "probe" else Detector(name)
        if detector is Detector.PROBE:
            champion.promote(guard.ledger, guard.storage, digest, **told)
        else:
            read(guard.storage, detector, digest)
            promote(guard.ledger, detector, digest, **told)
        crown(guard.settings, detector, version)
        named = {
            Detector.PROBE: guard.settings.activation_probe,
            Detector.JUDGE: guard.settings.judge_model,
            Detector.FILTER: guard.settings.filter_model,
        }
    hidden = named_by(detector, named[detector])
    note_line(
        name, f"{digest[:16]}, version {version}, is {'promoted' if hidden else 'in use'}: approved by {by}{hidden}"
    )


def _prepare(name: Name, guard: Guard) -> dict[str, Any]:
    if name == "judge":
        from corpus_guard.evaluation.detectors import judge

        return judge.prepare(guard).as_dict()
    if name == "filter":
        from corpus_guard.evaluation.detectors import filtering

        return filtering.prepare(guard).as_dict()
    from corpus_guard.evaluation.activations import candidate

    return candidate.prepare(guard).as_dict()
