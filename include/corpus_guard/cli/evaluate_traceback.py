"""`guard evaluate traceback`: measure how many poisoned texts are found, and how many others are accused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard.attacks.adaptive import AdaptiveAttack
from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say, say_aside, visible
from corpus_guard.cli.options import JsonFile, LogToMlflow
from corpus_guard.detectors.planting import Attack, Planting, ReportForm
from corpus_guard.detectors.samples import Half
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge, Events
from corpus_guard.traceback.kinds import JudgePrompt

if TYPE_CHECKING:
    from corpus_guard.evaluation.traceback.experiment import TracebackRequest, TracebackResult
    from corpus_guard.settings import Settings

MeasuredHalf = Annotated[
    Half, typer.Option(help="Questions to measure on; `guard train judge --half` trains on the others.")
]
CountedEvents = Annotated[
    Events,
    typer.Option(
        help="reports: every question is reported; rag: only where the RAG model gives the attacker's answer."
    ),
]
PromptOfJudge = Annotated[
    JudgePrompt, typer.Option(help="Prompt of the judge llm: the guard's, or the paper's for comparison.")
]

app = typer.Typer()


def parse_attack(name: str) -> Attack:
    """Return the attack of this name; ``poisonedrag-w`` is ``hotflip``."""
    try:
        return Attack(name)
    except ValueError:
        expected = ", ".join([*Attack, "poisonedrag-w"])
        raise typer.BadParameter(f"{name[:40]!r} is no attack; expected one of {expected}") from None


@app.command("traceback")
def traceback(
    targets: Annotated[Path, typer.Argument(help="JSONL file, one question per line.", metavar="TARGETS")],
    attack: Annotated[
        Attack,
        typer.Option(
            help="Attack on the corpus; poisonedrag-w is hotflip; none: honest complaints only.",
            parser=parse_attack,
            metavar=f"[{'|'.join(Attack)}]",
        ),
    ] = Attack.POISONEDRAG_B,
    adaptive: Annotated[AdaptiveAttack, typer.Option(help="Extra step of an attacker who knows about tracing.")] = (
        AdaptiveAttack.NONE
    ),
    m: Annotated[int, typer.Option("--m", min=1, max=40, help="Poisoned texts per question.")] = 5,
    k: Annotated[int, typer.Option("--k", min=1, max=100, help="Texts the RAG application retrieves.")] = 5,
    judge: Annotated[EvaluatedJudge, typer.Option(help="Judge of the texts; llm uses CORPUS_GUARD_CHAT_URL.")] = (
        EvaluatedJudge.EMBEDDED
    ),
    to: JsonFile = None,
    verdicts: Annotated[
        Path | None, typer.Option(help="Write each judged text with label and score to this JSONL file.")
    ] = None,
    asr: Annotated[
        bool, typer.Option("--asr", help="Also ask the RAG model, before and after each defence: ASR and ACC (slow).")
    ] = False,
    defence: Annotated[
        list[str] | None, typer.Option(help="For --asr: only this defence (repeatable). Default: those of PTR and BTE.")
    ] = None,
    half: MeasuredHalf = Half.WHOLE,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first rows of the file, or of its half. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of rewriting, misspelling, optimisation and sampling.")] = 0,
    optimise: Annotated[
        bool, typer.Option("--optimise", help="hotflip: optimise the leading words here (takes seconds per text).")
    ] = False,
    typos: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the words of planted texts that are misspelt.")
    ] = 0.0,
    ask: Annotated[
        bool, typer.Option("--ask", help="Ask the RAG model again when a verdict is in doubt, as `guard trace` does.")
    ] = False,
    form: Annotated[ReportForm, typer.Option(help="Form in which people report the wrong answer.")] = ReportForm.BARE,
    other_answers: Annotated[
        int,
        typer.Option(min=0, help="--attack none: report so many wrong answers to other questions of the kind as well."),
    ] = 2,
    events: CountedEvents = Events.REPORTS,
    prompt: PromptOfJudge = JudgePrompt.OWN,
    mlflow: LogToMlflow = True,
) -> None:
    """Measure how many poisoned texts behind a wrong answer are found, and how many others are accused.

    Each row is {id, question, correct_answer, incorrect_answer, adversarial_texts, clean_texts}; answers are a string or a list.
    The corpus holds all clean texts and the planted ones, in a temporary collection; the deployment is not touched. Every row is
    one report of its first incorrect answer. DACC, FPR and FNR are fractions of the judged texts, by their final labels; `poisoned` and
    `benign` are true counts; an undecided poisoned text counts as missed.

    Example: `guard evaluate traceback targets.jsonl --attack poisonedrag-b --judge embedded --json out.json --verdicts v.jsonl`
    """
    from corpus_guard.evaluation.traceback.experiment import TRACEBACK_DEFENCES, TracebackRequest
    from corpus_guard.settings import load_settings

    settings = load_settings()
    planting = Planting(attack, adaptive, m, typos, seed, optimise)
    request = TracebackRequest(
        targets,
        planting,
        judge,
        k,
        limit,
        asr,
        tuple(defence or TRACEBACK_DEFENCES),
        ask,
        form,
        half,
        other_answers,
        events,
        prompt,
    )
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
    console.write_figures(result.as_dict(), to)
    if to != Path("-"):
        _show(result)
    if mlflow:  # last: what was found is told even where MLflow cannot be reached
        say_aside(f"MLflow run {log_traceback(settings, result)} of {EXPERIMENT}")


def _show(result: TracebackResult) -> None:
    figures = result.figures
    planting = result.request.planting
    attack = planting.attack.value + (
        f" + {planting.adaptive.value}" if planting.adaptive is not AdaptiveAttack.NONE else ""
    )
    print_table(
        "Traceback, in per cent with 95 % intervals drawn by question",
        ("attack", "judge", "DACC", "FPR", "FNR"),
        [(attack, result.judge_name, figures.dacc.percent, figures.fpr.percent, figures.fnr.percent)],
        right=("DACC", "FPR", "FNR"),
    )
    say(
        f"{figures.judged:,} texts judged for {figures.queries:,} questions: {figures.count(True):,} poisoned, "
        f"{figures.count(False):,} benign; {1000 * figures.judge_seconds / max(1, figures.judged):.1f} ms per text, and "
        f"{1000 * figures.embedding_seconds / max(1, figures.judged):.1f} ms for its vectors"
    )
    say("Outcomes: " + ", ".join(f"{name.value} {count:,}" for name, count in figures.outcomes.most_common()))
    if planting.attack is Attack.NONE:
        say(
            f"Honest reports ({result.request.form.value}) that accuse a text: {figures.accusing:,} of {figures.queries:,}"
        )
    else:
        say(
            f"Questions that retrieve a planted text: {figures.reached:,}; after removing the accused: {figures.leaking:,}"
        )
    if result.request.events is Events.RAG:
        about = result.about
        say(
            f"Attacks that succeeded against {visible(str(about['rag_model']))}: {about['attacks_succeeded']} of "
            f"{about['attacks']}; without an answer: {about['attacks_without_an_answer']}"
        )
    if result.answered:
        rows = [
            (
                name,
                line.asr.percent,
                line.acc.percent,
                line.failed,
            )
            for name, line in result.answered.items()
        ]
        columns = ("defence", "ASR", "ACC", "no answer")
        print_table("The RAG model's answers, in per cent", columns, rows, right=columns[1:])
