"""A probe learns what is there, nothing where nothing is, and goes on where it was killed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from activation_samples import drawn
from corpus_guard.detectors import probe_comparison
from corpus_guard.detectors.probe_comparison import compare_probes, measure_probe, split_recordings
from corpus_guard.detectors.probe_measures import (
    best_border,
    calibrate_threshold,
    is_chance,
    randomise_labels,
    single_feature_auc,
    vote_rates,
)
from corpus_guard.detectors.probe_training import (
    ProbeTrainingPlan,
    TrainedProbe,
    draw_support,
    split_for_calibration,
    train_probe,
    triplet_loss,
)
from corpus_guard.errors import JudgeFailed, Misuse
from corpus_guard.evaluation.activation_tables import build_tables
from corpus_guard.traceback.activations.recording import AnswerKind, Recordings
from corpus_guard.tracking.measures import area_under_curve

FAST = {"epochs": 5, "width": 8, "support": 40}
GIVEN = drawn(280)
FEW = drawn(140)


@pytest.mark.parametrize("kind", ["linear", "weighed", "cnn"])
def test_it_finds_what_is_there_on_questions_it_never_saw(kind: str) -> None:
    training, testing = split_recordings(GIVEN)
    assert not {row.key for row in training.rows} & {row.key for row in testing.rows}

    found = train_probe(training, ProbeTrainingPlan(kind, **FAST))  # type: ignore[arg-type]
    figures = measure_probe(found.probe, testing)

    assert figures.auc is not None and figures.auc > 0.95
    assert figures.forced.tpr > 0.85
    assert figures.forced.fpr < 0.15
    assert found.probe.threshold < 1
    assert len(found.losses) == (0 if kind == "linear" else 5)
    assert not found.losses or found.losses[-1] < found.losses[0]


def test_weighed_a_network_sees_what_stands_in_no_order() -> None:
    training, testing = split_recordings(drawn(280, signal=0.5, layers=31, hidden=96, scattered=True))
    found = {
        kind: measure_probe(train_probe(training, ProbeTrainingPlan(kind, **FAST)).probe, testing).auc
        for kind in ("weighed", "cnn")
    }

    assert found["weighed"] > 0.95 > 0.75 > found["cnn"], found


def test_the_best_is_the_one_whose_word_counts_then_the_one_that_tells_more() -> None:
    found = compare_probes(FEW, kinds=["linear"])
    sure = replace(found.trained["linear"].probe, threshold=0.0)
    counts = {"tpr": 1.0, "fpr": 0.0, "fpr_look_alike": 0.0, "samples": 100.0}
    a, b, c, d = (
        TrainedProbe(sure, (), figures)
        for figures in ({**counts, "auc": 0.8}, {**counts, "auc": 0.9}, {"auc": 0.99}, {"auc": 0.5})
    )

    assert replace(found, trained={"linear": a, "weighed": b, "cnn": c}).best == "weighed"
    assert replace(found, trained={"linear": c, "weighed": b, "cnn": a}).best == "weighed"
    assert replace(found, trained={"weighed": a, "cnn": c}).best == "weighed"
    assert replace(found, trained={"linear": d, "cnn": c}).best == "cnn"


def test_the_questions_that_are_reported_have_no_part_in_the_choice() -> None:
    found = compare_probes(FEW, kinds=["linear"])
    probe = replace(found.trained["linear"].probe, threshold=0.0)
    lucky = replace(
        probe, figures={"tpr": 1.0, "fpr": 0.0, "fpr_look_alike": 0.0, "samples": 100.0, "questions": 9.0, "auc": 1.0}
    )
    weak, good = {"auc": 0.6}, {"auc": 0.9}

    assert replace(
        found, trained={"cnn": TrainedProbe(lucky, (), weak), "linear": TrainedProbe(probe, (), good)}
    ).best == ("linear")


def test_all_kinds_are_compared_on_the_same_questions_that_they_did_not_learn_from() -> None:
    training, _ = split_recordings(FEW)
    learned, fifth = split_for_calibration(training, 0)
    linear = train_probe(training, ProbeTrainingPlan("linear"))
    network = train_probe(training, ProbeTrainingPlan("cnn", epochs=2, width=8, support=40))

    sizes = {(result.calibration["samples"], result.calibration["questions"]) for result in (linear, network)}
    assert sizes == {(float(len(fifth)), float(len({row.key for row in fifth.rows})))}
    assert linear.probe.figures["samples"] == len(training.labelled), "its threshold comes from all folds"
    again = train_probe(learned, ProbeTrainingPlan("linear")).probe
    assert linear.calibration["auc"] == measure_probe(again, fifth).auc
    assert network.calibration == network.probe.figures
    comparison = compare_probes(FEW, kinds=["linear"]).as_dict()
    assert comparison["calibration"] == {"linear": linear.calibration}


@pytest.mark.parametrize("kind", ["linear", "weighed", "cnn"])
def test_random_labels_teach_nothing_about_other_questions(kind: str) -> None:
    found = compare_probes(GIVEN, kinds=[kind], epochs=3)

    assert not found.broken
    assert found.random_labels[kind]["by_chance"]


def test_an_experiment_whose_halves_share_questions_is_broken_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_comparison, "split_recordings", lambda recordings: (recordings, recordings))

    found = compare_probes(GIVEN, kinds=["linear"])

    assert found.broken
    assert found.as_dict()["broken"] is True
    assert found.random_labels["linear"]["auc"] > 0.8


def test_coins_are_one_a_question_and_know_nothing_of_the_label() -> None:
    coins = randomise_labels(GIVEN, 0)
    by_key: dict[str, set[str]] = {}
    for row in coins.rows:
        by_key.setdefault(row.key, set()).add(row.answered)

    assert {len(labels) for labels in by_key.values()} == {1}
    assert len(coins) == len(GIVEN.labelled)
    assert 0.3 < (coins.poisoned == GIVEN.labelled.poisoned).mean() < 0.7
    assert not is_chance(coins.poisoned.astype(float), coins)


@pytest.mark.slow
def test_a_table_has_every_slice_and_says_what_needs_no_state() -> None:
    other = drawn(140, seed=3, source="other")
    both = Recordings(GIVEN.model, GIVEN.prompt, GIVEN.rows + other.rows, np.concatenate([GIVEN.states, other.states]))
    found = build_tables(both, epochs=2)
    cells = {(one.probe, one.trained, one.tested) for one in found.cells}

    assert ("cnn", "drawn, as in the paper", "other, as in the paper") in cells
    assert ("linear", "other, as in the paper", "drawn, as in the paper") in cells
    assert ("linear", "all", "5 of 5 planted") in cells
    assert ("linear", "all", "other, texts written as attacks are") in cells
    sizes = {tested for probe, trained, tested in cells if trained.startswith("drawn") and "support samples" in tested}
    assert {"drawn, 50 support samples of 50", "drawn, 100 support samples of 100"} < sizes
    assert len(sizes) == 5, "fewer where there are no more"
    assert all(0.5 <= value < 0.7 for name, value in found.features.items()), "drawn without any hint"
    assert found.milliseconds["linear"] < found.milliseconds["cnn"]
    assert found.as_dict()["answers"]["drawn, planted"]["right"] == 0


def test_the_same_seed_gives_the_same_probe_and_a_killed_training_goes_on(tmp_path: Path) -> None:
    plan = ProbeTrainingPlan("cnn", epochs=3, width=8, support=40)
    whole = train_probe(FEW, plan)

    class Killed(Exception):
        pass

    def kill(what: str, done: int, total: int | None) -> None:
        if done == 2:
            raise Killed

    with pytest.raises(Killed):
        train_probe(FEW, plan, checkpoints=tmp_path, progress=kill)
    began: list[int] = []
    rest = train_probe(FEW, plan, checkpoints=tmp_path, progress=lambda what, done, total: began.append(done))

    assert began == [2]
    assert rest.losses == pytest.approx(whole.losses, abs=1e-6)
    assert rest.probe.digest == whole.probe.digest
    assert train_probe(FEW, replace(plan, seed=1)).probe.digest != whole.probe.digest


def test_one_class_or_hardly_anything_is_no_training() -> None:
    right = GIVEN.select(lambda row: row.answered is AnswerKind.RIGHT)
    for given in (right, GIVEN.select(lambda row: False), drawn(12)):
        with pytest.raises(Misuse, match="expected at least 8 of each"):
            train_probe(given)
    with pytest.raises(Misuse, match="expected both"):
        compare_probes(right)
    with pytest.raises(Misuse, match="of one class"):
        single_feature_auc(right)
    with pytest.raises(Misuse, match="expected some of each"):
        draw_support(GIVEN.poisoned, 1, 0)


def test_states_that_are_no_numbers_are_no_training() -> None:
    states = GIVEN.states.copy()
    states[3] = np.nan
    with pytest.raises(JudgeFailed, match="hold NaN"):
        train_probe(replace(GIVEN, states=states))


def test_the_loss_is_that_of_the_triplets_that_are_not_apart() -> None:
    where = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # two of one class, one of the other
    labels = torch.tensor([True, True, False])
    root2 = 2**0.5
    # anchor 0: d(p) √2, d(n) 2; anchor 1: d(p) √2, d(n) √2; the third has no positive
    expected = (max(root2 - 2 + 0.7, 0) + 0.7) / 2

    assert float(triplet_loss(where, labels, margin=0.7)) == pytest.approx(expected, abs=1e-4)
    apart = torch.tensor([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]])
    assert float(triplet_loss(apart, labels)) == pytest.approx(0, abs=1e-4)


def test_the_threshold_leaves_the_wrong_ones_out() -> None:
    margins = np.array([0.9, 0.8, 0.2, -0.1, -0.9, -0.8, -0.3, 0.1])
    poisoned = np.array([True, True, True, True, False, False, False, False])

    threshold = calibrate_threshold(margins, poisoned)

    assert threshold == pytest.approx(0.1)
    assert vote_rates(margins, poisoned, threshold).as_dict()["unsure"] == 2
    assert vote_rates(margins, poisoned).as_dict()["found"] == 3
    assert calibrate_threshold(margins, ~poisoned) == 1.0, "no threshold makes a probe right that is wrong"
    assert area_under_curve(margins, poisoned) == pytest.approx(15 / 16)


@pytest.mark.parametrize(
    ("clean", "poisoned", "least", "most"),
    [
        ([-0.9, -0.8, 0.2], [0.4, 0.9], 0.2, 0.4),  # apart: between them, wherever zero is
        ([-0.9, -0.8, -0.7], [-0.6, 0.9], -0.7, -0.6),
        ([-0.5] * 99, [0.5], -0.5, 0.5),  # however rare one class is
        ([-0.9, -0.8, -0.7, 0.9], [-0.9, 0.6, 0.7, 0.8], -0.7, 0.6),
        ([], [0.5], 0, 0),
    ],
)
def test_the_border_is_where_both_classes_are_told_best(
    clean: list[float], poisoned: list[float], least: float, most: float
) -> None:
    found = best_border(np.array([*clean, *poisoned]), np.array([False] * len(clean) + [True] * len(poisoned)))

    assert least <= found <= most
    assert -1 < best_border(np.array([-1.0, 1.0]), np.array([True, False])) < 1, "even the wrong way round"


def test_a_question_with_many_samples_is_still_one_coin() -> None:
    coins = randomise_labels(drawn(160), 1)
    margins = np.random.default_rng(0).normal(size=len(coins)) + 0.7 * coins.poisoned
    many = [row.key == coins.rows[0].key for row in coins.rows]
    heavy = Recordings(
        coins.model,
        coins.prompt,
        coins.rows + tuple(row for row, one in zip(coins.rows, many, strict=True) if one) * 60,
        np.concatenate([coins.states, *[coins.states[many]] * 60]),
    )

    assert not is_chance(margins, coins), "40 questions of four samples each"
    assert is_chance(np.concatenate([margins, *[margins[many]] * 60]) + 0.0, heavy), "one question speaks for most"
