"""Figures on pairs of a page and a text, by writers who know none of the rules.

They are many, so each text is compared with its own page; which documents lie near each other is measured by
`corpus_guard.evaluation.contradictions.figures`. A text arrives alone, or one that contradicts among honest ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.passages import StatedPassage, compare_passages
from corpus_guard.claims.statements import Rarity
from corpus_guard.detectors.contradictions.claims import read_claims
from corpus_guard.detectors.contradictions.pairs import FOLDER, Pair, PairLabel, load_pairs
from corpus_guard.detectors.samples import Half
from corpus_guard.domain import Progress, no_progress
from corpus_guard.screening.survey.likely_contradictions import (
    ChosenPair,
    Doubt,
    LikelyContradictions,
    SuspectedPair,
    TrustedPassage,
    choose_pairs,
    suspect,
)

CLAIMS: Final = 2_000
"""Claims of a file that are measured."""


@dataclass(frozen=True, slots=True)
class PairFigure:
    """Pairs of one field and label, and how many of them contradict in the eyes of the rules."""

    field: str
    label: PairLabel
    contradicted: int
    texts: int

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {"field": self.field, "label": self.label.value, "found": self.contradicted, "texts": self.texts}


def put_among_others(pairs: Sequence[Pair], count: int, choice: random.Random) -> list[Pair]:
    """Return a text of a page that contradicts it, among honest ones, and the honest ones without it; none where one is lacking."""
    contradicting = [pair for pair in pairs if pair.label is PairLabel.CONTRADICTS]
    honest = [pair for pair in pairs if pair.label is not PairLabel.CONTRADICTS]
    if not contradicting or not honest:
        return []
    chosen, others = choice.choice(contradicting), choice.sample(honest, min(count, len(honest)))
    place = choice.randrange(len(others) + 1)
    return [
        replace(pair, text=" ".join(each.text for each in texts))
        for pair, texts in (
            (chosen, [*others[:place], chosen, *others[place:]]),
            (replace(chosen, label=PairLabel.OTHER), others),
        )
    ]


def measure_pairs(
    rarity: Rarity,
    folder: Path = FOLDER,
    likely: LikelyContradictions | None = None,
    progress: Progress = no_progress,
    *,
    among: int = 0,
    seed: int = 0,
) -> list[PairFigure]:
    """Compare each text with its page, and count.

    Args:
        among: honest texts of the page beside which one that contradicts it arrives, in one chunk; 0: each text arrives alone.
    """
    choice = random.Random(f"{seed} among others")  # noqa: S311 - no secret
    contradicted: Counter[tuple[str, PairLabel]] = Counter()
    texts: Counter[tuple[str, PairLabel]] = Counter()
    pages = [list(own) for _, own in groupby(load_pairs(folder), lambda pair: (pair.field, pair.title, pair.page))]
    for done, own in enumerate(pages):
        progress("reading pages", done, len(pages))
        first, pairs = own[0], put_among_others(own, among, choice) if among else own
        page = StatedPassage(" ".join(first.page), rarity, first.title)
        contradicts = _contradicted(page, first.title, [StatedPassage(pair.text, rarity) for pair in pairs], likely)
        for pair, is_contradiction in zip(pairs, contradicts, strict=True):
            texts[pair.field, pair.label] += 1
            contradicted[pair.field, pair.label] += is_contradiction
    return [PairFigure(*key, contradicted[key], texts[key]) for key in sorted(texts)]


def measure_claims(
    rarity: Rarity,
    path: Path,
    likely: LikelyContradictions | None = None,
    progress: Progress = no_progress,
    *,
    seed: int = 0,
) -> list[PairFigure]:
    """Compare claims of the validation half of a file with what they are about, `CLAIMS` at most, and count.

    Args:
        path: JSONL in the form of FEVER or of SQuAD.

    Raises:
        Misuse: the file cannot be read, or is in neither form.
    """
    contradicted, texts = Counter[PairLabel](), Counter[PairLabel]()
    claims = read_claims(path, Half.VALIDATION, seed)[:CLAIMS]
    for done, (shown, label) in enumerate(claims):
        progress(f"reading {path.name}", done, len(claims))
        page, post = StatedPassage(shown.excerpt, rarity, shown.title), StatedPassage(shown.post, rarity)
        texts[label] += 1
        contradicted[label] += _contradicted(page, shown.title, [post], likely)[0]
    return [PairFigure(path.stem, label, contradicted[label], texts[label]) for label in sorted(texts)]


def _contradicted(
    page: StatedPassage, title: str, texts: Sequence[StatedPassage], likely: LikelyContradictions | None
) -> list[bool]:
    """Return which texts contradict a page, in the eyes of the rules or of the reader."""
    contradicts = [False] * len(texts)
    chosen: list[tuple[int, ChosenPair]] = []
    suspected: list[tuple[int, SuspectedPair]] = []
    for number, text in enumerate(texts):
        comparisons = compare_passages(text, page)
        for conflict in (each for each in comparisons if each.outcome is Outcome.CONFLICT):
            pair = likely and suspect(text, page, title, (conflict.statement.span, conflict.other.span), conflict.kind)
            if pair:
                suspected.append((number, pair))
            else:
                contradicts[number] = True
        if likely:
            decided = frozenset((comparison.statement.span, comparison.other.span) for comparison in comparisons)
            beside = TrustedPassage(page, title, decided)
            chosen += [(number, pair) for pair in choose_pairs(text, [beside], likely.pairs)]
    if likely:
        for (number, _), doubt in zip(suspected, likely.doubt([pair for _, pair in suspected]), strict=True):
            contradicts[number] |= doubt is not Doubt.FULL
        contradictions = likely.find([pair for _, pair in chosen], [1] * len(chosen))
        for (number, _), contradiction in zip(chosen, contradictions, strict=True):
            contradicts[number] |= contradiction is not None
    return contradicts
