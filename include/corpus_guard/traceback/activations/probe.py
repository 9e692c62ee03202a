"""Probe: a classifier of a model's state, as of an attacker's answer or of a right answer.

Three kinds, read and used in the same way:

* ``cnn``, the paper's: states are normalised by the training set, embedded by a triplet network, and take the
  label of the nearest sample of a labelled *support set*. The margin is ``(c - p) / (c + p)``, with ``p`` and
  ``c`` the distances to the nearest poisoned and the nearest clean sample: 1 is surely poisoned, -1 surely
  clean;
* ``linear``: a logistic regression over the same normalised states; the margin is ``2 P(poisoned) - 1``;
* ``weighed``: the paper's network over what each normalised unit adds to the linear probe's sum. Hidden units
  have no order, so a network that looks at neighbours and pools over places cannot tell them apart, and
  learns little from some hundred samples. After weighing, evidence of poison is positive wherever it stands.

Rules
    * the two classes are never recorded equally often or equally far apart, so zero is not the border between
      them: margins are counted from the border that calibration found (`Probe.centre`), and still end at -1
      and 1;
    * a margin within the calibrated threshold is *unsure*; every margin is, if calibration found no threshold
      that holds;
    * a probe knows one language model and one wording of the prompt; states of another shape are an error,
      not a guess;
    * its file says whether its vote *counts* beside the judge's: only if its figures, measured on questions
      it never saw, reach the minimum (`MIN_FIGURES`). Otherwise its vote is shown and changes nothing;
    * a probe is two files: ``probe.json`` (everything a person reads) and ``probe.safetensors`` (numbers
      only), tied by a SHA-256. Reading them executes nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import GuardError, Misuse, SettingsError
from corpus_guard.traceback.activations.network import build_network, embed_states
from corpus_guard.traceback.activations.recording import require_finite

if TYPE_CHECKING:
    import torch

TENSORS_FILE: Final = "probe.safetensors"
DESCRIPTION_FILE: Final = "probe.json"
FORMAT: Final = "corpus-guard/activation-probe/2"
MIN_FIGURES: Final = {"tpr": 0.90, "fpr": 0.05, "fpr_look_alike": 0.10, "samples": 40.0}
"""Limits of a probe's own figures for its vote to count: at least this share of attackers' answers found, at
most these shares of right answers accused (of all, and of those from texts that are written as attacks are),
each among those it is sure of; samples measured."""
NEVER_SURE: Final = 1.0  # a threshold that no margin exceeds
TENSOR_NAMES: Final = {
    "linear": {"mean", "scale", "weight", "intercept"},
    "weighed": {"mean", "scale", "weight", "support", "poisoned"},
    "cnn": {"mean", "scale", "support", "poisoned"},
}
"""Kind → tensors beside a network's own."""


class Vote(StrEnum):
    """Vote of a probe on an answer."""

    POISONED = "poisoned"
    CLEAN = "clean"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Probe:
    """Trained probe."""

    kind: str  # one of `TENSOR_NAMES`
    model: str  # digest of the language model it was trained on
    prompt: str  # version of the wording it was trained on
    shape: tuple[int, int]  # layers + 1, hidden
    threshold: float  # a margin must be farther from zero; 1: never sure
    trained_on: str  # in words
    figures: Mapping[str, float]  # measured on questions it never saw
    width: int = 0  # of a network
    tensors: Mapping[str, NDArray[np.float32]] = field(repr=False, default_factory=dict)
    centre: float = 0.0  # margins are counted from it; above -1, below 1

    def margins(self, states: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return how surely each state is of an attacker's answer, -1..1, shape [n].

        Args:
            states: [n, layers + 1, hidden].

        Raises:
            SettingsError: the states have another shape than the probe's.
            JudgeFailed: a state is not finite.
        """
        if states.ndim != 3 or states.shape[1:] != self.shape:
            raise SettingsError(
                f"activation probe: got states of shape {tuple(states.shape[1:])} (layers, hidden), expected "
                f"{self.shape}: it was trained on another language model; train a probe for this one with "
                "`guard train activations`"
            )
        if not len(states):
            return np.empty(0)
        require_finite(states, "states to be probed")
        if self.kind == "linear":
            inputs = self.normalise(states)
            logit = np.tensordot(inputs, self.tensors["weight"], axes=2) + self.tensors["intercept"][0]
            margins = np.tanh(np.asarray(logit, np.float64) / 2)  # 2 * sigmoid - 1
        else:
            poisoned = self.tensors["poisoned"] > 0.5
            margins = nearest_margins(self.embed(states), self.tensors["support"], poisoned)
        return self.centre_margins(margins)

    def centre_margins(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return margins counted from the centre instead of zero; they still end at -1 and 1."""
        return (margins - self.centre) / (1 - np.sign(margins - self.centre) * self.centre)

    def embed(self, states: NDArray[np.float32], batch: int = 64) -> NDArray[np.float32]:
        """Return the network's embeddings of states, shape [n, 8 x width]."""
        import torch

        with torch.inference_mode():
            parts = [
                embed_states(self._network, torch.from_numpy(self.normalise(states[start : start + batch]))).numpy()
                for start in range(0, len(states), batch)
            ]
        return np.concatenate(parts)

    def normalise(self, states: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return states as the regression or the network reads them.

        They are normalised (equation 1 of the paper) and, for the kind ``weighed``, multiplied by the linear
        probe's weights.
        """
        normalised = np.asarray((states - self.tensors["mean"]) / self.tensors["scale"], np.float32)
        return normalised * self.tensors["weight"] if self.kind == "weighed" else normalised

    def vote(self, margin: float) -> Vote:
        """Return the vote of a margin."""
        if not abs(margin) > self.threshold:  # also NaN
            return Vote.UNSURE
        return Vote.POISONED if margin > 0 else Vote.CLEAN

    @property
    def shortfalls(self) -> tuple[str, ...]:
        """Reasons why its vote does not count; empty: it counts."""
        least = [
            f"{name} {self.figures.get(name, 0):.3f} is under {MIN_FIGURES[name]:g}"
            for name in ("tpr", "samples")
            if not self.figures.get(name, 0) >= MIN_FIGURES[name]
        ]
        most = [
            f"{name} {self.figures.get(name, 1):.3f} is over {MIN_FIGURES[name]:g}"
            for name in ("fpr", "fpr_look_alike")
            if not self.figures.get(name, 1) <= MIN_FIGURES[name]
        ]
        return (*least, *most, *(["it is never sure"] if self.threshold >= NEVER_SURE else []))

    @cached_property
    def _network(self) -> torch.nn.Module:
        import torch

        network = build_network(self.width)
        state = {
            name.removeprefix("net."): torch.from_numpy(value)
            for name, value in self.tensors.items()
            if name.startswith("net.")
        }
        blank = network.state_dict()
        network.load_state_dict({name: value.to(blank[name].dtype) for name, value in state.items()})
        return network.eval()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ``probe.json``, which holds the SHA-256 of the tensors."""
        return sha256_bytes(self._about())

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
            "floor": MIN_FIGURES,
            "width": self.width,
            "tensors_sha256": sha256_bytes(self._numbers),
        }
        return orjson.dumps(about, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"

    @cached_property
    def _numbers(self) -> bytes:
        from safetensors.numpy import save

        # Half precision for the network: half the file; figures are measured on what was written and read back.
        rounded = {
            name: np.ascontiguousarray(value, np.float16 if name.startswith("net.") and value.ndim > 1 else np.float32)
            for name, value in sorted(self.tensors.items())
        }
        return bytes(save(rounded))

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """Content by file name; the file with the hash of the other comes last."""
        return {TENSORS_FILE: self._numbers, DESCRIPTION_FILE: self._about()}

    def write(self, folder: Path) -> Path:
        """Write both files into `folder`, each whole or not at all, and return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
                file.write(content)
            Path(file.name).chmod(0o644)
            Path(file.name).replace(folder / name)
        return folder


def nearest_margins(
    embedded: NDArray[np.float32], support: NDArray[np.float32], poisoned: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the margins of embeddings by their nearest support samples; shape [n].

    Raises:
        Misuse: the support set lacks a class.
    """
    if not len(support) or poisoned.all() or not poisoned.any():
        raise Misuse(
            f"support set: got {int(poisoned.sum())} poisoned and {int((~poisoned).sum())} clean samples, "
            "expected at least one of each"
        )
    squared = (embedded**2).sum(1)[:, None] + (support**2).sum(1)[None] - 2 * embedded @ support.T
    distances = np.sqrt(np.maximum(squared, 0)).astype(np.float64)
    bad, good = distances[:, poisoned].min(axis=1), distances[:, ~poisoned].min(axis=1)
    return np.asarray((good - bad) / np.maximum(good + bad, 1e-9))


def load_probe(folder: Path) -> Probe:
    """Read a probe from a folder.

    Raises:
        SettingsError: the files are unreadable, hold no probe, or do not belong together.
    """
    try:
        about, numbers = ((folder / name).read_bytes() for name in (DESCRIPTION_FILE, TENSORS_FILE))
    except OSError as error:
        raise SettingsError(f"activation probe {folder}: cannot be read ({error.strerror}); restore it") from error
    return parse_probe(about, numbers, str(folder))


def parse_probe(described: bytes, data: bytes, location: str) -> Probe:
    """Read a probe from the content of its two files.

    Args:
        described: content of ``probe.json``.
        data: content of ``probe.safetensors``.

    Raises:
        SettingsError: as for `load_probe`.
    """
    from safetensors.numpy import load as numbers

    try:
        about = orjson.loads(described)
        sha256, expected = sha256_bytes(data), str(about["tensors_sha256"])
        if about["format"] != FORMAT or sha256 != expected:
            raise _mismatch_error(location, sha256, expected, str(about["format"]))  # noqa: TRY301
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
        _require_complete(probe)
    except GuardError:
        raise
    except Exception as error:  # orjson, safetensors, a missing key
        raise SettingsError(
            f"activation probe {location}: holds no probe ({type(error).__name__}); train one with `guard "
            "train activations`"
        ) from error
    return probe


def _mismatch_error(location: str, sha256: str, expected: str, found_format: str) -> SettingsError:
    return SettingsError(
        f"activation probe {location}: got tensors with SHA-256 {sha256[:16]}… in format "
        f"{found_format[:60]!r}, expected {expected[:16]}… in format {FORMAT!r}; restore both files "
        "together, or train a probe with `guard train activations`"
    )


def _require_complete(probe: Probe) -> None:
    lost = TENSOR_NAMES[probe.kind] - set(probe.tensors)
    per_unit = TENSOR_NAMES[probe.kind] & {"mean", "scale", "weight"}
    if lost or any(probe.tensors[name].shape != probe.shape for name in per_unit) or not abs(probe.centre) < 1:
        raise ValueError("tensors")
    require_finite(
        np.array([[value.sum()] for value in probe.tensors.values()], np.float32), "the numbers of an activation probe"
    )
    if probe.kind != "linear":
        nearest_margins(probe.tensors["support"][:1], probe.tensors["support"], probe.tensors["poisoned"] > 0.5)
