"""Small plots as numbers, which the templates draw as SVG: no script, no image, no inline style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from corpus_guard.ledger.states import RunState
from corpus_guard.review.health import DecisionsOfDay, Share

WIDTH: Final = 520  # of every plot, in SVG units
HEIGHT: Final = 90  # of plots over time
BAR_START: Final = 200  # where bars begin
MAX_LABEL_CHARS: Final = 30
ROW_HEIGHT: Final = 26
POINT_RADIUS: Final = 8  # margin that points of a line need
LINE_START: Final = 44  # where a line begins, right of the labels of its axis
MIN_BARS: Final = 12  # places for runs: one run alone is no wall
JUDGED: Final = ("accepted", "quarantined", "rejected")  # counts of a refresh, as the ledger names them


@dataclass(frozen=True, slots=True)
class RateRow:
    """A row of a plot: a share with its interval."""

    label: str
    description: str
    x: float  # of the share
    low: float
    high: float
    y: float  # middle of the row
    has_data: bool  # False if there was nothing to count


@dataclass(frozen=True, slots=True)
class RatePlot:
    """Shares from 0 to 1, one per row."""

    rows: tuple[RateRow, ...]
    height: int
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True)
class RefreshRun:
    """A refresh: when it began, how it ended, and how many documents it judged."""

    started_at: datetime
    state: str  # of `corpus_guard.ledger.runs.run_state`
    judged: Mapping[str, int]  # by the names of `JUDGED`


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of one part for each count, the first one lowest."""

    x: float
    parts: tuple[tuple[str, float, float], ...]  # class of the style, y, height; those that count nothing are left out
    description: str
    is_sealed: bool  # of a run; False: it failed, or has not ended


@dataclass(frozen=True, slots=True)
class BarPlot:
    """Bars over time, oldest first."""

    bars: tuple[Bar, ...]
    width: float  # of a bar
    max_count: int  # of the largest bar
    first: str  # day of the first bar
    last: str


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of a day or a run, to be drawn as a bar."""

    day: str
    parts: Mapping[str, int]  # by the class of their style
    description: str
    is_sealed: bool = True


@dataclass(frozen=True, slots=True)
class LinePlot:
    """A share over time."""

    points: str  # of an SVG polyline
    dots: tuple[tuple[float, float, str], ...]  # x, y, description


def rate_plot(entries: Sequence[tuple[str, Share]]) -> RatePlot:
    """Return a plot of (label, share)."""
    scale = WIDTH - BAR_START - 12
    rows = []
    for number, (label, share) in enumerate(entries):
        has_data = share["share"] is not None
        description = f"{share['count']:,} of {share['of']:,}" if has_data else "nothing to count"
        x, low, high = (BAR_START + scale * (share[part] or 0.0) for part in ("share", "low", "high"))
        name = label if len(label) <= MAX_LABEL_CHARS else f"{label[: MAX_LABEL_CHARS - 1]}…"
        middle = ROW_HEIGHT * number + ROW_HEIGHT / 2
        rows.append(RateRow(name, f"{label}: {description}", x, low, high, middle, has_data))
    ticks = tuple((BAR_START + scale * part, f"{part:.0%}") for part in (0.0, 0.5, 1.0))
    return RatePlot(tuple(rows), ROW_HEIGHT * len(rows) + 22, ticks)


def day_plot(days: Sequence[DecisionsOfDay]) -> BarPlot:
    """Return a plot of the decisions of each day: released below, rejected above."""
    return _bar_plot(
        [
            _Counts(
                day["day"],
                {"": day["released"], "quiet": day["rejected"]},
                f"{day['day']}: {day['released']:,} released, {day['rejected']:,} rejected",
            )
            for day in days
        ]
    )


def count_plot(counts: Sequence[tuple[date, int]], max_days: int) -> BarPlot:
    """Return a plot of (day, count), oldest first: the last `max_days` days, those without a count as 0."""
    if not counts:
        return _bar_plot([])
    by_day = dict(counts)
    last = max(by_day)
    first = max(min(by_day), last - timedelta(days=max_days - 1))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return _bar_plot([_Counts(str(day), {"": by_day.get(day, 0)}, f"{day}: {by_day.get(day, 0):,}") for day in days])


def run_plot(runs: Sequence[RefreshRun]) -> BarPlot:
    """Return a plot of runs, oldest first. A bar's height is the square root of its documents, so that few show beside many."""
    bars = []
    for run in runs:
        counts = ", ".join(f"{run.judged.get(name, 0):,} {name}" for name in JUDGED)
        state = "" if run.state == RunState.SEALED else f", {run.state}"
        bars.append(
            _Counts(
                f"{run.started_at:%Y-%m-%d}",
                {name: run.judged.get(name, 0) for name in JUDGED},
                f"{run.started_at:%Y-%m-%d %H:%M} UTC{state}: {counts}",
                run.state == RunState.SEALED,
            )
        )
    return _bar_plot(bars, places=MIN_BARS, power=0.5)


def _bar_plot(counted: Sequence[_Counts], places: int = 1, power: float = 1.0) -> BarPlot:
    """Return a plot with room for at least `places` bars, whose heights are a power of what they count."""
    max_count = max((sum(each.parts.values()) for each in counted), default=0)
    step = WIDTH / max(len(counted), places)
    bars = []
    for number, each in enumerate(counted):
        total = sum(each.parts.values())
        full = HEIGHT * (total / max(max_count, 1)) ** power
        parts, top = [], float(HEIGHT)
        for name, count in each.parts.items():
            if count:
                top -= full * count / total
                parts.append((name, round(top, 2), round(full * count / total, 2)))
        bars.append(Bar(round(step * number, 2), tuple(parts), each.description, each.is_sealed))
    first, last = (counted[0].day, counted[-1].day) if counted else ("", "")
    return BarPlot(tuple(bars), round(step * 0.8, 2), max_count, first, last)


def line_plot(entries: Sequence[tuple[str, float | None]]) -> LinePlot:
    """Return a plot of (description, share); entries without a share are skipped, and one alone stands in the middle."""
    step = (WIDTH - LINE_START - POINT_RADIUS) / max(len(entries) - 1, 1)
    begin = LINE_START if len(entries) > 1 else WIDTH / 2
    dots = tuple(
        (round(begin + step * number, 1), round(HEIGHT * (1 - value), 1), description)
        for number, (description, value) in enumerate(entries)
        if value is not None
    )
    return LinePlot(" ".join(f"{x},{y}" for x, y, _ in dots), dots)
