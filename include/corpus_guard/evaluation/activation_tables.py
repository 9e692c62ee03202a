"""Tables of RevPRAG's paper over recorded answers.

They show probes within a data set, across data sets, and by kind of prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from corpus_guard.detectors.probe_comparison import (
    PROBE_KINDS,
    ProbeCell,
    ProbeComparison,
    RowFilter,
    as_written,
    compare_probes,
    data_sets,
    is_as_in_the_paper,
    is_attackers_or_right,
    measure_probe,
    measure_slices,
    split_recordings,
)
from corpus_guard.detectors.probe_training import (
    EPOCHS,
    ProbeTrainingPlan,
    add_support_set,
    split_for_calibration,
    train_probe,
)
from corpus_guard.domain import Progress, no_progress
from corpus_guard.errors import Misuse
from corpus_guard.traceback.activations.recording import Recording, Recordings

SUPPORT_SIZES: Final = (50, 100, 150, 200, 250)
PAPER_TEXTS: Final = 5  # retrieved per question


def build_tables(
    recordings: Recordings,
    *,
    seed: int = 0,
    epochs: int | None = None,
    kinds: Sequence[str] = PROBE_KINDS,
    checkpoints: Path | None = None,
    progress: Progress = no_progress,
) -> ProbeComparison:
    """Compare probes as `compare_probes` does, with cells for the paper's tables.

    The additional cells are: by number of planted texts, by kind of prompt, across data sets, and by size of
    the support set.
    """
    comparison = compare_probes(
        recordings, seed=seed, epochs=epochs, kinds=kinds, checkpoints=checkpoints, progress=progress
    )
    training, testing = split_recordings(recordings)
    cells: list[ProbeCell] = []
    for kind, trained in comparison.trained.items():
        cells += [cell for cell in comparison.cells if cell.probe == kind]
        cells += measure_slices(trained.probe, "all", testing, _table_slices(testing))
        cells += _across(training, testing, ProbeTrainingPlan(kind, seed, epochs or EPOCHS), progress)
    return replace(comparison, cells=tuple(cells))


def _table_slices(testing: Recordings) -> dict[str, RowFilter]:
    kinds = {row.kind for row in testing.rows}
    counts = {row.planted for row in testing.rows if row.texts == PAPER_TEXTS and row.kind in {"planted", "mixed"}}
    slices: dict[str, RowFilter] = {
        f"{planted} of 5 planted": partial(_has_planted, planted) for planted in sorted(counts)
    }
    if "noisy" in kinds:
        slices |= {
            f"{name}, noisy clean texts": partial(is_attackers_or_right, "noisy", name) for name in data_sets(testing)
        }
    for kind in sorted(kinds - {"clean", "planted", "mixed", "look-alike", "noisy"}):
        slices[kind] = partial(_is_kind_or_clean, kind)
    return slices


def _has_planted(count: int, row: Recording) -> bool:
    return row.kind == "clean" or (
        row.texts == PAPER_TEXTS and row.planted == count and row.kind in {"planted", "mixed"}
    )


def _is_kind_or_clean(kind: str, row: Recording) -> bool:
    return row.kind in {kind, "clean"}


def _across(training: Recordings, testing: Recordings, plan: ProbeTrainingPlan, progress: Progress) -> list[ProbeCell]:
    """Train on each data set and test on all; networks also with other sizes of the support set (Figure 5 of the paper)."""
    cells = []
    for name in data_sets(training):
        learned = training.select(partial(is_as_in_the_paper, name))
        try:
            probe = as_written(train_probe(learned, plan, progress=progress).probe)
        except Misuse:  # too few samples of a class: the row is left out
            continue
        trained = f"{name}, as in the paper"
        slices: dict[str, RowFilter] = {
            f"{other}, as in the paper": partial(is_as_in_the_paper, other) for other in data_sets(testing)
        }
        cells += measure_slices(probe, trained, testing, slices)
        if plan.kind != "linear":
            within = testing.select(partial(is_as_in_the_paper, name))
            for size in SUPPORT_SIZES:
                resized = add_support_set(probe, *split_for_calibration(learned, plan.seed), size, plan.seed)
                tested = f"{name}, {len(resized.tensors['support'])} support samples of {size}"
                cells.append(ProbeCell(trained, tested, plan.kind, measure_probe(resized, within)))
    return cells
