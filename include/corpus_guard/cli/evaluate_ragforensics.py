"""`guard evaluate ragforensics`: the tables and figures of the RAGForensics paper."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say_aside, visible
from corpus_guard.cli.evaluate_traceback import CountedEvents, MeasuredHalf, PromptOfJudge, parse_attack
from corpus_guard.cli.options import Json, LogToMlflow
from corpus_guard.detectors.planting import Attack
from corpus_guard.detectors.samples import Half
from corpus_guard.evaluation.traceback.evaluated_judges import BASELINE_JUDGES, EvaluatedJudge, Events
from corpus_guard.evaluation.traceback.paper_plan import ATTACKS, DATA_SETS, DEFENCES, PLANTED, RETRIEVED, PaperPart
from corpus_guard.traceback.kinds import JudgePrompt

app = typer.Typer()

_OPTIONS: Final = dict(zip(("nq", "hotpotqa", "msmarco"), DATA_SETS, strict=True))
"""Data set by the name of its option."""


@app.command("ragforensics")
def ragforensics(
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder of the results; finished cells are reused.")],
    nq: Annotated[Path | None, typer.Option("--nq", help="Questions on NQ (JSONL in PoisonedRAG's format).")] = None,
    hotpotqa: Annotated[Path | None, typer.Option("--hotpotqa", help="The same on HotpotQA.")] = None,
    msmarco: Annotated[Path | None, typer.Option("--msmarco", help="The same on MS-MARCO.")] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(
            help="Embedded judge of one data set, such as one that never saw it (repeatable). Default: the deployment's.",
            metavar="nq|hotpotqa|msmarco=FILE",
        ),
    ] = None,
    part: Annotated[list[PaperPart] | None, typer.Option(help="Only this part (repeatable). Default: all.")] = None,
    attack: Annotated[
        list[Attack] | None,
        typer.Option(
            help="Only this attack (repeatable); poisonedrag-w is hotflip. Default: the paper's.",
            parser=parse_attack,
            metavar=f"[{'|'.join(ATTACKS)}]",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Questions of each data set, from the first.")] = 20,
    asked_limit: Annotated[
        int | None,
        typer.Option(
            "--asked",
            min=1,
            help="Of these, questions that the RAG model is asked; it takes seconds for each. Default: all.",
        ),
    ] = None,
    half: MeasuredHalf = Half.WHOLE,
    baseline: Annotated[
        list[EvaluatedJudge] | None, typer.Option(help="Only this baseline in table 1 (repeatable). Default: all.")
    ] = None,
    no_baselines: Annotated[bool, typer.Option("--no-baselines", help="No baseline in table 1.")] = False,
    defence: Annotated[
        list[str] | None, typer.Option(help="Only this defence (repeatable). Default: the paper's.")
    ] = None,
    m: Annotated[
        list[int] | None, typer.Option("--m", min=1, max=40, help="Texts per question in the figures (repeatable).")
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option("--k", min=1, max=100, help="Texts retrieved in the part k (repeatable).")
    ] = None,
    events: CountedEvents = Events.REPORTS,
    prompt: PromptOfJudge = JudgePrompt.OWN,
    optimised_texts: Annotated[
        int, typer.Option(min=1, help="Texts per question whose words in front HotFlip optimises; seconds for each.")
    ] = 5,
    sample: Annotated[
        int,
        typer.Option(min=1, help="Clean texts that thresholds of perplexity are taken from, at most."),
    ] = 1_000,
    seed: Annotated[int, typer.Option(help="Random seed of rewriting, optimisation and sampling.")] = 0,
    mlflow: LogToMlflow = True,
    as_json: Json = False,
) -> None:
    """Reproduce RAGForensics' tables 1 to 6 and figures 2 to 4, with the paper's figures beside ours.

    Each finished cell is kept in the folder: a stopped command continues where it ended, and other options add cells. Cells that ask the
    RAG model come last; limit them with --asked. The judge llm takes part if CORPUS_GUARD_CHAT_URL is set, and
    CORPUS_GUARD_RAG_MODEL=chat answers with that model. The folder holds tables.md and the plots; MLflow gets one run.

    An honest figure comes from a judge that never saw the data set: `guard train judge` writes one, --judge names it.

    Example: `guard evaluate ragforensics --nq nq.jsonl --hotpotqa hotpotqa.jsonl --msmarco msmarco.jsonl --out paper`
    """
    from corpus_guard.evaluation.traceback import paper_report
    from corpus_guard.evaluation.traceback.mlflow_log import PAPER_EXPERIMENT, log_paper
    from corpus_guard.evaluation.traceback.paper_plan import PaperPlan
    from corpus_guard.evaluation.traceback.paper_play import PaperRequest, play_paper
    from corpus_guard.settings import load_settings

    settings = load_settings()
    given = zip(_OPTIONS.values(), (nq, hotpotqa, msmarco), strict=True)
    targets = {name: path for name, path in given if path is not None}
    judges = dict(_parse_judge(value) for value in judge or ())
    plan = PaperPlan(
        parts=tuple(part or PaperPart),
        data=tuple(targets),
        attacks=tuple(attack or ATTACKS),
        judges=(EvaluatedJudge.EMBEDDED, *([EvaluatedJudge.LLM] if settings.chat_url else [])),
        baselines=() if no_baselines else tuple(baseline or BASELINE_JUDGES),
        defences=tuple(defence or DEFENCES),
        planted=tuple(m or PLANTED),
        retrieved=tuple(k or RETRIEVED),
    )
    request = PaperRequest(
        targets, plan, judges, limit, asked_limit, half, seed, optimised_texts, sample, events, prompt
    )
    with console.progress(True) as progress:
        result = play_paper(settings, request, folder, progress=progress)
    command = shlex.join(["guard", *sys.argv[1:]])
    with console.writing(folder / "tables.md") as write:
        write(paper_report.markdown(result, command))
    paper_report.draw_figures(result, folder)
    if as_json:
        tables = {
            name: [dict(zip(paper_report.columns(name), row, strict=True)) for row in paper_report.rows(result, name)]
            for name in plan.parts
        }
        console.print_json({"command": command, "folder": str(folder), "tables": tables})
    else:
        for name in plan.parts:
            columns, rows = paper_report.columns(name), paper_report.rows(result, name)
            print_table(paper_report.TITLES[name], columns, rows, right=columns[3:])
    if not settings.chat_url:
        say_aside("llm: not run, CORPUS_GUARD_CHAT_URL is not set")
    say_aside(f"Tables and plots: {visible(str(folder))}")
    if mlflow:  # last: what was measured is shown even where MLflow cannot be reached
        say_aside(f"MLflow run {log_paper(settings, result, command)} of {PAPER_EXPERIMENT}")


def _parse_judge(value: str) -> tuple[str, Path]:
    name, _, path = value.partition("=")
    if name not in _OPTIONS or not path:
        raise typer.BadParameter(f"--judge {value[:60]!r}: expected one of {', '.join(_OPTIONS)}, then = and a file")
    return _OPTIONS[name], Path(path)
