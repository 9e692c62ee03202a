"""`guard evaluate hubs`: measure the check `hubness` on planted hubs and honest texts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import out
from corpus_guard.cli.options import Json, ManyFiles

app = typer.Typer()


@app.command("hubs", cls=ManyFiles)
def hubs(
    clean: Annotated[list[Path], typer.Option("--clean", help="JSONL with honest texts; several files allowed.")],
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
    out.print(console.table("Hubs as they arrive", columns, cells, right=columns[2:]))
