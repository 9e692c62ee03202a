"""The experiments of RevPRAG's paper over recorded answers: within a data set, across them, and what the figures are worth.

Rules
    * a question that is tested on was never trained on, in any experiment (`corpus_guard.evaluation.activations.material.is_tested`), and
      neither were texts planted for it;
    * every probe is measured as it would be read back from its file;
    * beside the networks stand a linear probe, single features that need no state, and each probe trained on labels of others: those must
      score no better than chance, or the experiment itself is broken and says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from corpus_guard.errors import Misuse
from corpus_guard.evaluation.activations.material import is_tested
from corpus_guard.evaluation.activations.measuring import (
    auc,
    figures_of,
    random_labels,
    rates,
    scores_by_chance,
    single_features,
)
from corpus_guard.evaluation.activations.training import EPOCHS, Plan, Trained, parts, supported, train
from corpus_guard.traceback.activations.probe import TENSORS, Probe, parse
from corpus_guard.traceback.activations.recording import Answered, Recorded, Recordings

Progress = Callable[[str, int, int | None], object]
Wanted = Callable[[Recorded], bool]

SUPPORTS: Final = (50, 100, 150, 200, 250)
KINDS: Final = tuple(TENSORS)
FIVE: Final = 5  # texts, as the paper retrieves


@dataclass(frozen=True)
class Cell:
    """One probe on one set of tests."""

    trained: str
    tested: str
    probe: str  # kind
    values: dict[str, Any]


@dataclass(frozen=True)
class Findings:
    """What an evaluation found."""

    answers: dict[str, dict[str, int]]  # data set and kind → what was answered → prompts
    cells: tuple[Cell, ...]
    features: dict[str, float]  # single feature → AUC
    random_labels: dict[str, dict[str, Any]]  # kind of probe → AUC and whether it is chance
    milliseconds: dict[str, float]  # kind of probe → a sample, after the forward pass
    training: dict[
        str, dict[str, float]
    ]  # kind of probe → samples it learned from, and seconds; fewer where it went on from a checkpoint
    trained: dict[str, Trained] = field(repr=False, default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether a probe that was trained on random labels scores."""
        return not all(one["by_chance"] for one in self.random_labels.values())

    @property
    def best(self) -> str:
        """Of the kinds whose word counts, else of all, the one with the highest AUC on questions it never saw."""
        return max(self.trained, key=lambda kind: _worth(self.trained[kind].probe))

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "best": self.best,
            "answers": self.answers,
            "cells": [
                {"trained": one.trained, "tested": one.tested, "probe": one.probe, **one.values} for one in self.cells
            ],
            "single_features_auc": self.features,
            "random_labels": self.random_labels,
            "broken": self.broken,
            "milliseconds_a_sample": self.milliseconds,
            "training": self.training,
        }


def _worth(probe: Probe) -> tuple[bool, float]:
    return not probe.shortfalls, probe.figures.get("auc", 0.0)


def halves(given: Recordings) -> tuple[Recordings, Recordings]:
    """What may be trained on, and what is tested on; no question in both."""
    return given.where(lambda row: not is_tested(row.key)), given.where(lambda row: is_tested(row.key))


def evaluate(
    given: Recordings,
    *,
    seed: int = 0,
    epochs: int | None = None,
    kinds: Sequence[str] = KINDS,
    table: bool = False,
    checkpoints: Path | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Findings:
    """Train and measure.

    Args:
        given: recordings, of one or several data sets.
        seed: of every draw.
        epochs: of a network; as `Plan` has it unless given.
        kinds: of probes.
        table: also across data sets, by how many texts are planted, by kind of text and by size of the support set.
        checkpoints: where trainings are kept that go on later.
        progress: told what is being done.

    Raises:
        Misuse: too little to train on, or nothing to test on.
    """
    training, testing = halves(given)
    labelled = testing.labelled
    if not len(labelled) or labelled.poisoned.all() or not labelled.poisoned.any():
        raise Misuse(
            f"{int(labelled.poisoned.sum()) if len(labelled) else 0} attacker's and "
            f"{int((~labelled.poisoned).sum()) if len(labelled) else 0} right answers to questions that are tested on; expected both: "
            "collect from more questions"
        )
    plans = {kind: Plan(kind, seed, epochs or EPOCHS) for kind in kinds}
    told = _described(training)
    trained: dict[str, Trained] = {}
    cells: list[Cell] = []
    chance: dict[str, dict[str, Any]] = {}
    spent: dict[str, float] = {}
    learning: dict[str, dict[str, float]] = {}
    for number, (kind, plan) in enumerate(plans.items()):
        progress(f"training: {kind}", number, len(plans))
        began = time.monotonic()
        done = train(training, plan, trained_on=told, checkpoints=checkpoints, progress=progress)
        learning[kind] = {"samples": len(training.labelled), "seconds": time.monotonic() - began}
        done = replace(done, probe=written(replace(done.probe, figures=figures_of(written(done.probe), testing))))
        trained[kind] = done
        cells += _slices(done.probe, kind, "all", testing, table)
        spent[kind] = _milliseconds(done.probe, labelled)
        chance[kind] = _by_chance(training, testing, plan, progress)
        if table:
            cells += _across(training, testing, plan, progress)
    return Findings(_answers(given), tuple(cells), single_features(testing), chance, spent, learning, trained)


def _by_chance(training: Recordings, testing: Recordings, plan: Plan, progress: Progress) -> dict[str, Any]:
    """A probe trained on coins, and how well it tells those of other questions."""
    both = Recordings(
        training.model, training.prompt, training.rows + testing.rows, np.concatenate([training.states, testing.states])
    )
    coins = random_labels(both, plan.seed)
    learned = len(training.labelled)
    control = written(train(_part(coins, slice(None, learned)), plan, progress=progress).probe)
    rest = _part(coins, slice(learned, None))
    margins = control.margins(rest.states)
    return {"auc": auc(margins, rest.poisoned), "by_chance": scores_by_chance(margins, rest)}


def _part(given: Recordings, which: slice) -> Recordings:
    return Recordings(given.model, given.prompt, given.rows[which], given.states[which])


def written(probe: Probe) -> Probe:
    """As it is read back from its file."""
    about, numbers = probe.files["probe.json"], probe.files["probe.safetensors"]
    return parse(about, numbers, "(in memory)")


def measured(probe: Probe, tested: Recordings) -> dict[str, Any]:
    """Rates of every vote by its sign, as the paper counts, and of the sure ones."""
    labelled = tested.labelled
    margins, poisoned = probe.margins(labelled.states), labelled.poisoned
    return {
        "questions": len({row.key for row in labelled.rows}),
        "forced": rates(margins, poisoned).as_dict(),
        "sure": rates(margins, poisoned, probe.threshold).as_dict(),
        "auc": None if np.isnan(found := auc(margins, poisoned)) else found,
    }


def _slices(probe: Probe, kind: str, trained: str, testing: Recordings, table: bool) -> list[Cell]:
    cells = [Cell(trained, "all", kind, measured(probe, testing))]
    by: dict[str, Wanted] = {}
    for name in _sources(testing):
        by[name] = partial(_as_in_the_paper, name)
        by[f"{name}, texts written as attacks are"] = partial(_led_or, "look-alike", name)
        by[f"{name}, right in spite of planted texts"] = partial(_led_or, "planted", name)
    if table:
        counts = sorted({row.planted for row in testing.rows if row.texts == FIVE and row.kind in {"planted", "mixed"}})
        by |= {f"{planted} of 5 planted": partial(_planted, planted) for planted in counts}
        if any(row.kind == "noisy" for row in testing.rows):
            by |= {f"{name}, noisy clean texts": partial(_led_or, "noisy", name) for name in _sources(testing)}
        for other in sorted({row.kind for row in testing.rows} - {"clean", "planted", "mixed", "look-alike", "noisy"}):
            by[other] = partial(_beside, other)
    return cells + [Cell(trained, name, kind, measured(probe, testing.where(wanted))) for name, wanted in by.items()]


def _led_or(kind: str, source: str, row: Recorded) -> bool:
    """Attacker's answers from planted texts, and beside them the right ones of one kind of prompt."""
    led = row.kind == "planted" and row.answered is Answered.ATTACKER
    return row.source == source and (led or (row.kind == kind and row.answered is Answered.RIGHT))


def _as_in_the_paper(source: str, row: Recorded) -> bool:
    """Section 4.3: right answers from clean texts, attacker's answers from planted ones, and nothing else."""
    return _led_or("clean", source, row)


def _planted(count: int, row: Recorded) -> bool:
    return row.kind == "clean" or (row.texts == FIVE and row.planted == count and row.kind in {"planted", "mixed"})


def _beside(kind: str, row: Recorded) -> bool:
    return row.kind in {kind, "clean"}


def _across(training: Recordings, testing: Recordings, plan: Plan, progress: Progress) -> list[Cell]:
    """Trained on one data set and tested on each; of a network also with other sizes of the support set (Figure 5 of the paper)."""
    cells = []
    for source in _sources(training):
        paper = training.where(partial(_as_in_the_paper, source))
        try:
            probe = written(train(paper, plan, progress=progress).probe)
        except Misuse:  # too few of a class: a cell that is not there
            continue
        trained = f"{source}, as in the paper"
        for other in _sources(testing):
            tested = testing.where(partial(_as_in_the_paper, other))
            cells.append(Cell(trained, f"{other}, as in the paper", plan.kind, measured(probe, tested)))
        if plan.kind != "linear":
            within = testing.where(partial(_as_in_the_paper, source))
            for size in SUPPORTS:
                sized = supported(probe, *parts(paper, plan.seed), size, plan.seed)
                name = f"{source}, {len(sized.tensors['support'])} support samples of {size}"
                cells.append(Cell(trained, name, plan.kind, measured(sized, within)))
    return cells


def _milliseconds(probe: Probe, tested: Recordings, most: int = 50) -> float:
    """CPU time a sample, one at a time as in a trace: a busy machine does not make it longer."""
    probe.margins(tested.states[:1])  # builds the network
    began = time.process_time()
    for state in tested.states[:most]:
        probe.margins(state[None])
    return 1_000 * (time.process_time() - began) / min(most, len(tested))


def _answers(given: Recordings) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in given.rows:
        kind = f"{row.source}, {row.kind}" + (f", {row.planted} of {row.texts}" if row.kind == "mixed" else "")
        counts = found.setdefault(kind, {one.value: 0 for one in Answered})
        counts[row.answered.value] += 1
    return dict(sorted(found.items()))


def _described(given: Recordings) -> str:
    labelled = given.labelled
    questions = len({row.key for row in labelled.rows})
    return (
        f"{int(labelled.poisoned.sum())} attacker's and {int((~labelled.poisoned).sum())} right answers to {questions} questions of "
        f"{', '.join(_sources(labelled))}"
    )


def _sources(given: Recordings) -> list[str]:
    return sorted({row.source for row in given.rows})
