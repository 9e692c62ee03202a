"""`guard evaluate`: figures anyone can take again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from corpus_guard import _console as console
from corpus_guard._console import err, out, visible
from corpus_guard.corpus.filterrag.learned import Kind
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.filter_experiment import Form
from corpus_guard.evaluation.samples import Half
from corpus_guard.evaluation.screening.protocols import Protocol

if TYPE_CHECKING:
    from corpus_guard.evaluation.screening.evaluation import Evaluation

app = typer.Typer(help="Measure the guard on labelled texts.", no_args_is_help=True)


class ManyFiles(TyperCommand):
    """Lets ``--poison a.jsonl b.jsonl`` stand for ``--poison a.jsonl --poison b.jsonl``, so that a shell's ``*`` works."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before every further file."""
        repeatable = {name for param in self.params if getattr(param, "multiple", False) for name in param.opts}
        spread: list[str] = []
        option, taken = "", False
        for argument in args:
            if argument.startswith("-") and argument != "-":
                option, taken = (argument if argument in repeatable else ""), False
            elif option:
                if taken:
                    spread.append(option)
                taken = True
            spread.append(argument)
        return super().parse_args(ctx, spread)


@app.command("screening", cls=ManyFiles)
def screening(
    poison: Annotated[list[Path], typer.Option("--poison", help="JSONL with attacks; several may follow.")],
    clean: Annotated[list[Path], typer.Option("--clean", help="JSONL with honest texts; several may follow.")],
    to: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file; - is standard output.")
    ] = None,
    bank: Annotated[
        Path | None, typer.Option(help="Further questions that users ask, one a line, for the protocol bank.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Texts of a slice, form and half, at most. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Which texts are sampled, and who stands beside whom.")] = 0,
    protocol: Annotated[
        list[Protocol] | None, typer.Option(help="Only these; several may follow. Default: all.")
    ] = None,
    own: Annotated[
        bool, typer.Option(help="Also the override phrases, obfuscations and joiners this package holds.")
    ] = True,
    half: Annotated[list[Half] | None, typer.Option(help="Only these; several may follow. Default: all.")] = None,
    trust: Annotated[TrustLevel, typer.Option(help="How far the texts' source is trusted.")] = TrustLevel.OPEN,
    timed: Annotated[int, typer.Option(min=0, help="Clean texts to time each check on.")] = 1_000,
    proved: Annotated[
        int,
        typer.Option("--prove-cascade", min=0, help="Clean texts to judge again with every chunk shown to the model."),
    ] = 0,
    mlflow: Annotated[
        bool, typer.Option(help="Keep the run in MLflow (MLFLOW_TRACKING_URI, else a file below CORPUS_GUARD_HOME).")
    ] = True,
) -> None:
    """How many attacks screening catches, and how many honest texts it holds back.

    A row is {question, adversarial_texts}, {poisoned_text, clean_text} or {text, label?, slice?, question?}. Texts are split by
    question, title or repository into a half to tune on and a half to judge by; the table shows the second, with Wilson
    intervals.

    Example: `guard evaluate screening --poison attacks/*.jsonl --clean clean/*.jsonl --sample 200 --json figures.json`
    """
    from corpus_guard.evaluation.screening.evaluation import EXPERIMENT, Request, evaluate, keep
    from corpus_guard.evaluation.screening.experiment import Plan
    from corpus_guard.settings import load_settings

    settings = load_settings()
    plan = Plan(tuple(protocol or Protocol), tuple(half or Half), sample, seed, _questions(bank))
    request = Request(tuple(poison), tuple(clean), plan, trust, own, timed, proved)
    with console.progress(True) as progress:
        found = evaluate(settings, request, progress=progress)
    if to == Path("-"):
        console.print_json(found.as_dict())
    else:
        _show(found)
    if to is not None and to != Path("-"):
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(console.as_json(found.as_dict(), indent=1) + "\n", encoding="utf-8")
        err.print(f"All figures: {visible(str(to))}", soft_wrap=True)
    if mlflow:  # last: what was found is told even where MLflow cannot be reached
        err.print(f"MLflow run {keep(settings, found)} of {EXPERIMENT}", soft_wrap=True)


@app.command("filter")
def evaluate_filter(
    train: Annotated[Path, typer.Option("--train", help="JSONL in PoisonedRAG's format: questions to train on.")],
    test: Annotated[
        Path, typer.Option("--test", help="Questions to measure on; the same file: half of its questions each.")
    ],
    to: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file; - is standard output.")
    ] = None,
    form: Annotated[Form, typer.Option(help="How adversarial texts are written.")] = Form.LED,
    kind: Annotated[Kind, typer.Option(help="Which classifier.")] = Kind.XGBOOST,
    limit: Annotated[int | None, typer.Option(min=2, help="Questions of a file, at most. Default: all.")] = None,
    answers: Annotated[
        bool, typer.Option("--answers/--no-answers", help="Also answer the questions, for ASR and accuracy.")
    ] = True,
    save_model: Annotated[
        Path | None, typer.Option(help="Train on all questions of both files, and write the classifier here.")
    ] = None,
) -> None:
    """FilterRAG's experiment: how many adversarial texts pass the filter, and how many clean ones it drops.

    A row is {question, correct_answer, incorrect_answer, adversarial_texts, clean_texts}. What the language model read is kept
    below CORPUS_GUARD_HOME, so that a second run is quick.

    Example: `guard evaluate filter --train nq.jsonl --test hotpotqa.jsonl --json filter.json`
    """
    from corpus_guard.evaluation.filter_experiment import FilterExperiment, load_questions
    from corpus_guard.evaluation.readings import Readings
    from corpus_guard.models import Models
    from corpus_guard.settings import load_settings

    settings = load_settings()
    training, testing = load_questions(train, form, limit), load_questions(test, form, limit)
    experiment = FilterExperiment(Models(settings), Readings(settings.home / "evaluation" / "readings.jsonl"))
    with console.progress(True) as progress:
        figures = experiment.run(training, testing, kind=kind, answers=answers, progress=progress)
    if save_model is not None:
        everything = list({(one.key, one.adversarial): one for one in [*training, *testing]}.values())
        figures["model"] = {"file": str(save_model), "sha256": experiment.fit(everything, kind).save(save_model)}
        err.print(f"Model: {visible(str(save_model))}, sha256 {figures['model']['sha256']}", soft_wrap=True)
    if to == Path("-"):
        console.print_json(figures)
        return
    shown = {key: title for key, title in _FILTER.items() if any(key in one for one in figures["systems"].values())}
    rows = [(name, *(_rate(values[key]) for key in shown)) for name, values in figures["systems"].items()]
    out.print(console.table("Systems", ("system", *shown.values()), rows, right=tuple(shown.values())))
    for name, values in figures["classifier"].items():
        out.print(f"{name.replace('_', ' ')}: {values if isinstance(values, str) else _rate(values)}")
    if to is not None:
        to.write_text(console.as_json(figures, indent=1) + "\n", encoding="utf-8")
        err.print(f"All figures: {visible(str(to))}")


_FILTER = {"atr": "ATR", "asr": "ASR", "accuracy": "accuracy", "clean_dropped": "clean dropped"}


def _rate(share: Any) -> str:
    return f"{share['rate']:.3f} [{share['low']:.3f}, {share['high']:.3f}] of {share['n']}"


def _show(found: Evaluation) -> None:
    from corpus_guard.evaluation.screening import report

    for table in report.tables(found.result, found.screeners):
        cells = [tuple(_COLOURS.get(cell, visible(cell)) for cell in row) for row in table.rows]
        out.print(console.table(table.title, table.columns, cells, right=table.columns[1:-1]))
        out.print()
    for protocol, reason in found.result.skipped.items():
        out.print(f"{protocol}: not run, {reason}")
    if found.throughput:
        rows = [
            (cost.check, f"{cost.chunks:,}", f"{cost.chunks_per_second:,.0f}", f"{cost.share:.1%}")
            for cost in found.throughput.costs
        ]
        columns = ("check", "chunks", "chunks a second and core", "of the time")
        out.print(console.table("Throughput on clean texts", columns, rows, right=columns[1:]))
    for name, value, bound, met in report.demands(found.throughput, found.proof):
        out.print(f"{name}: {value} ({bound}, {_COLOURS['met' if met else 'missed']})")


_COLOURS = {"met": "[green]met[/green]", "missed": "[red]missed[/red]"}


def _questions(path: Path | None) -> tuple[str, ...]:
    if path is None:
        return ()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Misuse(
            f"--bank {path}: cannot be read ({type(error).__name__}); expected UTF-8, a question a line"
        ) from None
    return tuple(line.strip() for line in lines if line.strip())
