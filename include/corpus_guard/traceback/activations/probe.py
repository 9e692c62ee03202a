"""The probe: is an answer's state more like those of attacker's answers, or of right ones?

Three kinds, read and asked in the same way:

* ``cnn``, the paper's: states are normalised by the training set, embedded by a triplet network, and take the label of the nearest of a
  *support set* of labelled samples. The margin is ``(c - p) / (c + p)``, with ``p`` and ``c`` the distances to the nearest poisoned and
  the nearest clean one: 1 is surely poisoned, -1 surely clean;
* ``linear``: a logistic regression over the same normalised states; the margin is ``2 P(poisoned) - 1``;
* ``weighed``: the paper's network over what each normalised unit adds to the linear probe's sum. Hidden units stand in no order: a network
  that looks at neighbours and pools over places cannot tell them from each other, and learns little from some hundred samples; weighed,
  what speaks for poison is positive wherever it stands.

Rules
    * both classes are never recorded equally often or equally far from each other, so that nothing makes zero the border between them:
      margins are counted from the border that calibration found (`Probe.centre`), and still end at -1 and 1;
    * a margin within the calibrated threshold is *unsure*; so is everything where calibration found no threshold that holds;
    * a probe knows one language model and one wording of the prompt; states of another are an error, not a guess;
    * whether its word *counts* beside the judge's is written in its file: only where its figures, measured on questions it never saw,
      passed the floor (`FLOOR`). Otherwise it is asked, shown, and changes nothing;
    * a file is two: ``probe.json`` (everything a person reads) and ``probe.safetensors`` (numbers only), tied by a SHA-256. Reading them
      runs nothing.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.errors import GuardError, Misuse, SettingsError
from corpus_guard.traceback.activations import _network
from corpus_guard.traceback.activations.recording import checked

NUMBERS: Final = "probe.safetensors"
ABOUT: Final = "probe.json"
FORMAT: Final = "corpus-guard/activation-probe/2"
FLOOR: Final = {"tpr": 0.90, "fpr": 0.05, "fpr_look_alike": 0.10, "samples": 40.0}
"""What a probe's own figures must reach for its word to count: attacker's answers found, right answers accused, right answers from texts
that are written as attacks are accused (each among those it is sure of), and samples measured on."""
UNSURE: Final = 1.0  # a threshold no margin is over
TENSORS: Final = {
    "linear": {"mean", "scale", "weight", "intercept"},
    "weighed": {"mean", "scale", "weight", "support", "poisoned"},
    "cnn": {"mean", "scale", "support", "poisoned"},
}
"""Kind → what it holds beside a network's own numbers."""


class Vote(StrEnum):
    """What a probe says of an answer."""

    POISONED = "poisoned"
    CLEAN = "clean"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Probe:
    """A trained probe."""

    kind: str  # one of `TENSORS`
    model: str  # digest of the language model it knows
    prompt: str  # version of the wording it knows
    shape: tuple[int, int]  # layers + 1, hidden
    threshold: float  # a margin must be farther from zero; 1: never sure
    trained_on: str  # in words
    figures: Mapping[str, float]  # measured on questions it never saw
    width: int = 0  # of a network
    tensors: Mapping[str, NDArray[np.float32]] = field(repr=False, default_factory=dict)
    centre: float = 0.0  # where margins are counted from; over -1, under 1

    def margins(self, states: NDArray[np.float32]) -> NDArray[np.float64]:
        """How surely each state is of an attacker's answer, -1..1, shape [n].

        Args:
            states: [n, layers + 1, hidden].

        Raises:
            SettingsError: another shape than the probe's.
            JudgeFailed: a state holds something that is no number.
        """
        if states.ndim != 3 or states.shape[1:] != self.shape:
            raise SettingsError(
                f"activation probe: states of shape {tuple(states.shape[1:])} (layers, hidden), expected {self.shape}: the language model "
                "is another one than the probe's; train one for it with `guard train activations`"
            )
        if not len(states):
            return np.empty(0)
        checked(states, "states to be probed")
        if self.kind == "linear":
            logit = np.tensordot(self.seen(states), self.tensors["weight"], axes=2) + self.tensors["intercept"][0]
            found = np.tanh(np.asarray(logit, np.float64) / 2)  # 2 * sigmoid - 1
        else:
            found = nearest(self.embedded(states), self.tensors["support"], self.tensors["poisoned"] > 0.5)
        return self.centred(found)

    def centred(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Margins counted from zero, counted from the centre instead; they end at -1 and 1 as before."""
        return (margins - self.centre) / (1 - np.sign(margins - self.centre) * self.centre)

    def embedded(self, states: NDArray[np.float32], batch: int = 64) -> NDArray[np.float32]:
        """Where its network puts states, shape [n, 8 x width]."""
        import torch

        with torch.inference_mode():
            parts = [
                _network.embed(self._net, torch.from_numpy(self.seen(states[start : start + batch]))).numpy()
                for start in range(0, len(states), batch)
            ]
        return np.concatenate(parts)

    def seen(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """States as the regression or the network is shown them: normalised (equation 1 of the paper) and, of that kind, weighed."""
        normalised = np.asarray((states - self.tensors["mean"]) / self.tensors["scale"], np.float32)
        return normalised * self.tensors["weight"] if self.kind == "weighed" else normalised

    def votes(self, states: NDArray[np.float32]) -> list[Vote]:
        """What it says of each state."""
        return [self.vote(float(margin)) for margin in self.margins(states)]

    def vote(self, margin: float) -> Vote:
        """What a margin amounts to."""
        if not abs(margin) > self.threshold:  # also a margin that is no number
            return Vote.UNSURE
        return Vote.POISONED if margin > 0 else Vote.CLEAN

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Why its word does not count; none: it does."""
        least = [
            f"{name} {self.figures.get(name, 0):.3f} is under {FLOOR[name]:g}"
            for name in ("tpr", "samples")
            if not self.figures.get(name, 0) >= FLOOR[name]
        ]
        most = [
            f"{name} {self.figures.get(name, 1):.3f} is over {FLOOR[name]:g}"
            for name in ("fpr", "fpr_look_alike")
            if not self.figures.get(name, 1) <= FLOOR[name]
        ]
        return (*least, *most, *(["it is never sure"] if self.threshold >= UNSURE else []))

    @cached_property
    def _net(self) -> Any:
        import torch

        network = _network.build(self.width)
        state = {
            name.removeprefix("net."): torch.from_numpy(value)
            for name, value in self.tensors.items()
            if name.startswith("net.")
        }
        wanted = network.state_dict()
        network.load_state_dict({name: value.to(wanted[name].dtype) for name, value in state.items()})
        return network.eval()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ``probe.json``, which holds that of the numbers."""
        return hashlib.sha256(self._about()).hexdigest()

    def _about(self) -> bytes:
        about = {
            "format": FORMAT,
            "kind": self.kind,
            "model": self.model,
            "prompt": self.prompt,
            "shape": list(self.shape),
            "threshold": round(self.threshold, 6),
            "centre": round(self.centre, 6),
            "trained_on": self.trained_on,
            "figures": {name: round(float(value), 6) for name, value in self.figures.items()},
            "counts": not self.shortfalls,
            "floor": FLOOR,
            "width": self.width,
            "tensors_sha256": hashlib.sha256(self._numbers).hexdigest(),
        }
        return orjson.dumps(about, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"

    @cached_property
    def _numbers(self) -> bytes:
        from safetensors.numpy import save

        # Half precision for the network: half the file; figures are measured on what was written and read back.
        kept = {
            name: np.ascontiguousarray(value, np.float16 if name.startswith("net.") and value.ndim > 1 else np.float32)
            for name, value in sorted(self.tensors.items())
        }
        return bytes(save(kept))

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """Name → content; the one that names the other comes last."""
        return {NUMBERS: self._numbers, ABOUT: self._about()}

    def write(self, folder: Path) -> Path:
        """Write both files into `folder`, each whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(content)
            Path(file.name).chmod(0o644)
            Path(file.name).replace(folder / name)
        return folder


def nearest(
    embedded: NDArray[np.float32], support: NDArray[np.float32], poisoned: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The margins of embeddings by their nearest support samples; shape [n].

    Raises:
        Misuse: the support set is empty or of one class.
    """
    if not len(support) or poisoned.all() or not poisoned.any():
        raise Misuse(
            f"support set: {int(poisoned.sum())} poisoned and {int((~poisoned).sum())} clean samples; expected at least one of each"
        )
    squared = (embedded**2).sum(1)[:, None] + (support**2).sum(1)[None] - 2 * embedded @ support.T
    distances = np.sqrt(np.maximum(squared, 0)).astype(np.float64)
    bad, good = distances[:, poisoned].min(axis=1), distances[:, ~poisoned].min(axis=1)
    return np.asarray((good - bad) / np.maximum(good + bad, 1e-9))


def load(folder: Path) -> Probe:
    """Read a probe from a folder.

    Raises:
        SettingsError: unreadable, no probe, or the numbers are not those it was written with.
    """
    try:
        about, numbers = ((folder / name).read_bytes() for name in (ABOUT, NUMBERS))
    except OSError as error:
        raise SettingsError(f"activation probe {folder}: cannot be read ({error.strerror}); restore it") from error
    return parse(about, numbers, str(folder))


def parse(described: bytes, data: bytes, where: str) -> Probe:
    """Read a probe from the content of its two files; raises as `load`."""
    from safetensors.numpy import load as numbers

    try:
        about = orjson.loads(described)
        found, expected = hashlib.sha256(data).hexdigest(), str(about["tensors_sha256"])
        if about["format"] != FORMAT or found != expected:
            raise _torn(where, found, expected, str(about["format"]))  # noqa: TRY301
        layers, hidden = (int(size) for size in about["shape"])
        probe = Probe(
            kind=str(about["kind"]),
            model=str(about["model"]),
            prompt=str(about["prompt"]),
            shape=(layers, hidden),
            threshold=float(about["threshold"]),
            trained_on=str(about["trained_on"]),
            figures={str(name): float(value) for name, value in about["figures"].items()},
            width=int(about["width"]),
            centre=float(about["centre"]),
            tensors={name: np.asarray(value, np.float32) for name, value in numbers(data).items()},
        )
        _whole(probe)
    except GuardError:
        raise
    except Exception as error:  # orjson, safetensors, a missing key
        raise SettingsError(
            f"activation probe {where}: holds no probe ({type(error).__name__}); make one with `guard train activations`"
        ) from error
    return probe


def _torn(where: str, found: str, expected: str, form: str) -> SettingsError:
    return SettingsError(
        f"activation probe {where}: its numbers have SHA-256 {found[:16]}…, probe.json says {expected[:16]}… in format {form[:60]!r}; "
        "restore both files together, or train one with `guard train activations`"
    )


def _whole(probe: Probe) -> None:
    lost = TENSORS[probe.kind] - set(probe.tensors)
    a_state = TENSORS[probe.kind] & {"mean", "scale", "weight"}  # one number a unit
    if lost or any(probe.tensors[name].shape != probe.shape for name in a_state) or not abs(probe.centre) < 1:
        raise ValueError("tensors")
    checked(
        np.array([[value.sum()] for value in probe.tensors.values()], np.float32), "the numbers of an activation probe"
    )
    if probe.kind != "linear":
        nearest(probe.tensors["support"][:1], probe.tensors["support"], probe.tensors["poisoned"] > 0.5)
