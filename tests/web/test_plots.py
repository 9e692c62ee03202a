"""Plots as numbers: bars that hold what they stand for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from corpus_guard.ledger.states import RunState
from corpus_guard.web.plots import LINE_START, POINT_RADIUS, WIDTH, RefreshRun, line_plot, run_plot

START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


def a_run(day: int, *judged: int, state: RunState = RunState.SEALED) -> RefreshRun:
    counts = dict(zip(("accepted", "quarantined", "rejected"), judged, strict=False))
    return RefreshRun(START + timedelta(days=day), state, counts)


def test_a_bar_is_divided_by_verdict_and_its_height_is_the_root_of_its_documents() -> None:
    plot = run_plot([a_run(0, 50, 40, 10), a_run(1, 20, 5, 0)])

    first, second = plot.bars
    assert first.parts == (("accepted", 45, 45), ("quarantined", 9, 36), ("rejected", 0, 9))
    assert second.parts == (("accepted", 54, 36), ("quarantined", 45, 9))  # 25 of 100 documents: half the height
    assert first.description == "2026-03-01 02:00 UTC: 50 accepted, 40 quarantined, 10 rejected"
    assert (plot.max_count, plot.first, plot.last) == (100, "2026-03-01", "2026-03-02")


def test_a_run_that_is_not_sealed_says_so_also_without_documents() -> None:
    plot = run_plot([a_run(0, 3), a_run(1, state=RunState.FAILED), a_run(2, state=RunState.RUNNING)])

    assert [bar.is_sealed for bar in plot.bars] == [True, False, False]
    assert plot.bars[1].parts == ()
    assert plot.bars[1].description == "2026-03-02 02:00 UTC, failed: 0 accepted, 0 quarantined, 0 rejected"


@pytest.mark.parametrize("number", [1, 12, 40])
def test_bars_stay_inside_the_plot(number: int) -> None:
    plot = run_plot([a_run(day, 1) for day in range(number)])

    assert len(plot.bars) == number
    assert plot.bars[-1].x + plot.width <= WIDTH
    assert plot.width <= WIDTH / 12


def test_without_runs_nothing_is_drawn() -> None:
    assert run_plot([]).max_count == 0


def test_a_line_spans_the_plot_and_one_point_alone_stands_in_the_middle() -> None:
    (alone,) = line_plot([("first", 1.0)]).dots
    first, last = line_plot([("first", 1.0), ("unknown", None), ("last", 0.5)]).dots

    assert alone[0] == WIDTH / 2
    assert (first[0], last[0]) == (LINE_START, WIDTH - POINT_RADIUS)
    assert (first[2], last[2]) == ("first", "last")
