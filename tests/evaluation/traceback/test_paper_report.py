"""The paper's figures as printed, and tables that put ours beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.attacks.adaptive import AdaptiveAttack
from corpus_guard.detectors.planting import Attack
from corpus_guard.evaluation.traceback import paper_report
from corpus_guard.evaluation.traceback.evaluated_judges import EvaluatedJudge
from corpus_guard.evaluation.traceback.paper_plan import ATTACKS, DATA_SETS, DEFENCES, Cell, PaperPart, PaperPlan, Scene
from corpus_guard.evaluation.traceback.paper_play import PaperRequest, PaperResult
from corpus_guard.evaluation.traceback.published import (
    PUBLISHED,
    PUBLISHED_ADAPTIVE,
    PUBLISHED_MODELS,
    PUBLISHED_RATES,
    PublishedFigures,
)

LABELS = {"dacc": 0.95, "fpr": 0.0, "fnr": 0.1, "judged": 20, "cpu_seconds": 3.0}
ANSWERS = {"asr": 0.25, "acc": 0.75, "queries": 4, "cpu_seconds": 27.0}


def a_result(**cells: dict[str, float]) -> PaperResult:
    request = PaperRequest({"NQ": Path("nq.jsonl")}, PaperPlan(data=("NQ",)))
    return PaperResult(request, cells, {"rag_model": "embedded, abc"})


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


def test_the_papers_tables_are_whole() -> None:
    adaptive = (AdaptiveAttack.DECEIVE, AdaptiveAttack.DISGUISE)

    assert len(PUBLISHED) == 3 * 3 * 7
    assert {data for data, _, _ in PUBLISHED} == set(DATA_SETS)
    assert set(PUBLISHED_MODELS) == {(data, attack) for data in DATA_SETS for attack in ATTACKS}
    assert set(PUBLISHED_ADAPTIVE) == {(data, attack, kind) for data, attack in PUBLISHED_MODELS for kind in adaptive}
    assert set(PUBLISHED_RATES) == set(PUBLISHED_MODELS)
    assert all(set(rates) == set(DEFENCES) for rates in PUBLISHED_RATES.values())
    assert PUBLISHED_RATES["HotpotQA", Attack.HOTFLIP]["ptr"] == (12, 46)
    assert all(0 <= value <= 100 for cell in PUBLISHED.values() for value in cell)


def test_our_cells_stand_beside_the_papers_and_missing_ones_are_dashes() -> None:
    scene = Scene("NQ", Attack.POISONEDRAG_B)
    deceiving = Scene("NQ", Attack.POISONEDRAG_B, AdaptiveAttack.DECEIVE)
    measured = {
        Cell(scene, judge=EvaluatedJudge.EMBEDDED): LABELS,
        Cell(scene, judge=EvaluatedJudge.TKM): {**LABELS, "attacks_succeeded": 3, "attacks": 4},
        Cell(scene, defence="ptr"): ANSWERS,
        Cell(deceiving, judge=EvaluatedJudge.EMBEDDED): LABELS,
        Cell(deceiving, defence="none"): ANSWERS,
    }
    result = a_result(**{cell.key: figures for cell, figures in measured.items()})
    tables = {part: list(paper_report.rows(result, part)) for part in PaperPart}

    assert all(len(row) == len(paper_report.columns(part)) for part, rows in tables.items() for row in rows)
    first = {row[2]: row for row in tables[PaperPart.TABLE_1] if row[1] == "poisonedrag-b"}
    assert first["embedded"][3:] == ("95.0 / 0.0 / 10.0", "20", "99.6 / 0.8 / 0.0")
    assert first["tkm"][4] == "20; 3 of 4 attacks succeeded"
    assert first["rkm"][3:] == ("–", "–", "84.3 / 7.6 / 23.9")
    assert tables[PaperPart.TABLE_2][0][-1] == "99.6 / 0.8 / 0.0; 97.4 / 4.1 / 1.2; 99.4 / 0.8 / 0.4"
    assert tables[PaperPart.TABLE_3][0][2:] == ("25 (4)", "95.0 / 0.0 / 10.0", "20", "72", "99.5 / 1.1 / 0.0")
    ptr = next(row for row in tables[PaperPart.TABLE_6] if row[2] == "ptr")
    assert ptr[3:] == ("25 / 75", "4", "0 / 52")
    assert [row[2] for row in tables[PaperPart.FIGURES][:5]] == ["5", "10", "20", "30", "40"]
    assert tables[PaperPart.TABLE_5] == []
    text = paper_report.markdown(result, "guard evaluate ragforensics")
    assert "CPU time of these cells: 1.1 minutes" in text
    assert "135 million parameters" in text
    assert paper_report.metrics(result)["NQ/poisonedrag-b/none/m5/k5/judge tkm/dacc"] == 0.95


def test_mlflow_takes_the_name_of_every_metric() -> None:
    from mlflow.utils.validation import _validate_metric_name

    plan = PaperPlan(data=("NQ",))
    cells = {cell.key: ANSWERS if cell.defence else LABELS for cells in plan.cells().values() for cell in cells}

    names = list(paper_report.metrics(a_result(**cells)))

    assert "NQ/poisonedrag-b/none/m5/k5/defence ptr and bte/asr" in names
    for name in names:
        _validate_metric_name(name)
