"""Training of a probe on recorded states.

Rules
    * no probe is calibrated on its training data: a network is calibrated on the fifth of the questions that
      was held back from it; a linear probe, which costs little, on out-of-fold margins: each fifth by a probe
      that was trained on the other four. A question is in one fifth only;
    * every batch holds equally many samples of both classes; within it every anchor is compared with every
      positive and every negative, and the triplets that are closer than the margin contribute to the loss;
    * after each epoch a checkpoint is written: tensors in safetensors, the position in JSON. A killed
      training is resumed from it, with the same result;
    * the same recordings, settings and seed give the same probe.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.detectors.probe_measures import best_border, calibrate_threshold, margin_figures
from corpus_guard.domain import Progress, no_progress, sha256_bytes
from corpus_guard.errors import Misuse
from corpus_guard.traceback.activations import network as probe_network
from corpus_guard.traceback.activations.probe import NEVER_SURE, Probe
from corpus_guard.traceback.activations.recording import Recordings, require_finite

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

EPOCHS: Final = 25
SAMPLES_PER_BATCH: Final = 32
LEARNING_RATE: Final = 1e-3
WEIGHT_DECAY: Final = 1e-2
MARGIN: Final = 0.5  # between embeddings of length one, which are at most 2 apart
SUPPORT_SAMPLES: Final = 100
FOLDS: Final = 5  # one of them calibrates
MIN_SAMPLES_PER_CLASS: Final = 8
# There are far more units than samples: with weaker regularisation the probe memorises look-alikes, with
# stronger regularisation it fails at the paper's task.
REGULARISATION: Final = 1e-4  # C of scikit-learn, the inverse strength
MIN_DEVIATION: Final = 1e-3  # of a unit; smaller deviations are raised to it


@dataclass(frozen=True, slots=True)
class ProbeTrainingPlan:
    """Settings of a training."""

    kind: str = "cnn"  # a key of `probe.TENSOR_NAMES`
    seed: int = 0
    epochs: int = EPOCHS
    width: int = probe_network.WIDTH
    support: int = SUPPORT_SAMPLES  # labelled samples of both classes that others are compared to


@dataclass(frozen=True)
class TrainedProbe:
    """Probe with the losses of its training."""

    probe: Probe
    losses: tuple[float, ...]  # mean of each epoch; none for a linear probe
    calibration: Mapping[str, float]  # its figures on the calibration fifth, from margins of questions not learned from


def train_probe(
    recordings: Recordings,
    plan: ProbeTrainingPlan = ProbeTrainingPlan(),
    *,
    trained_on: str = "",
    checkpoints: Path | None = None,
    progress: Progress = no_progress,
) -> TrainedProbe:
    """Train a probe and calibrate it; its figures are those on the calibration data.

    Args:
        recordings: training data; recordings that are neither right nor the attacker's are left out.
        checkpoints: folder of the checkpoint; None: no checkpoint is written.

    Raises:
        Misuse: there is one class only, or too little to learn from.
        JudgeFailed: a state contains NaN or infinity.
    """
    labelled = recordings.labelled
    if len(labelled):
        require_finite(labelled.states, "recorded states")
    learned, calibration = split_for_calibration(labelled, plan.seed)
    poisoned = learned.poisoned
    if min(poisoned.sum(), (~poisoned).sum()) < MIN_SAMPLES_PER_CLASS:
        raise Misuse(
            f"training data: {int(poisoned.sum())} attacker's and {int((~poisoned).sum())} right answers of {len(labelled)} labelled "
            f"recordings; expected at least {MIN_SAMPLES_PER_CLASS} of each outside the calibration fifth: collect from more questions"
        )
    if plan.kind == "linear":
        return _train_linear(labelled, plan.seed, trained_on)
    blank = _untrained_probe(learned, trained_on)
    weight = {"weight": _unit_weights(blank.normalise(learned.states), poisoned)} if plan.kind == "weighed" else {}
    probe = replace(blank, kind=plan.kind, width=plan.width, tensors={**blank.tensors, **weight})
    checkpoint = checkpoints / f"{_training_digest(learned, plan)[:24]}" if checkpoints else None
    network, losses = _train_network(probe.normalise(learned.states), poisoned, plan, checkpoint, progress)
    tensors = {f"net.{name}": value.numpy().astype(np.float32) for name, value in network.state_dict().items()}
    probe = replace(probe, tensors={**probe.tensors, **tensors})
    supported = add_support_set(probe, learned, calibration, plan.support, plan.seed)
    return TrainedProbe(supported, tuple(losses), supported.figures)


def add_support_set(probe: Probe, learned: Recordings, calibration: Recordings, size: int, seed: int) -> Probe:
    """Return a network's probe with a support set, calibrated.

    Args:
        learned: samples that the support set is drawn from.
        calibration: samples of questions that the network never saw.

    Raises:
        Misuse: `size` leaves a class without samples.
    """
    chosen = draw_support(learned.poisoned, size, seed)
    support = {"support": probe.embed(learned.states[chosen]), "poisoned": learned.poisoned[chosen].astype(np.float32)}
    supported = replace(probe, centre=0.0, threshold=NEVER_SURE, tensors={**probe.tensors, **support})
    if not len(calibration):
        return supported
    return _calibrate(supported, supported.margins(calibration.states), calibration)


def split_for_calibration(recordings: Recordings, seed: int) -> tuple[Recordings, Recordings]:
    """Split recordings into those that a network learns from and those that calibrate it."""
    labelled = recordings.labelled
    folds = _folds(labelled, seed)
    return labelled.select(lambda row: folds[row.key] != 0), labelled.select(lambda row: folds[row.key] == 0)


def _train_linear(labelled: Recordings, seed: int, trained_on: str) -> TrainedProbe:
    folds = _folds(labelled, seed)
    blank = _untrained_probe(labelled, trained_on)
    normalised = blank.normalise(labelled.states)
    fold = np.array([folds[row.key] for row in labelled.rows])
    poisoned = labelled.poisoned
    outside = np.zeros(len(labelled))
    for number in range(FOLDS):
        rest = fold != number
        if poisoned[rest].all() or not poisoned[rest].any():
            raise Misuse(
                f"training data: four fifths of {len(folds)} questions hold one class only; expected attacker's and right answers: "
                "collect from more questions"
            )
        if not rest.all():
            part = replace(blank, tensors={**blank.tensors, **_fit_linear(normalised[rest], poisoned[rest])})
            outside[~rest] = part.margins(labelled.states[~rest])
    probe = replace(blank, tensors={**blank.tensors, **_fit_linear(normalised, poisoned)})
    calibrated = _calibrate(probe, outside, labelled)
    # A network is calibrated on fold 0 alone: kinds are compared on the same questions.
    margins = calibrated.centre_margins(outside[fold == 0])
    fifth = labelled.select(lambda row: folds[row.key] == 0)
    return TrainedProbe(calibrated, (), margin_figures(margins, fifth, calibrated.threshold))


def _calibrate(probe: Probe, margins: NDArray[np.float64], calibration: Recordings) -> Probe:
    """Return the probe with border, threshold and figures.

    They come from margins of samples that the probe did not learn from.
    """
    probe = replace(probe, centre=best_border(margins, calibration.poisoned))
    margins = probe.centre_margins(margins)
    probe = replace(probe, threshold=calibrate_threshold(margins, calibration.poisoned))
    return replace(probe, figures=margin_figures(margins, calibration, probe.threshold))


def _untrained_probe(recordings: Recordings, trained_on: str) -> Probe:
    """Return a linear probe that normalises by the mean and deviation of the recordings, without weights."""
    mean, scale = recordings.states.mean(axis=0), np.maximum(recordings.states.std(axis=0), MIN_DEVIATION)
    layers, hidden = mean.shape
    tensors = {"mean": mean, "scale": scale}
    return Probe(
        "linear", recordings.model, recordings.prompt, (layers, hidden), NEVER_SURE, trained_on, {}, tensors=tensors
    )


def _folds(labelled: Recordings, seed: int) -> dict[str, int]:
    """Assign each question to one of `FOLDS` folds."""
    return {key: number % FOLDS for number, key in enumerate(_shuffled({row.key for row in labelled.rows}, seed))}


def draw_support(poisoned: NDArray[np.bool_], size: int, seed: int) -> NDArray[np.int64]:
    """Draw the indices of the support set: half of each class, or fewer if a class has fewer samples.

    Args:
        poisoned: the class of each sample, shape [n].
        size: of the support set, both classes together.

    Raises:
        Misuse: `size` leaves a class without samples.
    """
    draw = np.random.default_rng(seed)
    sides = [draw.permutation(np.flatnonzero(poisoned == label))[: size // 2] for label in (True, False)]
    if not all(len(side) for side in sides):
        raise Misuse(
            f"support set: a size of {size} gives {len(sides[0])} poisoned and {len(sides[1])} clean samples; expected some of each"
        )
    return np.sort(np.concatenate(sides))


def _fit_linear(normalised: NDArray[np.float32], poisoned: NDArray[np.bool_]) -> dict[str, NDArray[np.float32]]:
    from sklearn.linear_model import LogisticRegression

    flat = normalised.reshape(len(normalised), -1)
    model = LogisticRegression(C=REGULARISATION, max_iter=2_000, class_weight="balanced").fit(flat, poisoned)
    return {
        "weight": model.coef_[0].reshape(normalised.shape[1:]).astype(np.float32),
        "intercept": model.intercept_.astype(np.float32),
    }


def _unit_weights(normalised: NDArray[np.float32], poisoned: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return a linear probe's weights of the units, scaled to a mean square of one.

    So weighed values are as large as unweighed ones.
    """
    weight = _fit_linear(normalised, poisoned)["weight"]
    return np.asarray(weight / max(float(np.sqrt((weight**2).mean())), 1e-12), np.float32)


def _train_network(
    normalised: NDArray[np.float32],
    poisoned: NDArray[np.bool_],
    plan: ProbeTrainingPlan,
    checkpoint: Path | None,
    progress: Progress,
) -> tuple[Module, list[float]]:
    import torch

    network = probe_network.build_network(plan.width, plan.seed)
    optimiser = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    steps = max(1, len(normalised) // SAMPLES_PER_BATCH)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, plan.epochs * steps)
    losses = _resume_checkpoint(checkpoint, network, optimiser, rate) if checkpoint else []
    network.train()
    data, labels = torch.from_numpy(normalised), torch.from_numpy(poisoned)
    for epoch in range(len(losses), plan.epochs):
        progress("training", epoch, plan.epochs)
        total = 0.0
        for chosen in _batches(poisoned, steps, plan.seed * 10_007 + epoch):
            loss = triplet_loss(probe_network.embed_states(network, data[chosen]), labels[chosen])
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            rate.step()
            total += float(loss.detach())
        losses.append(total / steps)
        if checkpoint:
            _write_checkpoint(checkpoint, network, optimiser, rate, losses)
    _reset_batch_norms(network, data)
    return network.eval(), losses


def _reset_batch_norms(network: Module, data: Tensor) -> None:
    """Recompute the batch norms' statistics from every sample.

    After few steps their running averages still depend on the start.
    """
    import torch

    norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average
    with torch.inference_mode():
        for start in range(0, len(data), 2 * SAMPLES_PER_BATCH):
            if len(data) - start > 1:
                probe_network.embed_states(network, data[start : start + 2 * SAMPLES_PER_BATCH])


def triplet_loss(embedded: Tensor, poisoned: Tensor, margin: float = MARGIN) -> Tensor:
    """Return the triplet loss of a batch (equation 2 of the paper).

    It is the mean of ``max(d(a, p) - d(a, n) + margin, 0)`` over the triplets above zero.

    Args:
        embedded: shape [batch, units], rows of length one.
        margin: how much nearer a positive must be than a negative.
    """
    import torch

    squared = (embedded[:, None] - embedded[None]).pow(2).sum(-1)
    distance = (squared + 1e-9).sqrt()  # the root has no gradient at zero
    same = poisoned[:, None] == poisoned[None]
    other = ~torch.eye(len(embedded), dtype=torch.bool)
    is_triplet = (same & other)[:, :, None] & ~same[:, None, :]
    gaps = (distance[:, :, None] - distance[:, None, :] + margin).clamp(min=0) * is_triplet
    return gaps.sum() / (gaps > 0).sum().clamp(min=1)


def _batches(poisoned: NDArray[np.bool_], steps: int, seed: int) -> list[NDArray[np.int64]]:
    """Return the indices of each batch, half of each class; samples of the smaller class are repeated."""
    draw = np.random.default_rng(seed)
    sides = []
    for label in (True, False):
        of_class = np.flatnonzero(poisoned == label)
        needed = steps * SAMPLES_PER_BATCH // 2
        rounds = [draw.permutation(of_class) for _ in range(-(-needed // len(of_class)))]
        sides.append(np.concatenate(rounds)[:needed].reshape(steps, -1))
    return list(np.concatenate(sides, axis=1))


def _training_digest(learned: Recordings, plan: ProbeTrainingPlan) -> str:
    about = [learned.model, learned.prompt, plan.kind, plan.seed, plan.epochs, plan.width]
    samples = [[row.sample, row.answered] for row in learned.rows]
    return sha256_bytes(orjson.dumps([about, samples]))


def _write_checkpoint(
    folder: Path, network: Module, optimiser: Optimizer, rate: LRScheduler, losses: Sequence[float]
) -> None:
    from safetensors.torch import save

    state = {f"net.{name}": value for name, value in network.state_dict().items()}
    for number, moments in optimiser.state_dict()["state"].items():
        state |= {f"optimiser.{number}.{name}": value for name, value in moments.items()}
    about = {"losses": list(losses), "step": rate.last_epoch, "rates": rate.get_last_lr()}
    folder.mkdir(parents=True, exist_ok=True)
    data = save({name: value.contiguous() for name, value in state.items()}, {"about": orjson.dumps(about).decode()})
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        file.write(data)
    Path(file.name).replace(folder / "checkpoint.safetensors")


def _resume_checkpoint(folder: Path, network: Module, optimiser: Optimizer, rate: LRScheduler) -> list[float]:
    """Restore a checkpoint's state and return its losses; none if there is no checkpoint."""
    from safetensors import safe_open

    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return []
    with safe_open(path, "pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        about = orjson.loads(file.metadata()["about"])
    network.load_state_dict(
        {name.removeprefix("net."): value for name, value in state.items() if name.startswith("net.")}
    )
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in state.items():
        part, _, rest = name.partition(".")
        if part == "optimiser":
            number, _, what = rest.partition(".")
            moments.setdefault(int(number), {})[what] = value
    optimiser.load_state_dict({"state": moments, "param_groups": optimiser.state_dict()["param_groups"]})
    rate.last_epoch = about["step"]
    rate._step_count = about["step"] + 1
    rate._last_lr = about["rates"]
    for group, value in zip(optimiser.param_groups, about["rates"], strict=True):
        group["lr"] = value
    return list(about["losses"])


def _shuffled(keys: set[str], seed: int) -> list[str]:
    ordered = sorted(keys)
    random.Random(f"held back {seed}").shuffle(ordered)  # noqa: S311 - a split, no secret
    return ordered
