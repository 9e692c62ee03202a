"""Learned scores over a few named, standardised features: a weighted sum, or a small network.

Parameters live in ``learned/NAME.yaml``, numbers only, so that a diff shows what a training changed. They enter the
digest of the check that uses them. A weighted sum has one line a feature: a reviewer sees what pushes the score. A network
is for features that mean something only together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from corpus_guard.domain import canonical_json, digest
from corpus_guard.errors import SettingsError
from corpus_guard.settings import load_yaml

PARAMETERS_FOLDER: Final = Path(__file__).parent / "learned"
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Scale(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: _Number
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Feature(_Scale):
    weight: _Number


class _Unit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    bias: _Number
    output: _Number
    weights: tuple[_Number, ...]


class LearnedScore(BaseModel):
    """Fields that every kind of score has in ``learned/NAME.yaml``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    """Name of the features and their definition; the code refuses parameters of another version."""
    trained_on: str
    """Origin of the parameters, in words."""
    intercept: _Number
    features: Mapping[str, _Scale]

    @cached_property
    def digest(self) -> str:
        """Return a digest that changes with any parameter."""
        return digest("learned score/v1", [canonical_json(self.model_dump(mode="json")).decode()])

    def score(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities of shape (rows,) for features in the file's order, shape (rows, features)."""
        mean, scale = self._scales
        logits = self._logits((np.asarray(rows, np.float64).reshape(-1, len(mean)) - mean) / scale)
        return 1.0 / (1.0 + np.exp(-np.clip(logits, -60, 60)))

    @cached_property
    def _scales(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Means and scales, each of shape (features,)."""
        mean, scale = np.array([(feature.mean, feature.scale) for feature in self.features.values()]).T
        return mean, scale

    @property
    def slopes(self) -> Mapping[str, float]:
        """Return how much a standard deviation of each feature adds to the log-odds, about the mean of all."""
        raise NotImplementedError

    def _logits(self, standardised: NDArray[np.float64]) -> NDArray[np.float64]:
        raise NotImplementedError


Score = TypeVar("Score", bound=LearnedScore)


class Logistic(LearnedScore):
    """A weighted sum."""

    features: Mapping[str, _Feature]

    @property
    def slopes(self) -> Mapping[str, float]:
        """Return the weights."""
        return {name: feature.weight for name, feature in self.features.items()}

    def _logits(self, standardised: NDArray[np.float64]) -> NDArray[np.float64]:
        return standardised @ self._weights + self.intercept

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        return np.array([feature.weight for feature in self.features.values()])


class Network(LearnedScore):
    """A layer of hidden units (tanh), and a weighted sum of them."""

    units: tuple[_Unit, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        for number, unit in enumerate(self.units):
            if len(unit.weights) != len(self.features):
                raise ValueError(f"units.{number}: {len(unit.weights)} weights for {len(self.features)} features")
        return self

    @property
    def slopes(self) -> Mapping[str, float]:
        """Return the slopes where every feature has its mean; farther off they differ."""
        weights, bias, output = self._arrays
        return dict(zip(self.features, (weights @ (output * (1 - np.tanh(bias) ** 2))).tolist(), strict=True))

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Weights of shape (features, units), biases and outputs of shape (units,)."""
        weights = np.array([unit.weights for unit in self.units]).T
        return weights, np.array([unit.bias for unit in self.units]), np.array([unit.output for unit in self.units])

    def _logits(self, standardised: NDArray[np.float64]) -> NDArray[np.float64]:
        weights, bias, output = self._arrays
        return np.tanh(standardised @ weights + bias) @ output + self.intercept


def load_score(kind: type[Score], path: Path, version: str, names: Sequence[str]) -> Score:
    """Read parameters.

    Raises:
        SettingsError: the file is unreadable, of another version, or for other features.
    """
    model = load_yaml(path, kind)
    if model.version != version:
        raise SettingsError(f"{path}: version is {model.version}, expected {version}; train it again")
    if list(model.features) != list(names):
        raise SettingsError(f"{path}: features are {', '.join(model.features)}; expected {', '.join(names)}")
    return model
