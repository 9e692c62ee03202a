"""Candidates that may replace a detector in use: measured figures of both, storage and registration.

Rules
    * questions are split by their text (`corpus_guard.detectors.probe_prompts.is_tested`): a question used
      for measuring is never trained on, in this run or an earlier one, and neither are the texts planted for
      it. The detector that comes with the package was trained elsewhere and may have seen it; that favours
      the detector in use, never the candidate;
    * the candidate is measured as it is read back from its file;
    * it is *better* if no figure is worse than that of the detector in use and at least one is better, each
      by half a case or more: both are measured on the same questions, but the number of texts they see may
      differ by one. Finding more poison at the price of accusing more honest texts is not an improvement that
      a schedule should propose.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from corpus_guard.detectors.probe_prompts import is_tested
from corpus_guard.detectors.samples import question_key
from corpus_guard.detectors.target_questions import TargetQuestion, read_targets
from corpus_guard.domain import JsonRecord
from corpus_guard.errors import NotEnough
from corpus_guard.models.champion import SETTING_NAMES, Detector, store_detector
from corpus_guard.settings import Settings
from corpus_guard.tracking import model_registry
from corpus_guard.tracking.measures import CountedShare
from corpus_guard.tracking.mlflow_runs import log_run

if TYPE_CHECKING:
    from corpus_guard.batches import Storage

MIN_TRAINING_QUESTIONS: Final = 8  # fewer are useless for the folds of a cross-validation
MIN_TEST_QUESTIONS: Final = 4
EXPERIMENT: Final = "corpus-guard/detectors"


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One share, of the candidate and of the detector in use."""

    name: str  # in words; with underscores the name of the MLflow metric
    more_is_better: bool
    candidate: CountedShare
    in_use: CountedShare | None  # None: no detector in use can be measured

    @property
    def gain(self) -> float:
        """Return the candidate's improvement, -1..1."""
        in_use = self.in_use.rate if self.in_use else 0.0 if self.more_is_better else 1.0
        return (self.candidate.rate - in_use) * (1 if self.more_is_better else -1)

    @property
    def cases(self) -> float:
        """Return the improvement in cases of the candidate."""
        return self.gain * self.candidate.n

    def __str__(self) -> str:
        """Return both shares with counts."""
        in_use = f", in use {_percent(self.in_use)}" if self.in_use else ""
        return f"{self.name} {_percent(self.candidate)}{in_use}"


@dataclass(frozen=True, slots=True)
class DetectorCandidate(JsonRecord):
    """Registered candidate, with everything that a person needs to approve it."""

    detector: str
    digest: str
    version: int  # in the model registry
    run: str  # id in MLflow
    summary: str  # for the approver: training data, and both figures with counts
    better: bool  # than the detector in use
    figures: Mapping[str, float]


def is_better(figures: Sequence[ComparedFigure]) -> bool:
    """Return whether no figure is worse and one is better, by half a case or more."""
    cases = [figure.cases for figure in figures]
    return min(cases) > -0.5 and max(cases) >= 0.5


def split_questions(
    settings: Settings, detector: Detector, limit: int | None = None
) -> tuple[list[TargetQuestion], list[TargetQuestion]]:
    """Return the questions to train on and those to measure on; only questions with planted and honest texts.

    Raises:
        Misuse: a file cannot be read, or a row is wrong.
        NotEnough: too few questions remain for training or for measuring.
    """
    rows = [target for path in settings.detector_files for target in read_targets(path, limit=limit).targets]
    usable = [target for target in rows if target.adversarial and target.clean and target.correct]
    training = [target for target in usable if not is_tested(question_key(target.question))]
    testing = [target for target in usable if is_tested(question_key(target.question))]
    trained, tested = _count_questions(training), _count_questions(testing)
    if trained < MIN_TRAINING_QUESTIONS or tested < MIN_TEST_QUESTIONS:
        raise NotEnough(
            f"{detector.value}: {trained} questions to train on and {tested} to measure on, of {len(rows)} rows; expected at least "
            f"{MIN_TRAINING_QUESTIONS} and {MIN_TEST_QUESTIONS} with a right answer, adversarial_texts and clean_texts; "
            "add files to CORPUS_GUARD_DETECTOR_QUESTIONS"
        )
    return training, testing


def describe_training(settings: Settings, training: Sequence[TargetQuestion]) -> str:
    """Return a description of the training data, at most 400 characters."""
    names = ", ".join(path.stem for path in settings.detector_files)
    return f"{_count_questions(training)} questions of {names}"[:400]


def register_candidate(
    storage: Storage,
    settings: Settings,
    detector: Detector,
    content: bytes,
    figures: Sequence[ComparedFigure],
    trained_on: str,
    in_use: str,
) -> DetectorCandidate:
    """Store a candidate's file, log all figures in MLflow, and register the candidate as the challenger.

    Args:
        trained_on: training data, in words.
        in_use: the detector in use, in words.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    digest = store_detector(storage, detector, content)
    metrics = {f"candidate/{_metric_name(figure.name)}": figure.candidate.rate for figure in figures}
    metrics |= {f"in_use/{_metric_name(figure.name)}": figure.in_use.rate for figure in figures if figure.in_use}
    params = {"digest": digest, "trained_on": trained_on, "against": in_use[:400]}
    with tempfile.TemporaryDirectory(prefix="corpus-guard-detector-") as name:
        artifacts = Path(name)
        folder = artifacts / model_registry.ARTIFACT_FOLDERS[detector]
        folder.mkdir()
        (folder / f"{detector.value}.json").write_bytes(content)
        shares = {
            figure.name: {
                "candidate": figure.candidate.as_dict(),
                "in_use": figure.in_use.as_dict() if figure.in_use else None,
            }
            for figure in figures
        }
        (artifacts / "figures.json").write_text(json.dumps(shares, indent=1), encoding="utf-8")
        run = log_run(settings, EXPERIMENT, params=params, metrics=metrics, artifacts=artifacts)
    version = model_registry.register_challenger(settings, detector, run, {"digest": digest})
    summary = f"Trained on {trained_on}. On questions it never saw: {'; '.join(map(str, figures))}. In use is {in_use}"
    return DetectorCandidate(detector.value, digest, version, run, summary, is_better(figures), metrics)


def setting_note(detector: Detector, configured: object) -> str:
    """Return a note for the approver if a setting names a file, which then stays in use.

    Otherwise the text is empty.
    """
    return f"; {SETTING_NAMES[detector]} names it, and it stays in use until that is unset" if configured else ""


def _count_questions(targets: Sequence[TargetQuestion]) -> int:
    return len({question_key(target.question) for target in targets})


def _percent(share: CountedShare) -> str:
    return f"{share.rate:.1%} ({share.hits:,} of {share.n:,})"


def _metric_name(name: str) -> str:
    return name.replace(" ", "_").replace(",", "")
