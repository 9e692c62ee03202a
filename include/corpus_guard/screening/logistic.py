"""Logistic score that a person can read: a weighted sum of named, standardised features.

Parameters live in ``learned/NAME.yaml``, one line a feature, so that a reviewer can see what pushes a score
and a diff shows what a training changed. They enter the digest of the check that uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from corpus_guard.domain import canonical_json, digest
from corpus_guard.errors import SettingsError
from corpus_guard.settings import load_yaml

PARAMETERS_FOLDER: Final = Path(__file__).parent / "learned"
_Number = Annotated[float, Field(allow_inf_nan=False)]


class _Feature(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: _Number
    scale: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    weight: _Number


class Logistic(BaseModel):
    """Parameters of ``learned/NAME.yaml``, validated."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: str
    """Name of the features and their definition; the code refuses parameters of another version."""
    trained_on: str
    """Origin of the parameters, in words."""
    intercept: _Number
    features: Mapping[str, _Feature]

    @cached_property
    def digest(self) -> str:
        """Return a digest that changes with any parameter."""
        return digest("logistic/v1", [canonical_json(self.model_dump(mode="json")).decode()])

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        rows = [(feature.mean, feature.scale, feature.weight) for feature in self.features.values()]
        mean, scale, weight = np.array(rows, np.float64).T
        return mean, scale, weight

    def score(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return probabilities of shape (rows,) for features in the file's order, shape (rows, features)."""
        mean, scale, weight = self._arrays
        logits = ((np.asarray(rows, np.float64).reshape(-1, len(mean)) - mean) / scale) @ weight + self.intercept
        return 1.0 / (1.0 + np.exp(-np.clip(logits, -60, 60)))


def load_logistic(path: Path, version: str, names: Sequence[str]) -> Logistic:
    """Read parameters.

    Args:
        path: a file such as ``learned/targeting.yaml``.
        version: the version that the code computes.
        names: its features, in order.

    Raises:
        SettingsError: the file is unreadable, of another version, or for other features.
    """
    model = load_yaml(path, Logistic)
    if model.version != version:
        raise SettingsError(f"{path}: version is {model.version}, expected {version}; train it again")
    if list(model.features) != list(names):
        raise SettingsError(f"{path}: features are {', '.join(model.features)}; expected {', '.join(names)}")
    return model
