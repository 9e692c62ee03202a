"""The frame of all pictures of an evaluation."""

from __future__ import annotations

from typing import Any, Final

SIZE: Final = (7.0, 4.5)  # inches
DPI: Final = 120


def axes(title: str) -> tuple[Any, Any]:
    """A figure and its axes; ``figure.savefig`` writes it."""
    # The object interface needs no display and leaves no state behind.
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI, layout="constrained")
    plot = figure.add_subplot()
    plot.set_title(title)
    plot.grid(alpha=0.3)
    return figure, plot
