"""Median and spread of each signal in each source, over the documents that the source had accepted before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from corpus_guard.screening.survey.resemblance import History, RunColumns
from corpus_guard.screening.survey.signals import scale_value

MIN_HISTORY_VERSIONS: Final = 200  # accepted versions from which a source is judged by its history alone


@dataclass(frozen=True, slots=True)
class Robust:
    """Location and spread that a minority of hostile values cannot move far."""

    median: float
    mad: float  # median absolute deviation, same unit as the median
    count: int

    def z(self, value: float, floor: float = 1e-9) -> float:
        """Return the robust z-score.

        Its unit is 1.4826 MAD: one standard deviation of a normal distribution.

        Args:
            value: on the scale of the median (`signals.scale_value`).
            floor: the least spread to assume, in the same unit: most documents may have the very same value.
        """
        return (value - self.median) / max(1.4826 * self.mad, floor)


def source_statistics(run: RunColumns, history: History) -> dict[str, dict[str, Robust]]:
    """Return source → signal → statistics, on the scale of `signals.scale_value`."""
    statistics: dict[str, dict[str, Robust]] = {}
    for source, columns in run.values.items():
        past = history.robust_values(source)
        for name, values in columns.items():
            before = past.get(name, ())
            counted = [*before] if len(before) >= MIN_HISTORY_VERSIONS else [*before, *values]
            numbers = np.array([scale_value(name, value) for value in counted])
            numbers = numbers[np.isfinite(numbers)]
            if len(numbers):
                median = float(np.median(numbers))
                spread = float(np.median(np.abs(numbers - median)))
                statistics.setdefault(source, {})[name] = Robust(median, spread, len(numbers))
    return statistics
