"""`guard evaluate`: measurements on labelled texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import Markup, out, print_table, say, say_aside, visible
from corpus_guard.cli.options import Attacks, HonestTexts, Json, JsonFile, LogToMlflow, ManyFiles, read_questions
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import TrustLevel
from corpus_guard.evaluation.kinds import AdversarialForm
from corpus_guard.evaluation.screening.protocols import ArrivalProtocol

if TYPE_CHECKING:
    from corpus_guard.evaluation.drift import DriftRow
    from corpus_guard.evaluation.screening.evaluation import ScreeningEvaluation

app = typer.Typer(help="Measure the guard on labelled texts.", no_args_is_help=True)


@app.command("screening", cls=ManyFiles)
def screening(
    poison: Attacks,
    clean: HonestTexts,
    to: JsonFile = None,
    bank: Annotated[
        Path | None, typer.Option(help="File of further user questions, one per line, for the protocol bank.")
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of texts per slice, form and half. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the sample and of the arrival order.")] = 0,
    protocol: Annotated[
        list[ArrivalProtocol] | None, typer.Option(help="Only these; several values allowed. Default: all.")
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            help="Only these checks judge, also shadowed ones; several values allowed. Default: all, as the policy has them."
        ),
    ] = None,
    own: Annotated[
        bool, typer.Option(help="Include the override phrases, obfuscations, joiners and honest pages of this package.")
    ] = True,
    half: Annotated[list[Half] | None, typer.Option(help="Only these; several values allowed. Default: all.")] = None,
    trust: Annotated[TrustLevel, typer.Option(help="Trust level of the texts.")] = TrustLevel.OPEN,
    timed: Annotated[int, typer.Option(min=0, help="Number of clean texts to time each check on.")] = 1_000,
    proved: Annotated[
        int,
        typer.Option(
            "--prove-cascade", min=0, help="Number of clean texts to judge again with every chunk shown to the model."
        ),
    ] = 0,
    mlflow: LogToMlflow = True,
) -> None:
    """Measure how many attacks screening catches, and how many honest texts it holds back.

    Each row is {question, adversarial_texts}, {poisoned_text, clean_text} or {text, label?, slice?, question?}. Texts are split by
    question, title or repository into a tuning half and a validation half; the table shows the second, with Wilson intervals.

    Example: `guard evaluate screening --poison attacks/*.jsonl --clean clean/*.jsonl --sample 200 --json figures.json`
    """
    from corpus_guard.evaluation.screening.evaluation import (
        EXPERIMENT,
        ScreeningRequest,
        evaluate_screening,
        log_screening,
    )
    from corpus_guard.evaluation.screening.experiment import ScreeningPlan
    from corpus_guard.settings import load_settings

    settings = load_settings()
    plan = ScreeningPlan(tuple(protocol or ArrivalProtocol), tuple(half or Half), sample, seed, read_questions(bank))
    request = ScreeningRequest(tuple(poison), tuple(clean), plan, trust, own, timed, proved, tuple(check or ()))
    with console.progress(True) as progress:
        evaluation = evaluate_screening(settings, request, progress=progress)
    if to != Path("-"):
        _show(evaluation)
    console.write_figures(evaluation.as_dict(), to)
    if mlflow:  # last: what was found is told even where MLflow cannot be reached
        say_aside(f"MLflow run {log_screening(settings, evaluation)} of {EXPERIMENT}")


@app.command("filter")
def evaluate_filter(
    train: Annotated[Path, typer.Option("--train", help="JSONL in PoisonedRAG's format: questions to train on.")],
    test: Annotated[
        Path,
        typer.Option("--test", help="Questions to measure on; with the same file, each gets half of its questions."),
    ],
    to: JsonFile = None,
    form: Annotated[AdversarialForm, typer.Option(help="How adversarial texts are written.")] = AdversarialForm.LED,
    kind: Annotated[ClassifierKind, typer.Option(help="Classifier.")] = ClassifierKind.XGBOOST,
    limit: Annotated[
        int | None, typer.Option(min=2, help="Maximum number of questions per file. Default: all.")
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answers/--no-answers", help="Also answer the questions, to measure ASR and accuracy.")
    ] = True,
    tau: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Cosine above which two words are similar. Default: CORPUS_GUARD_FILTER_TAU."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Freq-Density above which FilterRAG drops a text. Default: CORPUS_GUARD_FILTER_EPSILON."
        ),
    ] = None,
    white_box: Annotated[
        Path | None, typer.Option(help="JSONL with texts optimised to be retrieved, for questions of --test.")
    ] = None,
    save_model: Annotated[
        Path | None, typer.Option(help="Train on all questions of both files and write the classifier to this file.")
    ] = None,
) -> None:
    """Run FilterRAG's experiment: measure how many adversarial texts pass the filter, and how many clean ones it drops.

    Each row is {question, correct_answer, incorrect_answer, adversarial_texts, clean_texts}. Readings of the language model are cached in
    CORPUS_GUARD_HOME, so that a second run is quick.

    Example: `guard evaluate filter --train nq.jsonl --test hotpotqa.jsonl --json filter.json`
    """
    from corpus_guard.detectors.filter_candidate import READINGS_PATH
    from corpus_guard.detectors.readings import ReadingCache
    from corpus_guard.evaluation.filter_experiment import FilterExperiment, read_filter_questions
    from corpus_guard.models import Models
    from corpus_guard.models.chat import ChatEndpoint
    from corpus_guard.settings import load_settings
    from corpus_guard.traceback.rag_model import ChatRagModel

    settings = load_settings()
    training, testing = read_filter_questions(train, form, limit), read_filter_questions(test, form, limit)
    chat = ChatRagModel(ChatEndpoint.from_settings(settings)) if settings.chat_url else None
    readings = ReadingCache(settings.home.joinpath(*READINGS_PATH))
    experiment = FilterExperiment(Models(settings), readings, chat)
    with console.progress(True) as progress:
        figures = experiment.run(
            training,
            testing,
            kind=kind,
            answers=answers,
            tau=settings.filter_tau if tau is None else tau,
            epsilon=settings.filter_epsilon if epsilon is None else epsilon,
            white_box=white_box,
            progress=progress,
        )
    if save_model is not None:
        everything = list(
            {(question.key, question.adversarial): question for question in [*training, *testing]}.values()
        )
        figures["model"] = {"file": str(save_model), "sha256": experiment.fit(everything, kind).save(save_model)}
        say_aside(f"Model: {visible(str(save_model))}, sha256 {figures['model']['sha256']}")
    console.write_figures(figures, to)
    if to == Path("-"):
        return
    sweep = {f"{system}, tau {tau}": rates for tau, both in figures["tau"].items() for system, rates in both.items()}
    sweep |= {f"filterrag, epsilon {epsilon}": rates for epsilon, rates in figures["epsilon"].items()}
    tables = {"Systems": figures["systems"], "Sweeps": sweep}
    if "white_box" in figures:
        tables[f"White box, {figures['white_box_questions']} questions"] = figures["white_box"]
    for name, systems in tables.items():
        shown = {key: label for key, label in _FILTER.items() if any(key in values for values in systems.values())}
        rows = [(system, *(_rate(values[key]) for key in shown)) for system, values in systems.items()]
        print_table(name, ("system", *shown.values()), rows, right=tuple(shown.values()))
    if answers:
        say("ASR and accuracy: answers of a model of 135 million parameters say little about larger ones.")
    for name, values in figures["classifier"].items():
        say(f"{name.replace('_', ' ')}: {values if isinstance(values, str) else _rate(values)}")


_FILTER = {
    "atr": "ATR",
    "asr": "ASR",
    "accuracy": "accuracy",
    "chat_asr": "ASR, chat",
    "chat_accuracy": "accuracy, chat",
    "clean_dropped": "clean dropped",
}


def _rate(share: Any) -> str:
    return f"{share['rate']:.3f} [{share['low']:.3f}, {share['high']:.3f}] of {share['n']}"


def _show(evaluation: ScreeningEvaluation) -> None:
    from corpus_guard.evaluation.screening import report

    for table in report.report_tables(evaluation.result, evaluation.screeners):
        cells = [tuple(_COLOURS.get(cell, cell) for cell in row) for row in table.rows]
        print_table(table.title, table.columns, cells, right=table.columns[1:-1])
        out.print()
    if evaluation.throughput:
        rows = [
            (cost.check, cost.chunks, f"{cost.chunks_per_second:,.0f}", f"{cost.share:.1%}")
            for cost in evaluation.throughput.costs
        ]
        columns = ("check", "chunks", "chunks per second and core", "share of time")
        print_table("Throughput on clean texts", columns, rows, right=columns[1:])
    for name, value, bound, met in report.report_demands(evaluation.throughput, evaluation.proof):
        say(f"{name}: {value} ({bound}, {_COLOURS['met' if met else 'missed']})")


_COLOURS = {"met": Markup("[green]met[/green]"), "missed": Markup("[red]missed[/red]")}


@app.command("drift", cls=ManyFiles)
def drift(
    poison: Attacks,
    clean: HonestTexts,
    texts: Annotated[int, typer.Option(min=8, help="Texts to look for, among five times as many others.")] = 400,
    half: Annotated[
        Half, typer.Option(help="Half to measure on; the parameters were tuned on the other.")
    ] = Half.VALIDATION,
    seed: Annotated[int, typer.Option(help="Random seed of the sample and of the edits.")] = 0,
    to: JsonFile = None,
) -> None:
    """Measure how often an edited, reordered or re-chunked text is attributed to the right place, and how often to a wrong one.

    Rows as in `guard evaluate screening`. A quarter of the texts is left out of the corpus; any attribution of these is false,
    unless it is a sibling (another text on the same question, or with the same words). Intervals are 95 % Wilson intervals.

    Example: `guard evaluate drift --poison targets.jsonl --clean passages.jsonl`
    """
    from corpus_guard.detectors.samples import read_samples
    from corpus_guard.detectors.vector_cache import CachingModels
    from corpus_guard.evaluation.drift import run_drift_experiment, select_texts
    from corpus_guard.settings import load_settings

    targets, others = select_texts(read_samples(poison, clean).samples, half, texts, seed)
    with console.progress(to != Path("-")) as progress:
        lines = run_drift_experiment(targets, others, CachingModels(load_settings()).embedder, seed, progress)
    console.write_figures({"half": half.value, "seed": seed, "lines": [line.as_dict() for line in lines]}, to)
    if to != Path("-"):
        _show_drift(lines)


def _show_drift(lines: Sequence[DriftRow]) -> None:
    rows = [
        (
            line.edit.value,
            f"{line.share:.0%}",
            line.n,
            _share(line.attributed, line.n),
            line.wrong,
            _share(line.false, line.absent),
            line.sibling,
        )
        for line in lines
    ]
    columns = ("edit", "drift", "texts", "found", "wrong", "false of absent", "siblings")
    print_table("Attribution under drift", columns, rows, right=columns[1:])


def _share(hits: int, n: int) -> str:
    from corpus_guard.tracking.measures import CountedShare

    share = CountedShare(hits, n)
    low, high = share.interval
    return f"{share.rate:.3f} ({low:.3f}–{high:.3f})"


@app.command("watch")
def watch(
    seed: Annotated[list[int] | None, typer.Option(help="Random seed of a log; repeat for several.")] = None,
    documents: Annotated[int, typer.Option(min=500, help="Honest documents.")] = 5_000,
    retrievals: Annotated[int, typer.Option(min=10_000, help="Retrievals of four weeks.")] = 200_000,
    planted: Annotated[int, typer.Option(min=2, help="Planted attacks, half of them hubs and half bursts.")] = 20,
    as_json: Json = False,
) -> None:
    """Measure how many planted hubs and bursts the retrieval watch names, and how many honest documents.

    The logs are generated: four weeks of honest traffic with glossaries, news, monitors and authors who try their pages. The
    thresholds were set on the seeds 1 to 3; 11 and 12 were looked at while the watch was built. Takes 20 seconds a log.

    Example: `guard evaluate watch --seed 21 --seed 22`
    """
    from corpus_guard.evaluation.watch_logs import generate_log, measure_watch

    lines = {
        number: measure_watch(generate_log(number, documents, retrievals, planted)) for number in seed or [21, 22, 23]
    }
    if as_json:
        console.print_json(
            [
                {"seed": number, **asdict(line), "recall": line.recall, "false_alarm_rate": line.false_alarm_rate}
                for number, line in lines.items()
            ]
        )
        return
    rows = [
        (
            str(number),
            *(f"{line.alerted[kind]}/{line.planted[kind]}" for kind in ("hub", "burst", "group")),
            f"{line.recall:.0%}",
            f"{line.false_alarms} of {line.honest:,}",
            f"{line.false_alarm_rate:.3%}",
        )
        for number, line in lines.items()
    ]
    columns = ("seed", "hubs", "bursts", "groups", "recall", "honest named", "a week")
    print_table("Retrieval watch, generated logs", columns, rows, right=columns)


@app.command("hubs", cls=ManyFiles)
def hubs(
    clean: HonestTexts,
    questions: Annotated[
        list[Path],
        typer.Option("--questions", help="JSONL with questions (`question` or `query`); several files allowed."),
    ],
    planted: Annotated[int, typer.Option(min=1, help="Planted hubs of each kind; each takes 10 seconds or more.")] = 20,
    served: Annotated[int, typer.Option(min=1_000, help="Honest texts that are served.")] = 5_000,
    arriving: Annotated[int, typer.Option(min=1, help="Honest texts that arrive.")] = 1_000,
    seed: Annotated[int, typer.Option(help="Random seed of all choices.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure how many planted hubs the check `hubness` names as they arrive, and how many honest texts.

    The guard knows half of the questions, the attacker the other half and the embedder. Natural hubs are among the honest texts:
    glossaries, questions and answers, lists of contents, lists of questions.

    Example: `guard evaluate hubs --clean wiki.jsonl --questions nq.jsonl --planted 20`
    """
    from corpus_guard.detectors.samples import read_rows, read_samples
    from corpus_guard.detectors.vector_cache import CachingModels
    from corpus_guard.evaluation.hubs import measure_hubs
    from corpus_guard.settings import load_settings

    rows = [row for path in questions for _, row in read_rows(path)]
    queries = [str(question) for row in rows if (question := row.get("question") or row.get("query"))]
    texts = [sample.text for sample in read_samples((), clean).samples]
    with console.progress(not as_json) as progress:
        figures = measure_hubs(
            CachingModels(load_settings()),
            texts,
            queries,
            served=served,
            arriving=arriving,
            hubs=planted,
            seed=seed,
            progress=progress,
        )
    if as_json:
        console.print_json({"seed": seed, "figures": [asdict(figure) for figure in figures]})
        return
    cells = [
        (
            figure.kind,
            "attack" if figure.is_attack else "honest",
            f"{figure.named} of {figure.texts}",
            f"{figure.above_usual} of {figure.texts}",
            f"{figure.median_share:.1%}",
            f"{figure.effective_named} of {figure.effective}" if figure.is_attack else "",
        )
        for figure in figures
    ]
    columns = ("texts", "", "named", "above what is usual", "median share", "of those that work")
    print_table("Hubs as they arrive", columns, cells, right=columns[2:])
