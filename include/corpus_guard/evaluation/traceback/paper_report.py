"""Tables and plots of a play, beside the paper's figures.

Cells are in per cent, with the number of texts or questions behind them. A cell that was not measured is a dash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge
from corpus_guard.evaluation.traceback.paper_plan import Cell, PaperPart, Scene
from corpus_guard.evaluation.traceback.paper_play import CellResult, PaperResult
from corpus_guard.evaluation.traceback.published import (
    PUBLISHED,
    PUBLISHED_ADAPTIVE,
    PUBLISHED_MODELS,
    PUBLISHED_RATES,
    PublishedFigures,
)
from corpus_guard.tracking import plots

DASH: Final = "–"
TITLES: Final[Mapping[PaperPart, str]] = {
    PaperPart.TABLE_1: "Table 1: judges under attack (DACC / FPR / FNR, judged texts)",
    PaperPart.TABLE_2: "Table 2: models of the judge on NQ",
    PaperPart.TABLE_3: "Table 3: planted texts that claim to lead to the right answer",
    PaperPart.TABLE_4: "Table 4: planted texts that hold the right answer",
    PaperPart.TABLE_5: "Table 5: models of the judge on HotpotQA and MS-MARCO",
    PaperPart.TABLE_6: "Table 6: the RAG model's answers under each defence (ASR / ACC, questions)",
    PaperPart.FIGURES: "Figures 2 to 4: M planted texts a question",
    PaperPart.K: "K retrieved texts, M = 5 (not in the paper)",
}
Row = tuple[str, ...]


def columns(part: PaperPart) -> Row:
    """Return the columns of a part's table."""
    match part:
        case PaperPart.TABLE_1:
            return "data set", "attack", "judge", "DACC / FPR / FNR", "texts", "paper"
        case PaperPart.TABLE_2 | PaperPart.TABLE_5:
            return "data set", "attack", "judge", "DACC / FPR / FNR", "texts", "paper: 4o-mini; 4-turbo; 4o"
        case PaperPart.TABLE_3 | PaperPart.TABLE_4:
            return "data set", "attack", "ASR", "DACC / FPR / FNR", "texts", "paper: ASR", "paper: figures"
        case PaperPart.TABLE_6:
            return "data set", "attack", "defence", "ASR / ACC", "questions", "paper"
        case PaperPart.FIGURES:
            return "data set", "attack", "M", "DACC / FPR / FNR", "texts"
        case PaperPart.K:
            return "data set", "attack", "K", "DACC / FPR / FNR", "texts"


def rows(result: PaperResult, part: PaperPart) -> Iterator[Row]:
    """Yield the rows of a part's table."""
    cells = result.request.plan.cells()[part]
    if part in {PaperPart.TABLE_3, PaperPart.TABLE_4}:
        yield from _adaptive_rows(result, [cell for cell in cells if cell.judge])
        return
    for cell in cells:
        figures = result.cells.get(cell.key)
        start = (cell.scene.data, cell.scene.attack.value)
        match part:
            case PaperPart.FIGURES:
                yield (*start, str(cell.scene.m), *_labels(figures))
            case PaperPart.K:
                yield (*start, str(cell.k), *_labels(figures))
            case PaperPart.TABLE_6:
                yield (*start, cell.defence, *_answers(figures), _paper_rates(cell))
            case _:
                paper = _paper_figures(cell)
                if part is not PaperPart.TABLE_1:
                    paper = f"{paper}; {PUBLISHED_MODELS[cell.scene.data, cell.scene.attack]}"
                yield (*start, cell.judge.value if cell.judge else "", *_labels(figures), paper)


def markdown(result: PaperResult, command: str) -> str:
    """Return all tables as Markdown, with what they depend on and the time they took."""
    about = result.about
    seconds = sum(float(cell["cpu_seconds"]) for cell in result.cells.values())
    lines = [
        "# RAGForensics: tables 1 to 6 and figures 2 to 4",
        "",
        f"Command: `{command}`. CPU time of these cells: {seconds / 60:.1f} minutes.",
        "",
        *(f"* {name.replace('_', ' ')}: {value}" for name, value in about.items()),
    ]
    if str(about["rag_model"]).startswith("embedded"):
        lines += [
            "",
            "The RAG model has 135 million parameters. What it answers, under attack and under each defence, says little about "
            "models of the paper's size: this concerns ASR, ACC, ExpGen, RKM and PoiFor.",
        ]
    for part in result.request.plan.parts:
        lines += ["", f"## {TITLES[part]}", "", *_markdown_rows([columns(part), *rows(result, part)])]
    return "\n".join(lines) + "\n"


def metrics(result: PaperResult) -> dict[str, float]:
    """Return metrics for MLflow, such as ``NQ/bare/none/m5/k5/judge tkm/dacc``; MLflow takes no plus sign in a name."""
    values = {}
    for key, figures in result.cells.items():
        prefix = key.replace("+", " and ")
        for name in (
            "dacc",
            "fpr",
            "fnr",
            "judged",
            "seconds_per_suspect",
            "asr",
            "acc",
            "queries",
            "attacks_succeeded",
        ):
            if name in figures:
                values[f"{prefix}/{name}"] = float(figures[name])
    return values


def draw_figures(result: PaperResult, folder: Path) -> None:
    """Draw figures 2 to 4: DACC, FPR and FNR over M, one file for each data set."""
    first = result.request.plan.judges[0]
    for data in result.request.plan.data:
        figure, axes = plots.new_figure(f"{data}: planted texts a question, judge {first.value}")
        for attack in result.request.plan.attacks:
            for name, style in (("dacc", "-"), ("fpr", ":"), ("fnr", "--")):
                points = [
                    (m, 100 * float(cell[name]))
                    for m in result.request.plan.planted
                    if (cell := result.cells.get(Cell(Scene(data, attack, m=m), judge=first).key))
                ]
                if points:
                    axes.plot(*zip(*points, strict=True), style, marker=".", label=f"{attack.value} {name.upper()}")
        axes.set(xlabel="M, planted texts a question", ylabel="per cent", ylim=(-2, 102))
        if axes.lines:
            axes.legend(fontsize="x-small", ncols=3)
        figure.savefig(folder / f"figure-{data.casefold()}.png")


def _adaptive_rows(result: PaperResult, cells: Sequence[Cell]) -> Iterator[Row]:
    for cell in cells:
        scene = cell.scene
        asr, figures = PUBLISHED_ADAPTIVE[scene.data, scene.attack, scene.adaptive]
        undefended = result.cells.get(Cell(scene, cell.k, defence="none").key)
        own = f"{100 * undefended['asr']:.0f} ({undefended['queries']})" if undefended else DASH
        yield (scene.data, scene.attack.value, own, *_labels(result.cells.get(cell.key)), f"{asr:.0f}", _join(figures))


def _labels(figures: CellResult | None) -> tuple[str, str]:
    """Return DACC, FPR and FNR, and the number of judged texts."""
    if figures is None:
        return DASH, DASH
    shares = (100 * float(figures[name]) for name in ("dacc", "fpr", "fnr"))
    judged = f"{figures['judged']:,}"
    if "attacks_succeeded" in figures:
        judged += f"; {figures['attacks_succeeded']} of {figures['attacks']} attacks succeeded"
    return _join(shares), judged


def _answers(figures: CellResult | None) -> tuple[str, str]:
    """Return ASR and ACC, and the number of questions."""
    if figures is None:
        return DASH, DASH
    return f"{100 * figures['asr']:.0f} / {100 * figures['acc']:.0f}", str(figures["queries"])


def _paper_figures(cell: Cell) -> str:
    """Return the published figures of a judge; RAGForensics' for the embedded one."""
    judge = EvaluatedJudge.LLM if cell.judge is EvaluatedJudge.EMBEDDED else cell.judge
    figures: PublishedFigures | None = PUBLISHED.get((cell.scene.data, cell.scene.attack, judge)) if judge else None
    return _join(figures) if figures else DASH


def _paper_rates(cell: Cell) -> str:
    rates = PUBLISHED_RATES.get((cell.scene.data, cell.scene.attack), {}).get(cell.defence)
    return f"{rates[0]} / {rates[1]}" if rates else DASH


def _join(shares: Any) -> str:
    return " / ".join(f"{share:.1f}" for share in shares)


def _markdown_rows(table: Sequence[Row]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (table[0], ["---"] * len(table[0]), *table[1:])]
