"""An evaluation as a run in MLflow: figures as metrics, a plot and the whole JSON as artifacts. No text of the corpus goes there."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpus_guard.evaluation import drawing
from corpus_guard.evaluation.measures import BINS, histogram
from corpus_guard.evaluation.traceback import tables
from corpus_guard.evaluation.traceback.experiment import Request, Result
from corpus_guard.evaluation.traceback.reproducing import Table1, Table6
from corpus_guard.evaluation.tracking import log_run
from corpus_guard.settings import Settings

EXPERIMENT = "corpus-guard/traceback"
TABLE1_EXPERIMENT = "corpus-guard/traceback-table-1"
TABLE6_EXPERIMENT = "corpus-guard/traceback-table-6"


def keep(settings: Settings, result: Result) -> str:
    """One attack against one judge.

    Returns:
        The run's id.

    Raises:
        Infrastructure: MLflow cannot be reached.
    """
    figures = result.figures
    values = tables.plain(figures) | {
        "accusing_rate": figures.accusing / figures.queries if figures.queries else 0.0,
        "still_reached_rate": figures.leaking / figures.queries if figures.queries else 0.0,
        **{f"outcome/{outcome.value}": count for outcome, count in figures.outcomes.items()},
    }
    for name, line in result.answered.items():
        values |= {f"defence/{name.replace('+', '_')}/asr": line.asr, f"defence/{name.replace('+', '_')}/acc": line.acc}
    about = result.about["judge"]
    params = {**_params(result.request, result.about), "judge": about["name"], "judge_digest": about["digest"]}
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
        _write(Path(folder), result.as_dict())
        _scores(result, Path(folder) / "scores.png")
        return log_run(settings, EXPERIMENT, params=params, metrics=values, artifacts=Path(folder))


def keep_table1(settings: Settings, request: Request, result: Table1) -> str:
    """Table 1; as `keep`."""
    params = {
        **_params(request, result.about),
        "attack": ", ".join(dict.fromkeys(attack.value for attack, _ in result.cells)),
        "judge": ", ".join(dict.fromkeys(judge.value for _, judge in result.cells)),
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
        _write(Path(folder), result.as_dict())
        table = tables.markdown(tables.COLUMNS1, tables.rows1(result.cells))
        (Path(folder) / "table1.md").write_text(table, encoding="utf-8")
        shown = {(attack.value, judge.value): cell.dacc.rate for (attack, judge), cell in result.cells.items()}
        _bars("DACC by attack and judge", "DACC", shown, Path(folder) / "table1.png")
        metrics = tables.metrics1(result.cells)
        return log_run(settings, TABLE1_EXPERIMENT, params=params, metrics=metrics, artifacts=Path(folder))


def keep_table6(settings: Settings, request: Request, result: Table6) -> str:
    """Table 6; as `keep`."""
    params = {
        **_params(request, result.about),
        "attack": ", ".join(dict.fromkeys(attack.value for attack, _ in result.cells)),
        "judge": result.about["judge"],
        "rag_model": result.about["rag_model"],
    }
    with tempfile.TemporaryDirectory(prefix="corpus-guard-evaluation-") as folder:
        _write(Path(folder), result.as_dict())
        table = tables.markdown(tables.COLUMNS6, tables.rows6(result.cells))
        (Path(folder) / "table6.md").write_text(table, encoding="utf-8")
        shown = {(attack.value, defence): line.asr for (attack, defence), line in result.cells.items()}
        _bars("ASR by attack and defence", "ASR", shown, Path(folder) / "table6.png")
        metrics = tables.metrics6(result.cells)
        return log_run(settings, TABLE6_EXPERIMENT, params=params, metrics=metrics, artifacts=Path(folder))


def _params(request: Request, about: Mapping[str, Any]) -> dict[str, Any]:
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


def _write(folder: Path, values: Mapping[str, Any]) -> None:
    (folder / "evaluation.json").write_text(json.dumps(values, indent=1), encoding="utf-8")


def _scores(result: Result, path: Path) -> None:
    """How the judge scored poisoned and benign texts."""
    figure, axes = drawing.axes(
        f"Scores of the judge {result.about['judge']['name']}, {result.request.planting.attack.value}"
    )
    places = [(number + 0.5) / BINS for number in range(BINS)]
    for truth, title in ((True, "poisoned"), (False, "benign")):
        scores = [
            one.opinion.score
            for game in result.played
            for one in game.verdict.judged
            if (one.suspect.chunk_id in game.poisoned) is truth
        ]
        if scores:
            shares = [count / len(scores) for count in histogram(scores)]
            axes.plot(places, shares, marker=".", label=f"{title} ({len(scores):,})")
    axes.set(xlabel="score", ylabel="share of texts", xlim=(0, 1), ylim=(0, 1.02))
    if axes.lines:
        axes.legend()
    figure.savefig(path)


def _bars(title: str, label: str, shown: Mapping[tuple[str, str], float], path: Path) -> None:
    """(group, bar) → height, 0..1."""
    figure, axes = drawing.axes(title)
    groups = list(dict.fromkeys(group for group, _ in shown))
    names = list(dict.fromkeys(name for _, name in shown))
    width = 0.8 / max(1, len(names))
    for number, name in enumerate(names):
        places = [index + number * width for index in range(len(groups))]
        axes.bar(places, [shown[group, name] for group in groups], width, label=name)
    axes.set_xticks([index + 0.4 - width / 2 for index in range(len(groups))], groups)
    axes.set(ylabel=label, ylim=(0, 1.02))
    axes.legend(fontsize="x-small", ncols=4)
    figure.savefig(path)
