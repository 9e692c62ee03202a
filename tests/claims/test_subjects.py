"""Whether two statements may be about one thing, and contradict each other only then."""

from __future__ import annotations

import pytest
from statement_pairs import outcome_of

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.statements import read_statements
from corpus_guard.claims.text_comparison import compare_texts


def conflict(text: str, other: str, *, rare: str) -> bool:
    """Return whether two texts contradict each other, where one word is rare."""
    statements = (
        read_statements(each, lambda word: 17.0 if word == rare else 11.0).statements for each in (text, other)
    )
    return any(each.outcome is Outcome.CONFLICT for each in compare_texts(*statements).comparisons)


@pytest.mark.parametrize(
    ("arriving", "trusted"),
    [
        ("Solvane E has a flash point of 61 °C.", "Solvane D is a cleaner. Solvane D has a flash point of 42 °C."),
        ("The basic charge for gas is 8 euros per month.", "The basic charge is 11.50 euros per month."),
        ("Payment for parking tickets is due within fourteen days.", "Payment is due within five days."),
    ],
)
def test_a_text_about_a_variant_or_another_purpose_contradicts_nothing(arriving: str, trusted: str) -> None:
    assert outcome_of(arriving, trusted) == "unrelated"


@pytest.mark.parametrize(("owner", "outcome"), [("auxiliary", "unrelated"), ("main", "conflict")])
def test_what_it_belongs_to_is_told_before(owner: str, outcome: str) -> None:
    arriving = f"The oil of the {owner} engine is changed in spring. Its maximum speed is 3000 rpm."

    assert outcome_of(arriving, "The maximum speed of the main engine is 1800 rpm.") == outcome


def test_the_population_of_two_places_is_no_contradiction_and_that_of_one_is() -> None:
    marl = "Marl County lies by the sea. In total, the population is 713,335."

    assert outcome_of(marl, "Ennerby Borough lies inland. The population is 9,098 in total.") == "unrelated"
    assert outcome_of(marl, "Hills surround Marl County. The population is 9,098 in total.") == "conflict"


@pytest.mark.parametrize(
    "statement", ["The population is {} by the folkmoot.", "By the folkmoot, the population is {}."]
)
def test_a_rare_word_in_common_makes_no_one_thing_of_two_named_ones(statement: str) -> None:
    marl, small = "Marl County lies by the sea. " + statement.format("713,335"), statement.format("9,098")

    assert not conflict(marl, f"Ennerby Borough lies inland. {small}", rare="folkmoot")
    assert conflict(marl, f"Hills surround Marl County. {small}", rare="folkmoot")


LIFT = "Maintenance of the LX-40 lift.\n\nOil: Veldt 320, as Veldt says. The alarm must be tested weekly."


@pytest.mark.parametrize(("lift", "outcome"), [("LX-40", "conflict"), ("LX-60", "unrelated")])
def test_who_names_what_a_page_is_about_needs_no_other_name_of_it(lift: str, outcome: str) -> None:
    assert outcome_of(f"The alarm of the {lift} must be tested yearly.", LIFT) == outcome


@pytest.mark.parametrize(
    ("post", "expected"),
    [
        ("The Northgate Student Account has no fee. The daily limit is £250.", False),
        ("The Northgate Current Account has no fee. The daily limit is £250.", True),
    ],
)
def test_two_texts_about_two_variants_contradict_each_other_in_nothing(post: str, expected: bool) -> None:
    page = "Fees of the Northgate Current Account (valid from January). The daily limit is £500."

    assert conflict(post, page, rare="northgate") is expected


def test_without_a_name_of_its_own_a_sentence_is_about_the_one_before_it_whatever_rare_word_it_has() -> None:
    page = "Old Montalto is a cheese. The rennet acts for 25 minutes."

    assert not conflict("Young Valsole is a cheese. The rennet acts for 50 minutes.", page, rare="rennet")
    assert conflict("Old Montalto is a cheese. The rennet acts for 50 minutes.", page, rare="rennet")
    assert conflict("The rennet acts for 50 minutes.", page, rare="rennet")


def test_a_name_that_the_other_text_says_at_greater_length_is_no_variant() -> None:
    assert outcome_of("The Ravenport fair opens on 1 August.", "The Ravenport City fair opens on 1 June.") == "conflict"
