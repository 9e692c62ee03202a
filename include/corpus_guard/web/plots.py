"""Small plots as numbers, which the template draws as SVG: no script, no picture, no inline style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 520  # of every plot, in its own units
LEFT = 200  # where bars begin
LABEL = 30  # characters of a row's name
ROW = 26


@dataclass(frozen=True, slots=True)
class RateRow:
    """A share with its interval: a row of a plot."""

    label: str
    told: str  # in words
    x: float  # of the share
    low: float
    high: float
    y: float  # of the row's middle
    known: bool  # whether there was anything to count


@dataclass(frozen=True, slots=True)
class RatePlot:
    """Shares from 0 to 1, one a row."""

    rows: tuple[RateRow, ...]
    height: int
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class DayPlot:
    """Two counts a day, one above the other."""

    bars: tuple[tuple[float, float, float, float, float, str], ...]  # x, y, height, y and height of the second, words
    width: float  # of a bar
    most: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class LinePlot:
    """A share over time."""

    points: str  # for SVG's polyline
    dots: tuple[tuple[float, float, str], ...]  # x, y, words


def rate_plot(entries: Sequence[tuple[str, Mapping[str, Any]]], width: int = WIDTH) -> RatePlot:
    """Of (label, share as `Share.as_dict` gives it)."""
    scale = width - LEFT - 12
    rows = []
    for number, (label, share) in enumerate(entries):
        value, low, high = share["share"], share["low"], share["high"]
        known = value is not None
        told = f"{share['count']:,} of {share['of']:,}" if known else "nothing to count"
        x, left, right = (LEFT + scale * (part or 0.0) for part in (value, low, high))
        name = label if len(label) <= LABEL else f"{label[: LABEL - 1]}…"
        rows.append(RateRow(name, f"{label}: {told}", x, left, right, ROW * number + ROW / 2, known))
    ticks = tuple((LEFT + scale * part, f"{part:.0%}") for part in (0.0, 0.5, 1.0))
    return RatePlot(tuple(rows), ROW * len(rows) + 22, ticks)


def day_plot(entries: Sequence[Mapping[str, Any]], height: int = 90, width: int = WIDTH) -> DayPlot:
    """Of (day, released, rejected)."""
    most = max((one["released"] + one["rejected"] for one in entries), default=0)
    step = width / max(len(entries), 1)
    bars = []
    for number, one in enumerate(entries):
        released, rejected = (height * one[name] / max(most, 1) for name in ("released", "rejected"))
        told = f"{one['day']}: {one['released']:,} released, {one['rejected']:,} rejected"
        bars.append(
            (round(step * number, 2), height - released, released, height - released - rejected, rejected, told)
        )
    first, last = (entries[0]["day"], entries[-1]["day"]) if entries else ("", "")
    return DayPlot(tuple(bars), round(step * 0.8, 2), most, first, last)


def line_plot(entries: Sequence[tuple[str, float | None]], height: int = 90, width: int = WIDTH) -> LinePlot:
    """Of (words, share)."""
    known = [(number, words, value) for number, (words, value) in enumerate(entries) if value is not None]
    step = (width - 16) / max(len(entries) - 1, 1)
    dots = tuple((round(8 + step * number, 1), round(height * (1 - value), 1), words) for number, words, value in known)
    return LinePlot(" ".join(f"{x},{y}" for x, y, _ in dots), dots)
