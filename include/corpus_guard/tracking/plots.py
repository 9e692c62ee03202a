"""The common frame of all plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INCHES: Final = (7.0, 4.5)  # width, height
DPI: Final = 120


def new_figure(title: str) -> tuple[Figure, Axes]:
    """Return an empty figure and its axes; ``figure.savefig`` writes it."""
    # The object interface needs no display and leaves no state behind.
    from matplotlib.figure import Figure

    figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title)
    axes.grid(alpha=0.3)
    return figure, axes
