"""Trainings of probes in MLflow: plots, all figures, and the best probe's two files.

The plots show each network's loss by epoch, t-SNE, and the confusion.

No question, text or answer is logged.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from corpus_guard.detectors.probe_comparison import ProbeComparison
from corpus_guard.detectors.probe_measures import vote_rates
from corpus_guard.detectors.probe_training import TrainedProbe
from corpus_guard.models.champion import Detector
from corpus_guard.settings import Settings
from corpus_guard.traceback.activations.recording import Recordings
from corpus_guard.tracking import plots
from corpus_guard.tracking.mlflow_runs import log_run
from corpus_guard.tracking.model_registry import ARTIFACT_FOLDERS

EXPERIMENT: Final = "corpus-guard/activations"
MAX_PLOTTED_SAMPLES: Final = 1_000


def log_comparison(
    settings: Settings, comparison: ProbeComparison, testing: Recordings, params: Mapping[str, object]
) -> str:
    """Log a comparison and its best probe, and return the run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    best = comparison.trained[comparison.best]
    metrics = dict(best.probe.figures)
    for cell in comparison.cells:
        name = _metric_name(f"{cell.probe}/{cell.trained}/{cell.tested}")
        for votes, rates in (("forced", cell.rates.forced), ("sure", cell.rates.sure)):
            if rates.positives:
                metrics[f"{name}/{votes}_tpr"] = rates.tpr
            if rates.negatives:
                metrics[f"{name}/{votes}_fpr"] = rates.fpr
    metrics |= {f"single_feature/{name}": value for name, value in comparison.features.items()}
    metrics |= {f"random_labels/{name}": value["auc"] for name, value in comparison.random_labels.items()}
    metrics |= {f"milliseconds/{name}": value for name, value in comparison.milliseconds.items()}
    about = {
        "kind": comparison.best,
        "digest": best.probe.digest,
        "model": best.probe.model,
        "prompt": best.probe.prompt,
        "threshold": best.probe.threshold,
        "trained_on": best.probe.trained_on[:480],
        **params,
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-activations-") as name:
        folder = Path(name)
        best.probe.write(folder / ARTIFACT_FOLDERS[Detector.PROBE])
        (folder / "figures.json").write_text(json.dumps(comparison.as_dict(), indent=1), encoding="utf-8")
        _draw_comparison(comparison, testing, folder)
        series = {f"loss/{kind}": losses for kind, losses in _losses(comparison).items()}
        return log_run(settings, EXPERIMENT, params=about, metrics=metrics, artifacts=folder, series=series)


def _draw_comparison(comparison: ProbeComparison, testing: Recordings, folder: Path) -> None:
    labelled = testing.labelled
    plotted = labelled if len(labelled) <= MAX_PLOTTED_SAMPLES else _draw_sample(labelled)
    best = comparison.trained[comparison.best]
    _draw_confusion(best, labelled, folder / "confusion.png")
    _draw_tsne(best, plotted, folder / "tsne.png")
    if _losses(comparison):
        figure, axes = plots.new_figure("Triplet loss, mean of an epoch")
        for kind, losses in _losses(comparison).items():
            axes.plot(range(1, len(losses) + 1), losses, label=kind)
        axes.legend()
        axes.set(xlabel="epoch", ylabel="loss")
        figure.savefig(folder / "loss.png")


def _losses(comparison: ProbeComparison) -> dict[str, tuple[float, ...]]:
    return {kind: trained.losses for kind, trained in comparison.trained.items() if trained.losses}


def _draw_sample(labelled: Recordings) -> Recordings:
    chosen = set(np.random.default_rng(0).permutation(len(labelled))[:MAX_PLOTTED_SAMPLES].tolist())
    samples = {row.sample for number, row in enumerate(labelled.rows) if number in chosen}
    return labelled.select(lambda row: row.sample in samples)


def _draw_confusion(best: TrainedProbe, labelled: Recordings, path: Path) -> None:
    margins, poisoned = best.probe.margins(labelled.states), labelled.poisoned
    sure = vote_rates(margins, poisoned, best.probe.threshold)
    unsure = [int((np.abs(margins[poisoned == label]) <= best.probe.threshold).sum()) for label in (True, False)]
    counts = [
        [sure.detected, sure.positives - sure.detected, unsure[0]],
        [sure.accused, sure.negatives - sure.accused, unsure[1]],
    ]
    figure, axes = plots.new_figure("Answers and the probe's votes")
    axes.grid(False)
    axes.imshow(counts, cmap="Blues")
    for row, values in enumerate(counts):
        for column, value in enumerate(values):
            axes.text(column, row, f"{value:,}", ha="center", va="center", fontsize="x-large")
    axes.set_xticks(range(3), ["poisoned", "clean", "unsure"])
    axes.set_yticks(range(2), ["attacker's", "right"])
    axes.set(xlabel="probe", ylabel="answer")
    figure.savefig(path)


def _draw_tsne(best: TrainedProbe, labelled: Recordings, path: Path) -> None:
    from sklearn.manifold import TSNE

    probe = best.probe
    linear = probe.kind == "linear"
    points = probe.normalise(labelled.states).reshape(len(labelled), -1) if linear else probe.embed(labelled.states)
    figure, axes = plots.new_figure("t-SNE of the " + ("states" if linear else "embeddings"))
    if len(points) > 3:
        placed = TSNE(perplexity=min(30.0, (len(points) - 1) / 3), random_state=0, init="random").fit_transform(points)
        for label, name in ((True, "attacker's answer"), (False, "right answer")):
            chosen = placed[labelled.poisoned == label]
            axes.scatter(chosen[:, 0], chosen[:, 1], s=12, label=f"{name} ({len(chosen):,})")
        axes.legend(fontsize="small")
    figure.savefig(path)


def _metric_name(name: str) -> str:
    """Return a name that MLflow accepts."""
    return "".join(sign if sign.isalnum() or sign in "_-./ " else "_" for sign in name)[:200]
