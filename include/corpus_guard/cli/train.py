"""`guard train`: train the learned parts of screening and traceback on labelled texts."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import out, print_json, visible
from corpus_guard.cli.options import (
    LAYER_RUNS,
    Attacks,
    HonestSentences,
    HonestTexts,
    Json,
    LayerRuns,
    ManyFiles,
    Translations,
)
from corpus_guard.detectors.samples import Half, ScreeningScore, read_rows, read_samples

app = typer.Typer(help="Train the learned parts of screening and traceback.", no_args_is_help=True)


@app.command("score", cls=ManyFiles)
def score(
    name: Annotated[ScreeningScore, typer.Argument(help="Score to fit.")],
    poison: Attacks,
    clean: HonestTexts,
    to: Annotated[Path, typer.Option("--out", "-o", help="YAML file to write.")],
    seed: Annotated[int, typer.Option(help="Random seed of the sample and of the arrival order.")] = 0,
    as_json: Json = False,
) -> None:
    """Fit a logistic score on the tuning half of labelled texts and write its weights as YAML.

    Example: `guard train score coordination --poison attacks/*.jsonl --clean clean/*.jsonl --out coordination.yaml`
    """
    from corpus_guard.detectors.score_training import train_score, write_score
    from corpus_guard.detectors.vector_cache import CachingModels
    from corpus_guard.settings import load_settings

    read = read_samples(poison, clean)
    model = train_score(name, read.samples, CachingModels(load_settings()), seed)
    write_score(model, to)
    if as_json:
        print_json({"file": str(to), "digest": model.digest, **model.model_dump(mode="json")})
        return
    for feature, values in model.features.items():
        out.print(f"{feature:<22} {values.weight:+.2f}")
    out.print(f"Written to {visible(str(to))}; to use it, replace screening/learned/{name}.yaml", soft_wrap=True)


@app.command("judge", cls=ManyFiles)
def judge(
    targets: Annotated[
        list[Path], typer.Option("--targets", help="JSONL in PoisonedRAG's format; several files allowed.")
    ],
    to: Annotated[Path, typer.Option("--out", "-o", help="JSON file to write.")],
    clean: Annotated[
        list[Path] | None,
        typer.Option("--clean", help="JSONL with further clean texts ({text}); several files allowed."),
    ] = None,
    half: Annotated[
        Half, typer.Option(help="Questions to train on; `guard evaluate traceback --half` measures on the others.")
    ] = Half.WHOLE,
    limit: Annotated[
        int | None, typer.Option(min=4, help="Maximum number of questions per file. Default: all.")
    ] = None,
    clean_limit: Annotated[int, typer.Option(min=0, help="Maximum number of texts per --clean file.")] = 6_000,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    as_json: Json = False,
) -> None:
    """Train the embedded judge, which decides whether a text caused a reported answer.

    Each row is {id, question, correct_answer, incorrect_answer, adversarial_texts, clean_texts}; rows without clean texts are mixed with
    those of the others. Measure the result on questions that were not used for training.

    To use the result, set CORPUS_GUARD_JUDGE_MODEL. The DAG `detector_training` does all of this and asks before it promotes.

    Example: `guard train judge --targets nq.jsonl --out judge.json`
    """
    from corpus_guard.detectors.judge_training import train_judge
    from corpus_guard.detectors.target_questions import read_targets
    from corpus_guard.detectors.vector_cache import CachingModels
    from corpus_guard.settings import load_settings

    read = [target for path in targets for target in read_targets(path, limit=limit, half=half).targets]
    questions = [target for target in read if target.adversarial]
    background = [
        str(row["text"]) for path in clean or () for _, row in islice(read_rows(path), clean_limit) if row.get("text")
    ]
    names = ", ".join(path.stem for path in targets)
    whose = "" if half is Half.WHOLE else f"{half.value} half: "
    description = f"{whose}{len(questions)} questions of {names}; {len(background)} clean texts; seed {seed}"
    with console.progress(not as_json) as progress:
        learned = train_judge(
            CachingModels(load_settings()), questions, background, trained_on=description, seed=seed, progress=progress
        )
    with console.writing(to) as write:
        write(learned.dumps().decode())
    if as_json:
        print_json({"file": str(to), "digest": learned.digest, "version": learned.version, "trained_on": description})
        return
    out.print(f"Trained on {visible(description)}; written to {visible(str(to))}", soft_wrap=True)


@app.command("orders", cls=ManyFiles)
def orders(
    honest: HonestSentences,
    to: Annotated[Path, typer.Option("--out", "-o", help="Model file (.npz) to write.")],
    translations: Translations = None,
    sentences: Annotated[int, typer.Option(min=0, help="Maximum number of honest sentences of each kind.")] = 20_000,
    runs: LayerRuns = LAYER_RUNS,
    seed: Annotated[int, typer.Option(help="Random seed of the sample and of the trainings.")] = 0,
    as_json: Json = False,
) -> None:
    """Train the classifier that finds orders to a model in words that no rule foresees.

    It learns from this package's own sentences, and from honest ones of the folders and files you name: only from the tuning half of
    them, by folder or row, so that `guard evaluate orders` can measure on the other.

    The layers of the sentence encoder are trained --runs times and their weights averaged, once without a quarter of the families, to
    place the threshold, and once with all. The same texts, seed and runs give the same file on the same kind of processor.

    Example: `guard train orders --honest /usr/share/doc docs --translations /usr/share/locale --out orders.npz`
    """
    from corpus_guard.detectors.orders.training import OrdersData, read_training_texts

    with console.progress(not as_json) as progress:
        texts = read_training_texts(honest, translations or (), sentences, seed)
        model = OrdersData(texts, seed=seed, runs=runs, progress=progress).train()
    model.save(to)
    if as_json:
        print_json({"file": str(to), **model.sheet})
        return
    out.print(f"Trained on {model.sheet['orders']:,} orders and {model.sheet['honest']:,} honest sentences")
    left_out = model.sheet["left_out"]
    out.print(
        f"A quarter of the families left out: {left_out['caught']:,} of {left_out['orders']:,} orders caught, "
        f"{left_out['alarms']:,} of {left_out['honest']:,} look-alikes alarmed"
    )
    out.print(f"Written to {visible(str(to))}; to use it, replace screening/learned/orders.npz", soft_wrap=True)
