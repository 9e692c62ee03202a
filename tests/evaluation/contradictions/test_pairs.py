"""Pairs of a page and a text by writers who know nothing of the rules, and what the rules make of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from corpus_guard.evaluation.contradictions.pairs import PairFigure, PairLabel, load_pairs, measure_pairs

PAGES = """
- title: "Solvane D dryer"
  page:
    - "The Solvane D dryer must be cleaned every 6 months."
    - "Wool may be dried in the basket."
  pairs:
    - [1, contradicts, "The Solvane D dryer must be cleaned every 24 months."]
    - [1, same, "The Solvane D dryer must be cleaned twice a year."]
    - [2, other, "How warm does the basket get?"]
"""


def test_every_pair_is_about_a_sentence_of_its_page_and_stands_once() -> None:
    pairs = list(load_pairs())

    assert all(0 <= pair.sentence < len(pair.page) for pair in pairs)
    assert len({(pair.title, pair.text) for pair in pairs}) == len(pairs)
    assert min(Counter(pair.label for pair in pairs).values()) > 5_000
    assert min(Counter(pair.field for pair in pairs).values()) > 2_000


def test_contradictions_are_counted_by_field_and_label(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text(PAGES, encoding="utf-8")

    assert measure_pairs(lambda word: 12.0, tmp_path) == [
        PairFigure("devices", PairLabel.CONTRADICTS, 1, 1),
        PairFigure("devices", PairLabel.OTHER, 0, 1),
        PairFigure("devices", PairLabel.SAME, 0, 1),
    ]
