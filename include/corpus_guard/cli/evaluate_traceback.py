"""`guard evaluate traceback`: measure how many poisoned texts are found, and how many others are accused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard.attacks.adaptive import AdaptiveAttack
from corpus_guard.cli import console
from corpus_guard.cli.console import err, out, visible
from corpus_guard.cli.options import LogToMlflow
from corpus_guard.detectors.planting import Attack, Planting
from corpus_guard.detectors.report_forms import ReportForm
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.traceback.evaluated_judges import BASELINE_JUDGES, EvaluatedJudge

if TYPE_CHECKING:
    from corpus_guard.evaluation.traceback.experiment import TracebackRequest, TracebackResult
    from corpus_guard.settings import Settings


app = typer.Typer()


@app.command("traceback")
def traceback(
    targets: Annotated[Path, typer.Argument(help="JSONL file, one question per line.", metavar="TARGETS")],
    attack: Annotated[Attack, typer.Option(help="Attack on the corpus; none: honest complaints only.")] = (
        Attack.POISONEDRAG_B
    ),
    adaptive: Annotated[AdaptiveAttack, typer.Option(help="Extra step of an attacker who knows about tracing.")] = (
        AdaptiveAttack.NONE
    ),
    m: Annotated[int, typer.Option("--m", min=1, max=40, help="Poisoned texts per question.")] = 5,
    k: Annotated[int, typer.Option("--k", min=1, max=100, help="Texts the RAG application retrieves.")] = 5,
    judge: Annotated[EvaluatedJudge, typer.Option(help="Judge of the texts; llm uses CORPUS_GUARD_CHAT_URL.")] = (
        EvaluatedJudge.EMBEDDED
    ),
    to: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file; - means standard output.")
    ] = None,
    verdicts: Annotated[
        Path | None, typer.Option(help="Write each judged text with label and score to this JSONL file.")
    ] = None,
    asr: Annotated[
        bool, typer.Option("--asr", help="Also ask the RAG model, before and after each defence: ASR and ACC (slow).")
    ] = False,
    defence: Annotated[
        list[str] | None,
        typer.Option(
            help="For --asr and --table6: only this defence (repeatable). Default: --asr measures those of PTR and BTE, --table6 all."
        ),
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Table 1 of the paper: all attacks, all judges (slow; see --limit).")
    ] = False,
    with_table6: Annotated[
        bool, typer.Option("--table6", help="Table 6 of the paper: all attacks, all defences (slow; see --limit).")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Use only the first rows of the file. Default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed of rewriting, misspelling, optimisation and sampling.")] = 0,
    optimise: Annotated[
        bool, typer.Option("--optimise", help="hotflip: optimise the leading words here (takes seconds per text).")
    ] = False,
    typos: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the words of planted texts that are misspelt.")
    ] = 0.0,
    ask: Annotated[
        bool,
        typer.Option("--ask", help="Ask the RAG model again when a verdict is in doubt, as `guard trace` does."),
    ] = False,
    form: Annotated[ReportForm, typer.Option(help="Form in which people report the wrong answer.")] = ReportForm.BARE,
    mlflow: LogToMlflow = True,
) -> None:
    """Measure how many poisoned texts behind a wrong answer are found, and how many others are accused.

    Each row is {id, question, correct_answer, incorrect_answer, adversarial_texts, clean_texts}; answers are a string or a list.
    The corpus holds all clean texts and the planted ones, in a temporary collection; the deployment is not touched. Every row is
    one report of its first incorrect answer. DACC, FPR and FNR are fractions of the judged texts, by their final labels; `poisoned` and
    `benign` are true counts; an undecided poisoned text counts as missed.

    Example: `guard evaluate traceback targets.jsonl --attack poisonedrag-b --judge embedded --json out.json --verdicts v.jsonl`
    """
    from corpus_guard.evaluation.defences import DEFENCES
    from corpus_guard.evaluation.traceback.experiment import TRACEBACK_DEFENCES, TracebackRequest
    from corpus_guard.settings import load_settings

    if table + with_table6 + (verdicts is not None) > 1:
        raise Misuse(
            "--table, --table6 and --verdicts: a table runs many experiments, verdicts belong to one; choose one"
        )
    settings = load_settings()
    planting = Planting(attack, adaptive, m, typos, seed, optimise)
    defences = tuple(defence or (DEFENCES if with_table6 else TRACEBACK_DEFENCES))
    request = TracebackRequest(targets, planting, judge, k, limit, asr, defences, ask, form)
    if table:
        _table1(settings, request, to, mlflow=mlflow)
    elif with_table6:
        _table6(settings, request, to, mlflow=mlflow)
    else:
        _play(settings, request, to, verdicts, mlflow=mlflow)


def _play(
    settings: Settings, request: TracebackRequest, to: Path | None, verdicts: Path | None, *, mlflow: bool
) -> None:
    from corpus_guard.evaluation.traceback.experiment import evaluate_traceback
    from corpus_guard.evaluation.traceback.mlflow_log import EXPERIMENT, log_traceback

    with console.progress(True) as progress:
        result = evaluate_traceback(settings, request, progress=progress)
    if verdicts is not None:
        with console.writing(verdicts) as write:
            for line in result.rows():
                write(json.dumps(line) + "\n")
    _written(to, result.as_dict())
    if to != Path("-"):
        _show(result)
    if mlflow:  # last: what was found is told even where MLflow cannot be reached
        err.print(f"MLflow run {log_traceback(settings, result)} of {EXPERIMENT}", soft_wrap=True)


def _table1(settings: Settings, request: TracebackRequest, to: Path | None, *, mlflow: bool) -> None:
    from corpus_guard.evaluation.traceback import published as tables
    from corpus_guard.evaluation.traceback.mlflow_log import TABLE1_EXPERIMENT, log_table1
    from corpus_guard.evaluation.traceback.paper_tables import reproduce_table1

    judges = [EvaluatedJudge.EMBEDDED, *([EvaluatedJudge.LLM] if settings.chat_url else []), *BASELINE_JUDGES]
    with console.progress(True) as progress:
        result = reproduce_table1(settings, request, tables.TABLE1_ATTACKS, judges, progress=progress)
    _written(to, result.as_dict())
    if to != Path("-"):
        title = f"Table 1, in per cent with 95 % intervals; paper: {' / '.join(tables.DATA_SETS)}"
        out.print(
            console.table(
                title, tables.TABLE1_COLUMNS, tables.table1_rows(result.cells), right=tables.TABLE1_COLUMNS[2:]
            )
        )
        if EvaluatedJudge.LLM not in judges:
            out.print("llm: not run, CORPUS_GUARD_CHAT_URL is not set")
    if mlflow:
        err.print(f"MLflow run {log_table1(settings, request, result)} of {TABLE1_EXPERIMENT}", soft_wrap=True)


def _table6(settings: Settings, request: TracebackRequest, to: Path | None, *, mlflow: bool) -> None:
    from corpus_guard.evaluation.traceback import published as tables
    from corpus_guard.evaluation.traceback.mlflow_log import TABLE6_EXPERIMENT, log_table6
    from corpus_guard.evaluation.traceback.paper_tables import reproduce_table6

    with console.progress(True) as progress:
        result = reproduce_table6(settings, request, tables.TABLE6_ATTACKS, progress=progress)
    _written(to, result.as_dict())
    if to != Path("-"):
        title = f"Table 6, in per cent with 95 % intervals; paper: {' / '.join(tables.DATA_SETS)}"
        out.print(
            console.table(
                title, tables.TABLE6_COLUMNS, tables.table6_rows(result.cells), right=tables.TABLE6_COLUMNS[2:]
            )
        )
    if mlflow:
        err.print(f"MLflow run {log_table6(settings, request, result)} of {TABLE6_EXPERIMENT}", soft_wrap=True)


def _written(to: Path | None, values: Any) -> None:
    if to is None:
        return
    if to == Path("-"):
        console.print_json(values)
        return
    with console.writing(to) as write:
        write(console.as_json(values, indent=1) + "\n")
    err.print(f"All figures: {visible(str(to))}", soft_wrap=True)


def _show(result: TracebackResult) -> None:
    from corpus_guard.detectors.trace_figures import CountedShare
    from corpus_guard.evaluation.traceback.published import percent

    figures = result.figures
    planting = result.request.planting
    attack = planting.attack.value + (
        f" + {planting.adaptive.value}" if planting.adaptive is not AdaptiveAttack.NONE else ""
    )
    out.print(
        console.table(
            "Traceback, in per cent with 95 % intervals",
            ("attack", "judge", "DACC", "FPR", "FNR"),
            [(attack, visible(result.judge_name), *map(percent, (figures.dacc, figures.fpr, figures.fnr)))],
            right=("DACC", "FPR", "FNR"),
        )
    )
    out.print(
        f"{figures.judged:,} texts judged for {figures.queries:,} questions: {figures.count(True):,} poisoned, "
        f"{figures.count(False):,} benign; {1000 * figures.judge_seconds / max(1, figures.judged):.1f} ms per text, and "
        f"{1000 * figures.embedding_seconds / max(1, figures.judged):.1f} ms for its vectors",
        soft_wrap=True,
    )
    out.print("Outcomes: " + ", ".join(f"{name.value} {count:,}" for name, count in figures.outcomes.most_common()))
    if planting.attack is Attack.NONE:
        out.print(
            f"Honest reports ({result.request.form.value}) that accuse a text: {figures.accusing:,} of {figures.queries:,}"
        )
    else:
        out.print(
            f"Questions that retrieve a planted text: {figures.reached:,}; after removing the accused: {figures.leaking:,}",
            soft_wrap=True,
        )
    if result.answered:
        rows = [
            (
                name,
                percent(CountedShare(line.attacked, line.queries)),
                percent(CountedShare(line.right, line.queries)),
                f"{line.failed:,}",
            )
            for name, line in result.answered.items()
        ]
        columns = ("defence", "ASR", "ACC", "no answer")
        out.print(console.table("The RAG model's answers, in per cent", columns, rows, right=columns[1:]))
