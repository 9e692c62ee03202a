"""A probe that may replace the one in use: trained, measured beside it on the same answers, kept and registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from corpus_guard.errors import Inconsistent, Misuse, NotEnough, SettingsError
from corpus_guard.evaluation.activations import experiment, keeping
from corpus_guard.evaluation.activations.material import prompts_of
from corpus_guard.evaluation.activations.measuring import auc
from corpus_guard.evaluation.detectors import registry
from corpus_guard.evaluation.detectors.candidate import named_by
from corpus_guard.models.champion import Detector
from corpus_guard.traceback.activations.champion import champion, keep_candidate
from corpus_guard.traceback.activations.recording import collect
from corpus_guard.traceback.activations.witness import fits

if TYPE_CHECKING:
    from corpus_guard.guard import Guard
    from corpus_guard.traceback.activations.probe import Probe
    from corpus_guard.traceback.activations.recording import Recordings

RECORDINGS: Final = ("evaluation", "activations")  # below the home
CHECKPOINTS: Final = ("evaluation", "probes")


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a promotion is decided on. JSON-ready."""

    digest: str
    version: int  # in the registry
    run: str  # in MLflow
    kind: str
    trained_on: str
    auc: float  # on questions it never saw
    champion_auc: float | None  # of the probe in use, on the same; None: there is none, or it knows another model
    counts: bool  # its word counts beside the judge's
    shortfalls: tuple[str, ...]
    figures: Mapping[str, float]
    better: bool  # than what is in use
    aside: str = ""  # what else whoever decides must know

    @property
    def told(self) -> str:
        """To whoever decides: both figures with counts; nothing that a row of the questions says."""
        against = (
            "no probe that could be measured" if self.champion_auc is None else f"one with {self.champion_auc:.3f}"
        )
        counts = "counts" if self.counts else f"is shown and does not count ({'; '.join(self.shortfalls)})"
        return (
            f"A {self.kind} probe. On {self.figures.get('samples', 0):,.0f} answers to "
            f"{self.figures.get('questions', 0):,.0f} questions it never saw: AUC {self.auc:.3f}; its word {counts} beside the judge. "
            f"In use is {against}{self.aside}"
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "shortfalls": list(self.shortfalls), "figures": dict(self.figures), "told": self.told}


def prepare(guard: Guard, *, limit: int | None = None, epochs: int | None = None) -> Candidate:
    """Collect what is missing, train each kind, keep the best one, and register it as the challenger.

    Args:
        guard: the deployment; `Settings.detector_files` are the questions.
        limit: questions of a file, at most.
        epochs: of the network.

    Raises:
        NotEnough: the questions leave too little to train on, or to measure on.
        Misuse: a file or a row is wrong.
        Inconsistent: a probe trained on random labels scores.
        Infrastructure: MLflow cannot be reached.
    """
    home = guard.settings.home
    prompts = prompts_of(guard.settings.detector_files, limit=limit)
    read = collect(guard.models, prompts, home.joinpath(*RECORDINGS))
    try:
        found = experiment.evaluate(read, epochs=epochs, checkpoints=home.joinpath(*CHECKPOINTS))
    except Misuse as error:  # the files were read: what is wrong now is how much they hold
        raise NotEnough(f"{Detector.PROBE.value}: {error}") from error
    if found.broken:
        raise Inconsistent(
            f"probes trained on random labels score {found.random_labels}, expected an AUC near one half: questions of the training stand "
            "among those of the test, or the recordings are damaged; nothing was promoted"
        )
    probe = found.trained[found.best].probe
    testing = experiment.halves(read)[1]
    try:
        current = champion(guard.ledger, guard.storage)
    except (
        Inconsistent,
        SettingsError,
    ):  # what cannot be used is not in use: its traces fail until another is promoted
        current = None
    theirs = None if current is None or fits(current, guard.models) else _auc(current, testing)
    keep_candidate(guard.storage, probe)
    params = {"prompts": len(read), "champion": current.digest[:16] if current else ""}
    run = keeping.keep(guard.settings, found, testing, params)
    version = registry.register(
        guard.settings, Detector.PROBE, run, {"digest": probe.digest, "counts": str(not probe.shortfalls)}
    )
    own = probe.figures["auc"]
    better = theirs is None or (current is not None and current.digest != probe.digest and own > theirs)
    return Candidate(
        probe.digest,
        version,
        run,
        found.best,
        probe.trained_on,
        own,
        theirs,
        not probe.shortfalls,
        probe.shortfalls,
        probe.figures,
        better,
        named_by(Detector.PROBE, guard.settings.activation_probe),
    )


def _auc(probe: Probe, testing: Recordings) -> float | None:
    labelled = testing.labelled
    try:
        found = auc(probe.margins(labelled.states), labelled.poisoned)
    except SettingsError:  # the same model in another shape: nothing to compare with
        return None
    return None if np.isnan(found) else found
