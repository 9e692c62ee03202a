"""`guard evaluate activations` and `guard train activations`: what the RAG model's own states say of its answers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpus_guard import _console as console
from corpus_guard._console import Json, err, out, visible

if TYPE_CHECKING:
    from corpus_guard.evaluation.activations.experiment import Findings
    from corpus_guard.settings import Settings
    from corpus_guard.traceback.activations import Prompted, Recordings


class Kind(StrEnum):
    """Of a probe: `corpus_guard.evaluation.activations.experiment.KINDS`, which takes a second to import."""

    LINEAR = "linear"
    WEIGHED = "weighed"
    CNN = "cnn"


Targets = Annotated[
    list[Path], typer.Argument(help="JSONL in PoisonedRAG's format, a data set a file.", metavar="TARGETS...")
]
PassageFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--passages", help="JSONL with honest texts (`text`), for questions that bring few; may be given several times."
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, help="Questions of a file, at most. Default: all.")]
Seed = Annotated[int, typer.Option(help="Of every draw and of the weights.")]
Epochs = Annotated[int | None, typer.Option(min=1, help="Rounds of a network over its training samples.")]
Kept = Annotated[
    Path | None,
    typer.Option(help="Folder of recordings: what lies there is not read again. Default: below CORPUS_GUARD_HOME."),
]


def evaluate(
    targets: Targets,
    table: Annotated[
        bool, typer.Option("--table", help="The paper's tables: across data sets, planted texts, noise, support sets.")
    ] = False,
    variants: Annotated[
        list[Path] | None, typer.Option("--variants", help="For --table: JSONL with texts of other attacks.")
    ] = None,
    passages: PassageFiles = None,
    kind: Annotated[
        list[Kind] | None, typer.Option(help="Only this probe; may be given more than once. Default: each.")
    ] = None,
    limit: Limit = None,
    collected: Annotated[
        bool, typer.Option("--collected", help="Read nothing more: measure on what the folder of recordings holds.")
    ] = False,
    recordings: Kept = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    to: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file; - is standard output.")
    ] = None,
    mlflow: Annotated[
        bool, typer.Option(help="Keep the run in MLflow (MLFLOW_TRACKING_URI, else a file below CORPUS_GUARD_HOME).")
    ] = True,
) -> None:
    """How well a probe tells answers that planted texts forced from right ones, by the model's states alone (RevPRAG).

    Each question is asked from honest texts, from planted ones, from both, and from planted ones that tell the truth; a second or more a
    prompt. Labels are what the model answered. About a third of the questions is never trained on. Shown beside: a linear probe,
    features that need no state, and probes trained on random labels, which must score by chance.

    Example: `guard evaluate activations poisonedrag_nq.jsonl poisonedrag_hotpotqa.jsonl --table --json out.json`
    """
    from corpus_guard.evaluation.activations import experiment, keeping
    from corpus_guard.settings import load_settings

    settings = load_settings()
    kinds = [one.value for one in kind] if kind else experiment.KINDS
    prompts = _prompts(targets, passages or [], limit, seed, variants or [], table)
    with console.progress(True) as progress:
        read = _recorded(settings, prompts, recordings, collected, progress)
        checkpoints = settings.home / "evaluation" / "probes"
        found = experiment.evaluate(
            read, seed=seed, epochs=epochs, kinds=kinds, table=table, checkpoints=checkpoints, progress=progress
        )
    if to == Path("-"):
        console.print_json(found.as_dict())
    else:
        _show(found)
        if to is not None:
            with console.writing(to) as write:
                write(console.as_json(found.as_dict(), indent=1) + "\n")
            err.print(f"All figures: {visible(str(to))}", soft_wrap=True)
    if mlflow:
        testing = experiment.halves(read)[1]
        run = keeping.keep(settings, found, testing, {"seed": seed, "prompts": len(read)})
        err.print(f"MLflow run {run} of {keeping.EXPERIMENT}", soft_wrap=True)


def train(
    targets: Targets,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder to write probe.json and probe.safetensors to.")],
    passages: PassageFiles = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            help="Only this one. cnn is the paper's, weighed its network over what a linear probe weighs. Default: each is trained and "
            "measured, and the best is written."
        ),
    ] = None,
    limit: Limit = None,
    recordings: Kept = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train a probe for the configured language model, and measure it on questions it never saw.

    CORPUS_GUARD_ACTIVATION_PROBE names the folder for use; the DAG `detector_training` does all of this and asks before it promotes.

    Example: `guard train activations nq.jsonl --out probe/`
    """
    from corpus_guard.evaluation.activations import experiment
    from corpus_guard.settings import load_settings

    settings = load_settings()
    with console.progress(not as_json) as progress:
        prompts = _prompts(targets, passages or [], limit, seed, [], False)
        read = _recorded(settings, prompts, recordings, False, progress)
        checkpoints = settings.home / "evaluation" / "probes"
        found = experiment.evaluate(
            read,
            seed=seed,
            epochs=epochs,
            kinds=[kind.value] if kind else experiment.KINDS,
            checkpoints=checkpoints,
            progress=progress,
        )
    probe = found.trained[found.best].probe
    probe.write(to)
    told = {
        "folder": str(to),
        "digest": probe.digest,
        "kind": probe.kind,
        "trained_on": probe.trained_on,
        "threshold": probe.threshold,
        "figures": dict(probe.figures),
        "figures_by_kind": {name: dict(done.probe.figures) for name, done in found.trained.items()},
        "counts": not probe.shortfalls,
        "shortfalls": list(probe.shortfalls),
        "broken": found.broken,
    }
    if as_json:
        console.print_json(told)
        return
    _show(found)
    out.print(f"{probe.kind}: trained on {visible(probe.trained_on)}; written to {visible(str(to))}", soft_wrap=True)
    for one in probe.shortfalls:
        out.print(f"[yellow]its word does not count[/yellow]: {one}", soft_wrap=True)


def _prompts(
    targets: list[Path], passages: list[Path], limit: int | None, seed: int, variants: list[Path], table: bool
) -> list[Prompted]:
    from corpus_guard.evaluation.activations.material import extras_of, prompts_of
    from corpus_guard.evaluation.activations.passages import Passages

    honest = Passages.read(passages)
    extras = extras_of(targets, variants, passages=honest, limit=limit, seed=seed) if table else []
    return [*prompts_of(targets, passages=honest, limit=limit, seed=seed), *extras]


def _recorded(
    settings: Settings, prompts: list[Prompted], folder: Path | None, collected: bool, progress: Any
) -> Recordings:
    from corpus_guard.models import Models
    from corpus_guard.traceback.activations.recording import collect, present

    folder = folder or settings.home / "evaluation" / "activations"
    models = Models(settings)
    return present(models, prompts, folder) if collected else collect(models, prompts, folder, progress=progress)


def _show(found: Findings) -> None:
    from corpus_guard.traceback.activations import Answered

    kinds = [one.value for one in Answered]
    rows = [(visible(name), *(f"{counts[kind]:,}" for kind in kinds)) for name, counts in found.answers.items()]
    out.print(console.table("What the model answered", ("prompts", *kinds), rows, right=kinds))
    cells = [
        (
            one.probe,
            visible(one.trained),
            visible(one.tested),
            *(_rate(one.values["forced"], name) for name in ("tpr", "fpr")),
            *(_rate(one.values["sure"], name) for name in ("tpr", "fpr")),
            f"{one.values['sure']['unsure']:,}",
        )
        for one in found.cells
    ]
    columns = ("probe", "trained on", "tested on", "TPR", "FPR", "TPR, sure", "FPR, sure", "unsure")
    out.print(
        console.table("Answers led by planted texts, found by their activations", columns, cells, right=columns[3:])
    )
    for name, area in found.features.items():
        out.print(f"without any state, by {name.replace('_', ' ')}: AUC {area:.3f}")
    for name, control in found.random_labels.items():
        told = (
            "as chance does"
            if control["by_chance"]
            else "[red]better or worse than chance: the experiment is broken[/red]"
        )
        out.print(f"{name} trained on random labels: AUC {control['auc']:.3f}, {told}")
    for name, taken in found.training.items():
        out.print(f"{name}: trained on {taken['samples']:,} samples in {taken['seconds']:.0f} s")
    for name, spent in found.milliseconds.items():
        out.print(f"{name}: {spent:.2f} ms of CPU a sample after the forward pass")


def _rate(values: dict[str, Any], name: str) -> str:
    of = values["positives" if name == "tpr" else "negatives"]
    if not of:
        return "none"
    low, high = values[f"{name}_interval"]
    return f"{values[name]:.3f} [{low:.2f}, {high:.2f}] of {of}"
