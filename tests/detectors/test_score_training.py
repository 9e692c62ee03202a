"""Fitting the learned scores."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus_guard.detectors.samples import Half, Sample, ScreeningScore, SliceKey, TextForm
from corpus_guard.detectors.score_training import (
    MIN_GROUPS,
    _batch_features,
    _coordination,
    _floods,
    _weigh_slices,
    fit_logistic,
    fit_network,
    train_score,
    write_score,
)
from corpus_guard.errors import Misuse
from corpus_guard.screening.learned_scores import Logistic, Network, load_score
from labelled import clean_samples, sibling_samples

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
    read = load_score(Logistic, tmp_path / "made.yaml", "made/1", NAMES)

    assert read == model
    assert np.array_equal(read.score(features), model.score(features))


def test_both_classes_weigh_the_same_however_rare_one_is() -> None:
    features, labels, _ = rows()
    many = np.concatenate([features, np.repeat(features[labels == 0], 9, axis=0)])
    more = np.concatenate([labels, np.zeros(len(many) - len(labels), np.int64)])

    balanced = fit_logistic(NAMES, "made/1", (many, more, np.ones(len(many))), "")

    assert abs(balanced.score(np.array([[0.5, 5.0]]))[0] - 0.5) < 0.15


def either_but_not_both(count: int = 3_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    features = np.random.default_rng(7).normal(0, 1, (count, 2))
    return features, (features.prod(axis=1) < 0).astype(np.int64), np.ones(count)


def test_a_network_finds_what_no_weighted_sum_can_say(tmp_path: Path) -> None:
    features, labels, weights = either_but_not_both()
    near = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])

    model = fit_network(NAMES, "made/1", (features, labels, weights), "rows of this test", 0)
    plain = fit_logistic(NAMES, "made/1", (features, labels, weights), "rows of this test")

    assert (model.score(near) > 0.5).tolist() == [False, False, True, True]
    assert np.ptp(plain.score(near)) < 0.3
    assert fit_network(NAMES, "made/1", (features, labels, weights), "rows of this test", 0) == model
    write_score(model, tmp_path / "made.yaml")
    assert load_score(Network, tmp_path / "made.yaml", "made/1", NAMES) == model


def test_a_row_counts_by_its_weight_in_a_network_too() -> None:
    features, labels, weights = rows(4_000)
    disputed = np.full((800, 2), [0.5, 5.0])
    features, labels = np.concatenate([features, disputed]), np.concatenate([labels, np.arange(800) % 2])
    weights = np.concatenate([weights, np.where(np.arange(800) % 2, 0.02, 1.0)])

    believed, doubted = (
        fit_network(NAMES, "made/1", (features, labels, each), "", 0).score(disputed[:1])[0]
        for each in (np.ones(4_800), weights)
    )

    assert doubted < believed - 0.1


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_or_nothing_is_refused(label: int) -> None:
    with pytest.raises(Misuse, match="two classes"):
        fit_logistic(NAMES, "made/1", (np.ones((3, 2)), np.full(3, label), np.ones(3)), "")
    with pytest.raises(Misuse, match="0 rows"):
        fit_logistic(NAMES, "made/1", (np.empty((0, 2)), np.empty(0, np.int64), np.empty(0)), "")
    with pytest.raises(Misuse, match="two classes"):
        fit_network(NAMES, "made/1", (np.ones((3, 2)), np.full(3, label), np.ones(3)), "", 0)


def test_every_slice_of_attacks_weighs_the_same_and_an_honest_text_counts_once() -> None:
    few, many = (SliceKey(name, TextForm.BARE, True) for name in ("few", "many"))

    def batch(planted: int, weight: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        labels = np.array([1] * planted + [0, 0])
        return np.full((planted + 2, 1), planted), labels, np.array([weight] * planted + [1.0, 1.0])

    features, labels, weights = _weigh_slices(
        [(None, batch(0, 1.0)), (few, batch(3, 1 / 3)), (many, batch(5, 0.2)), (many, batch(20, 0.05))]
    )

    assert weights[labels == 0].tolist() == [1.0] * 8
    sums = {size: weights[(labels == 1) & (features[:, 0] == size)].sum() for size in (3, 5, 20)}
    assert sums == pytest.approx({3: 1.0, 5: 0.5, 20: 0.5})


def test_all_texts_of_a_question_are_siblings_once_more() -> None:
    bare, (other,) = sibling_samples(1), sibling_samples(1, each=1)
    led = [replace(sample, form=TextForm.LED, slice="lies, rewritten") for sample in bare]

    flood = list(_floods([*bare, *led, replace(other, slice="others")]))

    assert [(sample.slice, sample.form) for sample in flood] == [
        *[("lies, all", TextForm.BARE)] * 10,
        ("others, all", TextForm.BARE),
    ]
    assert [sample.text for sample in flood[:10]] == [sample.text for sample in (*bare, *led)]


def honest_pages() -> list[Sample]:
    chance = random.Random(5)
    words = [f"{chance.choice('bdfgklmnprst')}{chance.choice('aeiou')}{number:03}x" for number in range(400)]
    return [replace(sample, text=" ".join(chance.sample(words, 30)), half=Half.TUNING) for sample in clean_samples(80)]


def test_every_group_of_siblings_weighs_the_same_however_many_they_are(hashed_models: Any) -> None:
    one, other = (sample_group(question, count) for question, count in ((0, 5), (1, 4)))

    _, labels, weights = _batch_features([*one, *other], honest_pages(), hashed_models)

    assert sorted(weights[labels == 1].tolist()) == pytest.approx([0.2] * 5 + [0.25] * 4)
    assert set(weights[labels == 0].tolist()) <= {1.0}


def sample_group(question: int, count: int) -> list[Sample]:
    """Texts that share most of twelve words, which no other question's have."""
    chance = random.Random(question)
    words = [f"claim{question}of{number}" for number in range(12)]
    return [
        replace(sample, key=f"q{question}", text=" ".join([*chance.sample(words, 9), f"teller{question}and{number}"]))
        for number, sample in enumerate(sibling_samples(1, each=count, half=Half.TUNING))
    ]


def test_a_slice_of_few_groups_is_left_out(hashed_models: Any) -> None:
    few, enough = (
        [replace(sample, slice=name) for question in range(count) for sample in sample_group(question, 5)]
        for name, count in (("few", MIN_GROUPS - 1), ("enough", MIN_GROUPS))
    )

    counts = [
        int(_coordination(attacks, honest_pages(), hashed_models, random.Random(1))[1].sum())
        for attacks in (few, enough)
    ]

    assert counts[0] == 0 < counts[1]
    with pytest.raises(Misuse, match="no kind of attack has 10 questions with three texts"):
        train_score(ScreeningScore.COORDINATION, [*few[:15], *honest_pages()], hashed_models)
