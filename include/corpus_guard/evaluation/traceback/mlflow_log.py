"""Traceback evaluations in MLflow: figures as metrics, a plot and all JSON as artifacts.

No text of the corpus is logged.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from corpus_guard.evaluation.traceback import published
from corpus_guard.evaluation.traceback.experiment import TracebackRequest, TracebackResult
from corpus_guard.evaluation.traceback.paper_tables import Table1, Table6
from corpus_guard.settings import Settings
from corpus_guard.tracking import plots
from corpus_guard.tracking.measures import BINS, histogram
from corpus_guard.tracking.mlflow_runs import log_run

EXPERIMENT = "corpus-guard/traceback"
TABLE1_EXPERIMENT = "corpus-guard/traceback-table-1"
TABLE6_EXPERIMENT = "corpus-guard/traceback-table-6"


def log_traceback(settings: Settings, result: TracebackResult) -> str:
    """Log the evaluation of one attack against one judge.

    Returns:
        The run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    figures = result.figures
    values = published.figure_metrics(figures) | {
        "accusing_rate": figures.accusing / figures.queries if figures.queries else 0.0,
        "still_reached_rate": figures.leaking / figures.queries if figures.queries else 0.0,
        **{f"outcome/{outcome.value}": count for outcome, count in figures.outcomes.items()},
    }
    for name, answers in result.answered.items():
        prefix = f"defence/{name.replace('+', '_')}"
        values |= {f"{prefix}/asr": answers.asr, f"{prefix}/acc": answers.acc}
    params = {
        **_params(result.request, result.about),
        "judge": result.judge_name,
        "judge_digest": result.judge_digest,
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
        _write(Path(folder), result.as_dict())
        _draw_scores(result, Path(folder) / "scores.png")
        return log_run(settings, EXPERIMENT, params=params, metrics=values, artifacts=Path(folder))


def log_table1(settings: Settings, request: TracebackRequest, result: Table1) -> str:
    """Log Table 1; see `log_traceback`."""
    params = {
        **_params(request, result.about),
        "attack": ", ".join(dict.fromkeys(attack.value for attack, _ in result.cells)),
        "judge": ", ".join(dict.fromkeys(judge.value for _, judge in result.cells)),
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
        _write(Path(folder), result.as_dict())
        table = published.markdown(published.TABLE1_COLUMNS, published.table1_rows(result.cells))
        (Path(folder) / "table1.md").write_text(table, encoding="utf-8")
        heights = {(attack.value, judge.value): cell.dacc.rate for (attack, judge), cell in result.cells.items()}
        _draw_bars("DACC by attack and judge", "DACC", heights, Path(folder) / "table1.png")
        metrics = published.table1_metrics(result.cells)
        return log_run(settings, TABLE1_EXPERIMENT, params=params, metrics=metrics, artifacts=Path(folder))


def log_table6(settings: Settings, request: TracebackRequest, result: Table6) -> str:
    """Log Table 6; see `log_traceback`."""
    params = {
        **_params(request, result.about),
        "attack": ", ".join(dict.fromkeys(attack.value for attack, _ in result.cells)),
        "judge": result.about["judge"],
        "rag_model": result.about["rag_model"],
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
        _write(Path(folder), result.as_dict())
        table = published.markdown(published.TABLE6_COLUMNS, published.table6_rows(result.cells))
        (Path(folder) / "table6.md").write_text(table, encoding="utf-8")
        heights = {(attack.value, defence): cell.asr for (attack, defence), cell in result.cells.items()}
        _draw_bars("ASR by attack and defence", "ASR", heights, Path(folder) / "table6.png")
        metrics = published.table6_metrics(result.cells)
        return log_run(settings, TABLE6_EXPERIMENT, params=params, metrics=metrics, artifacts=Path(folder))


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


def _draw_bars(title: str, label: str, heights: Mapping[tuple[str, str], float], path: Path) -> None:
    """Draw grouped bars; `heights` maps (group, bar) to 0..1."""
    figure, axes = plots.new_figure(title)
    groups = list(dict.fromkeys(group for group, _ in heights))
    names = list(dict.fromkeys(name for _, name in heights))
    width = 0.8 / max(1, len(names))
    for number, name in enumerate(names):
        places = [index + number * width for index in range(len(groups))]
        axes.bar(places, [heights[group, name] for group in groups], width, label=name)
    axes.set_xticks([index + 0.4 - width / 2 for index in range(len(groups))], groups)
    axes.set(ylabel=label, ylim=(0, 1.02))
    axes.legend(fontsize="x-small", ncols=4)
    figure.savefig(path)
