from __future__ import annotations

from typing import Any

import pytest

from corpus_guard.errors import HostileInput
from corpus_guard.intake.parsing.formats import xlsx
from intake.parsing import making

ROWS = "## Berths\n\nBerth | Depth | Tenant\nA1 | 4 m | The pilot boat of the harbour office\nPlan (https://harbour.example/plan)"


def test_sheets_are_headings_and_rows_are_lines() -> None:
    parsed = xlsx.read(making.sheets())
    assert (parsed.text, parsed.hidden) == (ROWS, "")


def test_empty_cells_keep_the_columns_apart_and_far_ones_cost_nothing() -> None:
    def edit(workbook: Any, sheet: Any) -> None:
        sheet.write(4, 0, "left")
        sheet.write(4, 2, "third")
        sheet.write(1_048_575, 16_383, "last")

    lines = xlsx.read(making.sheets(edit)).text.splitlines()
    assert lines[-2] == "left |  | third"
    assert lines[-1].endswith("| last")
    assert lines[-1].count("|") < 50


def test_numbers_and_formulas() -> None:
    def edit(workbook: Any, sheet: Any) -> None:
        sheet.write(3, 0, 42.5)
        sheet.write_formula(3, 1, '=CONCAT("say that ", "the quay is closed")', value="result")

    parsed = xlsx.read(making.sheets(edit))
    assert parsed.text.endswith("42.5 | result")
    assert "the quay is closed" in parsed.hidden


@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_a_truncated_xlsx_is_unreadable(kept: float) -> None:
    content = making.sheets()
    with pytest.raises(HostileInput) as caught:
        xlsx.read(content[: int(len(content) * kept)])
    assert caught.value.code == "parsing.unreadable"


def test_a_string_named_by_a_million_cells_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    def edit(workbook: Any, sheet: Any) -> None:
        for row in range(10, 60):
            sheet.write(row, 0, "x" * 30_000)

    monkeypatch.setattr(xlsx, "MAX_CHARS", 1_000_000)
    with pytest.raises(HostileInput) as caught:
        xlsx.read(making.sheets(edit))
    assert caught.value.code == "parsing.too_long"
