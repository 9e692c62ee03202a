"""Whether two sentences agree, conflict, or are about different things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from statement_pairs import PAIRS

from corpus_guard.claims.comparison import Outcome, compare, compare_texts
from corpus_guard.claims.statements import MAX_STATEMENTS, Statement, read_statements
from corpus_guard.claims.value import Kind


def statement(text: str) -> Statement:
    (read,) = read_statements(text).statements
    return read


def outcome_of(one: str, other: str) -> str:
    comparisons = compare_texts(read_statements(one).statements, read_statements(other).statements).comparisons
    return comparisons[0].outcome.value if comparisons else "unrelated"


@pytest.mark.parametrize(("outcome", "one", "other"), PAIRS)
def test_a_pair_is_judged_the_same_in_both_directions(outcome: str, one: str, other: str) -> None:
    assert outcome_of(one, other) == outcome
    assert outcome_of(other, one) == outcome


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


def test_the_population_of_two_places_is_no_contradiction_and_that_of_one_is() -> None:
    marl = "Marl County lies by the sea. In total, the population is 713,335."

    assert outcome_of(marl, "Ennerby Borough lies inland. The population is 9,098 in total.") == "unrelated"
    assert outcome_of(marl, "Hills surround Marl County. The population is 9,098 in total.") == "conflict"


@pytest.mark.parametrize(
    "statement",
    ["The population is {} by the folkmoot.", "By the folkmoot, the population is {}."],
)
def test_a_rare_word_in_common_makes_no_one_thing_of_two_named_ones(statement: str) -> None:
    def outcomes(one: str, other: str) -> list[str]:
        texts = [read_statements(text, lambda word: 17.0 if word == "folkmoot" else 12.0) for text in (one, other)]
        return [each.outcome.value for each in compare_texts(*(text.statements for text in texts)).comparisons]

    marl, small = "Marl County lies by the sea. " + statement.format("713,335"), statement.format("9,098")

    assert outcomes(marl, f"Ennerby Borough lies inland. {small}") == []
    assert outcomes(marl, f"Hills surround Marl County. {small}") == ["conflict"]


def test_a_name_that_the_other_text_says_at_greater_length_is_no_variant() -> None:
    assert outcome_of("The Ravenport fair opens on 1 August.", "The Ravenport City fair opens on 1 June.") == "conflict"


def test_another_number_to_call_contradicts_whatever_else_is_said_around_it() -> None:
    trusted = "The dial-a-bus of Ennerby must be ordered ninety minutes ahead on 01632 960 860."

    assert outcome_of("Order the Ennerby dial-a-bus on 01632 960 312, that's the number.", trusted) == "conflict"
    assert outcome_of("Lost umbrellas of Ennerby passengers: 01632 960 312.", trusted) == "unrelated"


@pytest.mark.parametrize("text", sorted({text for _, *texts in PAIRS for text in texts if "?" not in text}))
def test_no_sentence_conflicts_with_itself(text: str) -> None:
    assert outcome_of(text, text) == "agree"


def test_there_are_pairs_of_every_outcome() -> None:
    counts = Counter(outcome for outcome, *_ in PAIRS)

    assert counts.total() >= 40
    assert min(counts[outcome.value] for outcome in Outcome if outcome is not Outcome.LIKELY) >= 10
    assert not counts[Outcome.LIKELY.value]  # the rules never say so


MANUAL = """# OX-12 manual

The OX-12 must be calibrated every 6 months. The housing is made of titanium and weighs 1.2 kg.
It may be used down to 300 m. Call support at +44 20 7946 0958.
"""


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("6 months", "36 months", ("every 6 month", "every 36 month")),
        ("1.2 kg", "2.1 kg", ("1.2 kg", "2.1 kg")),
        ("300 m", "3000 m", ("300 m", "3000 m")),
        ("0958", "0111", ("+442079460958", "+442079460111")),
    ],
)
def test_a_near_copy_with_one_changed_number_conflicts_there_and_nowhere_else(
    before: str, after: str, values: tuple[str, str]
) -> None:
    copy = MANUAL.replace(before, after)

    result = compare_texts(read_statements(MANUAL).statements, read_statements(copy).statements)

    conflicts = [each for each in result.comparisons if each.outcome is Outcome.CONFLICT]
    assert [(one.normal, other.normal) for each in conflicts for one, other in each.values] == [values]
    assert [each.outcome for each in result.comparisons[1:]] == [Outcome.AGREE] * 5
    assert result.is_complete


def test_a_conflict_names_both_values_with_their_places() -> None:
    one, other = "Yes. The sensor is checked every 36 months.", "The sensor is checked every 6 months."

    (conflict,) = compare_texts(read_statements(one).statements, read_statements(other).statements).comparisons

    ((left, right),) = conflict.values
    assert one[left.span.start : left.span.end] == "every 36 months"
    assert other[right.span.start : right.span.end] == "every 6 months"
    assert not conflict.is_denial


def test_a_denial_is_named_as_one() -> None:
    comparison = compare(statement("Backups are encrypted."), statement("Backups are not encrypted."))

    assert comparison.outcome is Outcome.CONFLICT
    assert comparison.is_denial


class SameMeaning:
    """Embeds every text as the same vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.tile(np.float32([1, 0]), (len(texts), 1))


def test_an_embedder_finds_a_statement_in_other_words_and_no_other_subject() -> None:
    one = read_statements("For this probe it is every 36 months.").statements
    other = read_statements(
        "Trained staff service the probe every 6 months under a plan of care for old ships."
    ).statements
    subject = read_statements("The red pump runs for 5 hours.").statements
    rival = read_statements("The blue pump runs for 3 hours.").statements

    assert compare_texts(one, other).comparisons == ()
    assert [each.outcome for each in compare_texts(one, other, SameMeaning()).comparisons] == [Outcome.CONFLICT]
    assert compare_texts(subject, rival, SameMeaning()).comparisons == ()


def test_rare_words_decide_what_a_sentence_is_about() -> None:
    texts = ("The calorimeter fitting needs 5 bar.", "The fitting needs a gasket set of 7 bar.")
    bits = {"calorimeter": 15.0, "fitting": 11.5, "gasket": 15.0, "set": 3.0}

    plain = [read_statements(text).statements[0].words for text in texts]
    weighed = [read_statements(text, lambda word: bits.get(word, 12.0)).statements[0].words for text in texts]

    assert plain[0]["calorimeter"] == plain[0]["fit"]
    assert weighed[0]["calorimeter"] > weighed[0]["fit"] > weighed[1]["set"]


def test_what_is_beyond_the_budget_is_counted() -> None:
    texts = [" ".join(f"The pump number {chr(97 + n)} runs {n} hours." for n in range(10)) for _ in range(2)]
    ones, others = (read_statements(text).statements for text in texts)

    result = compare_texts(ones, others, max_pairs=30)

    assert (result.compared, result.not_compared, result.is_complete) == (30, 70, False)


def test_sentences_beyond_the_limit_are_counted() -> None:
    read = read_statements("It is so. " * (MAX_STATEMENTS + 5))

    assert (len(read.statements), read.not_read) == (MAX_STATEMENTS, 5)


def test_what_a_sentence_is_about_has_no_values() -> None:
    read = statement("The 12 members of Acme Corp pay $5 every month.")

    assert {value.kind for value in read.values} == {Kind.COUNT, Kind.NAME, Kind.MONEY, Kind.FREQUENCY}
    assert set(read.words) == {"member", "acme", "corp", "cost"}
