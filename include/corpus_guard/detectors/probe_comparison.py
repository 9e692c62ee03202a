"""Comparison of probes that are trained on recorded answers and measured on held-out questions.

Rules
    * a question that is tested on was never trained on (`corpus_guard.detectors.probe_prompts.is_tested`),
      and neither were the texts planted for it;
    * every probe is measured as it is read back from its file;
    * the best kind is chosen by the calibration questions alone. The held-out questions have no part in the
      choice, so they are no less new to the best probe than to the others; its vote counts by what it does on them;
    * the networks are compared with a linear probe, with single features that need no state, and with probes
      trained on random labels. Those must not do better than chance; otherwise the comparison itself is
      broken and reports so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypedDict

import numpy as np

from corpus_guard.detectors.probe_measures import (
    VoteRates,
    is_chance,
    probe_figures,
    randomise_labels,
    single_feature_auc,
    vote_rates,
)
from corpus_guard.detectors.probe_prompts import is_tested
from corpus_guard.detectors.probe_training import EPOCHS, ProbeTrainingPlan, TrainedProbe, train_probe
from corpus_guard.domain import JsonRecord, Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.traceback.activations.probe import TENSOR_NAMES, Probe, parse_probe
from corpus_guard.traceback.activations.recording import AnswerKind, Recording, Recordings
from corpus_guard.tracking.measures import area_under_curve

RowFilter = Callable[[Recording], bool]

PROBE_KINDS: Final = tuple(TENSOR_NAMES)
TIMED_SAMPLES: Final = 50


@dataclass(frozen=True)
class ProbeRates(JsonRecord):
    """Votes of a probe on a set of recordings."""

    questions: int
    forced: VoteRates  # every vote by its sign, as the paper counts
    sure: VoteRates  # the sure votes
    auc: float | None  # None: one class only


@dataclass(frozen=True)
class ProbeCell:
    """One probe on one set of recordings."""

    trained: str  # name of the training data
    tested: str  # name of the test data
    probe: str  # kind
    rates: ProbeRates


class ControlResult(TypedDict):
    """Result of a probe that was trained on random labels."""

    auc: float
    by_chance: bool


class TrainingCost(TypedDict):
    """Size and duration of a training."""

    samples: int
    seconds: float  # less if the training was resumed from a checkpoint


@dataclass(frozen=True)
class ProbeComparison:
    """Figures of all trained probes."""

    answers: Mapping[str, Mapping[str, int]]  # data set and kind of prompt → kind of answer → prompts
    cells: tuple[ProbeCell, ...]
    features: Mapping[str, float]  # single feature → AUC
    random_labels: Mapping[str, ControlResult]  # by kind of probe
    milliseconds: Mapping[str, float]  # kind of probe → CPU time per sample, after the forward pass
    training: Mapping[str, TrainingCost]  # by kind of probe
    trained: Mapping[str, TrainedProbe] = field(repr=False, default_factory=dict)

    @property
    def broken(self) -> bool:
        """Return whether a probe that was trained on random labels does better or worse than chance."""
        return not all(control["by_chance"] for control in self.random_labels.values())

    @property
    def best(self) -> str:
        """Return the kind with the highest AUC on the calibration questions.

        Kinds whose vote would count by their figures there come first.
        """
        return max(self.trained, key=lambda kind: _rank(self.trained[kind]))

    def as_dict(self) -> dict[str, object]:
        """Return all figures for JSON."""
        return {
            "best": self.best,
            "calibration": {kind: dict(result.calibration) for kind, result in self.trained.items()},
            "answers": self.answers,
            "cells": [
                {"trained": cell.trained, "tested": cell.tested, "probe": cell.probe, **cell.rates.as_dict()}
                for cell in self.cells
            ],
            "single_features_auc": self.features,
            "random_labels": self.random_labels,
            "broken": self.broken,
            "milliseconds_a_sample": self.milliseconds,
            "training": self.training,
        }


def _rank(result: TrainedProbe) -> tuple[bool, float]:
    calibrated = replace(result.probe, figures=result.calibration)
    return not calibrated.shortfalls, result.calibration.get("auc", 0.0)


def split_recordings(recordings: Recordings) -> tuple[Recordings, Recordings]:
    """Return the recordings to train on and those to test on; no question is in both."""
    return (recordings.select(lambda row: not is_tested(row.key)), recordings.select(lambda row: is_tested(row.key)))


def compare_probes(
    recordings: Recordings,
    *,
    seed: int = 0,
    epochs: int | None = None,
    kinds: Sequence[str] = PROBE_KINDS,
    checkpoints: Path | None = None,
    progress: Progress = no_progress,
) -> ProbeComparison:
    """Train and measure a probe of each kind.

    Args:
        epochs: of a network; None: as in `ProbeTrainingPlan`.
        checkpoints: folder from which killed trainings are resumed; None: no checkpoints.

    Raises:
        Misuse: too little to train on, or nothing to test on.
    """
    training, testing = split_recordings(recordings)
    labelled = testing.labelled
    attackers = int(labelled.poisoned.sum()) if len(labelled) else 0
    if not 0 < attackers < len(labelled):
        raise Misuse(
            f"{attackers} attacker's and {len(labelled) - attackers} right answers to questions that are tested on; expected both: "
            "collect from more questions"
        )
    trained_on = _describe_training(training)
    trained: dict[str, TrainedProbe] = {}
    cells: list[ProbeCell] = []
    controls: dict[str, ControlResult] = {}
    milliseconds: dict[str, float] = {}
    costs: dict[str, TrainingCost] = {}
    for number, kind in enumerate(kinds):
        plan = ProbeTrainingPlan(kind, seed, epochs or EPOCHS)
        progress(f"training: {kind}", number, len(kinds))
        began = time.monotonic()
        result = train_probe(training, plan, trained_on=trained_on, checkpoints=checkpoints, progress=progress)
        costs[kind] = TrainingCost(samples=len(training.labelled), seconds=time.monotonic() - began)
        figures = probe_figures(as_written(result.probe), testing)
        probe = as_written(replace(result.probe, figures=figures))
        trained[kind] = replace(result, probe=probe)
        cells += measure_slices(probe, "all", testing, _slices(testing))
        milliseconds[kind] = _milliseconds(probe, labelled)
        controls[kind] = _random_label_control(training, testing, plan, progress)
    return ProbeComparison(
        _count_answers(recordings), tuple(cells), single_feature_auc(testing), controls, milliseconds, costs, trained
    )


def measure_slices(probe: Probe, trained: str, testing: Recordings, slices: Mapping[str, RowFilter]) -> list[ProbeCell]:
    """Measure a probe on slices of the test data; `trained` names its training data."""
    return [
        ProbeCell(trained, name, probe.kind, measure_probe(probe, testing.select(belongs)))
        for name, belongs in slices.items()
    ]


def measure_probe(probe: Probe, tested: Recordings) -> ProbeRates:
    """Count the votes of a probe on labelled recordings."""
    labelled = tested.labelled
    margins, poisoned = probe.margins(labelled.states), labelled.poisoned
    auc = area_under_curve(margins, poisoned)
    return ProbeRates(
        questions=len({row.key for row in labelled.rows}),
        forced=vote_rates(margins, poisoned),
        sure=vote_rates(margins, poisoned, probe.threshold),
        auc=None if np.isnan(auc) else auc,
    )


def as_written(probe: Probe) -> Probe:
    """Return the probe as it is read back from its files."""
    return parse_probe(probe.files["probe.json"], probe.files["probe.safetensors"], "(in memory)")


def data_sets(recordings: Recordings) -> list[str]:
    """Return the names of the data sets, sorted."""
    return sorted({row.source for row in recordings.rows})


def _slices(testing: Recordings) -> dict[str, RowFilter]:
    slices: dict[str, RowFilter] = {"all": lambda row: True}
    for name in data_sets(testing):
        slices[name] = partial(is_as_in_the_paper, name)
        slices[f"{name}, texts written as attacks are"] = partial(is_attackers_or_right, "look-alike", name)
        slices[f"{name}, right in spite of planted texts"] = partial(is_attackers_or_right, "planted", name)
    return slices


def is_attackers_or_right(kind: str, data_set: str, row: Recording) -> bool:
    """Return whether a row is an attacker's answer from planted texts, or a right answer.

    Right answers count from one kind of prompt only.
    """
    attackers = row.kind == "planted" and row.answered is AnswerKind.ATTACKER
    return row.source == data_set and (attackers or (row.kind == kind and row.answered is AnswerKind.RIGHT))


def is_as_in_the_paper(data_set: str, row: Recording) -> bool:
    """Return whether a row belongs to the data of the paper's section 4.3.

    That is, a right answer from clean texts or an attacker's answer from planted texts.
    """
    return is_attackers_or_right("clean", data_set, row)


def _random_label_control(
    training: Recordings, testing: Recordings, plan: ProbeTrainingPlan, progress: Progress
) -> ControlResult:
    """Train a probe on coins, and measure how well it predicts those of other questions."""
    both = Recordings(
        training.model, training.prompt, training.rows + testing.rows, np.concatenate([training.states, testing.states])
    )
    coins = randomise_labels(both, plan.seed)
    learned = len(training.labelled)
    control = as_written(train_probe(_part(coins, slice(None, learned)), plan, progress=progress).probe)
    unseen = _part(coins, slice(learned, None))
    margins = control.margins(unseen.states)
    return ControlResult(auc=area_under_curve(margins, unseen.poisoned), by_chance=is_chance(margins, unseen))


def _part(recordings: Recordings, rows: slice) -> Recordings:
    return Recordings(recordings.model, recordings.prompt, recordings.rows[rows], recordings.states[rows])


def _milliseconds(probe: Probe, tested: Recordings) -> float:
    """Measure CPU time per sample, one sample at a time as in a trace: a busy machine does not affect it."""
    probe.margins(tested.states[:1])  # builds the network
    began = time.process_time()
    for state in tested.states[:TIMED_SAMPLES]:
        probe.margins(state[None])
    return 1_000 * (time.process_time() - began) / min(TIMED_SAMPLES, len(tested))


def _count_answers(recordings: Recordings) -> dict[str, dict[str, int]]:
    answers: dict[str, dict[str, int]] = {}
    for row in recordings.rows:
        kind = f"{row.source}, {row.kind}" + (f", {row.planted} of {row.texts}" if row.kind == "mixed" else "")
        counts = answers.setdefault(kind, {answer.value: 0 for answer in AnswerKind})
        counts[row.answered.value] += 1
    return dict(sorted(answers.items()))


def _describe_training(recordings: Recordings) -> str:
    labelled = recordings.labelled
    questions = len({row.key for row in labelled.rows})
    attackers = int(labelled.poisoned.sum())
    return (
        f"{attackers} attacker's and {len(labelled) - attackers} right answers to {questions} questions of "
        f"{', '.join(data_sets(labelled))}"
    )
