"""`guard evaluate drift`: whether a text of another day is found in the corpus of now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard import _console as console
from corpus_guard._console import out
from corpus_guard.evaluation.samples import Half

if TYPE_CHECKING:
    from corpus_guard.evaluation.drift import Line


def drift(
    poison: Annotated[list[Path], typer.Option("--poison", help="JSONL with attacks; may be given several times.")],
    clean: Annotated[list[Path], typer.Option("--clean", help="JSONL with honest texts; may be given several times.")],
    texts: Annotated[int, typer.Option(min=8, help="Texts to look for, among five times as many others.")] = 400,
    half: Annotated[Half, typer.Option(help="Which half; the parameters come from tuning.")] = Half.VALIDATION,
    seed: Annotated[int, typer.Option(help="Which texts, and how they are edited.")] = 0,
    to: Annotated[
        Path | None, typer.Option("--json", help="Write all figures to this file; - is standard output.")
    ] = None,
) -> None:
    """How often an edited, reordered or re-chunked text is attributed to where it lies now, and how often to a stranger.

    Rows are those of `guard evaluate screening`. A quarter of the texts is left out of the corpus; what those are attributed to
    is false, unless it is a sibling (another text on the same question, or the same words). 95 % intervals are Wilson's.

    Example: `guard evaluate drift --poison targets.jsonl --clean passages.jsonl`
    """
    from corpus_guard.evaluation.drift import experiment, material
    from corpus_guard.evaluation.samples import read_samples
    from corpus_guard.evaluation.vectors import RememberingModels
    from corpus_guard.settings import load_settings

    wanted, others = material(read_samples(poison, clean).samples, half, texts, seed)
    quiet = to is not None and str(to) == "-"
    with console.progress(not quiet) as progress:
        lines = experiment(wanted, others, RememberingModels(load_settings()).embedder, seed, progress)
    if to is not None:
        with console.writing(None if quiet else to) as write:
            figures = {"half": half.value, "seed": seed, "lines": [line.as_dict() for line in lines]}
            write(json.dumps(figures, indent=2) + "\n")
    if not quiet:
        _show(lines)


def _show(lines: list[Line]) -> None:
    rows = [
        (
            line.edit.value,
            f"{line.share:.0%}",
            f"{line.n}",
            _rate(line.as_dict(), "rate", "low", "high"),
            f"{line.wrong}",
            _rate(line.as_dict(), "false_rate", "false_low", "false_high"),
            f"{line.sibling}",
        )
        for line in lines
    ]
    columns = ("edit", "drift", "texts", "found", "wrong", "false of absent", "siblings")
    out.print(console.table("Attribution under drift", columns, rows, right=columns[1:]))


def _rate(figures: dict[str, float], *names: str) -> str:
    rate, low, high = (figures[name] for name in names)
    return f"{rate:.3f} ({low:.3f}–{high:.3f})"
