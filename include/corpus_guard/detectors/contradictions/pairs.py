"""Pairs of texts by writers who know nothing of the rules: a page, and a sentence or two about one of its sentences.

Each text contradicts that sentence, says the same in other words, or says something other that resembles it. The reader of
contradictions learns from those in `FOLDER`, and is measured with those in `KEPT_APART`; the rules are measured with both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import yaml

FOLDER: Final = Path(__file__).parent / "pairs"
KEPT_APART: Final = Path(__file__).parent / "kept_apart"
"""Pages that no training reads."""


class PairLabel(StrEnum):
    """Effect of a text on a sentence of a page."""

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
    kind: str = ""  # pages of one kind tell of different things: what is said of one says nothing of another


def load_pairs(folder: Path = FOLDER) -> Iterator[Pair]:
    """Yield every pair, file by file."""
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader):
            page = tuple(entry["page"])
            for number, label, text in entry["pairs"]:
                yield Pair(path.stem, entry["title"], page, number - 1, PairLabel(label), text, entry.get("kind", ""))
