"""`guard train`: what screening and the embedded judge learned, from labelled texts."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from corpus_guard import _console as console
from corpus_guard._cli_evaluate import ManyFiles
from corpus_guard._console import Json, out, print_json, visible
from corpus_guard.evaluation.training import Score

app = typer.Typer(help="Fit what screening and the judge of tracebacks learned.", no_args_is_help=True)


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


@app.command("judge", cls=ManyFiles)
def judge(
    targets: Annotated[
        list[Path], typer.Option("--targets", help="JSONL in PoisonedRAG's format; several may follow.")
    ],
    to: Annotated[Path, typer.Option("--out", "-o", help="JSON to write.")],
    clean: Annotated[
        list[Path] | None, typer.Option("--clean", help="JSONL with further clean texts ({text}); several may follow.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=4, help="Questions of a file, at most. Default: all.")] = None,
    clean_limit: Annotated[int, typer.Option(min=0, help="Texts of a --clean file, at most.")] = 6_000,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    as_json: Json = False,
) -> None:
    """Train the embedded judge, which says of a text whether it led to a reported answer.

    A row is {id, question, correct_answer, incorrect_answer, adversarial_texts, clean_texts}; rows without clean texts are played among
    those of the others. Measure what was trained on questions it never saw.

    CORPUS_GUARD_JUDGE_MODEL names a judge of your own; the DAG `detector_training` does all of this and asks before it promotes.

    Example: `guard train judge --targets nq.jsonl --out judge.json`
    """
    from corpus_guard.evaluation.judge_training import train as train_judge
    from corpus_guard.evaluation.samples import read_rows
    from corpus_guard.evaluation.traceback.targets import read_targets
    from corpus_guard.models import Models
    from corpus_guard.settings import load_settings

    read = [one for path in targets for one in read_targets(path, limit=limit).targets if one.adversarial]
    background = [
        str(row["text"]) for path in clean or () for _, row in islice(read_rows(path), clean_limit) if row.get("text")
    ]
    told = f"{len(read)} questions of {', '.join(path.stem for path in targets)}; {len(background)} clean texts; seed {seed}"
    with console.progress(not as_json) as progress:
        learned = train_judge(Models(load_settings()), read, background, trained_on=told, seed=seed, progress=progress)
    with console.writing(to) as write:
        write(learned.dumps().decode())
    if as_json:
        print_json({"file": str(to), "digest": learned.digest, "version": learned.version, "trained_on": told})
        return
    out.print(f"Trained on {visible(told)}; written to {visible(str(to))}", soft_wrap=True)
