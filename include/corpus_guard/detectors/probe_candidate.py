"""Candidate for the activation probe, measured beside the probe in use on the same answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from corpus_guard.detectors import probe_comparison, probe_tracking
from corpus_guard.detectors.candidates import setting_note
from corpus_guard.detectors.probe_prompts import build_prompts
from corpus_guard.domain import JsonRecord
from corpus_guard.errors import Inconsistent, Misuse, NotEnough, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.champion import Detector
from corpus_guard.settings import Settings
from corpus_guard.traceback.activations.champion import find_promoted_probe, save_candidate
from corpus_guard.traceback.activations.probe import Probe
from corpus_guard.traceback.activations.recording import Recordings, collect_recordings
from corpus_guard.traceback.activations.witness import probe_mismatch
from corpus_guard.tracking.model_registry import register_challenger

if TYPE_CHECKING:
    from corpus_guard.batches import Storage

RECORDINGS_PATH: Final = ("evaluation", "activations")  # below the home
CHECKPOINTS_PATH: Final = ("evaluation", "probes")


@dataclass(frozen=True, slots=True)
class ProbeCandidate(JsonRecord):
    """Registered probe, with everything that a person needs to approve it."""

    digest: str
    version: int  # in the model registry
    run: str  # id in MLflow
    kind: str
    trained_on: str
    auc: float  # on unseen questions
    # Of the probe in use, on the same questions; None: no probe in use fits the language model.
    champion_auc: float | None
    counts: bool  # its vote counts beside the judge's
    shortfalls: tuple[str, ...]  # reasons why it does not
    figures: Mapping[str, float]
    better: bool  # than the probe in use
    note: str = ""  # for the approver

    @property
    def summary(self) -> str:
        """Return both figures with counts for the approver, without any text of the questions."""
        in_use = "no probe that could be measured" if self.champion_auc is None else f"one with {self.champion_auc:.3f}"
        counts = "counts" if self.counts else f"is shown and does not count ({'; '.join(self.shortfalls)})"
        return (
            f"A {self.kind} probe. On {self.figures.get('samples', 0):,.0f} answers to {self.figures.get('questions', 0):,.0f} "
            f"questions it never saw: AUC {self.auc:.3f}; its vote {counts} beside the judge's. In use is {in_use}{self.note}"
        )

    def as_dict(self) -> dict[str, object]:
        """Return the candidate for JSON."""
        return {**JsonRecord.as_dict(self), "summary": self.summary}


def train_probe_candidate(
    ledger: Ledger,
    storage: Storage,
    models: Models,
    settings: Settings,
    *,
    epochs: int | None = None,
) -> ProbeCandidate:
    """Record missing answers, train a probe of each kind, and register the best one as the challenger.

    Raises:
        NotEnough: too little to train on, or to measure on.
        Misuse: a file or a row is wrong.
        Inconsistent: a probe trained on random labels does better or worse than chance.
        Infrastructure: MLflow cannot be reached.
    """
    home = settings.home
    prompts = build_prompts(settings.detector_files)
    recordings = collect_recordings(models, prompts, home.joinpath(*RECORDINGS_PATH))
    try:
        comparison = probe_comparison.compare_probes(
            recordings, epochs=epochs, checkpoints=home.joinpath(*CHECKPOINTS_PATH)
        )
    except Misuse as error:  # the files are readable, so they hold too little
        raise NotEnough(f"{Detector.PROBE.value}: {error}") from error
    if comparison.broken:
        raise Inconsistent(
            f"probes trained on random labels score {comparison.random_labels}, expected an AUC near one half: questions of the training "
            "are also in the test, or the recordings are damaged; nothing was promoted"
        )
    probe = comparison.trained[comparison.best].probe
    testing = probe_comparison.split_recordings(recordings)[1]
    try:
        in_use = find_promoted_probe(ledger, storage)
    except (Inconsistent, SettingsError):  # an unusable probe is not in use: traces fail until another is promoted
        in_use = None
    champion_auc = None if in_use is None or probe_mismatch(in_use, models) else _measured_auc(in_use, testing)
    save_candidate(storage, probe)
    params = {"prompts": len(recordings), "champion": in_use.digest[:16] if in_use else ""}
    run = probe_tracking.log_comparison(settings, comparison, testing, params)
    tags = {"digest": probe.digest, "counts": str(not probe.shortfalls)}
    auc = probe.figures["auc"]
    is_other = in_use is not None and in_use.digest != probe.digest
    return ProbeCandidate(
        digest=probe.digest,
        version=register_challenger(settings, Detector.PROBE, run, tags),
        run=run,
        kind=comparison.best,
        trained_on=probe.trained_on,
        auc=auc,
        champion_auc=champion_auc,
        counts=not probe.shortfalls,
        shortfalls=probe.shortfalls,
        figures=probe.figures,
        better=champion_auc is None or (is_other and auc > champion_auc),
        note=setting_note(Detector.PROBE, settings.activation_probe),
    )


def _measured_auc(probe: Probe, testing: Recordings) -> float | None:
    try:
        return probe_comparison.measure_probe(probe, testing).auc
    except SettingsError:  # the same model in another shape: not comparable
        return None
