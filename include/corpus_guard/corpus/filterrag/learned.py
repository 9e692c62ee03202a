"""The classifier of ML-FilterRAG: a Random Forest or XGBoost over the four features (section III-B2, appendix C).

Rules
    * a model is a file of XGBoost's JSON or of skops; pickle is neither written nor read;
    * a file is read only when its SHA-256 is the expected one, and what is checked is what is parsed;
    * a model knows the version of the features it was trained on, tau and its decision threshold; with other features it is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.features import NAMES, TAU
from corpus_guard.errors import Misuse, SettingsError

# What a skops file of a forest may hold beyond skops's own list. A forged tree can make predict() read out of bounds (skops 0.16
# says so and asks for this word); the digest is what makes it ours.
TRUSTED = ["sklearn.tree._tree.Tree"]
SHIPPED = Path(__file__).with_name("ml_filterrag.json")
SHIPPED_SHA256 = "9a7c6757fb79f40d620b4c8e5907518921374ab87b2987c89c2b7860e5ae1f66"

TREES = 100
DEPTH = 5
FOLDS = 5
# Of clean passages, in cross-validation. On validation questions of NQ and HotpotQA (led / bare): at 0.02, 68 / 53 % of poisoned texts
# are caught and 2.1 / 1.5 % of clean ones dropped; at 0.05, 88 / 81 % and 6.5 / 5.3 %; at 0.1, 99 / 94 % and 16 / 12 %.
FALSE_ALARMS = 0.05


class Kind(StrEnum):
    """Which classifier."""

    XGBOOST = "xgboost"
    RANDOM_FOREST = "random_forest"


class Scores(Protocol):
    """What both kinds do once they are trained."""

    def __call__(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability of being adversarial for each row."""


@dataclass(frozen=True)
class LearnedModel:
    """A trained classifier with all that a decision rests on."""

    kind: Kind
    feature_version: str  # `FeatureExtractor.version` of the features it was trained on
    tau: float  # of these features
    threshold: float  # at or above this probability a text is taken for poisoned, 0..1
    trained: Any = field(repr=False)  # xgboost.Booster or sklearn's RandomForestClassifier
    _read_from: str = field(default="", init=False, repr=False)  # no part of a model that is made from this one

    def probabilities(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """How likely each text is adversarial.

        Args:
            matrix: shape (texts, 4), columns as in `features.NAMES`.

        Returns:
            Shape (texts,), 0..1.
        """
        if not len(matrix):
            return np.empty(0, np.float64)
        if self.kind is Kind.XGBOOST:
            import xgboost

            rows = xgboost.DMatrix(matrix, feature_names=list(NAMES))
            return np.asarray(self.trained.predict(rows), np.float64)
        return np.asarray(self.trained.predict_proba(matrix)[:, 1], np.float64)

    @property
    def digest(self) -> str:
        """SHA-256 of the file: of the one it was read from, because skops writes another one each time."""
        return self._read_from or hashlib.sha256(self.dumps()).hexdigest()

    def dumps(self) -> bytes:
        """The file."""
        about = {name: str(getattr(self, name)) for name in ("kind", "feature_version", "tau", "threshold")}
        if self.kind is Kind.XGBOOST:
            copy = self.trained.copy()
            copy.set_attr(**about)
            return bytes(copy.save_raw("json"))
        import skops.io

        return bytes(skops.io.dumps({**about, "forest": self.trained}))

    def save(self, path: Path) -> str:
        """Write the file; returns its SHA-256, which `load` asks for."""
        content = self.dumps()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return hashlib.sha256(content).hexdigest()


def load(path: Path, sha256: str) -> LearnedModel:
    """Read a model.

    Args:
        path: XGBoost's JSON or skops.
        sha256: what the file must hash to, hex.

    Raises:
        SettingsError: the file is missing, is another one, or holds no model of ours.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"filter model {path}: cannot be read ({error.strerror}); train one with `guard evaluate filter --save-model`"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256.lower():
        raise SettingsError(
            f"filter model {path}: SHA-256 is {found[:16]}…, expected {sha256[:16] or 'one, none is set'}…; it was altered or is "
            "another model. Restore it, or name the digest of a model that you trained (CORPUS_GUARD_FILTER_MODEL_SHA256)"
        )
    return parse(content, f"filter model {path}")


def parse(content: bytes, where: str) -> LearnedModel:
    """Read a model whose bytes were checked: a forged one can make predictions read out of bounds.

    Raises:
        SettingsError: it is no model of ours.
    """
    try:
        trained, about = _parse(content)
        found = LearnedModel(
            Kind(about["kind"]), about["feature_version"], float(about["tau"]), float(about["threshold"]), trained
        )
    except Exception as error:  # XGBoost and skops raise whatever the file makes them
        raise SettingsError(
            f"{where}: holds no model of Corpus Guard ({type(error).__name__}); expected XGBoost JSON or skops written by "
            "`guard evaluate filter --save-model`"
        ) from error
    object.__setattr__(found, "_read_from", hashlib.sha256(content).hexdigest())
    return found


def shipped() -> LearnedModel:
    """The model that comes with the package.

    Raises:
        SettingsError: its file was altered.
    """
    return load(SHIPPED, SHIPPED_SHA256)


def train(
    matrix: NDArray[np.float64],
    labels: Sequence[bool],
    questions: Sequence[Hashable],
    *,
    feature_version: str,
    kind: Kind = Kind.XGBOOST,
    tau: float = TAU,
    threshold: float | None = None,
    false_alarms: float = FALSE_ALARMS,
    seed: int = 0,
) -> LearnedModel:
    """Train a classifier.

    Args:
        matrix: features, shape (texts, 4), columns as in `features.NAMES`.
        labels: True for adversarial texts.
        questions: the question of each text; texts of one question are never on both sides of a split.
        feature_version: `FeatureExtractor.version` of the features.
        kind: XGBoost or Random Forest.
        tau: with which the features were made.
        threshold: decision threshold, 0..1; None: chosen so that, in cross-validation by question, at most the share `false_alarms`
            of clean texts is dropped.
        false_alarms: see `threshold`.
        seed: of everything random.

    Raises:
        Misuse: nothing to learn from: no texts, one class only, lengths that differ, or a feature that is no number.
    """
    truth = np.asarray(labels, bool)
    _check(matrix, truth, questions)
    trained = _fit(kind, matrix, truth, seed)
    model = LearnedModel(kind, feature_version, tau, 0.5 if threshold is None else threshold, trained)
    if threshold is not None:
        return model
    scores = np.sort(_out_of_fold(kind, matrix, truth, questions, seed)[~truth])[::-1]
    # The share dropped is what lies at or above the threshold: just above the first clean text that must be kept.
    kept = scores[min(int(false_alarms * len(scores)), len(scores) - 1)]
    return LearnedModel(kind, feature_version, tau, float(np.nextafter(kept, 2.0)), trained)


def _check(matrix: NDArray[np.float64], truth: NDArray[np.bool_], questions: Sequence[Hashable]) -> None:
    if matrix.ndim != 2 or matrix.shape[1] != len(NAMES) or not len(matrix) == len(truth) == len(questions):
        raise Misuse(
            f"training set: {matrix.shape} features, {len(truth)} labels, {len(questions)} questions; expected a row of "
            f"{len(NAMES)} features, a label and a question for each text"
        )
    if not len(truth):
        raise Misuse("training set: is empty; give at least two questions with adversarial and clean texts")
    if truth.all() or not truth.any():
        raise Misuse(
            f"training set: all {len(truth)} texts are {'adversarial' if truth.all() else 'clean'}; expected both classes"
        )
    if not np.isfinite(matrix).all():
        row = int(np.argwhere(~np.isfinite(matrix))[0][0])
        raise Misuse(f"training set: row {row} holds a feature that is no number; leave the text out, or read it again")


def _fit(kind: Kind, matrix: NDArray[np.float64], truth: NDArray[np.bool_], seed: int) -> Any:
    if kind is Kind.XGBOOST:
        import xgboost

        # Equal weight for both classes, however many texts of each there are.
        weight = np.where(truth, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
        rows = xgboost.DMatrix(matrix, label=truth.astype(float), weight=weight, feature_names=list(NAMES))
        params = {
            "objective": "binary:logistic",
            "max_depth": DEPTH,
            "eta": 0.1,
            "subsample": 0.8,
            "seed": seed,
            "nthread": 1,
        }
        return xgboost.train(params, rows, num_boost_round=TREES)
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(TREES, max_depth=8, min_samples_leaf=3, class_weight="balanced", random_state=seed)
    return forest.fit(matrix, truth)


def _out_of_fold(
    kind: Kind, matrix: NDArray[np.float64], truth: NDArray[np.bool_], questions: Sequence[Hashable], seed: int
) -> NDArray[np.float64]:
    """Each text's probability by a model that saw no text of its question."""
    names = {question: number for number, question in enumerate(dict.fromkeys(questions))}
    order = np.random.default_rng(seed).permutation(len(names))
    fold = np.array([order[names[question]] % FOLDS for question in questions])
    scores = np.empty(len(truth), np.float64)
    for number in range(FOLDS):
        out = fold == number
        if not out.any():
            continue
        rest = truth[~out]
        if not len(rest) or rest.all() or not rest.any():
            raise Misuse(
                f"training set: {len(names)} questions are too few for a threshold by cross-validation; give more, or a threshold"
            )
        model = LearnedModel(kind, "", 0.0, 0.5, _fit(kind, matrix[~out], rest, seed))
        scores[out] = model.probabilities(matrix[out])
    return scores


def _parse(content: bytes) -> tuple[Any, Mapping[str, Any]]:
    if content[:1] == b"{":
        import xgboost

        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(content))
        return booster, booster.attributes()
    import skops.io

    about = skops.io.loads(content, trusted=TRUSTED)
    return about["forest"], about
