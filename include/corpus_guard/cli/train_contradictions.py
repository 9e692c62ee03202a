"""`guard train contradictions`: train the reader that finds contradictions of trusted pages."""

from __future__ import annotations

import random
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_json, say, visible
from corpus_guard.cli.options import Json, ManyFiles, Share, refuse_share_of_nothing
from corpus_guard.detectors.contradictions.pairs import FOLDER as PAIRS_FOLDER
from corpus_guard.detectors.contradictions.pairs import Pair, load_pairs
from corpus_guard.detectors.samples import Half
from corpus_guard.errors import Misuse, require_one_of

if TYPE_CHECKING:
    from corpus_guard.detectors.contradictions.claims import Labelled
    from corpus_guard.models import Models
    from corpus_guard.models.contradiction_reader import PagePost
    from corpus_guard.models.trained_reader import ReaderKind
    from corpus_guard.models.weights import Weights
    from corpus_guard.settings import Settings

app = typer.Typer()


class ContradictionModel(StrEnum):
    """Models of the reader of contradictions."""

    SIEVE = "sieve"
    EXCERPTS = "excerpts"
    SENTENCES = "sentences"


Output = Annotated[Path, typer.Option("--out", "-o", help="Weights file (.npz) to write.")]
HonestFiles = Annotated[
    list[Path] | None,
    typer.Option(help="JSONL with honest texts, 'title', 'query' or 'repo' and 'path'; several files allowed."),
]
ClaimFiles = Annotated[
    list[Path] | None,
    typer.Option(help="JSONL with claims in the form of FEVER or of SQuAD 2.0; several files allowed."),
]
AttackFiles = Annotated[
    list[Path] | None,
    typer.Option(
        help="JSONL with attacks in the form of PoisonedRAG's, to be shown beside --passages or, for a question without any, "
        "beside its right answer; several files allowed."
    ),
]
Passages = Annotated[
    list[Path] | None,
    typer.Option(help="With --attacks: JSONL with 'query' and 'text', what was retrieved for their questions."),
]
PairsFolder = Annotated[
    Path,
    typer.Option("--pairs", help="Folder of YAML files with pages and pairs; by default those of this package."),
]
Without = Annotated[
    list[str] | None, typer.Option(help="File of pairs that is left out, to be measured on; several names allowed.")
]
Model = Annotated[
    ContradictionModel,
    typer.Option(help="The sieve, or the model that reads excerpts of a page, or the one that reads its sentences."),
]
Start = Annotated[
    Path | None,
    typer.Option(help="Weights to go on from, such as those of this package: adapts them to honest texts of your own."),
]
Examples = Annotated[
    int | None,
    typer.Option(min=1, help="Show so many pairs of pages, and claims of each file, chosen by chance; by default all."),
]
Seed = Annotated[int, typer.Option(help="Random seed of the first weights and of the order.")]


@app.command("contradictions", cls=ManyFiles)
def contradictions(
    to: Output,
    honest: HonestFiles = None,
    claims: ClaimFiles = None,
    attacks: AttackFiles = None,
    passages: Passages = None,
    pairs_folder: PairsFolder = PAIRS_FOLDER,
    without: Without = None,
    model: Model = ContradictionModel.EXCERPTS,
    start: Start = None,
    share: Share = 1.0,
    examples: Examples = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train the reader that finds contradictions of trusted pages in words that no rule foresees; hours on a CPU.

    It learns from this package's own pairs of a page and a post: layers of a built-in model are changed by small matrices. Its three
    models are trained one by one. A GPU is used where there is one: one to five minutes.
    Of the honest texts, whose sentences contradict nothing, it takes the tuning half, so that `guard evaluate claims --honest` can
    measure on the other; some of their sentences are shown with another number or name, too. Of claims and attacks it takes
    the tuning half as well. The same texts and seed give the same file on the same kind of processor.

    Example: `guard train contradictions --honest wiki.jsonl --without services --out contradictions.npz`

    Example: `guard train contradictions --start contradictions.npz --share 0.5 --examples 5000 --honest own.jsonl --out adapted.npz`
    """
    from corpus_guard.detectors.contradictions.training import train_contradiction_reader
    from corpus_guard.models import Models
    from corpus_guard.models.contradiction_reader import EXCERPTS, SENTENCES, SIEVE
    from corpus_guard.models.trained_reader import ReaderWeights
    from corpus_guard.settings import load_settings

    if passages and not attacks:
        raise Misuse("--passages: they teach nothing without --attacks on their questions; expected both")
    refuse_share_of_nothing(start, share)
    kind = dict(zip(ContradictionModel, (SIEVE, EXCERPTS, SENTENCES), strict=True))[model]
    chosen = _choose_pairs(pairs_folder, without or (), examples, seed)
    previous = ReaderWeights.load(kind, start) if start else None
    settings = load_settings()
    models = Models(settings)
    shown = _find_honest_pairs(honest or (), models, seed, alone=kind is SENTENCES)
    read = _read_claims(claims or (), honest or (), attacks or (), passages or (), examples, seed)
    base = _weights_below(kind, models, settings)
    with console.progress(not as_json) as progress:
        weights = train_contradiction_reader(
            kind, chosen, base, honest=shown, claims=read, start=previous, share=share, seed=seed, progress=progress
        )
    weights.save(to)
    if as_json:
        print_json({"file": str(to), **weights.sheet})
        return
    say(
        f"Trained on {weights.sheet['pairs']:,} pairs of {weights.sheet['pages']:,} pages and {weights.sheet['honest']:,} honest ones"
    )
    say(f"Written to {visible(str(to))}; to use it, replace screening/learned/{kind.file.name}")


def _choose_pairs(folder: Path, without: Sequence[str], examples: int | None, seed: int) -> list[Pair]:
    """Return the pairs of a folder: those of all files but `without`, or so many of them, chosen by chance.

    Raises:
        Misuse: the folder has no pairs, or `without` names no file of it.
    """
    pairs = list(load_pairs(folder))
    fields = sorted({pair.field for pair in pairs})
    if not pairs:
        raise Misuse(f"--pairs {folder}: holds no pairs; expected YAML files with 'title', 'page' and 'pairs'")
    for name in without:
        require_one_of("--without", name, fields)
    chosen = [pair for pair in pairs if pair.field not in without]
    if examples and examples < len(chosen):
        chosen = random.Random(seed).sample(chosen, examples)  # noqa: S311 - no secret
    return chosen


def _find_honest_pairs(paths: Sequence[Path], models: Models, seed: int, *, alone: bool) -> list[PagePost]:
    """Return honest texts beside honest pages, from the tuning half of the files."""
    from corpus_guard.detectors.contradictions.honest_texts import find_honest_pairs
    from corpus_guard.screening.wording import load_wording

    wording = load_wording(models.frequency_vocabulary)
    return [pair for path in paths for pair in find_honest_pairs(path, models.embedder, wording, seed, alone=alone)]


def _read_claims(
    claims: Sequence[Path],
    honest: Sequence[Path],
    attacks: Sequence[Path],
    passages: Sequence[Path],
    examples: int | None,
    seed: int,
) -> list[Labelled]:
    """Return what is shown with its label, from the tuning half of the files: claims, changed honest sentences, and attacks."""
    from corpus_guard.detectors.contradictions.claims import change_sentences, read_claims
    from corpus_guard.detectors.contradictions.planted import read_attacks, read_passages, show_planted

    read = [labelled for path in claims for labelled in read_claims(path, Half.TUNING, seed, turned=True)[:examples]]
    read += [labelled for path in honest for labelled in change_sentences(path, Half.TUNING, seed)]
    planted = [attack for path in attacks for attack in read_attacks(path, Half.TUNING)]
    return read + show_planted(planted, read_passages(passages), seed)


def _weights_below(kind: ReaderKind, models: Models, settings: Settings) -> Weights:
    """Return the weights of the built-in model whose layers a reader changes."""
    from corpus_guard.models.contradiction_reader import EXCERPTS, SIEVE
    from corpus_guard.models.weights import builtin_embedder, builtin_language_model

    if kind is SIEVE:
        return builtin_embedder()
    return models.pair_encoder_weights if kind is EXCERPTS else builtin_language_model(settings)
