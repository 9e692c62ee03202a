"""`guard evaluate activations` and `guard train activations`: probes of the RAG model's activations (RevPRAG)."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import Cell, print_table, say, say_aside, visible
from corpus_guard.cli.options import Json, JsonFile, LogToMlflow

if TYPE_CHECKING:
    from corpus_guard.detectors.probe_comparison import ProbeComparison
    from corpus_guard.detectors.probe_measures import VoteRates
    from corpus_guard.settings import Settings
    from corpus_guard.traceback.activations.recording import LabelledPrompt, Recordings


class ProbeKind(StrEnum):
    """Kind of a probe; repeats `corpus_guard.detectors.probe_comparison.PROBE_KINDS`, which takes a second to import."""

    LINEAR = "linear"
    WEIGHED = "weighed"
    CNN = "cnn"


Targets = Annotated[
    list[Path], typer.Argument(help="JSONL files in PoisonedRAG's format, one data set each.", metavar="TARGETS")
]
PassageFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--passages",
        help="JSONL file with honest texts (key `text`) for questions that have few of their own (repeatable).",
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Maximum number of questions per file. Default: all.")]
Seed = Annotated[int, typer.Option(help="Random seed of sampling and of the weights.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Training epochs of a network.")]
Kept = Annotated[
    Path | None, typer.Option(help="Folder of recordings; existing ones are reused. Default: in CORPUS_GUARD_HOME.")
]


def evaluate(
    targets: Targets,
    table: Annotated[
        bool,
        typer.Option(
            "--table", help="Also compute the paper's tables: across data sets, planted texts, noise, support sets."
        ),
    ] = False,
    variants: Annotated[
        list[Path] | None, typer.Option("--variants", help="For --table: JSONL with texts of other attacks.")
    ] = None,
    passages: PassageFiles = None,
    kind: Annotated[
        list[ProbeKind] | None, typer.Option(help="Only this kind of probe (repeatable). Default: all.")
    ] = None,
    limit: Limit = None,
    collected: Annotated[
        bool, typer.Option("--collected", help="Record nothing new: measure on the existing recordings.")
    ] = False,
    recordings: Kept = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    to: JsonFile = None,
    mlflow: LogToMlflow = True,
) -> None:
    """Measure how well a probe of the model's activations tells forced answers from right ones (RevPRAG).

    Each question is asked with honest texts, with planted ones, with both, and with planted ones that tell the truth; a second or more
    per prompt. Labels are the model's answers. About a third of the questions is never used for training. For comparison: a linear probe,
    features without activations, and probes trained on random labels, which must score as chance does.

    Example: `guard evaluate activations poisonedrag_nq.jsonl poisonedrag_hotpotqa.jsonl --table --json out.json`
    """
    from corpus_guard.detectors import probe_comparison, probe_tracking
    from corpus_guard.detectors.probe_candidate import CHECKPOINTS_PATH
    from corpus_guard.evaluation.activation_tables import build_tables
    from corpus_guard.settings import load_settings

    settings = load_settings()
    kinds = [probe_kind.value for probe_kind in kind] if kind else probe_comparison.PROBE_KINDS
    prompts = _prompts(targets, passages or [], limit, seed, variants or [], table)
    with console.progress(True) as progress:
        read = _recorded(settings, prompts, recordings, collected, progress)
        checkpoints = settings.home.joinpath(*CHECKPOINTS_PATH)
        measure = build_tables if table else probe_comparison.compare_probes
        comparison = measure(read, seed=seed, epochs=epochs, kinds=kinds, checkpoints=checkpoints, progress=progress)
    if to != Path("-"):
        _show(comparison)
    console.write_figures(comparison.as_dict(), to)
    if mlflow:
        testing = probe_comparison.split_recordings(read)[1]
        run = probe_tracking.log_comparison(settings, comparison, testing, {"seed": seed, "prompts": len(read)})
        say_aside(f"MLflow run {run} of {probe_tracking.EXPERIMENT}")


def train(
    targets: Targets,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder to write probe.json and probe.safetensors to.")],
    passages: PassageFiles = None,
    kind: Annotated[
        ProbeKind | None,
        typer.Option(
            help="Only this kind: cnn is the paper's; weighed is its network over weighed inputs. Default: all kinds are "
            "trained, and the one that does best on the calibration questions is written."
        ),
    ] = None,
    limit: Limit = None,
    recordings: Kept = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train a probe for the configured language model, and measure it on questions it never saw.

    To use the result, set CORPUS_GUARD_ACTIVATION_PROBE to the folder. The DAG `detector_training` does all of this and asks before it
    promotes.

    Example: `guard train activations nq.jsonl --out probe/`
    """
    from corpus_guard.detectors import probe_comparison
    from corpus_guard.detectors.probe_candidate import CHECKPOINTS_PATH
    from corpus_guard.settings import load_settings

    settings = load_settings()
    with console.progress(not as_json) as progress:
        prompts = _prompts(targets, passages or [], limit, seed, [], False)
        read = _recorded(settings, prompts, recordings, False, progress)
        checkpoints = settings.home.joinpath(*CHECKPOINTS_PATH)
        comparison = probe_comparison.compare_probes(
            read,
            seed=seed,
            epochs=epochs,
            kinds=[kind.value] if kind else probe_comparison.PROBE_KINDS,
            checkpoints=checkpoints,
            progress=progress,
        )
    probe = comparison.trained[comparison.best].probe
    probe.write(to)
    summary = {
        "folder": str(to),
        "digest": probe.digest,
        "kind": probe.kind,
        "trained_on": probe.trained_on,
        "threshold": probe.threshold,
        "figures": dict(probe.figures),
        "figures_by_kind": {name: dict(done.probe.figures) for name, done in comparison.trained.items()},
        "counts": not probe.shortfalls,
        "shortfalls": list(probe.shortfalls),
        "broken": comparison.broken,
    }
    if as_json:
        console.print_json(summary)
        return
    _show(comparison)
    say(f"{probe.kind}: trained on {visible(probe.trained_on)}; written to {visible(str(to))}")
    for shortfall in probe.shortfalls:
        say(f"[yellow]its vote does not count[/yellow]: {shortfall}")


def _prompts(
    targets: list[Path], passages: list[Path], limit: int | None, seed: int, variants: list[Path], table: bool
) -> list[LabelledPrompt]:
    from corpus_guard.detectors.passages import Passages
    from corpus_guard.detectors.probe_prompts import build_prompts, build_table_prompts

    honest = Passages.read(passages)
    extras = build_table_prompts(targets, variants, passages=honest, limit=limit, seed=seed) if table else []
    return [*build_prompts(targets, passages=honest, limit=limit, seed=seed), *extras]


def _recorded(
    settings: Settings, prompts: list[LabelledPrompt], folder: Path | None, collected: bool, progress: Any
) -> Recordings:
    from corpus_guard.detectors.probe_candidate import RECORDINGS_PATH
    from corpus_guard.models import Models
    from corpus_guard.traceback.activations.recording import collect_recordings, load_existing

    folder = folder or settings.home.joinpath(*RECORDINGS_PATH)
    models = Models(settings)
    return (
        load_existing(models, prompts, folder)
        if collected
        else collect_recordings(models, prompts, folder, progress=progress)
    )


def _show(comparison: ProbeComparison) -> None:
    from corpus_guard.traceback.activations.recording import AnswerKind

    kinds = [cell.value for cell in AnswerKind]
    rows: list[tuple[Cell, ...]] = [
        (name, *(counts[kind] for kind in kinds)) for name, counts in comparison.answers.items()
    ]
    print_table("Answers of the model", ("prompts", *kinds), rows)
    cells: list[tuple[Cell, ...]] = [
        (
            cell.probe,
            cell.trained,
            cell.tested,
            *(_rate(*counts) for counts in _counts(cell.rates.forced)),
            *(_rate(*counts) for counts in _counts(cell.rates.sure)),
            cell.rates.sure.unsure,
        )
        for cell in comparison.cells
    ]
    columns = ("probe", "trained on", "tested on", "TPR", "FPR", "TPR (sure)", "FPR (sure)", "unsure")
    print_table("Forced answers found by their activations", columns, cells, right=columns[3:])
    for name, area in comparison.features.items():
        say(f"without activations, by {name.replace('_', ' ')}: AUC {area:.3f}")
    for name, control in comparison.random_labels.items():
        reading = (
            "as expected by chance"
            if control["by_chance"]
            else "[red]better or worse than chance: the experiment is broken[/red]"
        )
        say(f"{name} trained on random labels: AUC {control['auc']:.3f}, {reading}")
    for name, cost in comparison.training.items():
        say(f"{name}: trained on {cost['samples']:,} samples in {cost['seconds']:.0f} s")
    for name, spent in comparison.milliseconds.items():
        say(f"{name}: {spent:.2f} ms of CPU per sample after the forward pass")


def _counts(rates: VoteRates) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return hits and cases of TPR and FPR."""
    return (rates.detected, rates.positives), (rates.accused, rates.negatives)


def _rate(hits: int, n: int) -> str:
    from corpus_guard.screening.calibration import wilson_interval

    if not n:
        return "none"
    low, high = wilson_interval(hits, n)
    return f"{hits / n:.3f} [{low:.2f}, {high:.2f}] of {n}"
