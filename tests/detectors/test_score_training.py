"""Fitting the learned scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpus_guard.detectors.score_training import fit_logistic, write_score
from corpus_guard.errors import Misuse
from corpus_guard.screening.logistic import load_logistic

NAMES = ("near", "noise")


def rows(count: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(7)
    labels = (np.arange(count) % 4 == 0).astype(np.int64)
    features = np.column_stack([labels + chance.normal(0, 0.3, count), chance.normal(5, 2, count)])
    return features, labels, np.ones(count)


def test_a_fitted_score_tells_the_classes_apart_and_says_by_what() -> None:
    features, labels, weights = rows()

    model = fit_logistic(NAMES, "made/1", (features, labels, weights), "rows of this test")

    scores = model.score(features)
    assert scores[labels == 1].mean() > 0.8
    assert scores[labels == 0].mean() < 0.2
    assert model.features["near"].weight > 10 * abs(model.features["noise"].weight)


def test_what_is_written_is_what_screening_reads(tmp_path: Path) -> None:
    features, labels, weights = rows()
    model = fit_logistic(NAMES, "made/1", (features, labels, weights), "rows of this test")

    write_score(model, tmp_path / "made.yaml")
    read = load_logistic(tmp_path / "made.yaml", "made/1", NAMES)

    assert read == model
    assert np.array_equal(read.score(features), model.score(features))


def test_both_classes_weigh_the_same_however_rare_one_is() -> None:
    features, labels, _ = rows()
    many = np.concatenate([features, np.repeat(features[labels == 0], 9, axis=0)])
    more = np.concatenate([labels, np.zeros(len(many) - len(labels), np.int64)])

    balanced = fit_logistic(NAMES, "made/1", (many, more, np.ones(len(many))), "")

    assert abs(balanced.score(np.array([[0.5, 5.0]]))[0] - 0.5) < 0.15


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_or_nothing_is_refused(label: int) -> None:
    with pytest.raises(Misuse, match="two classes"):
        fit_logistic(NAMES, "made/1", (np.ones((3, 2)), np.full(3, label), np.ones(3)), "")
    with pytest.raises(Misuse, match="0 rows"):
        fit_logistic(NAMES, "made/1", (np.empty((0, 2)), np.empty(0, np.int64), np.empty(0)), "")
