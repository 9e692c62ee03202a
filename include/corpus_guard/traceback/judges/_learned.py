"""What the embedded judge learned: three small sets of trees in one JSON file. Part of `corpus_guard.traceback.judges.embedded`.

* ``text``: how likely a text is poisoned, from its own evidence and its company's when it was first seen;
* ``again``: the same, once everything that the complaint retrieves is known;
* ``report``: how likely the complaint as a whole is an attack.

Made by `guard train judge`. XGBoost's JSON holds numbers only: reading it runs nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.errors import SettingsError

SHIPPED: Final = Path(__file__).with_name("embedded.json")
PARTS: Final = ("text", "again", "report")


@dataclass(frozen=True)
class Learned:
    """A judge's model, with all that its opinions rest on."""

    version: str  # of the evidence it was trained on
    trained_on: str  # in words
    thresholds: Mapping[str, float]  # part → probability from which it says yes
    trees: Mapping[str, Any] = field(repr=False)  # part → xgboost.Booster

    def probabilities(self, part: str, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """How likely each row is what the part is about, shape (rows,)."""
        if not len(rows):
            return np.empty(0, np.float64)
        # inplace_predict makes no DMatrix: a tenth of the time for a handful of rows.
        return np.asarray(self.trees[part].inplace_predict(rows, validate_features=False), np.float64)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return hashlib.sha256(self.dumps()).hexdigest()

    def dumps(self) -> bytes:
        """The file."""
        about = {"version": self.version, "trained_on": self.trained_on, "thresholds": dict(self.thresholds)}
        trees = {part: orjson.loads(bytes(self.trees[part].save_raw("json"))) for part in PARTS}
        return orjson.dumps({**about, "trees": trees}, option=orjson.OPT_SORT_KEYS)


def load(path: Path, version: str) -> Learned:
    """Read a model from a file; raises SettingsError where it cannot be read, else like `parse`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(f"judge's model {path}: cannot be read ({error.strerror}); restore it") from error
    return parse(content, version, str(path))


def parse(content: bytes, version: str, where: str) -> Learned:
    """Read a model.

    Args:
        content: what `Learned.dumps` wrote.
        version: of the evidence that is gathered here.
        where: for messages.

    Raises:
        SettingsError: no model of a judge, or one that was trained on other evidence.
    """
    import xgboost

    try:
        row = orjson.loads(content)
        thresholds = {part: float(row["thresholds"][part]) for part in PARTS}
        trees = {}
        for part in PARTS:
            trees[part] = xgboost.Booster({"nthread": 1})
            trees[part].load_model(bytearray(orjson.dumps(row["trees"][part])))
        found = Learned(str(row["version"]), str(row["trained_on"]), thresholds, trees)
    except Exception as error:  # orjson, a missing key, and whatever XGBoost raises
        raise SettingsError(
            f"judge's model {where}: holds no model of a judge ({type(error).__name__}); make one with `guard train judge`"
        ) from error
    if found.version != version:
        raise SettingsError(
            f"judge's model {where}: was trained on evidence {found.version!r}, this guard gathers {version!r}; make one with "
            "`guard train judge`"
        )
    return found


def grow(
    rows: NDArray[np.float64], truth: Sequence[bool], weights: Sequence[float], *, depth: int, rounds: int, seed: int
) -> Any:
    """Fit trees to rows.

    Args:
        rows: shape (n, features).
        truth: shape (n,).
        weights: shape (n,).
        depth: of a tree, at most.
        rounds: how many trees.
        seed: of the sampling.
    """
    import xgboost

    params = {
        "objective": "binary:logistic",
        "max_depth": depth,
        "eta": 0.06,
        "subsample": 0.7,
        "colsample_bytree": 0.6,
        "min_child_weight": 5,
        "reg_lambda": 3,
        "nthread": 1,
        "seed": seed,
    }
    data = xgboost.DMatrix(rows, label=np.asarray(truth, float), weight=np.asarray(weights, float))
    return xgboost.train(params, data, num_boost_round=rounds)
