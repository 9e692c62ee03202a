"""The paper's figures as printed, and rows that put ours beside them."""

from __future__ import annotations

from collections import Counter

import pytest

from corpus_guard.detectors.planting import Attack
from corpus_guard.detectors.trace_figures import TraceFigures
from corpus_guard.evaluation.defences.table import DefenceResult
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge
from corpus_guard.evaluation.traceback.published import (
    DATA_SETS,
    PUBLISHED,
    TABLE1_COLUMNS,
    TABLE6_ATTACKS,
    TABLE6_COLUMNS,
    PublishedFigures,
    markdown,
    table1_metrics,
    table1_rows,
    table6_metrics,
    table6_rows,
)
from corpus_guard.ledger.states import Label

FIGURES = TraceFigures(
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
        ("NQ", Attack.POISONEDRAG_B, EvaluatedJudge.LLM, (99.6, 0.8, 0.0)),
        ("HotpotQA", Attack.HOTFLIP, EvaluatedJudge.LLM, (97.6, 1.6, 3.2)),
        ("MS-MARCO", Attack.INSTRUINJECT, EvaluatedJudge.LLM, (99.4, 1.2, 0.0)),
        ("NQ", Attack.HOTFLIP, EvaluatedJudge.RKM, (84.9, 8.8, 24.1)),
        ("HotpotQA", Attack.POISONEDRAG_B, EvaluatedJudge.PPL_90, (68.2, 18.1, 45.6)),
        ("MS-MARCO", Attack.HOTFLIP, EvaluatedJudge.TKM, (40.2, 47.7, 71.9)),
        ("MS-MARCO", Attack.POISONEDRAG_B, EvaluatedJudge.POIFOR, (73.0, 1.0, 53.0)),
    ],
)
def test_published_figures(data: str, attack: Attack, judge: EvaluatedJudge, figures: tuple[float, ...]) -> None:
    assert PUBLISHED[data, attack, judge] == PublishedFigures(*figures)


def test_the_papers_table_is_whole() -> None:
    assert len(PUBLISHED) == 3 * 3 * 7
    assert {data for data, _, _ in PUBLISHED} == set(DATA_SETS)
    assert all(0 <= value <= 100 for cell in PUBLISHED.values() for value in cell)


def test_rows_stand_beside_the_papers_and_bare_beside_nothing() -> None:
    cells = {(Attack.POISONEDRAG_B, EvaluatedJudge.EMBEDDED): FIGURES, (Attack.BARE, EvaluatedJudge.TKM): FIGURES}

    embedded, bare = table1_rows(cells)

    assert len(embedded) == len(TABLE1_COLUMNS)
    assert embedded[:3] == ("poisonedrag-b", "embedded", "95.0 [76.4, 99.1]")
    assert embedded[5:] == ("20", "99.6 / 97.4 / 98.4", "0.8 / 2.4 / 2.3", "0.0 / 2.8 / 0.8")
    assert bare[-3:] == ("", "", "")
    assert table1_metrics(cells)["bare/tkm/fnr"] == pytest.approx(0.1)
    assert markdown(TABLE1_COLUMNS, [embedded]).count("\n") == 3


def test_table_6_knows_the_papers_name_of_each_attack() -> None:
    cells = {(attack, "ptr+bte"): DefenceResult("ptr+bte", 4, 1, 3, 0) for attack in TABLE6_ATTACKS}

    rows = list(table6_rows(cells))

    assert all(len(row) == len(TABLE6_COLUMNS) for row in rows)
    assert [row[-1] for row in rows] == ["100 / 98 / 100"] * 2 + ["100 / 96 / 100"]
    assert table6_metrics(cells)["hotflip/ptr_bte/acc"] == 0.75
