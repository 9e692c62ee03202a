"""Plots of a screening evaluation, as PNG files."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from corpus_guard.detectors.samples import Family
from corpus_guard.evaluation.screening.experiment import ScreeningResult
from corpus_guard.evaluation.screening.protocols import ArrivalProtocol
from corpus_guard.tracking.measures import BINS, histogram
from corpus_guard.tracking.plots import new_figure


def draw_result(result: ScreeningResult, screener: str, folder: Path, costs: dict[str, float] | None = None) -> None:
    """Draw ``roc.png``, ``scores.png`` and, with `costs`, ``throughput.png`` into `folder`; each where there is data for it."""
    _draw_curves(result, screener, folder / "roc.png")
    _draw_risks(result, screener, folder / "scores.png")
    if costs:
        _draw_throughput(costs, folder / "throughput.png")


def _draw_curves(result: ScreeningResult, screener: str, path: Path) -> None:
    curves = result.curves(screener)
    if not curves:
        return
    figure, axes = new_figure("Risk of attacks against clean documents, each text alone")
    for name, curve in sorted(curves.items(), key=lambda pair: -pair[1].auc):
        axes.step(curve.false_positives, curve.true_positives, where="post", label=f"{name} ({curve.auc:.3f})")
    axes.set_xscale("symlog", linthresh=0.001)
    axes.set(
        xlabel="clean documents at or above the threshold", ylabel="attacks at or above it", xlim=(0, 1), ylim=(0, 1)
    )
    axes.legend(fontsize="x-small", ncols=2, title="attack (area under the curve)", title_fontsize="x-small")
    figure.savefig(path)


def _draw_risks(result: ScreeningResult, screener: str, path: Path) -> None:
    risks: dict[Family, list[float]] = defaultdict(list)
    for figure in result.figures:
        counted = figure.headline(screener)
        if figure.protocol is ArrivalProtocol.SINGLE and counted:
            risks[figure.family] += counted.risks
    if not risks:
        return
    canvas, axes = new_figure("Risk, each text alone")
    places = [(number + 0.5) / BINS for number in range(BINS)]
    for family, values in risks.items():
        shares = [count / len(values) for count in histogram(values)]
        axes.plot(places, shares, marker=".", label=f"{family} ({len(values):,})")
    axes.set(xlabel="risk", ylabel="share of texts", xlim=(0, 1), ylim=(0, 1))
    axes.legend(fontsize="x-small")
    canvas.savefig(path)


def _draw_throughput(costs: dict[str, float], path: Path) -> None:
    figure, axes = new_figure("Chunks per second and core, by check")
    axes.barh(list(costs), list(costs.values()))
    axes.set_xscale("log")
    axes.invert_yaxis()
    figure.savefig(path)
