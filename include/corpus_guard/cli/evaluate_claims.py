"""`guard evaluate claims`: how many contradictions of trusted texts are found, and how many honest texts are flagged."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corpus_guard.cli import console
from corpus_guard.cli.console import print_table, say, visible
from corpus_guard.cli.options import Json, ManyFiles
from corpus_guard.detectors.samples import Half
from corpus_guard.errors import Misuse

if TYPE_CHECKING:
    from corpus_guard.evaluation.contradictions.pairs import PairFigure
    from corpus_guard.models import Models
    from corpus_guard.screening.checks.conflict import ConflictParams
    from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions
    from corpus_guard.screening.wording import Wording

app = typer.Typer()

Honest = Annotated[
    list[Path] | None,
    typer.Option(
        help="JSONL with honest texts, 'title', 'query' or 'repo' and 'path'; several files. Measures only these."
    ),
]
Halves = Annotated[
    list[Half] | None,
    typer.Option(help="Of the honest texts, only these; several values allowed. Default: validation."),
]
Show = Annotated[bool, typer.Option(help="Show both sentences of what is flagged among the honest texts.")]
WriterPairs = Annotated[
    bool,
    typer.Option(
        help="Measure only the pairs of a page and a text by writers who know no rule: 20 minutes, 30 seconds with --rules-only."
    ),
]
Among = Annotated[
    int | None,
    typer.Option(
        min=1, help="With --pairs: let one text that contradicts a page arrive among so many honest ones on it."
    ),
]
Claims = Annotated[
    list[Path] | None,
    typer.Option(
        help="Measure only the claims of these files, in the form of FEVER or of SQuAD 2.0; 2,000 of each, of the half "
        "that the reader does not learn from."
    ),
]
AttackFiles = Annotated[
    list[Path] | None,
    typer.Option(
        help="Measure only the texts of these files of attacks, in the form of PoisonedRAG's, beside --passages."
    ),
]
Passages = Annotated[
    list[Path] | None,
    typer.Option(
        help="With --attacks: JSONL with 'query' and 'text', what was retrieved for their questions; ten of each are trusted, "
        "five arrive."
    ),
]
Late = Annotated[bool, typer.Option("--late", help="Let the trusted texts arrive when the others are served already.")]
PairsRead = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=20,
        help="Posts of each text that the trained reader sees, as 'pairs_read' of the policy. Default: that of the check.",
    ),
]
RulesOnly = Annotated[
    bool, typer.Option("--rules-only", help="Leave the trained reader out, which takes most of the time.")
]
Ask = Annotated[
    str,
    typer.Option(
        metavar="MODEL", help="Ask a model at CORPUS_GUARD_CHAT_URL about each pair that the reader's sieve keeps."
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed of wordings, values, surroundings and samples.")]


@app.command("claims", cls=ManyFiles)
def evaluate_claims(
    honest: Honest = None,
    half: Halves = None,
    show: Show = False,
    pairs: WriterPairs = False,
    among: Among = None,
    claims: Claims = None,
    attacks: AttackFiles = None,
    passages: Passages = None,
    late: Late = False,
    read: PairsRead = None,
    rules_only: RulesOnly = False,
    ask: Ask = "",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure how many contradictions of trusted texts are found, on cases of this package, or how many honest texts are flagged.

    Each text arrives in an open source beside the trusted ones. Contradictions and near copies must be found; restatements
    and updates must not. The half "tuning" is what the rules were made with. With --honest, 300 texts of each file and half
    arrive beside up to 1,500 trusted ones: none must be flagged. What that costs is shown, too.

    Example: `guard evaluate claims --honest documentation.jsonl --show`
    """
    from corpus_guard.screening.checks.conflict import ConflictParams

    _refuse_useless_options(honest, pairs, among, claims, attacks, passages, late, read, rules_only, ask)
    pairs_read = 0 if rules_only else read or ConflictParams().pairs_read
    params = ConflictParams(pairs_read=pairs_read, asked_model=ask, asked_pairs=sys.maxsize)
    if pairs:
        _evaluate_pairs(params, among=among or 0, seed=seed, as_json=as_json)
    elif claims or attacks:
        _evaluate_others(claims or (), attacks or (), passages or (), params, seed, late=late, as_json=as_json)
    elif honest:
        _evaluate_honest(honest, half or [Half.VALIDATION], params, seed, late=late, show=show, as_json=as_json)
    else:
        _evaluate_cases(params, seed, late=late, as_json=as_json)


def _refuse_useless_options(
    honest: Honest,
    pairs: bool,
    among: int | None,
    claims: Claims,
    attacks: AttackFiles,
    passages: Passages,
    late: bool,
    read: int | None,
    rules_only: bool,
    ask: str,
) -> None:
    """Refuse options that say nothing without another, or beside it.

    Raises:
        Misuse: the message names both.
    """
    if sum(map(bool, (honest, pairs, claims, attacks))) > 1:
        raise Misuse("--honest, --pairs, --claims and --attacks: each measures something else; expected one of them")
    if bool(attacks) is not bool(passages):
        raise Misuse("--attacks and --passages: one says nothing without the other; expected both")
    if among and not pairs:
        raise Misuse("--among: of what; expected --pairs with it")
    if late and (pairs or claims):
        raise Misuse("--late: texts of --pairs and --claims are compared with one page; expected it without them")
    if ask and rules_only:
        raise Misuse("--ask and --rules-only: with the rules alone nobody is asked; expected one of them")
    if read and rules_only:
        raise Misuse("--read and --rules-only: the rules alone read nothing; expected one of them")


def _evaluate_cases(params: ConflictParams, seed: int, *, late: bool, as_json: bool) -> None:
    from corpus_guard.evaluation.contradictions.figures import measure_contradictions

    models, wording, likely = _load_reader(params)
    figures = measure_contradictions(models.embedder, wording, seed, likely=likely, late=late)
    if as_json:
        console.print_json({"seed": seed, "figures": [figure.as_dict() for figure in figures]})
        return
    rows = [
        (
            figure.group.value,
            figure.origin.value,
            figure.half.value,
            f"{figure.contradicted} of {figure.texts}",
            f"{figure.contradicted / figure.texts:.1%}",
            "found" if figure.group.is_attack else "left alone",
        )
        for figure in figures
    ]
    columns = ("texts", "origin", "half", "contradict", "share", "must be")
    print_table("Contradictions of trusted texts", columns, rows, right=("contradict", "share"))


def _load_reader(params: ConflictParams) -> tuple[Models, Wording, LikelyContradictions | None]:
    """Return models and words of the deployment, and what reads the texts that the rules leave open; None: nothing does."""
    from corpus_guard.models import Models
    from corpus_guard.screening.checks.conflict import Conflict
    from corpus_guard.screening.wording import load_wording
    from corpus_guard.settings import load_settings

    models = Models(load_settings())
    return models, load_wording(models.frequency_vocabulary), Conflict(params).likely(models)


def _evaluate_pairs(params: ConflictParams, *, among: int, seed: int, as_json: bool) -> None:
    from corpus_guard.detectors.contradictions.pairs import FOLDER, KEPT_APART
    from corpus_guard.evaluation.contradictions.pairs import measure_pairs

    _, wording, likely = _load_reader(params)
    with console.progress(not as_json) as progress:
        learned = measure_pairs(wording.rarity, FOLDER, None, progress, among=among, seed=seed)
        apart = measure_pairs(wording.rarity, KEPT_APART, likely, progress, among=among, seed=seed)
    if as_json:
        rows = {"learned": learned, "kept_apart": apart}
        console.print_json({name: [figure.as_dict() for figure in figures] for name, figures in rows.items()})
        return
    _show_pairs("Pairs that the reader learns from: the rules alone", learned)
    _show_pairs(f"Pairs kept apart: the rules{' and the reader' if likely else ''}", apart)


def _evaluate_others(
    claims: Sequence[Path],
    attacks: Sequence[Path],
    passages: Sequence[Path],
    params: ConflictParams,
    seed: int,
    *,
    late: bool,
    as_json: bool,
) -> None:
    from corpus_guard.detectors.contradictions.planted import read_passages
    from corpus_guard.evaluation.contradictions.pairs import measure_claims
    from corpus_guard.evaluation.contradictions.planted import measure_planted

    models, wording, likely = _load_reader(params)
    with console.progress(not as_json) as progress:
        figures = [
            figure for path in claims for figure in measure_claims(wording.rarity, path, likely, progress, seed=seed)
        ]
        retrieved = read_passages(passages)
        figures += [
            figure
            for path in attacks
            for figure in measure_planted(path, retrieved, models.embedder, wording, likely, late=late)
        ]
    if as_json:
        console.print_json({"seed": seed, "figures": [figure.as_dict() for figure in figures]})
        return
    _show_pairs(f"Texts of other people: the rules{' and the reader' if likely else ''}", figures)


def _show_pairs(title: str, figures: Sequence[PairFigure]) -> None:
    from corpus_guard.detectors.contradictions.pairs import PairLabel

    rows = [
        (
            label.value,
            field,
            f"{contradicted:,} of {texts:,}",
            f"{contradicted / texts:.1%}",
            "found" if label is PairLabel.CONTRADICTS else "left alone",
        )
        for label in PairLabel
        for own in [[figure for figure in figures if figure.label is label]]
        if own
        for field, contradicted, texts in [
            *((figure.field, figure.contradicted, figure.texts) for figure in own),
            ("all", sum(figure.contradicted for figure in own), sum(figure.texts for figure in own)),
        ]
    ]
    columns = ("texts", "field", "contradict", "share", "must be")
    print_table(title, columns, rows, right=("contradict", "share"))


def _evaluate_honest(
    paths: list[Path], halves: list[Half], params: ConflictParams, seed: int, *, late: bool, show: bool, as_json: bool
) -> None:
    from corpus_guard.evaluation.contradictions.honest import measure_honest

    models, wording, likely = _load_reader(params)
    measured = [
        result
        for path in paths
        for result in measure_honest(path, models.embedder, wording, halves, seed=seed, likely=likely, late=late)
    ]
    if as_json:
        console.print_json({"seed": seed, "figures": [figure.as_dict() for figure, _ in measured]})
        return
    rows = [
        (
            figure.file,
            figure.half.value,
            figure.trusted,
            f"{figure.flagged} of {figure.texts}",
            f"{figure.flagged / max(1, figure.texts):.1%}",
            f"{figure.embedding_ms:.1f}",
            f"{figure.comparison_ms:.1f}",
        )
        for figure, _ in measured
    ]
    columns = ("file", "half", "trusted", "flagged", "share", "embedding", "comparison")
    print_table("Honest texts beside trusted ones", columns, rows, right=columns[2:])
    say("embedding, comparison: milliseconds of CPU time for each text, for each that arrives")
    for _, flagged in measured if show else ():
        for each in flagged:
            own, other = each.sentences()
            say(f"{visible(own)}\n    [dim]trusted:[/dim] {visible(other)}")
