"""A detector of one file that may replace the one in use: what was measured of both, kept and registered.

Rules
    * questions are split by what they ask (`corpus_guard.evaluation.activations.material.is_tested`): a question that is measured on is
      never trained on, in this run or an earlier one, and neither are texts planted for it. The detector that comes with the package
      was trained elsewhere and may have seen it; that speaks for the one in use, never for the candidate;
    * the candidate is measured as it is read back from its file;
    * it is *better* where no figure is worse than that of the one in use, and at least one is better, each by half a case or more: both are
      measured on the same questions and may be shown one text more or less. A trade of more poison found for more honest texts accused is
      no progress that a schedule should offer.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corpus_guard.errors import NotEnough
from corpus_guard.evaluation.activations.material import is_tested
from corpus_guard.evaluation.detectors import registry
from corpus_guard.evaluation.samples import normal
from corpus_guard.evaluation.traceback.figures import Share
from corpus_guard.evaluation.traceback.targets import Target, read_targets
from corpus_guard.evaluation.tracking import log_run
from corpus_guard.models.champion import SETTING, Detector, keep

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

FEWEST_TRAINED: Final = 8  # questions; fewer teach the folds of a cross-validation nothing
FEWEST_TESTED: Final = 4
EXPERIMENT: Final = "corpus-guard/detectors"


@dataclass(frozen=True, slots=True)
class Figure:
    """One share, of the candidate and of the one in use."""

    name: str  # in words
    more_is_better: bool
    own: Share
    theirs: Share | None  # None: nothing that is in use can be measured

    @property
    def gain(self) -> float:
        """How much better the candidate's is, -1..1."""
        theirs = self.theirs.rate if self.theirs else 0.0 if self.more_is_better else 1.0
        return (self.own.rate - theirs) * (1 if self.more_is_better else -1)

    @property
    def cases(self) -> float:
        """The same, in cases of the candidate's."""
        return self.gain * self.own.n

    def __str__(self) -> str:
        """Both, with counts."""
        return f"{self.name} {_told(self.own)}" + (f", in use {_told(self.theirs)}" if self.theirs else "")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a promotion is decided on. JSON-ready."""

    detector: str
    digest: str
    version: int  # in the registry
    run: str  # in MLflow
    told: str  # to whoever decides: what it was trained on, both figures with counts
    better: bool  # than what is in use
    figures: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "figures": dict(self.figures)}


def better(figures: Sequence[Figure]) -> bool:
    """No figure is worse, and one is better, by half a case or more."""
    cases = [one.cases for one in figures]
    return min(cases) > -0.5 and max(cases) >= 0.5


def questions(guard: Guard, detector: Detector, limit: int | None = None) -> tuple[list[Target], list[Target]]:
    """What is trained on, and what is measured on; only questions with planted and honest texts.

    Raises:
        Misuse: a file cannot be read, or a row is none.
        NotEnough: too few questions are left on a side.
    """
    read = [one for path in guard.settings.detector_files for one in read_targets(path, limit=limit).targets]
    usable = [one for one in read if one.adversarial and one.clean and one.correct]
    training = [one for one in usable if not is_tested(normal(one.question))]
    testing = [one for one in usable if is_tested(normal(one.question))]
    if len(_keys(training)) < FEWEST_TRAINED or len(_keys(testing)) < FEWEST_TESTED:
        raise NotEnough(
            f"{detector.value}: {len(_keys(training))} questions to train on and {len(_keys(testing))} to measure on, of {len(read)} rows; "
            f"expected at least {FEWEST_TRAINED} and {FEWEST_TESTED} with a right answer, adversarial_texts and clean_texts: add files to "
            "CORPUS_GUARD_DETECTOR_QUESTIONS"
        )
    return training, testing


def described(guard: Guard, training: Sequence[Target]) -> str:
    """What a candidate was trained on, in words."""
    names = ", ".join(path.stem for path in guard.settings.detector_files)
    return f"{len(_keys(training))} questions of {names}"[:400]


def offer(
    guard: Guard, detector: Detector, content: bytes, figures: Sequence[Figure], trained_on: str, against: str
) -> Candidate:
    """Keep a candidate's file, log both figures in MLflow, and register it as the challenger.

    Args:
        guard: the deployment.
        detector: which.
        content: the file that was measured.
        figures: of the candidate and the one in use.
        trained_on: in words.
        against: what is in use, in words.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    digest = keep(guard.storage, detector, content)
    metrics = {f"candidate/{_plain(one.name)}": one.own.rate for one in figures}
    metrics |= {f"in_use/{_plain(one.name)}": one.theirs.rate for one in figures if one.theirs}
    params = {"digest": digest, "trained_on": trained_on, "against": against[:400]}
    with tempfile.TemporaryDirectory(prefix="corpus-guard-detector-") as name:
        folder = Path(name)
        (folder / registry.FOLDER[detector]).mkdir()
        (folder / registry.FOLDER[detector] / f"{detector.value}.json").write_bytes(content)
        told = {
            one.name: {"candidate": one.own.as_dict(), "in_use": one.theirs.as_dict() if one.theirs else None}
            for one in figures
        }
        (folder / "figures.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
        run = log_run(guard.settings, EXPERIMENT, params=params, metrics=metrics, artifacts=folder)
    version = registry.register(guard.settings, detector, run, {"digest": digest})
    text = f"Trained on {trained_on}. On questions it never saw: {'; '.join(map(str, figures))}. In use is {against}"
    return Candidate(detector.value, digest, version, run, text, better(figures), metrics)


def named_by(detector: Detector, named: object) -> str:
    """What an approval must say where a setting names a file; empty where none does."""
    return f"; {SETTING[detector]} names it, and it stays in use until that is unset" if named else ""


def _keys(targets: Sequence[Target]) -> set[str]:
    return {normal(one.question) for one in targets}


def _told(share: Share) -> str:
    return f"{share.rate:.1%} ({share.hits:,} of {share.n:,})"


def _plain(name: str) -> str:
    return name.replace(" ", "_").replace(",", "")
