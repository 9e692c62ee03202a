"""`guard evaluate drift`: measure whether a text of an earlier corpus is found in today's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import out
from corpus_guard.cli.options import Attacks, HonestTexts, JsonFile, ManyFiles
from corpus_guard.detectors.samples import Half, read_samples

if TYPE_CHECKING:
    from corpus_guard.evaluation.drift import DriftRow


app = typer.Typer()


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
    from corpus_guard.detectors.vector_cache import CachingModels
    from corpus_guard.evaluation.drift import run_drift_experiment, select_texts
    from corpus_guard.settings import load_settings

    targets, others = select_texts(read_samples(poison, clean).samples, half, texts, seed)
    quiet = to is not None and str(to) == "-"
    with console.progress(not quiet) as progress:
        lines = run_drift_experiment(targets, others, CachingModels(load_settings()).embedder, seed, progress)
    if to is not None:
        with console.writing(None if quiet else to) as write:
            figures = {"half": half.value, "seed": seed, "lines": [line.as_dict() for line in lines]}
            write(json.dumps(figures, indent=2) + "\n")
    if not quiet:
        _show(lines)


def _show(lines: list[DriftRow]) -> None:
    rows = [
        (
            line.edit.value,
            f"{line.share:.0%}",
            f"{line.n}",
            _rate(line.attributed, line.n),
            f"{line.wrong}",
            _rate(line.false, line.absent),
            f"{line.sibling}",
        )
        for line in lines
    ]
    columns = ("edit", "drift", "texts", "found", "wrong", "false of absent", "siblings")
    out.print(console.table("Attribution under drift", columns, rows, right=columns[1:]))


def _rate(hits: int, n: int) -> str:
    from corpus_guard.tracking.measures import wilson_interval

    low, high = wilson_interval(hits, n)
    return f"{hits / n if n else 0.0:.3f} ({low:.3f}–{high:.3f})"
