"""Which statements of two whole texts agree and conflict, and what the budget leaves out."""

from __future__ import annotations

import pytest

from corpus_guard.claims.outcome import Outcome
from corpus_guard.claims.statements import read_statements
from corpus_guard.claims.text_comparison import compare_texts

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


def test_what_is_beyond_the_budget_is_counted() -> None:
    texts = [" ".join(f"The pump number {chr(97 + n)} runs {n} hours." for n in range(10)) for _ in range(2)]
    ones, others = (read_statements(text).statements for text in texts)

    result = compare_texts(ones, others, max_pairs=30)

    assert (result.compared, result.not_compared, result.is_complete) == (30, 70, False)
