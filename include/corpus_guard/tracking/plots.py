"""The common frame of all plots."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES: Final = (7.0, 4.5)  # width, height
DPI: Final = 120
RED, GREEN, AMBER, GREY, BLUE = "#c62828", "#2e7d32", "#f9a825", "#9e9e9e", "#1565c0"
LABEL_COLOURS: Final = MappingProxyType({"poisoned": RED, "benign": GREEN, "undecided": AMBER})
OUTCOME_COLOURS: Final = MappingProxyType(
    {"traced": RED, "not_poisoning": GREEN, "exhausted": BLUE, "undecided": AMBER, "judge_failed": GREY}
)
"""Colours of every plot: what is poisoned is red."""


def new_figure(title: str) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes; ``figure.savefig`` writes it."""
    # The object interface needs no display and leaves no state behind.
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.grid(alpha=0.3)
    return figure, axes
