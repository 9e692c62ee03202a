"""Trained parameters are read whole or not at all, and every one of them is in the digest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.errors import SettingsError
from corpus_guard.screening import learned_scores
from corpus_guard.screening.checks import targeting
from corpus_guard.screening.learned_scores import LearnedScore, Logistic, Network, load_score
from corpus_guard.screening.survey import agreement as _agreement

NAMES = ("depth", "tide")
GOOD: dict[str, Any] = {
    "version": "harbour/1",
    "trained_on": "three winters of soundings",
    "intercept": -1.0,
    "features": {
        "depth": {"mean": 5.0, "scale": 2.0, "weight": 1.5},
        "tide": {"mean": 0.0, "scale": 1.0, "weight": -0.5},
    },
}


def written(path: Path, **changes: Any) -> Path:
    path.write_text(yaml.safe_dump({**GOOD, **changes}, sort_keys=False))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "harbour.yaml"


def test_a_score_is_a_weighted_sum_of_standardised_features_through_a_logistic_function(file: Path) -> None:
    model = load_score(Logistic, written(file), "harbour/1", NAMES)

    assert model.score(np.array([[5.0, 0.0], [7.0, 2.0]])) == pytest.approx([1 / (1 + np.e), 1 / (1 + np.exp(0.5))])
    assert model.score(np.empty((0, 2))).shape == (0,)
    assert model.score(np.array([5.0, 0.0])).shape == (1,)


@given(st.lists(st.tuples(*2 * [st.floats(-1e300, 1e300)]), min_size=1, max_size=5))
def test_whatever_is_measured_gives_a_probability(rows: list[tuple[float, float]]) -> None:
    with np.errstate(over="raise"):
        scores = Logistic.model_validate(GOOD).score(np.array(rows))

    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"version": "harbour/2"}, "version is harbour/2, expected harbour/1; train it again"),
        ({"features": {"depth": GOOD["features"]["depth"]}}, "features are depth; expected depth, tide"),
        ({"features": dict(reversed(GOOD["features"].items()))}, "features are tide, depth; expected depth, tide"),
        ({"features": {**GOOD["features"], "wind": GOOD["features"]["tide"]}}, "depth, tide, wind; expected"),
        ({"features": {}}, "expected depth, tide"),
        ({"intercept": float("nan")}, "intercept"),
        ({"intercept": float("inf")}, "intercept"),
        ({"features": {**GOOD["features"], "tide": {"mean": float("nan"), "scale": 1.0, "weight": 1.0}}}, "tide.mean"),
        ({"features": {**GOOD["features"], "tide": {"mean": 0.0, "scale": 0.0, "weight": 1.0}}}, "tide.scale"),
        ({"features": {**GOOD["features"], "tide": {"mean": 0.0, "scale": -1.0, "weight": 1.0}}}, "tide.scale"),
        ({"features": {**GOOD["features"], "tide": {"mean": 0.0, "weight": 1.0}}}, "tide.scale: missing"),
        ({"treshold": 0.5}, "treshold: unknown key"),
    ],
)
def test_what_the_code_would_misread_is_refused_by_name(file: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=r"harbour\.yaml: ") as raised:
        load_score(Logistic, written(file, **changes), "harbour/1", NAMES)

    assert says in str(raised.value)


def test_a_missing_or_broken_file_is_named(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"harbour\.yaml: no such file"):
        load_score(Logistic, file, "harbour/1", NAMES)
    file.write_text("version: [")
    with pytest.raises(SettingsError, match=r"harbour\.yaml.*not valid YAML"):
        load_score(Logistic, file, "harbour/1", NAMES)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"harbour\.yaml"):
        load_score(Logistic, file, "harbour/1", NAMES)


def test_every_parameter_is_in_the_digest() -> None:
    other: list[dict[str, Any]] = [GOOD, {**GOOD, "intercept": -1.0000001}, {**GOOD, "trained_on": "a summer"}]
    for name, feature in GOOD["features"].items():
        for part, value in feature.items():
            other.append({**GOOD, "features": {**GOOD["features"], name: {**feature, part: value + 1e-7}}})

    digests = [Logistic.model_validate(values).digest for values in other]

    assert len(set(digests)) == len(other) == 9
    assert Logistic.model_validate(GOOD).digest == digests[0]


@pytest.mark.parametrize(
    ("name", "kind", "version", "features"),
    [
        ("coordination", Network, _agreement.VERSION, _agreement.FEATURES),
        ("targeting", Logistic, targeting.VERSION, targeting.FEATURES),
    ],
)
def test_what_is_shipped_can_be_read_and_says_what_it_was_trained_on(
    name: str, kind: type[LearnedScore], version: str, features: tuple[str, ...]
) -> None:
    model = load_score(kind, learned_scores.PARAMETERS_FOLDER / f"{name}.yaml", version, features)

    assert model.trained_on
    assert any(model.slopes.values())


NETWORK: dict[str, Any] = {
    "version": "harbour/1",
    "trained_on": "three winters of soundings",
    "intercept": -1.0,
    "features": {"depth": {"mean": 5.0, "scale": 2.0}, "tide": {"mean": 0.0, "scale": 1.0}},
    "units": [
        {"bias": 0.5, "output": 2.0, "weights": [1.0, -1.0]},
        {"bias": -0.5, "output": -3.0, "weights": [0.25, 0.5]},
    ],
}


def test_a_network_sums_its_units(file: Path) -> None:
    model = load_score(Network, written(file, **NETWORK), "harbour/1", NAMES)

    # Standardised, the second row is (1, 2).
    expected = [2 * np.tanh(0.5) + 3 * np.tanh(0.5) - 1, 2 * np.tanh(-0.5) - 3 * np.tanh(0.75) - 1]
    assert model.score(np.array([[5.0, 0.0], [7.0, 2.0]])) == pytest.approx(1 / (1 + np.exp(-np.array(expected))))


def test_slopes_are_what_a_small_step_from_the_mean_adds() -> None:
    for model in (Network.model_validate(NETWORK), Logistic.model_validate(GOOD)):
        low, high = (model.score(np.array([[5.0 + step, 0.0], [5.0, step / 2]])) for step in (-1e-4, 1e-4))
        steps = np.log(high / (1 - high)) - np.log(low / (1 - low))

        assert list(model.slopes) == list(NAMES)
        assert list(model.slopes.values()) == pytest.approx(steps / 1e-4, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"units": [NETWORK["units"][0], {**NETWORK["units"][1], "weights": [1.0]}]}, "1 weights for 2 features"),
        ({"units": []}, "units"),
        ({"units": [{**NETWORK["units"][0], "bias": float("inf")}]}, "units.0.bias"),
        ({"units": [{**NETWORK["units"][0], "weights": [1.0, float("nan")]}]}, "units.0.weights.1"),
    ],
)
def test_a_network_that_would_be_misread_is_refused(file: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=r"harbour\.yaml: ") as raised:
        load_score(Network, written(file, **{**NETWORK, **changes}), "harbour/1", NAMES)

    assert says in str(raised.value)


def test_every_unit_is_in_the_digest() -> None:
    first, second = NETWORK["units"]
    changed = [[second, first], [first], [{**first, "bias": 0.6}, second], [{**first, "output": 2.1}, second]]
    changed.append([{**first, "weights": [1.0, -1.1]}, second])

    digests = {Network.model_validate({**NETWORK, "units": units}).digest for units in [NETWORK["units"], *changed]}

    assert len(digests) == 6
