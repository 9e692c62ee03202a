"""`guard evaluate`: measurements on labelled texts."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import out, print_table, say, say_aside, visible
from corpus_guard.cli.options import Attacks, HonestTexts, Json, JsonFile, LogToMlflow, ManyFiles, read_questions
from corpus_guard.corpus.filterrag.kinds import ClassifierKind
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import Misuse
from corpus_guard.evaluation.kinds import AdversarialForm
from corpus_guard.evaluation.screening.protocols import ArrivalProtocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from corpus_guard.evaluation.contradictions.pairs import PairFigure
    from corpus_guard.evaluation.drift import DriftRow
    from corpus_guard.evaluation.screening.evaluation import ScreeningEvaluation
    from corpus_guard.models import Models
    from corpus_guard.screening.checks.conflict import ConflictParams
    from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
    from corpus_guard.screening.wording import Wording

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
    from corpus_guard.detectors.readings import ReadingCache
    from corpus_guard.evaluation.filter_experiment import FilterExperiment, read_filter_questions
    from corpus_guard.models import Models
    from corpus_guard.models.chat import ChatEndpoint
    from corpus_guard.settings import load_settings
    from corpus_guard.traceback.rag_model import ChatRagModel

    settings = load_settings()
    training, testing = read_filter_questions(train, form, limit), read_filter_questions(test, form, limit)
    chat = ChatRagModel(ChatEndpoint.from_settings(settings)) if settings.chat_url else None
    readings = ReadingCache(settings.home / "evaluation" / "readings.jsonl")
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


@app.command("claims", cls=ManyFiles)
def evaluate_claims(
    honest: Annotated[
        list[Path] | None,
        typer.Option(
            help="JSONL with honest texts, 'title', 'query' or 'repo' and 'path'; several files. Measures only these."
        ),
    ] = None,
    half: Annotated[
        list[Half] | None,
        typer.Option(help="Of the honest texts, only these; several values allowed. Default: validation."),
    ] = None,
    show: Annotated[bool, typer.Option(help="Show both sentences of what is flagged among the honest texts.")] = False,
    pairs: Annotated[
        bool,
        typer.Option(
            help="Measure only the pairs of a page and a text by writers who know no rule: 20 minutes, 30 seconds with --rules-only."
        ),
    ] = False,
    among: Annotated[
        int | None,
        typer.Option(
            min=1, help="With --pairs: let one text that contradicts a page arrive among so many honest ones on it."
        ),
    ] = None,
    claims: Annotated[
        list[Path] | None,
        typer.Option(
            help="Measure only the claims of these files, in the form of FEVER or of SQuAD 2.0; 2,000 of each, of the half "
            "that the reader does not learn from."
        ),
    ] = None,
    attacks: Annotated[
        list[Path] | None,
        typer.Option(
            help="Measure only the texts of these files of attacks, in the form of PoisonedRAG's, beside --passages."
        ),
    ] = None,
    passages: Annotated[
        list[Path] | None,
        typer.Option(
            help="With --attacks: JSONL with 'query' and 'text', what was retrieved for their questions; ten of each are trusted, "
            "five arrive."
        ),
    ] = None,
    late: Annotated[
        bool, typer.Option("--late", help="Let the trusted texts arrive when the others are served already.")
    ] = False,
    read: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=20,
            help="Posts of each text that the trained reader sees, as 'pairs_read' of the policy. Default: that of the check.",
        ),
    ] = None,
    rules_only: Annotated[
        bool, typer.Option("--rules-only", help="Leave the trained reader out, which takes most of the time.")
    ] = False,
    ask: Annotated[
        str,
        typer.Option(
            metavar="MODEL", help="Ask a model at CORPUS_GUARD_CHAT_URL about each pair that the reader's sieve keeps."
        ),
    ] = "",
    seed: Annotated[int, typer.Option(help="Random seed of wordings, values, surroundings and samples.")] = 0,
    as_json: Json = False,
) -> None:
    """Measure how many contradictions of trusted texts are found, on cases of this package, or how many honest texts are flagged.

    Each text arrives in an open source beside the trusted ones. Contradictions and near copies must be found; restatements
    and updates must not. The half "tuning" is what the rules were made with. With --honest, 300 texts of each file and half
    arrive beside up to 1,500 trusted ones: none must be flagged. What that costs is shown, too.

    Example: `guard evaluate claims --honest documentation.jsonl --show`
    """
    from corpus_guard.screening.checks.conflict import ConflictParams

    if sum(map(bool, (honest, pairs, claims, attacks))) > 1:
        raise Misuse("--honest, --pairs, --claims and --attacks: each measures something else; expected one of them")
    if bool(attacks) is not bool(passages):
        raise Misuse("--attacks and --passages: one says nothing without the other; expected both")
    if among and not pairs:
        raise Misuse("--among: of what; expected --pairs with it")
    if late and (pairs or claims):
        raise Misuse("--late: texts of --pairs and --claims are compared with one page; expected it without them")
    if ask and rules_only:
        raise Misuse("--ask and --rules-only: with the rules alone nobody is asked; expected one of them")
    if read and rules_only:
        raise Misuse("--read and --rules-only: the rules alone read nothing; expected one of them")
    pairs_read = 0 if rules_only else read or ConflictParams().pairs_read
    params = ConflictParams(pairs_read=pairs_read, asked_model=ask, asked_pairs=sys.maxsize)
    if pairs:
        _evaluate_pairs(params, among=among or 0, seed=seed, as_json=as_json)
        return
    if claims or attacks:
        _evaluate_others(claims or (), attacks or (), passages or (), params, seed, late=late, as_json=as_json)
        return
    if honest:
        _evaluate_honest(honest, half or [Half.VALIDATION], params, seed, late=late, show=show, as_json=as_json)
        return
    from corpus_guard.evaluation.contradictions.figures import measure_contradictions

    models, wording, likely = _load_reader(params)
    figures = measure_contradictions(models.embedder, wording, seed, likely=likely, late=late)
    if as_json:
        console.print_json({"seed": seed, "figures": [figure.as_dict() for figure in figures]})
        return
    rows = [
        (
            figure.group.value,
            figure.origin.value,
            figure.half.value,
            f"{figure.contradicted} of {figure.texts}",
            f"{figure.contradicted / figure.texts:.1%}",
            "found" if figure.group.is_attack else "left alone",
        )
        for figure in figures
    ]
    columns = ("texts", "origin", "half", "contradict", "share", "must be")
    print_table("Contradictions of trusted texts", columns, rows, right=("contradict", "share"))


def _load_reader(params: ConflictParams) -> tuple[Models, Wording, LikelyContradictions | None]:
    """Return models and words of the deployment, and what reads the texts that the rules leave open; None: nothing does."""
    from corpus_guard.models import Models
    from corpus_guard.screening.checks.conflict import Conflict
    from corpus_guard.screening.wording import load_wording
    from corpus_guard.settings import load_settings

    models = Models(load_settings())
    return models, load_wording(models.frequency_vocabulary), Conflict(params).likely(models)


def _evaluate_pairs(params: ConflictParams, *, among: int, seed: int, as_json: bool) -> None:
    from corpus_guard.detectors.contradictions.pairs import FOLDER, KEPT_APART
    from corpus_guard.evaluation.contradictions.pairs import measure_pairs

    _, wording, likely = _load_reader(params)
    with console.progress(not as_json) as progress:
        learned = measure_pairs(wording.rarity, FOLDER, None, progress, among=among, seed=seed)
        apart = measure_pairs(wording.rarity, KEPT_APART, likely, progress, among=among, seed=seed)
    if as_json:
        rows = {"learned": learned, "kept_apart": apart}
        console.print_json({name: [figure.as_dict() for figure in figures] for name, figures in rows.items()})
        return
    _show_pairs("Pairs that the reader learns from: the rules alone", learned)
    _show_pairs(f"Pairs kept apart: the rules{' and the reader' if likely else ''}", apart)


def _evaluate_others(
    claims: Sequence[Path],
    attacks: Sequence[Path],
    passages: Sequence[Path],
    params: ConflictParams,
    seed: int,
    *,
    late: bool,
    as_json: bool,
) -> None:
    from corpus_guard.detectors.contradictions.planted import read_passages
    from corpus_guard.evaluation.contradictions.pairs import measure_claims
    from corpus_guard.evaluation.contradictions.planted import measure_planted

    models, wording, likely = _load_reader(params)
    with console.progress(not as_json) as progress:
        figures = [
            figure for path in claims for figure in measure_claims(wording.rarity, path, likely, progress, seed=seed)
        ]
        retrieved = read_passages(passages)
        figures += [
            figure
            for path in attacks
            for figure in measure_planted(path, retrieved, models.embedder, wording, likely, late=late)
        ]
    if as_json:
        console.print_json({"seed": seed, "figures": [figure.as_dict() for figure in figures]})
        return
    _show_pairs(f"Texts of other people: the rules{' and the reader' if likely else ''}", figures)


def _show_pairs(title: str, figures: Sequence[PairFigure]) -> None:
    from corpus_guard.detectors.contradictions.pairs import PairLabel

    rows = [
        (
            label.value,
            field,
            f"{contradicted:,} of {texts:,}",
            f"{contradicted / texts:.1%}",
            "found" if label is PairLabel.CONTRADICTS else "left alone",
        )
        for label in PairLabel
        for own in [[figure for figure in figures if figure.label is label]]
        if own
        for field, contradicted, texts in [
            *((figure.field, figure.contradicted, figure.texts) for figure in own),
            ("all", sum(figure.contradicted for figure in own), sum(figure.texts for figure in own)),
        ]
    ]
    columns = ("texts", "field", "contradict", "share", "must be")
    print_table(title, columns, rows, right=("contradict", "share"))


def _evaluate_honest(
    paths: list[Path], halves: list[Half], params: ConflictParams, seed: int, *, late: bool, show: bool, as_json: bool
) -> None:
    from corpus_guard.evaluation.contradictions.honest import measure_honest

    models, wording, likely = _load_reader(params)
    measured = [
        result
        for path in paths
        for result in measure_honest(path, models.embedder, wording, halves, seed=seed, likely=likely, late=late)
    ]
    if as_json:
        console.print_json({"seed": seed, "figures": [figure.as_dict() for figure, _ in measured]})
        return
    rows = [
        (
            visible(figure.file),
            figure.half.value,
            f"{figure.trusted:,}",
            f"{figure.flagged} of {figure.texts}",
            f"{figure.flagged / max(1, figure.texts):.1%}",
            f"{figure.embedding_ms:.1f}",
            f"{figure.comparison_ms:.1f}",
        )
        for figure, _ in measured
    ]
    columns = ("file", "half", "trusted", "flagged", "share", "embedding", "comparison")
    print_table("Honest texts beside trusted ones", columns, rows, right=columns[2:])
    say("embedding, comparison: milliseconds of CPU time for each text, for each that arrives")
    for _, flagged in measured if show else ():
        for each in flagged:
            own, other = each.sentences()
            say(f"{visible(own)}\n    [dim]trusted:[/dim] {visible(other)}")


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
        cells = [tuple(_COLOURS.get(cell, visible(cell)) for cell in row) for row in table.rows]
        print_table(table.title, table.columns, cells, right=table.columns[1:-1])
        out.print()
    if evaluation.throughput:
        rows = [
            (cost.check, f"{cost.chunks:,}", f"{cost.chunks_per_second:,.0f}", f"{cost.share:.1%}")
            for cost in evaluation.throughput.costs
        ]
        columns = ("check", "chunks", "chunks per second and core", "share of time")
        print_table("Throughput on clean texts", columns, rows, right=columns[1:])
    for name, value, bound, met in report.report_demands(evaluation.throughput, evaluation.proof):
        say(f"{name}: {value} ({bound}, {_COLOURS['met' if met else 'missed']})")


_COLOURS = {"met": "[green]met[/green]", "missed": "[red]missed[/red]"}


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
            f"{line.n}",
            _share(line.attributed, line.n),
            f"{line.wrong}",
            _share(line.false, line.absent),
            f"{line.sibling}",
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
