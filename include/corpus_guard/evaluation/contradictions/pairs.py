"""Figures on pairs of a page and a text, by writers who know none of the rules.

They are many, so each text is compared with its own page; which documents lie near each other is measured by
`corpus_guard.evaluation.contradictions.figures`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from corpus_guard.claims.comparison import Outcome
from corpus_guard.claims.passages import StatedPassage, compare_passages, is_near_copy
from corpus_guard.claims.statements import Rarity
from corpus_guard.detectors.contradictions.pairs import FOLDER, PairLabel, load_pairs
from corpus_guard.domain import Progress, no_progress
from corpus_guard.screening.survey.likely_contradictions import (
    ChosenPair,
    LikelyContradictions,
    SuspectedPair,
    TrustedPassage,
    choose_pairs,
    suspect,
)


@dataclass(frozen=True, slots=True)
class PairFigure:
    """Pairs of one field and label, and how many of them contradict in the eyes of the rules."""

    field: str
    label: PairLabel
    found: int
    texts: int

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form."""
        return {"field": self.field, "label": self.label.value, "found": self.found, "texts": self.texts}


def measure_pairs(
    rarity: Rarity, folder: Path = FOLDER, likely: LikelyContradictions | None = None, progress: Progress = no_progress
) -> list[PairFigure]:
    """Compare each text with its page, and count.

    Args:
        rarity: bits of a word.
        folder: of the files.
        likely: reads what the rules leave open; None: the rules alone are measured.
        progress: told after each page.
    """
    found: Counter[tuple[str, PairLabel]] = Counter()
    texts: Counter[tuple[str, PairLabel]] = Counter()
    pages = [list(own) for _, own in groupby(load_pairs(folder), lambda pair: (pair.field, pair.title, pair.page))]
    for done, pairs in enumerate(pages):
        progress("reading pages", done, len(pages))
        first = pairs[0]
        page = StatedPassage(" ".join(first.page), rarity, first.title)
        contradicts = _contradicted(page, first.title, [StatedPassage(pair.text, rarity) for pair in pairs], likely)
        for pair, is_contradiction in zip(pairs, contradicts, strict=True):
            texts[pair.field, pair.label] += 1
            found[pair.field, pair.label] += is_contradiction
    return [PairFigure(*key, found[key], texts[key]) for key in sorted(texts)]


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
            pair = likely and suspect(text, page, title, (conflict.one.span, conflict.other.span), conflict.kind)
            if pair and not is_near_copy(text, page):
                suspected.append((number, pair))
            else:
                contradicts[number] = True
        if likely:
            decided = frozenset((comparison.one.span, comparison.other.span) for comparison in comparisons)
            beside = TrustedPassage(page, title, decided)
            chosen += [(number, pair) for pair in choose_pairs(text, [beside], likely.pairs)]
    if likely:
        for (number, _), is_doubted in zip(suspected, likely.doubt([pair for _, pair in suspected]), strict=True):
            contradicts[number] |= not is_doubted
        found = likely.find([pair for _, pair in chosen], [1] * len(chosen))
        for (number, _), contradiction in zip(chosen, found, strict=True):
            contradicts[number] |= contradiction is not None
    return contradicts
