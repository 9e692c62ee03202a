"""`guard train`: the learned scores of screening, from labelled texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from corpus_guard._cli_evaluate import ManyFiles
from corpus_guard._console import Json, out, print_json, visible
from corpus_guard.evaluation.training import Score

app = typer.Typer(help="Fit what screening learned from labelled texts.", no_args_is_help=True)


@app.command("score", cls=ManyFiles)
def score(
    name: Annotated[Score, typer.Argument(help="Which score.")],
    poison: Annotated[list[Path], typer.Option("--poison", help="JSONL with attacks; several may follow.")],
    clean: Annotated[list[Path], typer.Option("--clean", help="JSONL with honest texts; several may follow.")],
    to: Annotated[Path, typer.Option("--out", "-o", help="YAML to write.")],
    seed: Annotated[int, typer.Option(help="Which texts are sampled, and who stands beside whom.")] = 0,
    as_json: Json = False,
) -> None:
    """Fit a logistic score on the tuning half of labelled texts, and write its weights as readable YAML.

    Example: `guard train score coordination --poison attacks/*.jsonl --clean clean/*.jsonl --out coordination.yaml`
    """
    from corpus_guard.evaluation.samples import read_samples
    from corpus_guard.evaluation.training import train, write
    from corpus_guard.evaluation.vectors import RememberingModels
    from corpus_guard.settings import load_settings

    read = read_samples(poison, clean)
    model = train(name, read.samples, RememberingModels(load_settings()), seed)
    write(model, to)
    if as_json:
        print_json({"file": str(to), "digest": model.digest, **model.model_dump(mode="json")})
        return
    for feature, values in model.features.items():
        out.print(f"{feature:<22} {values.weight:+.2f}")
    out.print(
        f"Written to {visible(str(to))}; it counts when it replaces screening/learned/{name}.yaml", soft_wrap=True
    )
