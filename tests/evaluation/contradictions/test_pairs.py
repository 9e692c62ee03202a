"""Pairs of a page and a text by writers who know nothing of the rules, and what the rules make of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus_guard.detectors.contradictions.pairs import FOLDER, KEPT_APART, PairLabel, load_pairs
from corpus_guard.evaluation.contradictions.pairs import PairFigure, measure_pairs, put_among_others
from corpus_guard.models.contradiction_reader import PagePost
from corpus_guard.screening.survey.likely_contradictions import LikelyContradictions

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
    pairs = [*load_pairs(), *load_pairs(KEPT_APART)]

    assert all(0 <= pair.sentence < len(pair.page) for pair in pairs)
    assert len({(pair.field, pair.title, pair.text) for pair in pairs}) == len(pairs)
    assert min(Counter(pair.label for pair in pairs).values()) > 5_000
    assert min(Counter(pair.field for pair in load_pairs()).values()) > 1_500


def test_no_page_is_both_learned_from_and_kept_apart() -> None:
    learned, apart = ({(pair.field, pair.title) for pair in load_pairs(folder)} for folder in (FOLDER, KEPT_APART))

    assert apart
    assert not learned & apart


def test_contradictions_are_counted_by_field_and_label(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text(PAGES, encoding="utf-8")

    assert measure_pairs(lambda word: 12.0, tmp_path) == [
        PairFigure("devices", PairLabel.CONTRADICTS, 1, 1),
        PairFigure("devices", PairLabel.OTHER, 0, 1),
        PairFigure("devices", PairLabel.SAME, 0, 1),
    ]


class Reader:
    """Takes for a contradiction whatever is asked of wool."""

    def log_odds(self, pairs: Sequence[PagePost]) -> NDArray[np.float32]:
        return np.array([5.0 if "wool" in pair.post else -5.0 for pair in pairs], np.float32)

    glance = log_odds_alone = log_odds


def test_what_the_reader_finds_counts_beside_the_rules(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text(
        PAGES.replace("How warm does", "How long may wool stay in"), encoding="utf-8"
    )

    figures = measure_pairs(
        lambda word: 12.0, tmp_path, LikelyContradictions(Reader(), pairs=2, log_odds=3.0, doubted_log_odds=-5.0)
    )

    assert [figure.contradicted for figure in figures] == [1, 1, 0]


def test_one_contradiction_arrives_among_honest_texts_of_its_page(tmp_path: Path) -> None:
    (tmp_path / "devices.yaml").write_text(PAGES, encoding="utf-8")
    reader = Reader()
    pairs = list(load_pairs(tmp_path))

    crowded, honest = put_among_others(pairs, 7, random.Random(1))

    assert [crowded.label, honest.label] == [PairLabel.CONTRADICTS, PairLabel.OTHER]
    assert all(pair.text in crowded.text for pair in pairs)
    assert len(crowded.text) == sum(len(pair.text) + 1 for pair in pairs) - 1
    assert {pair.text in honest.text for pair in pairs[1:]} == {True} and pairs[0].text not in honest.text
    assert len(put_among_others(pairs, 1, random.Random(1))[1].text) in {len(pair.text) for pair in pairs[1:]}
    assert put_among_others(pairs[:1], 7, random.Random(1)) == [], "there is no honest text"
    figures = measure_pairs(
        lambda word: 12.0, tmp_path, LikelyContradictions(reader, pairs=2, log_odds=3.0, doubted_log_odds=-5.0), among=7
    )
    assert [(figure.label, figure.texts) for figure in figures] == [(PairLabel.CONTRADICTS, 1), (PairLabel.OTHER, 1)]
