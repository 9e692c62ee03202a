"""Candidate for the activation probe, measured beside the probe in use on the same answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from corpus_guard.detectors import probe_comparison, probe_tracking
from corpus_guard.detectors.candidates import DetectorCandidate, setting_note
from corpus_guard.detectors.probe_prompts import build_prompts
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


def train_probe_candidate(
    ledger: Ledger,
    storage: Storage,
    models: Models,
    settings: Settings,
    *,
    epochs: int | None = None,
) -> DetectorCandidate:
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
    auc_in_use = None if in_use is None or probe_mismatch(in_use, models) else _measured_auc(in_use, testing)
    save_candidate(storage, probe)
    params = {"prompts": len(recordings), "champion": in_use.digest[:16] if in_use else ""}
    run = probe_tracking.log_comparison(settings, comparison, testing, params)
    tags = {"digest": probe.digest, "counts": str(not probe.shortfalls)}
    auc, is_other = probe.figures["auc"], in_use is not None and in_use.digest != probe.digest
    return DetectorCandidate(
        detector=Detector.PROBE.value,
        digest=probe.digest,
        version=register_challenger(settings, Detector.PROBE, run, tags),
        run=run,
        summary=_summarise(comparison.best, probe, auc_in_use)
        + setting_note(Detector.PROBE, settings.activation_probe),
        better=auc_in_use is None or (is_other and auc > auc_in_use),
        figures={**probe.figures, **({} if auc_in_use is None else {"in_use/auc": auc_in_use})},
    )


def _summarise(kind: str, probe: Probe, auc_in_use: float | None) -> str:
    """Return both figures with counts for the approver, without any text of the questions."""
    figures, shortfalls = probe.figures, "; ".join(probe.shortfalls)
    in_use = "no probe that could be measured" if auc_in_use is None else f"one with {auc_in_use:.3f}"
    counts = f"is shown and does not count ({shortfalls})" if shortfalls else "counts"
    return (
        f"A {kind} probe. On {figures.get('samples', 0):,.0f} answers to {figures.get('questions', 0):,.0f} questions it "
        f"never saw: AUC {figures['auc']:.3f}; its vote {counts} beside the judge's. In use is {in_use}"
    )


def _measured_auc(probe: Probe, testing: Recordings) -> float | None:
    try:
        return probe_comparison.measure_probe(probe, testing).auc
    except SettingsError:  # the same model in another shape: not comparable
        return None
