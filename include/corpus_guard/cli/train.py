"""`guard train`: train the learned parts of screening and traceback on labelled texts."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_json, say, visible
from corpus_guard.cli.options import (
    READER_RUNS,
    Attacks,
    HonestSentences,
    HonestTexts,
    Json,
    ManyFiles,
    MaxSentences,
    ReaderRuns,
    Share,
    Translations,
    refuse_share_of_nothing,
)
from corpus_guard.detectors.samples import Half, ScreeningScore, read_rows, read_samples
from corpus_guard.errors import Misuse

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
    """Fit a score on the tuning half of labelled texts and write its weights as YAML.

    Printed is how much a standard deviation of each feature adds to the log-odds.

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
    for feature, slope in model.slopes.items():
        say(f"{feature:<22} {slope:+.2f}")
    say(f"Written to {visible(str(to))}; to use it, replace screening/learned/{name}.yaml")


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
    say(f"Trained on {visible(description)}; written to {visible(str(to))}")


@app.command("orders", cls=ManyFiles)
def orders(
    honest: HonestSentences,
    to: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the three files to.")],
    translations: Translations = None,
    sentences: MaxSentences = 200_000,
    runs: ReaderRuns = READER_RUNS,
    start: Annotated[
        Path | None,
        typer.Option(
            help="Folder with the three files to go on from, such as screening/learned of this package: one reader learns more, from "
            "honest texts of your own that are held back; minutes to half an hour on a core. --runs does not count."
        ),
    ] = None,
    english: Annotated[
        bool,
        typer.Option(
            "--english",
            help="With --start: the larger reader of English learns more, instead of that of all languages.",
        ),
    ] = False,
    share: Share = 1.0,
    seed: Annotated[int, typer.Option(help="Random seed of the sample and of the trainings.")] = 0,
    as_json: Json = False,
) -> None:
    """Train the classifier that finds orders to a model in words that no rule foresees; hours on two cores, minutes on a GPU.

    It learns from this package's own sentences, and from honest ones of the folders and files you name: only from the tuning half of
    them, by folder or row, so that `guard evaluate orders` can measure on the other.

    Words are trained first, then both encoders, the one that reads what words do not rule out and the larger one for what may still be
    an order in English: --runs times each, and the weights are averaged. All of it is done once without a quarter of the families, to
    place the thresholds, and once with all. The same texts, seed and runs give the same files on the same kind of processor.

    Example: `guard train orders --honest /usr/share/doc docs --translations /usr/share/locale --out learned`

    Example: `guard train orders --start screening/learned --share 0.5 --honest own/ --out adapted`
    """
    from corpus_guard.detectors.orders.adapting import adapt_reader
    from corpus_guard.detectors.orders.training import OrdersData, TrainedOrders, read_training_texts

    refuse_share_of_nothing(start, share)
    if english and not start:
        raise Misuse("--english: without --start both readers are trained; expected --start with weights to go on from")
    previous = TrainedOrders.load(start) if start else None
    with console.progress(not as_json) as progress:
        texts = read_training_texts(honest, translations or (), sentences, seed)
        if previous:
            trained = adapt_reader(previous, texts, english=english, share=share, seed=seed, progress=progress)
        else:
            trained = OrdersData(texts, runs=runs, seed=seed, progress=progress).train()
    trained.save(to)
    sheet = trained.model.sheet
    if as_json:
        print_json(
            {"folder": str(to), "words": sheet, "reader": trained.reader.sheet, "english": trained.english.sheet}
        )
        return
    read = (trained.english if english else trained.reader).sheet if previous else sheet
    say(f"Trained on {read['orders']:,} orders and {read['honest']:,} honest sentences")
    if not previous:
        left_out = sheet["left_out"]
        say(
            f"A quarter of the families left out: {left_out['caught']:,} of {left_out['orders']:,} orders caught, "
            f"{left_out['alarms']:,} of {left_out['honest']:,} look-alikes alarmed"
        )
    say(f"Written to {visible(str(to))}; to use them, copy them to screening/learned")


@app.command("words")
def words(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders that hold a folder for each program, such as /usr/share/doc.")
    ],
    to: Annotated[Path, typer.Option("--out", "-o", help="Text file to write.")],
    programs: Annotated[int, typer.Option(min=2, help="Programs whose files must have a word.")] = 3,
    seed: Annotated[int, typer.Option(help="Random seed of the choice of files.")] = 0,
    as_json: Json = False,
) -> None:
    """Count the words that paths, identifiers and addresses are made of; minutes.

    Perplexity takes rare words with signs between them for optimised text, unless half of them are such words. Where lists and
    identifiers of your own are held back, count yours too. The same folders and seed give the same file.

    Example: `guard train words /usr/share /usr/include site-packages --out technical_words.txt`
    """
    from corpus_guard.detectors.technical_words import count_technical_words
    from corpus_guard.screening.checks.token_rarity import TECHNICAL_WORDS_FILE

    with console.progress(not as_json) as progress:
        counted = count_technical_words(folders, programs, seed, progress)
    head = f"# Words of paths, identifiers and addresses that {programs} programs or more have in their files; see `guard train words`."
    with console.writing(to) as write:
        write("\n".join([head, *counted, ""]))
    if as_json:
        print_json({"file": str(to), "words": len(counted), "programs": programs})
        return
    say(
        f"{len(counted):,} words written to {visible(str(to))}; to use them, replace screening/learned/{TECHNICAL_WORDS_FILE.name}"
    )
