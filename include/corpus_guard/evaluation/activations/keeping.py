"""A training as a run in MLflow: each network's loss by epoch, a t-SNE picture, the confusion, all figures, and the best probe's two files.

No question, text or answer goes there.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from corpus_guard.evaluation import drawing
from corpus_guard.evaluation.activations.experiment import Findings
from corpus_guard.evaluation.activations.measuring import rates
from corpus_guard.evaluation.activations.training import Trained
from corpus_guard.evaluation.detectors.registry import FOLDER
from corpus_guard.evaluation.tracking import log_run
from corpus_guard.models.champion import Detector
from corpus_guard.settings import Settings
from corpus_guard.traceback.activations.recording import Recordings

EXPERIMENT: Final = "corpus-guard/activations"
DRAWN: Final = 1_000  # samples of a picture


def keep(settings: Settings, found: Findings, testing: Recordings, params: Mapping[str, Any]) -> str:
    """Log an evaluation and the best probe that it trained.

    Args:
        settings: whose home holds the runs where no server is named.
        found: the evaluation.
        testing: recordings that were tested on.
        params: what the figures depend on.

    Returns:
        The run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    done = found.trained[found.best]
    metrics = dict(done.probe.figures)
    for cell in found.cells:
        name = _plain(f"{cell.probe}/{cell.trained}/{cell.tested}")
        for how in ("forced", "sure"):
            metrics |= {
                f"{name}/{how}_{rate}": cell.values[how][rate]
                for rate in ("tpr", "fpr")
                if cell.values[how][rate] is not None
            }
    metrics |= {f"single_feature/{name}": value for name, value in found.features.items()}
    metrics |= {f"random_labels/{name}": value["auc"] for name, value in found.random_labels.items()}
    metrics |= {f"milliseconds/{name}": value for name, value in found.milliseconds.items()}
    about = {
        "kind": found.best,
        "digest": done.probe.digest,
        "model": done.probe.model,
        "prompt": done.probe.prompt,
        "threshold": done.probe.threshold,
        "trained_on": done.probe.trained_on[:480],
        **params,
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-activations-") as name:
        folder = Path(name)
        done.probe.write(folder / FOLDER[Detector.PROBE])
        (folder / "figures.json").write_text(json.dumps(found.as_dict(), indent=1), encoding="utf-8")
        draw(found, testing, folder)
        series = {f"loss/{kind}": losses for kind, losses in _losses(found).items()}
        return log_run(settings, EXPERIMENT, params=about, metrics=metrics, artifacts=folder, series=series)


def draw(found: Findings, testing: Recordings, folder: Path) -> list[Path]:
    """Draw the best probe's ``confusion.png`` and ``tsne.png``, and the networks' ``loss.png`` where there is one, into `folder`."""
    labelled = testing.labelled
    kept = labelled.where(lambda row: True) if len(labelled) <= DRAWN else _some(labelled)
    done = found.trained[found.best]
    drawn = [_confusion(done, labelled, folder / "confusion.png"), _places(done, kept, folder / "tsne.png")]
    if _losses(found):
        figure, axes = drawing.axes("Triplet loss, mean of an epoch")
        for kind, losses in _losses(found).items():
            axes.plot(range(1, len(losses) + 1), losses, label=kind)
        axes.legend()
        axes.set(xlabel="epoch", ylabel="loss")
        figure.savefig(folder / "loss.png")
        drawn.append(folder / "loss.png")
    return drawn


def _losses(found: Findings) -> dict[str, tuple[float, ...]]:
    return {kind: done.losses for kind, done in found.trained.items() if done.losses}


def _some(labelled: Recordings) -> Recordings:
    chosen = set(np.random.default_rng(0).permutation(len(labelled))[:DRAWN].tolist())
    samples = {row.sample for number, row in enumerate(labelled.rows) if number in chosen}
    return labelled.where(lambda row: row.sample in samples)


def _confusion(done: Trained, labelled: Recordings, path: Path) -> Path:
    margins, poisoned = done.probe.margins(labelled.states), labelled.poisoned
    sure = rates(margins, poisoned, done.probe.threshold)
    unsure = [int((np.abs(margins[poisoned == label]) <= done.probe.threshold).sum()) for label in (True, False)]
    counts = [
        [sure.found, sure.positives - sure.found, unsure[0]],
        [sure.accused, sure.negatives - sure.accused, unsure[1]],
    ]
    figure, axes = drawing.axes("What was answered, and what the probe says")
    axes.grid(False)
    axes.imshow(counts, cmap="Blues")
    for row, values in enumerate(counts):
        for column, value in enumerate(values):
            axes.text(column, row, f"{value:,}", ha="center", va="center", fontsize="x-large")
    axes.set_xticks(range(3), ["poisoned", "clean", "unsure"])
    axes.set_yticks(range(2), ["attacker's", "right"])
    axes.set(xlabel="probe", ylabel="answer")
    figure.savefig(path)
    return path


def _places(done: Trained, labelled: Recordings, path: Path) -> Path:
    from sklearn.manifold import TSNE

    probe = done.probe
    linear = probe.kind == "linear"
    points = probe.seen(labelled.states).reshape(len(labelled), -1) if linear else probe.embedded(labelled.states)
    figure, axes = drawing.axes("t-SNE of the " + ("states" if linear else "embeddings"))
    if len(points) > 3:
        placed = TSNE(perplexity=min(30.0, (len(points) - 1) / 3), random_state=0, init="random").fit_transform(points)
        for label, name in ((True, "attacker's answer"), (False, "right answer")):
            chosen = placed[labelled.poisoned == label]
            axes.scatter(chosen[:, 0], chosen[:, 1], s=12, label=f"{name} ({len(chosen):,})")
        axes.legend(fontsize="small")
    figure.savefig(path)
    return path


def _plain(name: str) -> str:
    """A name that MLflow takes."""
    return "".join(sign if sign.isalnum() or sign in "_-./ " else "_" for sign in name)[:200]
