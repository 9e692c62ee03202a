"""Traceback evaluations in MLflow: figures as metrics, a plot and all JSON as artifacts.

No text of the corpus is logged.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from corpus_guard.detectors.trace_figures import TraceFigures
from corpus_guard.evaluation.traceback import paper_report
from corpus_guard.evaluation.traceback.experiment import TracebackRequest, TracebackResult
from corpus_guard.evaluation.traceback.paper_play import PaperResult
from corpus_guard.settings import Settings
from corpus_guard.tracking import plots
from corpus_guard.tracking.measures import BINS, histogram
from corpus_guard.tracking.mlflow_runs import log_run

EXPERIMENT = "corpus-guard/traceback"
PAPER_EXPERIMENT = "corpus-guard/ragforensics"


def log_traceback(settings: Settings, result: TracebackResult) -> str:
    """Log the evaluation of one attack against one judge, and return the run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    figures = result.figures
    values = figure_metrics(figures) | {
        "accusing_rate": figures.accusing / figures.queries if figures.queries else 0.0,
        "still_reached_rate": figures.leaking / figures.queries if figures.queries else 0.0,
        **{f"outcome/{outcome.value}": count for outcome, count in figures.outcomes.items()},
    }
    for name, answers in result.answered.items():
        prefix = f"defence/{name.replace('+', '_')}"
        values |= {f"{prefix}/asr": answers.asr.rate, f"{prefix}/acc": answers.acc.rate}
    params = {**_params(result.request, result.about), "judge": result.judge_name, "judge_digest": result.judge_digest}
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
        _write(Path(folder), result.as_dict())
        _draw_scores(result, Path(folder) / "scores.png")
        return log_run(settings, EXPERIMENT, params=params, metrics=values, artifacts=Path(folder))


def log_paper(settings: Settings, result: PaperResult, command: str) -> str:
    """Log the paper's tables and figures; see `log_traceback`."""
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as name:
        folder = Path(name)
        (folder / "tables.md").write_text(paper_report.markdown(result, command), encoding="utf-8")
        _write(folder, {"about": result.about, "cells": result.cells})
        paper_report.draw_figures(result, folder)
        params = {name: json.dumps(value) if isinstance(value, dict) else value for name, value in result.about.items()}
        values = paper_report.metrics(result)
        return log_run(settings, PAPER_EXPERIMENT, params=params, metrics=values, artifacts=folder)


def figure_metrics(figures: TraceFigures) -> dict[str, float]:
    """Return the figures of one attack and judge as metrics."""
    return {
        "dacc": figures.dacc.rate,
        "fpr": figures.fpr.rate,
        "fnr": figures.fnr.rate,
        "judged": figures.judged,
        "seconds_per_suspect": figures.judge_seconds / figures.judged if figures.judged else 0.0,
        "iterations_mean": figures.iterations / figures.queries if figures.queries else 0.0,
    }


def _params(request: TracebackRequest, about: Mapping[str, object]) -> dict[str, object]:
    planting = request.planting
    return {
        "attack": planting.attack.value,
        "adaptive": planting.adaptive.value,
        "m": planting.m,
        "k": request.k,
        "seed": planting.seed,
        "typos": planting.typos,
        "asked_again": request.ask,
        "half": request.half.value,
        "events": request.events.value,
        "rows": about["rows"],
        "targets_sha256": about["targets_sha256"],
        "embedder": about["embedder"],
    }


def _write(folder: Path, values: Mapping[str, object]) -> None:
    (folder / "evaluation.json").write_text(json.dumps(values, indent=1), encoding="utf-8")


def _draw_scores(result: TracebackResult, path: Path) -> None:
    """Draw the judge's scores of poisoned and benign texts."""
    figure, axes = plots.new_figure(f"Scores of the judge {result.judge_name}, {result.request.planting.attack.value}")
    places = [(number + 0.5) / BINS for number in range(BINS)]
    for truth, title in ((True, "poisoned"), (False, "benign")):
        scores = [
            judged.opinion.score
            for question in result.traced
            for judged in question.conclusion.judged
            if (judged.suspect.chunk_id in question.poisoned) is truth
        ]
        if scores:
            shares = [count / len(scores) for count in histogram(scores)]
            axes.plot(places, shares, marker=".", label=f"{title} ({len(scores):,})")
    axes.set(xlabel="score", ylabel="share of texts", xlim=(0, 1), ylim=(0, 1.02))
    if axes.lines:
        axes.legend()
    figure.savefig(path)
