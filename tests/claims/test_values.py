"""What is read of a sentence, as a table and as laws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from value_examples import EXAMPLES

from corpus_guard.claims.negation import OPPOSITES, read_negations
from corpus_guard.claims.units import conversion
from corpus_guard.claims.value import Kind, Relation, Value, relate
from corpus_guard.claims.values import read_values

PROSE_KINDS = {Kind.NAME, Kind.NEGATION, Kind.ORDER}


def values(text: str) -> list[Value]:
    return [value for value in read_values(text) if value.kind not in PROSE_KINDS]


def normal_forms(text: str) -> list[str]:
    return [f"{value.kind.value} {value.normal}" for value in values(text)]


@pytest.mark.parametrize(("text", "expected"), EXAMPLES)
def test_values_are_read_in_their_normal_form(text: str, expected: Sequence[str]) -> None:
    assert normal_forms(text) == list(expected)


def test_the_table_is_long_enough_and_has_every_kind() -> None:
    kinds = {value.split()[0] for _, expected in EXAMPLES for value in expected}

    assert len(EXAMPLES) >= 150
    assert kinds == {kind.value for kind in Kind} - {kind.value for kind in PROSE_KINDS}
    assert sum(expected == [] for _, expected in EXAMPLES) >= 15


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The chief executive is Alice Brown.", ["alice brown"]),
        ("Alice Brown's desk is in New York.", ["alice brown", "new york"]),
        ("The OX-12 replaces the CN-7.", ["ox-12", "cn-7"]),
        ("According to NASA it is true.", ["nasa"]),
        ("The Bank of England pays.", ["bank of england"]),
        ("However, nothing is named here.", []),
    ],
)
def test_names_are_read(text: str, names: Sequence[str]) -> None:
    assert [value.normal for value in read_values(text) if value.kind is Kind.NAME] == names


@pytest.mark.parametrize(
    ("text", "negations"),
    [
        ("It is not allowed.", 1),
        ("It isn't allowed.", 1),
        ("It is forbidden.", 1),
        ("It is never forbidden.", 2),
        ("No, it is not allowed.", 1),
        ("Not only the lid is red.", 0),
        ("It takes no more than 5 days.", 0),
        ("It is no longer sold.", 1),
        ("It must not exceed 5 kg.", 0),
        ("See no. 5.", 0),
        ("The shop does not open before 10.", 0),
        ("It should not open before ten.", 0),
        ("It must not run before Monday.", 0),
        ("You may not enter before you are called.", 0),
        ("Do not stop until help arrives.", 0),
        ("The valve must not be open before the start.", 1),
        ("It mustn't be opened before the pressure drops.", 1),
        ("A knot is tied.", 0),
    ],
)
def test_negations_are_counted(text: str, negations: int) -> None:
    assert sum(value.kind is Kind.NEGATION for value in read_values(text)) == negations


def test_what_follows_an_amount_is_cents_only_where_nothing_else_is_counted() -> None:
    assert [value.normal for value in values("It costs ten euros and twenty people came.")] == ["10 EUR", "20 people"]
    assert [value.normal for value in values("It costs 10 euros 20 percent of the time.")] == ["10 EUR", "20 %"]


def test_a_span_leads_back_to_the_text_with_its_invisible_characters() -> None:
    text = "It is so.\n\nThe rope holds 9\u200b5 k\u2060N, says Alice Brown."

    spans = [text[value.span.start : value.span.end] for value in read_values(text)]

    assert spans == ["9\u200b5 k\u2060N", "Alice Brown"]


def test_a_value_that_the_sentence_denies_is_marked() -> None:
    text = "Calibrate it every 6 months, not every 36 months, and at 20 °C rather than 30 °C."

    denied = {value.normal: value.is_denied for value in values(text)}

    assert denied == {"every 6 month": False, "every 36 month": True, "20 °C": False, "30 °C": True}


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        ("95 kN", "95,200 N", Relation.EQUAL),  # rounded
        ("6 V", "6.4 V", Relation.DIFFERENT),  # more than rounding
        ("100 kg", "101 kg", Relation.DIFFERENT),
        ("about 100 kg", "103 kg", Relation.EQUAL),
        ("5 to 10 V", "7 V", Relation.OVERLAPPING),
        ("5 to 10 V", "11 V", Relation.DIFFERENT),
        ("at least 5 V", "at least 6 V", Relation.DIFFERENT),
        ("at least 5 V", "at most 4 V", Relation.DIFFERENT),
        ("5 V", "5 A", None),
        ("180 days", "6 months", Relation.EQUAL),
        ("28 days", "1 month", Relation.DIFFERENT),
        ("in 2026", "2026-11-22", Relation.OVERLAPPING),
        ("22 November", "2026-11-22", Relation.OVERLAPPING),
        ("03/04/2026", "4 March 2026", Relation.OVERLAPPING),
        ("03/04/2026", "5 March 2026", Relation.DIFFERENT),
        ("the 2012-13 season", "in 2012/2013", Relation.EQUAL),
        ("the 2012–13 season", "in 2013", Relation.OVERLAPPING),
        ("the 1999/00 season", "the 2000-01 season", Relation.DIFFERENT),
        ("version 3.2", "version 3.2.1", Relation.OVERLAPPING),
        ("version 3.2", "version 3.20", Relation.DIFFERENT),
        ("call 020 7946 0958", "+44 20 7946 0958", Relation.OVERLAPPING),
        ("call 020 7946 0958", "call 020 7946 0111", Relation.DIFFERENT),
        ("evilexample.com", "example.com", Relation.DIFFERENT),
        ("5 kg", "5 people", None),
        ("six euros fifty", "6.50 €", Relation.EQUAL),
        ("6 euros and 50 cents", "6.50 €", Relation.EQUAL),
        ("four times daily", "every 6 hours", Relation.EQUAL),
        ("ring us, 0800 555 312", "at 0800 555 312", Relation.EQUAL),
        ("by 01632 960 860", "by 01632 960 312", Relation.DIFFERENT),
    ],
)
def test_two_values_are_equal_overlap_differ_or_cannot_be_compared(
    one: str, other: str, relation: Relation | None
) -> None:
    (first,), (second,) = values(one), values(other)

    assert relate(first, second) is relation
    assert relate(second, first) is relation


# --- laws ---------------------------------------------------------------------------------------------------

UNITS = ["kN", "m", "cm", "miles", "kg", "lb", "°C", "°F", "V", "bar", "psi", "km/h", "MB", "litres", "kWh", "Hz"]
TIMES = ["seconds", "minutes", "hours", "days", "weeks", "months", "years"]
NUMBERS = st.decimals(0, 99_999, places=2).map(lambda number: f"{number.normalize():f}")


@given(NUMBERS, st.sampled_from([*UNITS, *TIMES, "%", "EUR", "people", "houses"]))
def test_a_normal_form_is_its_own_normal_form(number: str, unit: str) -> None:
    (value,) = values(f"{number} {unit}")
    (again,) = values(value.normal)

    assert (again.kind, again.normal, again.unit) == (value.kind, value.normal, value.unit)


@pytest.mark.parametrize("text", [text for text, expected in EXAMPLES if expected])
def test_a_normal_form_of_the_table_is_its_own_normal_form(text: str) -> None:
    for value in values(text):
        assert normal_forms(value.normal) == [f"{value.kind.value} {value.normal}"]


PAIRS = [("kN", "N"), ("km", "m"), ("miles", "km"), ("°F", "°C"), ("hours", "s"), ("years", "months"), ("GiB", "kB")]


@given(st.integers(1, 9_999), st.sampled_from(PAIRS))
@example(32, ("°F", "°C"))
def test_a_converted_value_is_equal_to_the_original(number: int, units: tuple[str, str]) -> None:
    (factor, offset, unit), (other_factor, other_offset, other_unit) = (
        conversion(name) or ("", "", "") for name in units
    )
    assert unit == other_unit
    converted = (number * float(factor) + float(offset) - float(other_offset)) / float(other_factor)
    (one,), (other,) = values(f"{number} {units[0]}"), values(f"{converted:.12f} {units[1]}")

    assert relate(one, other) is Relation.EQUAL
    assert math.isclose(one.low or 0, other.low or 0, rel_tol=1e-9, abs_tol=1e-9)


@given(st.text(max_size=200))
@example("5 \ud800 kN 1e999999 0e999 -0 \u202e5 to 5 °C")
@example("9" * 400 + "e-300 kg")
@settings(max_examples=200)
def test_any_text_is_read_and_every_span_lies_in_it(text: str) -> None:
    for value in read_values(text):
        assert 0 <= value.span.start < value.span.end <= len(text)
        assert not (math.isnan(value.low or 0) or math.isnan(value.high or 0))


@pytest.mark.parametrize(
    "word",
    [
        *OPPOSITES, "not", "cannot", "never", "no", "neither", "nor", "none", "nobody", "nothing", "without", "don't",
        "fail to", "fails to", "failed to", "lack", "lacks", "NEVER", "DON'T", "Non-toxic",
    ],
)  # fmt: skip
def test_each_word_of_negation_is_found(word: str) -> None:
    assert list(read_negations(f"The valves {word} so")) == [(11, 11 + len(word))]
