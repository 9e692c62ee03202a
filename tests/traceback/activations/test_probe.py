"""A probe says what it is like, or that it is unsure; a file that was touched is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest

from activation_samples import drawn
from corpus_guard.detectors.probe_training import ProbeTrainingPlan, train_probe
from corpus_guard.errors import JudgeFailed, Misuse, SettingsError
from corpus_guard.traceback.activations.probe import Probe, Vote, load_probe, nearest_margins

GIVEN = drawn()


@pytest.fixture(scope="module", params=["linear", "weighed", "cnn"])
def probe(request: pytest.FixtureRequest) -> Probe:
    return train_probe(GIVEN, ProbeTrainingPlan(request.param, epochs=3, width=8, support=40)).probe


def test_it_is_read_back_as_it_was_written(probe: Probe, tmp_path: Path) -> None:
    read = load_probe(probe.write(tmp_path / "probe"))
    again = load_probe(read.write(tmp_path / "again"))

    assert read.digest == probe.digest == again.digest
    assert np.allclose(read.margins(GIVEN.states), probe.margins(GIVEN.states), atol=0.05)
    assert np.array_equal(read.margins(GIVEN.states), again.margins(GIVEN.states))
    assert sorted(path.name for path in (tmp_path / "probe").iterdir()) == ["probe.json", "probe.safetensors"]
    assert np.abs(read.margins(GIVEN.states)).max() <= 1


def test_margins_are_counted_from_the_centre_and_end_where_they_ended(probe: Probe) -> None:
    plain = replace(probe, centre=0.0).margins(GIVEN.states)
    moved = replace(probe, centre=0.4).margins(GIVEN.states)

    assert np.array_equal(moved > 0, plain > 0.4)
    assert np.array_equal(np.argsort(moved, kind="stable"), np.argsort(plain, kind="stable"))
    assert np.abs(moved).max() <= 1
    assert probe.centre != 0


@pytest.mark.parametrize("change", ["flip a byte", "other numbers", "no json", "no kind", "gone", "cut"])
def test_a_probe_that_was_touched_is_none(probe: Probe, tmp_path: Path, change: str) -> None:
    folder = probe.write(tmp_path / "probe")
    numbers, about = folder / "probe.safetensors", folder / "probe.json"
    if change == "flip a byte":
        data = bytearray(numbers.read_bytes())
        data[-1] ^= 1
        numbers.write_bytes(data)
    elif change == "other numbers":
        replace(probe, tensors={**probe.tensors, "mean": probe.tensors["mean"] + 1}).write(tmp_path / "other")
        (tmp_path / "other" / "probe.safetensors").replace(numbers)
    elif change == "no json":
        about.write_bytes(b"{")
    elif change == "no kind":
        about.write_bytes(orjson.dumps({**orjson.loads(about.read_bytes()), "kind": "oracle"}))
    elif change == "gone":
        numbers.unlink()
    else:
        about.write_bytes(orjson.dumps({"format": "corpus-guard/activation-probe/2"}))

    with pytest.raises(SettingsError, match="activation probe"):
        load_probe(folder)


def test_states_of_another_model_are_refused(probe: Probe) -> None:
    with pytest.raises(SettingsError, match=r"\(31, 576\).*expected \(5, 24\)"):
        probe.margins(np.zeros((2, 31, 576), np.float32))
    with pytest.raises(SettingsError, match="expected"):
        probe.margins(np.zeros((5, 24), np.float32))
    assert len(probe.margins(np.zeros((0, 5, 24), np.float32))) == 0


def test_states_that_are_no_numbers_are_refused(probe: Probe) -> None:
    states = GIVEN.states[:2].copy()
    states[1, 2, 3] = np.nan
    with pytest.raises(JudgeFailed, match="1 of 2"):
        probe.margins(states)


def test_the_nearest_of_the_support_set_decides() -> None:
    support = np.array([[1, 0], [-1, 0]], np.float32)
    margins = nearest_margins(np.array([[1, 0], [-1, 0], [0, 1]], np.float32), support, np.array([True, False]))

    assert margins.tolist() == pytest.approx([1, -1, 0], abs=1e-6)


@pytest.mark.parametrize(("support", "poisoned"), [(0, []), (2, [True, True]), (2, [False, False])])
def test_a_support_set_needs_both_classes(support: int, poisoned: list[bool]) -> None:
    with pytest.raises(Misuse, match="at least one of each"):
        nearest_margins(np.zeros((1, 2), np.float32), np.zeros((support, 2), np.float32), np.array(poisoned, bool))


def test_within_the_threshold_it_is_unsure(probe: Probe) -> None:
    one = replace(probe, threshold=0.3)
    said = [one.vote(margin) for margin in (0.31, -0.31, 0.3, -0.3, 0.0, float("nan"))]
    assert said == [Vote.POISONED, Vote.CLEAN, *[Vote.UNSURE] * 4]
    assert {replace(probe, threshold=1.0).vote(margin) for margin in (-1.0, 0.5, 1.0)} == {Vote.UNSURE}


GOOD = {"tpr": 0.95, "fpr": 0.02, "fpr_look_alike": 0.05, "samples": 60.0}


@pytest.mark.parametrize(
    ("figures", "short"),
    [
        (GOOD, ()),
        ({**GOOD, "tpr": 0.89}, ("tpr",)),
        ({**GOOD, "fpr": 0.06}, ("fpr",)),
        ({**GOOD, "fpr_look_alike": 0.11}, ("fpr_look_alike",)),
        ({**GOOD, "samples": 39.0}, ("samples",)),
        ({**GOOD, "tpr": float("nan")}, ("tpr",)),
        ({}, ("tpr", "samples", "fpr", "fpr_look_alike")),
    ],
)
def test_a_word_counts_only_over_the_floor(probe: Probe, figures: dict[str, float], short: tuple[str, ...]) -> None:
    found = replace(probe, figures=figures, threshold=0.2).shortfalls
    assert tuple(one.partition(" ")[0] for one in found) == short
    assert replace(probe, figures=GOOD, threshold=1.0).shortfalls == ("it is never sure",)
