"""The paper's figures as printed, and rows that put ours beside them."""

from __future__ import annotations

from collections import Counter

import pytest

from corpus_guard.evaluation.defences.table import Line
from corpus_guard.evaluation.traceback.figures import Figures
from corpus_guard.evaluation.traceback.judging import JudgeName
from corpus_guard.evaluation.traceback.planting import Attack
from corpus_guard.evaluation.traceback.tables import (
    ATTACKS6,
    COLUMNS1,
    COLUMNS6,
    DATA_SETS,
    PUBLISHED,
    Published,
    markdown,
    metrics1,
    metrics6,
    rows1,
    rows6,
)
from corpus_guard.traceback import Label

FIGURES = Figures(
    labels=Counter({(True, Label.POISONED): 9, (True, Label.BENIGN): 1, (False, Label.BENIGN): 10}),
    outcomes=Counter(),
    ended=Counter(),
    iterations=4,
    judge_seconds=0.04,
    queries=2,
    accusing=2,
    reached=2,
    leaking=0,
)


@pytest.mark.parametrize(
    ("data", "attack", "judge", "figures"),
    [
        ("NQ", Attack.POISONEDRAG_B, JudgeName.LLM, (99.6, 0.8, 0.0)),
        ("HotpotQA", Attack.HOTFLIP, JudgeName.LLM, (97.6, 1.6, 3.2)),
        ("MS-MARCO", Attack.INSTRUINJECT, JudgeName.LLM, (99.4, 1.2, 0.0)),
        ("NQ", Attack.HOTFLIP, JudgeName.RKM, (84.9, 8.8, 24.1)),
        ("HotpotQA", Attack.POISONEDRAG_B, JudgeName.PPL_90, (68.2, 18.1, 45.6)),
        ("MS-MARCO", Attack.HOTFLIP, JudgeName.TKM, (40.2, 47.7, 71.9)),
        ("MS-MARCO", Attack.POISONEDRAG_B, JudgeName.POIFOR, (73.0, 1.0, 53.0)),
    ],
)
def test_published_figures(data: str, attack: Attack, judge: JudgeName, figures: tuple[float, ...]) -> None:
    assert PUBLISHED[data, attack, judge] == Published(*figures)


def test_the_papers_table_is_whole() -> None:
    assert len(PUBLISHED) == 3 * 3 * 7
    assert {data for data, _, _ in PUBLISHED} == set(DATA_SETS)
    assert all(0 <= value <= 100 for cell in PUBLISHED.values() for value in cell)


def test_rows_stand_beside_the_papers_and_bare_beside_nothing() -> None:
    cells = {(Attack.POISONEDRAG_B, JudgeName.EMBEDDED): FIGURES, (Attack.BARE, JudgeName.TKM): FIGURES}

    embedded, bare = rows1(cells)

    assert len(embedded) == len(COLUMNS1)
    assert embedded[:3] == ("poisonedrag-b", "embedded", "95.0 [76.4, 99.1]")
    assert embedded[5:] == ("20", "99.6 / 97.4 / 98.4", "0.8 / 2.4 / 2.3", "0.0 / 2.8 / 0.8")
    assert bare[-3:] == ("", "", "")
    assert metrics1(cells)["bare/tkm/fnr"] == pytest.approx(0.1)
    assert markdown(COLUMNS1, [embedded]).count("\n") == 3


def test_table_6_knows_the_papers_name_of_each_attack() -> None:
    cells = {(attack, "ptr+bte"): Line("ptr+bte", 4, 1, 3, 0) for attack in ATTACKS6}

    rows = list(rows6(cells))

    assert all(len(row) == len(COLUMNS6) for row in rows)
    assert [row[-1] for row in rows] == ["100 / 98 / 100"] * 2 + ["100 / 96 / 100"]
    assert metrics6(cells)["hotflip/ptr_bte/acc"] == 0.75
