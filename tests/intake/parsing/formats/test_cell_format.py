from __future__ import annotations

import pytest

from corpus_guard.intake.parsing.formats._cell_format import find_format, show_number, show_text

NUMBERS = {
    ("42.5", "General"): "42.5",
    ("0.30000000000000004", "General"): "0.3",
    ("0.25", "0%"): "25%",
    ("5", '0.0 "kg"'): "5 kg",
    ("5", '"9"0'): "95",
    ("-5", "#,##0_);(#,##0)"): "(5)",
    ("-5", "#,##0;[Red]#,##0"): "-5",
    ("1234.5", "[$€-407] #,##0.00"): "€ 1234.5",
    ("5550100", "000-0000"): "5550100",
    ("0.5", "# ?/?"): "0.5",
    ("45292", "m/d/yyyy"): "2024-01-01",
    ("45292.5", "d.m.yy h:mm"): "2024-01-01 12:00",
    ("45292", "[$-409]dddd, mmmm dd, yyyy"): "2024-01-01",
    ("0.5", "h:mm"): "12:00",
    ("1.5", "[h]:mm:ss"): "36:00:00",
    ("99999999", "yyyy-mm-dd"): "99999999",
    ("word", "0"): "word",
}
REPLACED = {
    ("314", '"approved"'): "approved",
    ("314", ";;;"): "",
    ("0", '0;-0;"none"'): "none",
    ("5", '[>3]"many";"few"'): "many",
    ("2", '[>3]"many";"few"'): "few",
}


@pytest.mark.parametrize(("cell", "shown"), NUMBERS.items())
def test_a_number_is_shown_with_what_its_format_adds(cell: tuple[str, str], shown: str) -> None:
    assert show_number(*cell) == (shown, True)


@pytest.mark.parametrize(("cell", "shown"), REPLACED.items())
def test_a_format_may_show_something_else(cell: tuple[str, str], shown: str) -> None:
    assert show_number(*cell) == (shown, False)


def test_days_count_from_1904_in_some_workbooks() -> None:
    assert show_number("0", "yyyy-mm-dd", from_1904=True) == ("1904-01-01", True)


def test_texts_have_a_section_of_their_own() -> None:
    assert show_text("text", "0;0;0;@") == ("text", True)
    assert show_text("text", "0") == ("text", True)
    assert show_text("text", '0;0;0;"other"') == ("other", False)
    assert show_text("text", ";;;") == ("", False)


def test_formats_have_numbers() -> None:
    assert find_format(9, {}) == "0%"
    assert find_format(170, {170: "0.0"}) == "0.0"
    assert find_format(999, {}) == "General"
