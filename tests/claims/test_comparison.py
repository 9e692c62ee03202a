"""Whether two sentences agree, conflict, or are about different things."""

from __future__ import annotations

from collections import Counter

import pytest
from statement_pairs import PAIRS, outcome_of

from corpus_guard.claims.comparison import compare
from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.statements import Statement, read_statements


def statement(text: str) -> Statement:
    (read,) = read_statements(text).statements
    return read


@pytest.mark.parametrize(("outcome", "one", "other"), PAIRS)
def test_a_pair_is_judged_the_same_in_both_directions(outcome: str, one: str, other: str) -> None:
    assert outcome_of(one, other) == outcome
    assert outcome_of(other, one) == outcome


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


def test_a_denial_is_named_as_one() -> None:
    comparison = compare(statement("Backups are encrypted."), statement("Backups are not encrypted."))

    assert comparison.outcome is Outcome.CONFLICT
    assert comparison.is_denial
