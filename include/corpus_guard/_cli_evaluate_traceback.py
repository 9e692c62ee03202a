"""`guard evaluate traceback`: how many of the texts behind a wrong answer are found, and how many others are accused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import _console as console
from corpus_guard._console import err, out, visible
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.attacks.adaptive import Adaptive
from corpus_guard.evaluation.traceback.judging import BASELINES, JudgeName
from corpus_guard.evaluation.traceback.planting import Attack, Planting

if TYPE_CHECKING:
    from corpus_guard.evaluation.traceback.experiment import Request, Result
    from corpus_guard.settings import Settings


def traceback(
    targets: Annotated[Path, typer.Argument(help="JSONL, one question a line.", metavar="TARGETS")],
    attack: Annotated[Attack, typer.Option(help="How the corpus is poisoned; none plays honest complaints.")] = (
        Attack.POISONEDRAG_B
    ),
    adaptive: Annotated[Adaptive, typer.Option(help="What the attacker adds who knows of the tracing.")] = (
        Adaptive.NONE
    ),
    m: Annotated[int, typer.Option("--m", min=1, max=40, help="Poisoned texts a question.")] = 5,
    k: Annotated[int, typer.Option("--k", min=1, max=100, help="Texts the RAG application retrieves.")] = 5,
    judge: Annotated[JudgeName, typer.Option(help="Who judges the texts; llm asks CORPUS_GUARD_CHAT_URL.")] = (
        JudgeName.EMBEDDED
    ),
    to: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file; - is standard output.")
    ] = None,
    verdicts: Annotated[
        Path | None, typer.Option(help="Write every judged text, its label and score to this JSONL file.")
    ] = None,
    asr: Annotated[
        bool, typer.Option("--asr", help="Also ask the RAG model, before and after each defence: ASR and ACC (slow).")
    ] = False,
    defence: Annotated[
        list[str] | None,
        typer.Option(
            help="For --asr and --table6: only this defence; may be given several times. Default: those of PTR and BTE; all."
        ),
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="Table 1 of the paper: all attacks, all judges (slow; see --limit).")
    ] = False,
    with_table6: Annotated[
        bool, typer.Option("--table6", help="Table 6 of the paper: all attacks, all defences (slow; see --limit).")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Only so many rows, from the first. Default: all.")] = None,
    seed: Annotated[int, typer.Option(help="How texts are rewritten, misspelt and optimised; what is sampled.")] = 0,
    optimise: Annotated[
        bool, typer.Option("--optimise", help="hotflip: make the words in front here (seconds a text).")
    ] = False,
    typos: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the words of planted texts that are misspelt.")
    ] = 0.0,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask", help="Let the RAG model be asked again where a verdict is in doubt, as `guard trace` does."
        ),
    ] = False,
    mlflow: Annotated[
        bool, typer.Option(help="Keep the run in MLflow (MLFLOW_TRACKING_URI, else a file below CORPUS_GUARD_HOME).")
    ] = True,
) -> None:
    """How many poisoned texts behind a wrong answer are found, and how many others are accused.

    A row is {id, question, correct_answer, incorrect_answer, adversarial_texts, clean_texts}; answers are a string or a list.
    The corpus is all clean texts and what the attack plants, in a throw-away collection; the deployment is not touched. Every
    row is one report of its first incorrect answer. DACC, FPR and FNR are fractions of the texts that were judged, by the labels
    that hold in the end; `poisoned` and `benign` count what is so in truth; an undecided poisoned text is missed.

    Example: `guard evaluate traceback targets.jsonl --attack poisonedrag-b --judge embedded --json out.json --verdicts v.jsonl`
    """
    from corpus_guard.evaluation.defences import DEFENCES
    from corpus_guard.evaluation.traceback.answering import OWN
    from corpus_guard.evaluation.traceback.experiment import Request
    from corpus_guard.settings import load_settings

    if table + with_table6 + (verdicts is not None) > 1:
        raise Misuse(
            "--table, --table6 and --verdicts: a table plays many games, verdicts are of one; choose one of them"
        )
    settings = load_settings()
    planting = Planting(attack, adaptive, m, typos, seed, optimise)
    defences = tuple(defence or (DEFENCES if with_table6 else OWN))
    request = Request(targets, planting, judge, k, limit, asr, defences, ask)
    if table:
        _table1(settings, request, to, mlflow=mlflow)
    elif with_table6:
        _table6(settings, request, to, mlflow=mlflow)
    else:
        _play(settings, request, to, verdicts, mlflow=mlflow)


def _play(settings: Settings, request: Request, to: Path | None, verdicts: Path | None, *, mlflow: bool) -> None:
    from corpus_guard.evaluation.traceback.experiment import evaluate
    from corpus_guard.evaluation.traceback.keeping import EXPERIMENT, keep

    with console.progress(True) as progress:
        result = evaluate(settings, request, progress=progress)
    if verdicts is not None:
        with console.writing(verdicts) as write:
            for line in result.lines():
                write(json.dumps(line) + "\n")
    _written(to, result.as_dict())
    if to != Path("-"):
        _show(result)
    if mlflow:  # last: what was found is told even where MLflow cannot be reached
        err.print(f"MLflow run {keep(settings, result)} of {EXPERIMENT}", soft_wrap=True)


def _table1(settings: Settings, request: Request, to: Path | None, *, mlflow: bool) -> None:
    from corpus_guard.evaluation.traceback import tables
    from corpus_guard.evaluation.traceback.keeping import TABLE1_EXPERIMENT, keep_table1
    from corpus_guard.evaluation.traceback.reproducing import table1

    judges = [JudgeName.EMBEDDED, *([JudgeName.LLM] if settings.chat_url else []), *BASELINES]
    with console.progress(True) as progress:
        result = table1(settings, request, tables.ATTACKS1, judges, progress=progress)
    _written(to, result.as_dict())
    if to != Path("-"):
        title = f"Table 1, in per cent with 95 % intervals; paper: {' / '.join(tables.DATA_SETS)}"
        out.print(console.table(title, tables.COLUMNS1, tables.rows1(result.cells), right=tables.COLUMNS1[2:]))
        if JudgeName.LLM not in judges:
            out.print("llm: not run, CORPUS_GUARD_CHAT_URL is not set")
    if mlflow:
        err.print(f"MLflow run {keep_table1(settings, request, result)} of {TABLE1_EXPERIMENT}", soft_wrap=True)


def _table6(settings: Settings, request: Request, to: Path | None, *, mlflow: bool) -> None:
    from corpus_guard.evaluation.traceback import tables
    from corpus_guard.evaluation.traceback.keeping import TABLE6_EXPERIMENT, keep_table6
    from corpus_guard.evaluation.traceback.reproducing import table6

    with console.progress(True) as progress:
        result = table6(settings, request, tables.ATTACKS6, progress=progress)
    _written(to, result.as_dict())
    if to != Path("-"):
        title = f"Table 6, in per cent with 95 % intervals; paper: {' / '.join(tables.DATA_SETS)}"
        out.print(console.table(title, tables.COLUMNS6, tables.rows6(result.cells), right=tables.COLUMNS6[2:]))
    if mlflow:
        err.print(f"MLflow run {keep_table6(settings, request, result)} of {TABLE6_EXPERIMENT}", soft_wrap=True)


def _written(to: Path | None, values: Any) -> None:
    if to is None:
        return
    if to == Path("-"):
        console.print_json(values)
        return
    with console.writing(to) as write:
        write(console.as_json(values, indent=1) + "\n")
    err.print(f"All figures: {visible(str(to))}", soft_wrap=True)


def _show(result: Result) -> None:
    from corpus_guard.evaluation.traceback.figures import Share
    from corpus_guard.evaluation.traceback.tables import percent

    figures = result.figures
    planting = result.request.planting
    attack = planting.attack.value + (f" + {planting.adaptive.value}" if planting.adaptive is not Adaptive.NONE else "")
    out.print(
        console.table(
            "Traceback, in per cent with 95 % intervals",
            ("attack", "judge", "DACC", "FPR", "FNR"),
            [(attack, visible(result.about["judge"]["name"]), *map(percent, (figures.dacc, figures.fpr, figures.fnr)))],
            right=("DACC", "FPR", "FNR"),
        )
    )
    out.print(
        f"{figures.judged:,} texts judged for {figures.queries:,} questions: {figures.count(True):,} poisoned, "
        f"{figures.count(False):,} benign; {1000 * figures.judge_seconds / max(1, figures.judged):.1f} ms a text, and "
        f"{1000 * figures.embedding_seconds / max(1, figures.judged):.1f} ms for its vectors",
        soft_wrap=True,
    )
    out.print("Outcomes: " + ", ".join(f"{name.value} {count:,}" for name, count in figures.outcomes.most_common()))
    if planting.attack is Attack.NONE:
        out.print(f"Honest reports that accuse a text: {figures.accusing:,} of {figures.queries:,}")
    else:
        out.print(
            f"Questions that retrieve a planted text: {figures.reached:,}; with the accused set aside: {figures.leaking:,}",
            soft_wrap=True,
        )
    if result.answered:
        rows = [
            (
                name,
                percent(Share(line.attacked, line.queries)),
                percent(Share(line.right, line.queries)),
                f"{line.failed:,}",
            )
            for name, line in result.answered.items()
        ]
        columns = ("defence", "ASR", "ACC", "no answer")
        out.print(console.table("The RAG model's answers, in per cent", columns, rows, right=columns[1:]))
