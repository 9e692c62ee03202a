"""Pairs of texts by writers who know nothing of the rules: a page, and a sentence or two about one of its sentences.

Each text contradicts that sentence, says the same in other words, or says something other that resembles it. They are many, so
they are read by the rules directly, page by page; which documents lie near each other is measured by
`corpus_guard.evaluation.contradictions.figures`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

from corpus_guard.claims.comparison import Outcome
from corpus_guard.claims.passages import StatedPassage, compare_passages
from corpus_guard.claims.statements import Rarity

FOLDER: Final = Path(__file__).parent / "pairs"


class PairLabel(StrEnum):
    """What a text does to a sentence of a page."""

    CONTRADICTS = "contradicts"
    SAME = "same"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Pair:
    """A text about a sentence of a page."""

    field: str  # file it stands in
    title: str  # of the page
    page: tuple[str, ...]  # its sentences
    sentence: int  # of the page, from 0
    label: PairLabel
    text: str


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


def load_pairs(folder: Path = FOLDER) -> Iterator[Pair]:
    """Yield every pair, file by file."""
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader):
            page = tuple(entry["page"])
            for number, label, text in entry["pairs"]:
                yield Pair(path.stem, entry["title"], page, number - 1, PairLabel(label), text)


def measure_pairs(rarity: Rarity, folder: Path = FOLDER) -> list[PairFigure]:
    """Compare each text with its page, and count.

    Args:
        rarity: bits of a word.
        folder: of the files.
    """
    found: Counter[tuple[str, PairLabel]] = Counter()
    texts: Counter[tuple[str, PairLabel]] = Counter()
    page: tuple[str, ...] = ()
    trusted = StatedPassage("")
    for pair in load_pairs(folder):
        if pair.page is not page:
            page, trusted = pair.page, StatedPassage(" ".join(pair.page), rarity, pair.title)
        comparisons = compare_passages(StatedPassage(pair.text, rarity), trusted)
        texts[pair.field, pair.label] += 1
        found[pair.field, pair.label] += any(each.outcome is Outcome.CONFLICT for each in comparisons)
    return [PairFigure(*key, found[key], texts[key]) for key in sorted(texts)]
