"""Classifier of ML-FilterRAG: a Random Forest or XGBoost over the four features (section III-B2, appendix C).

Rules
    * a model is a file of XGBoost's JSON or of skops; pickle is neither written nor read;
    * a file is read only when its SHA-256 is the expected one; the checked bytes are the parsed bytes;
    * a model knows the version of the features it was trained on, tau and its decision threshold; other
      features are refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.filterrag.features import FEATURE_NAMES, TAU
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Misuse, SettingsError

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier
    from xgboost import Booster

# Types that the skops file of a forest needs beyond skops's own list. A forged tree can make predict() read
# out of bounds (skops 0.16 says so and asks for this list): that is why the file's digest is checked first.
TRUSTED_SKOPS_TYPES = ["sklearn.tree._tree.Tree"]
SHIPPED_MODEL = Path(__file__).with_name("ml_filterrag.json")
SHIPPED_SHA256 = "9a7c6757fb79f40d620b4c8e5907518921374ab87b2987c89c2b7860e5ae1f66"

TREE_COUNT = 100
TREE_DEPTH = 5
FOLDS = 5
# Of clean passages, in cross-validation. On validation questions of NQ and HotpotQA (led / bare): at 0.02, 68
# / 53 % of poisoned texts are caught and 2.1 / 1.5 % of clean ones dropped; at 0.05, 88 / 81 % and 6.5 / 5.3
# %; at 0.1, 99 / 94 % and 16 / 12 %.
FALSE_ALARM_RATE = 0.05


Classifier: TypeAlias = "Booster | RandomForestClassifier"


@dataclass(frozen=True)
class LearnedModel:
    """A trained classifier with everything a decision rests on."""

    kind: ClassifierKind
    feature_version: str  # `FeatureExtractor.version` of the features it was trained on
    tau: float  # of these features
    threshold: float  # from this probability on a text is taken for poisoned, 0..1
    trained: Classifier = field(repr=False)
    # Of the file it was read from; not copied by `replace`.
    _file_sha256: str = field(default="", init=False, repr=False)

    def probabilities(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability of each text of being adversarial, 0..1.

        Args:
            matrix: shape (texts, 4), columns as in `features.NAMES`.
        """
        if not len(matrix):
            return np.empty(0, np.float64)
        if self.kind is ClassifierKind.XGBOOST:
            import xgboost

            rows = xgboost.DMatrix(matrix, feature_names=list(FEATURE_NAMES))
            return np.asarray(self.trained.predict(rows), np.float64)
        forest = cast("RandomForestClassifier", self.trained)
        return np.asarray(forest.predict_proba(matrix)[:, 1], np.float64)

    @property
    def digest(self) -> str:
        """SHA-256 of the file it was read from, else of a new file; skops writes different bytes each time."""
        return self._file_sha256 or sha256_bytes(self.dumps())

    def dumps(self) -> bytes:
        """Serialise the model."""
        attributes = {name: str(getattr(self, name)) for name in ("kind", "feature_version", "tau", "threshold")}
        if self.kind is ClassifierKind.XGBOOST:
            copy = self.trained.copy()
            copy.set_attr(**attributes)
            return bytes(copy.save_raw("json"))
        import skops.io

        return bytes(skops.io.dumps({**attributes, "forest": self.trained}))

    def save(self, path: Path) -> str:
        """Write the file and return its SHA-256, which `load` needs."""
        content = self.dumps()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return sha256_bytes(content)


def load(path: Path, sha256: str) -> LearnedModel:
    """Read a model.

    Args:
        path: XGBoost's JSON or skops.

    Raises:
        SettingsError: the file is missing, has another hash, or is not such a model.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"filter model {path}: cannot be read ({error.strerror}); train one with `guard evaluate filter --save-model`"
        ) from error
    actual = sha256_bytes(content)
    if actual != sha256.lower():
        raise SettingsError(
            f"filter model {path}: SHA-256 is {actual[:16]}…, expected {f'{sha256[:16]}…' if sha256 else '(none is set)'}; it was "
            "altered or is another model. Restore it, or set CORPUS_GUARD_FILTER_MODEL_SHA256 to the digest of a model that "
            "you trained"
        )
    return parse(content, f"filter model {path}")


def parse(content: bytes, where: str) -> LearnedModel:
    """Parse a model whose hash was checked: a forged one can make predictions read out of bounds.

    Raises:
        SettingsError: it is not such a model.
    """
    try:
        trained, attributes = _parse(content)
        model = LearnedModel(
            ClassifierKind(attributes["kind"]),
            attributes["feature_version"],
            float(attributes["tau"]),
            float(attributes["threshold"]),
            trained,
        )
    except Exception as error:  # XGBoost and skops raise whatever the file makes them
        raise SettingsError(
            f"{where}: not a filter model ({type(error).__name__}); expected XGBoost JSON or skops, as written by "
            "`guard evaluate filter --save-model`"
        ) from error
    object.__setattr__(model, "_file_sha256", sha256_bytes(content))
    return model


def load_shipped() -> LearnedModel:
    """Return the model that comes with the package.

    Raises:
        SettingsError: its file was altered.
    """
    return load(SHIPPED_MODEL, SHIPPED_SHA256)


def train(
    matrix: NDArray[np.float64],
    labels: Sequence[bool],
    questions: Sequence[Hashable],
    *,
    feature_version: str,
    kind: ClassifierKind = ClassifierKind.XGBOOST,
    tau: float = TAU,
    threshold: float | None = None,
    false_alarm_rate: float = FALSE_ALARM_RATE,
    seed: int = 0,
) -> LearnedModel:
    """Train a classifier.

    Args:
        matrix: features, shape (texts, 4), columns as in `features.NAMES`.
        labels: True for adversarial texts.
        questions: the question of each text; texts of one question are never on both sides of a split.
        threshold: decision threshold, 0..1; None: chosen so that, in cross-validation by question, at most
            the share `false_alarm_rate` of clean texts is dropped.

    Raises:
        Misuse: there is nothing to learn from: no texts, one class only, lengths that differ, or a feature
            that is not a finite number.
    """
    truth = np.asarray(labels, bool)
    _check(matrix, truth, questions)
    trained = _fit(kind, matrix, truth, seed)
    model = LearnedModel(kind, feature_version, tau, 0.5 if threshold is None else threshold, trained)
    if threshold is not None:
        return model
    scores = np.sort(_out_of_fold(kind, matrix, truth, questions, seed)[~truth])[::-1]
    # Texts at or above the threshold are dropped: it lies just above the first clean text that must be
    # served.
    highest_served = scores[min(int(false_alarm_rate * len(scores)), len(scores) - 1)]
    return LearnedModel(kind, feature_version, tau, float(np.nextafter(highest_served, 2.0)), trained)


def _check(matrix: NDArray[np.float64], truth: NDArray[np.bool_], questions: Sequence[Hashable]) -> None:
    if matrix.ndim != 2 or matrix.shape[1] != len(FEATURE_NAMES) or not len(matrix) == len(truth) == len(questions):
        raise Misuse(
            f"training set: got {matrix.shape} features, {len(truth)} labels and {len(questions)} questions; expected "
            f"{len(FEATURE_NAMES)} features, one label and one question for each text"
        )
    if not len(truth):
        raise Misuse("training set is empty; give at least two questions with adversarial and clean texts")
    if truth.all() or not truth.any():
        raise Misuse(
            f"training set: all {len(truth)} texts are {'adversarial' if truth.all() else 'clean'}; expected both classes"
        )
    if not np.isfinite(matrix).all():
        row = int(np.argwhere(~np.isfinite(matrix))[0][0])
        raise Misuse(
            f"training set: row {row} holds a feature that is not a finite number; leave the text out, or read it again"
        )


def _fit(kind: ClassifierKind, matrix: NDArray[np.float64], truth: NDArray[np.bool_], seed: int) -> Classifier:
    if kind is ClassifierKind.XGBOOST:
        import xgboost

        # Equal weight for both classes, however many texts of each there are.
        weight = np.where(truth, 0.5 / truth.mean(), 0.5 / (1 - truth.mean()))
        rows = xgboost.DMatrix(matrix, label=truth.astype(float), weight=weight, feature_names=list(FEATURE_NAMES))
        params = {
            "objective": "binary:logistic",
            "max_depth": TREE_DEPTH,
            "eta": 0.1,
            "subsample": 0.8,
            "seed": seed,
            "nthread": 1,
        }
        return xgboost.train(params, rows, num_boost_round=TREE_COUNT)
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        TREE_COUNT, max_depth=8, min_samples_leaf=3, class_weight="balanced", random_state=seed
    )
    return forest.fit(matrix, truth)


def _out_of_fold(
    kind: ClassifierKind,
    matrix: NDArray[np.float64],
    truth: NDArray[np.bool_],
    questions: Sequence[Hashable],
    seed: int,
) -> NDArray[np.float64]:
    """Return each text's probability by a model that saw no text of its question."""
    numbers = {question: number for number, question in enumerate(dict.fromkeys(questions))}
    order = np.random.default_rng(seed).permutation(len(numbers))
    folds = np.array([order[numbers[question]] % FOLDS for question in questions])
    scores = np.empty(len(truth), np.float64)
    for number in range(FOLDS):
        held_out = folds == number
        if not held_out.any():
            continue
        rest = truth[~held_out]
        if not len(rest) or rest.all() or not rest.any():
            raise Misuse(
                f"training set: {len(numbers)} questions are too few to choose a threshold by cross-validation; give more, or set "
                "a threshold"
            )
        model = LearnedModel(kind, "", 0.0, 0.5, _fit(kind, matrix[~held_out], rest, seed))
        scores[held_out] = model.probabilities(matrix[held_out])
    return scores


def _parse(content: bytes) -> tuple[Classifier, Mapping[str, Any]]:
    if content[:1] == b"{":
        import xgboost

        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(content))
        return booster, booster.attributes()
    import skops.io

    attributes = skops.io.loads(content, trusted=TRUSTED_SKOPS_TYPES)
    return attributes["forest"], attributes
