"""Training a probe on recorded states.

Rules
    * nothing is calibrated on what it was trained on: a network on the fifth of the questions that was held back from it; a linear probe,
      which costs little, on margins from outside: each fifth by one that was trained on the other four. A question is in one fifth only;
    * every batch holds as many of one class as of the other; within it every anchor meets every positive and every negative, and the
      triplets that are not yet apart by the margin are learned from;
    * after each epoch a checkpoint is written: numbers in safetensors, where it stands in JSON. A training that was killed goes on from
      it, and ends where it would have ended;
    * the same recordings, settings and seed give the same probe.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.activations.measuring import border, calibrated, figures
from corpus_guard.traceback.activations import _network
from corpus_guard.traceback.activations.probe import UNSURE, Probe
from corpus_guard.traceback.activations.recording import Recordings, checked

Progress = Callable[[str, int, int | None], object]

EPOCHS: Final = 25
BATCH: Final = 32
RATE: Final = 1e-3
DECAY: Final = 1e-2
APART: Final = 0.5  # of embeddings of length one, at most 2 apart
SUPPORT: Final = 100
HELD_BACK: Final = 5  # one question in so many calibrates
FEWEST: Final = 8  # samples of each class
RIDGE: Final = (
    1e-4  # far more units than samples: held less, it learns look-alikes by heart; held more, it loses the paper's task
)
FLAT: Final = 1e-3  # a unit that deviates less is taken to deviate so much


@dataclass(frozen=True, slots=True)
class Plan:
    """How a probe is trained."""

    kind: str = "cnn"  # one of `probe.TENSORS`
    seed: int = 0
    epochs: int = EPOCHS
    width: int = _network.WIDTH
    support: int = SUPPORT  # labelled samples that others are compared to, both classes together


@dataclass(frozen=True)
class Trained:
    """A probe and how it came about."""

    probe: Probe
    losses: tuple[float, ...]  # mean of each epoch; of a linear probe none


def train(
    given: Recordings,
    plan: Plan = Plan(),
    *,
    trained_on: str = "",
    checkpoints: Path | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Trained:
    """Train a probe and calibrate it.

    Args:
        given: recordings; those whose answer is neither are left out.
        plan: how.
        trained_on: what they are, in words.
        checkpoints: folder of the checkpoint; None: none is kept.
        progress: told of every epoch.

    Returns:
        The probe; its figures are those on the questions it was calibrated on until others are put in their place.

    Raises:
        Misuse: there is one class only, or hardly anything to learn from.
        JudgeFailed: a state holds something that is no number.
    """
    labelled = given.labelled
    if len(labelled):
        checked(labelled.states, "recorded states")
    learned, calibration = parts(labelled, plan.seed)
    poisoned = learned.poisoned
    if min(poisoned.sum(), (~poisoned).sum()) < FEWEST:
        raise Misuse(
            f"training data: {int(poisoned.sum())} attacker's and {int((~poisoned).sum())} right answers of {len(labelled)} recordings "
            f"that are either; expected at least {FEWEST} of each outside of the fifth that calibrates: collect from more questions"
        )
    if plan.kind == "linear":
        return Trained(_crossed(labelled, plan.seed, trained_on), ())
    blank = _blank(learned, trained_on)
    weight = {"weight": _weights(blank.seen(learned.states), poisoned)} if plan.kind == "weighed" else {}
    probe = replace(blank, kind=plan.kind, width=plan.width, tensors={**blank.tensors, **weight})
    kept = checkpoints / f"{_identity(learned, plan)[:24]}" if checkpoints else None
    network, losses = _triplets(probe.seen(learned.states), poisoned, plan, kept, progress)
    numbers = {f"net.{name}": value.numpy().astype(np.float32) for name, value in network.state_dict().items()}
    probe = replace(probe, tensors={**probe.tensors, **numbers})
    return Trained(supported(probe, learned, calibration, plan.support, plan.seed), tuple(losses))


def supported(probe: Probe, learned: Recordings, calibration: Recordings, size: int, seed: int) -> Probe:
    """A network's probe with a support set, calibrated.

    Args:
        probe: whose network is used.
        learned: samples that the support set is drawn from.
        calibration: samples of questions the network never saw.
        size: of the support set.
        seed: of the draw.

    Raises:
        Misuse: `size` leaves a class without any.
    """
    chosen = support_of(learned.poisoned, size, seed)
    support = {
        "support": probe.embedded(learned.states[chosen]),
        "poisoned": learned.poisoned[chosen].astype(np.float32),
    }
    found = replace(probe, centre=0.0, threshold=UNSURE, tensors={**probe.tensors, **support})
    return _calibrated(found, found.margins(calibration.states), calibration) if len(calibration) else found


def parts(given: Recordings, seed: int) -> tuple[Recordings, Recordings]:
    """Of what is given, what a network learns from and what it is calibrated on."""
    labelled = given.labelled
    folds = _folds(labelled, seed)
    return labelled.where(lambda row: folds[row.key] != 0), labelled.where(lambda row: folds[row.key] == 0)


def _crossed(labelled: Recordings, seed: int, trained_on: str) -> Probe:
    folds = _folds(labelled, seed)
    blank = _blank(labelled, trained_on)
    normalised = blank.seen(labelled.states)
    fold = np.array([folds[row.key] for row in labelled.rows])
    poisoned = labelled.poisoned
    outside = np.zeros(len(labelled))
    for number in range(HELD_BACK):
        rest = fold != number
        if poisoned[rest].all() or not poisoned[rest].any():
            raise Misuse(
                f"training data: four fifths of {len(folds)} questions hold one class only; expected attacker's and right answers: "
                "collect from more questions"
            )
        if not rest.all():
            part = replace(blank, tensors={**blank.tensors, **_linear(normalised[rest], poisoned[rest])})
            outside[~rest] = part.margins(labelled.states[~rest])
    probe = replace(blank, tensors={**blank.tensors, **_linear(normalised, poisoned)})
    return _calibrated(probe, outside, labelled)


def _calibrated(probe: Probe, margins: NDArray[np.float64], calibration: Recordings) -> Probe:
    """With the border, the threshold and the figures that margins of samples it did not learn from give."""
    probe = replace(probe, centre=border(margins, calibration.poisoned))
    margins = probe.centred(margins)
    probe = replace(probe, threshold=calibrated(margins, calibration.poisoned))
    return replace(probe, figures=figures(margins, calibration, probe.threshold))


def _blank(given: Recordings, trained_on: str) -> Probe:
    """A linear probe that normalises by what is given, and weighs nothing yet."""
    mean, scale = given.states.mean(axis=0), np.maximum(given.states.std(axis=0), FLAT)
    layers, hidden = mean.shape
    tensors = {"mean": mean, "scale": scale}
    return Probe("linear", given.model, given.prompt, (layers, hidden), UNSURE, trained_on, {}, tensors=tensors)


def _folds(labelled: Recordings, seed: int) -> dict[str, int]:
    """Question → one of `HELD_BACK` parts."""
    return {key: number % HELD_BACK for number, key in enumerate(_shuffled({row.key for row in labelled.rows}, seed))}


def support_of(poisoned: NDArray[np.bool_], size: int, seed: int) -> NDArray[np.int64]:
    """Which samples others are compared to: half of each class, where there are so many; drawn by `seed`.

    Raises:
        Misuse: `size` leaves a class without any.
    """
    draw = np.random.default_rng(seed)
    sides = [draw.permutation(np.flatnonzero(poisoned == label))[: size // 2] for label in (True, False)]
    if not all(len(side) for side in sides):
        raise Misuse(
            f"support set: {size} samples asked for, {len(sides[0])} poisoned and {len(sides[1])} clean found; expected some of each"
        )
    return np.sort(np.concatenate(sides))


def _linear(normalised: NDArray[np.float32], poisoned: NDArray[np.bool_]) -> dict[str, NDArray[np.float32]]:
    from sklearn.linear_model import LogisticRegression

    flat = normalised.reshape(len(normalised), -1)
    model = LogisticRegression(C=RIDGE, max_iter=2_000, class_weight="balanced").fit(flat, poisoned)
    return {
        "weight": model.coef_[0].reshape(normalised.shape[1:]).astype(np.float32),
        "intercept": model.intercept_.astype(np.float32),
    }


def _weights(normalised: NDArray[np.float32], poisoned: NDArray[np.bool_]) -> NDArray[np.float32]:
    """What a linear probe weighs the units with, one in the mean square: the network sees values as large as unweighed ones."""
    weight = _linear(normalised, poisoned)["weight"]
    return np.asarray(weight / max(float(np.sqrt((weight**2).mean())), 1e-12), np.float32)


def _triplets(
    normalised: NDArray[np.float32], poisoned: NDArray[np.bool_], plan: Plan, kept: Path | None, progress: Progress
) -> tuple[Any, list[float]]:
    import torch

    network = _network.build(plan.width, plan.seed)
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    steps = max(1, len(normalised) // BATCH)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, plan.epochs * steps)
    losses = _resumed(kept, network, optimiser, rate) if kept else []
    network.train()
    data, labels = torch.from_numpy(normalised), torch.from_numpy(poisoned)
    for epoch in range(len(losses), plan.epochs):
        progress("training", epoch, plan.epochs)
        total = 0.0
        for chosen in _batches(poisoned, steps, plan.seed * 10_007 + epoch):
            loss = triplet_loss(_network.embed(network, data[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            rate.step()
            total += float(loss.detach())
        losses.append(total / steps)
        if kept:
            _keep(kept, network, optimiser, rate, losses)
    _settle(network, data)
    return network.eval(), losses


def _settle(network: Any, data: Any) -> None:
    """Let the batch norms see every sample once: after few steps their running averages still remember where they began."""
    import torch

    norms = [module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # a plain average
    with torch.inference_mode():
        for start in range(0, len(data), 2 * BATCH):
            if len(data) - start > 1:
                _network.embed(network, data[start : start + 2 * BATCH])


def triplet_loss(embedded: Any, poisoned: Any, apart: float = APART) -> Any:
    """The mean of ``max(d(a, p) - d(a, n) + apart, 0)`` over the triplets of a batch that are not zero yet (equation 2 of the paper).

    Args:
        embedded: [batch, units], of length one.
        poisoned: [batch], bool.
        apart: how much nearer a positive must be than a negative.
    """
    import torch

    squared = (embedded[:, None] - embedded[None]).pow(2).sum(-1)
    distance = (squared + 1e-9).sqrt()  # the root has no gradient at zero
    same = poisoned[:, None] == poisoned[None]
    other = ~torch.eye(len(embedded), dtype=torch.bool)
    wanted = (same & other)[:, :, None] & ~same[:, None, :]
    gaps = (distance[:, :, None] - distance[:, None, :] + apart).clamp(min=0) * wanted
    return gaps.sum() / (gaps > 0).sum().clamp(min=1)


def _batches(poisoned: NDArray[np.bool_], steps: int, seed: int) -> list[NDArray[np.int64]]:
    """Half of each class a batch; the smaller class comes around again."""
    draw = np.random.default_rng(seed)
    sides = []
    for label in (True, False):
        of_class = np.flatnonzero(poisoned == label)
        wanted = steps * BATCH // 2
        rounds = [draw.permutation(of_class) for _ in range(-(-wanted // len(of_class)))]
        sides.append(np.concatenate(rounds)[:wanted].reshape(steps, -1))
    return list(np.concatenate(sides, axis=1))


def _identity(learned: Recordings, plan: Plan) -> str:
    about = [learned.model, learned.prompt, plan.kind, plan.seed, plan.epochs, plan.width]
    samples = [[row.sample, row.answered] for row in learned.rows]
    return hashlib.sha256(orjson.dumps([about, samples])).hexdigest()


def _keep(folder: Path, network: Any, optimiser: Any, rate: Any, losses: Sequence[float]) -> None:
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


def _resumed(folder: Path, network: Any, optimiser: Any, rate: Any) -> list[float]:
    """Put a checkpoint's state back; its losses, none where there is no checkpoint."""
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
    moments: dict[int, dict[str, Any]] = {}
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
    found = sorted(keys)
    random.Random(f"held back {seed}").shuffle(found)  # noqa: S311 - a split, no secret
    return found
