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
class DayBar:
    """Decisions of one day: released below, rejected above."""

    x: float
    released_y: float
    released_height: float
    rejected_y: float
    rejected_height: float
    description: str


@dataclass(frozen=True, slots=True)
class DayPlot:
    """Stacked bars, one per day."""

    bars: tuple[DayBar, ...]
    width: float  # of a bar
    max_count: int  # decisions on the busiest day
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class RefreshRun:
    """A refresh: when it began, how it ended, and how many documents it judged."""

    started_at: datetime
    state: str  # of `corpus_guard.ledger.runs.run_state`
    judged: Mapping[str, int]  # by the names of `JUDGED`


@dataclass(frozen=True, slots=True)
class RunBar:
    """One run: a bar with a part for each verdict, accepted lowest."""

    x: float
    parts: tuple[tuple[str, float, float], ...]  # name of `JUDGED`, y, height; those without a document are left out
    is_sealed: bool  # False: it failed, or has not ended
    description: str


@dataclass(frozen=True, slots=True)
class RunPlot:
    """Bars of runs, oldest first."""

    bars: tuple[RunBar, ...]
    width: float  # of a bar
    max_count: int  # documents judged by the largest run
    first: str
    last: str


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


def day_plot(days: Sequence[DecisionsOfDay]) -> DayPlot:
    """Return a plot of the decisions of each day."""
    return _day_plot(
        [
            (
                day["day"],
                day["released"],
                day["rejected"],
                f"{day['released']:,} released, {day['rejected']:,} rejected",
            )
            for day in days
        ]
    )


def _day_plot(days: Sequence[tuple[str, int, int, str]]) -> DayPlot:
    """Return a plot of (day, released, rejected, description)."""
    max_count = max((released + rejected for _, released, rejected, _ in days), default=0)
    step = WIDTH / max(len(days), 1)
    bars = []
    for number, (day, released_count, rejected_count, description) in enumerate(days):
        released = HEIGHT * released_count / max(max_count, 1)
        rejected = HEIGHT * rejected_count / max(max_count, 1)
        bars.append(
            DayBar(
                x=round(step * number, 2),
                released_y=HEIGHT - released,
                released_height=released,
                rejected_y=HEIGHT - released - rejected,
                rejected_height=rejected,
                description=f"{day}: {description}",
            )
        )
    first, last = (days[0][0], days[-1][0]) if days else ("", "")
    return DayPlot(tuple(bars), round(step * 0.8, 2), max_count, first, last)


def count_plot(counts: Sequence[tuple[date, int]], max_days: int) -> DayPlot:
    """Return a plot of (day, count), oldest first: the last `max_days` days, those without a count as 0."""
    if not counts:
        return DayPlot((), 0.0, 0, "", "")
    by_day = dict(counts)
    last = max(by_day)
    first = max(min(by_day), last - timedelta(days=max_days - 1))
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return _day_plot([(str(day), by_day.get(day, 0), 0, f"{by_day.get(day, 0):,}") for day in days])


def run_plot(runs: Sequence[RefreshRun]) -> RunPlot:
    """Return a plot of runs, oldest first. A bar's height is the square root of its documents, so that few show beside many."""
    max_count = max((sum(run.judged.values()) for run in runs), default=0)
    step = WIDTH / max(len(runs), MIN_BARS)
    bars = []
    for number, run in enumerate(runs):
        total = sum(run.judged.values())
        full = HEIGHT * (total / max(max_count, 1)) ** 0.5
        parts, top = [], float(HEIGHT)
        for name in JUDGED:
            if count := run.judged.get(name, 0):
                part = full * count / total
                top -= part
                parts.append((name, round(top, 2), round(part, 2)))
        counts = ", ".join(f"{run.judged.get(name, 0):,} {name}" for name in JUDGED)
        state = "" if run.state == RunState.SEALED else f", {run.state}"
        bars.append(
            RunBar(
                x=round(step * number, 2),
                parts=tuple(parts),
                is_sealed=run.state == RunState.SEALED,
                description=f"{run.started_at:%Y-%m-%d %H:%M} UTC{state}: {counts}",
            )
        )
    first, last = (f"{run.started_at:%Y-%m-%d}" for run in (runs[0], runs[-1])) if runs else ("", "")
    return RunPlot(tuple(bars), round(step * 0.8, 2), max_count, first, last)


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
