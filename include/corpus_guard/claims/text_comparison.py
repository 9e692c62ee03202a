"""Comparison of two whole texts: their statements in pairs, within a budget.

1. Only pairs with a word in common, or a contact of one kind, are compared: those with most in common first, and no
   more than the budget. The others are counted.
2. A text that states a value twice, of two things, contradicts nobody who repeats one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from corpus_guard.claims.comparison import CONTACTS, compare, sameness
from corpus_guard.claims.outcome import Comparison, Outcome
from corpus_guard.claims.statements import Statement
from corpus_guard.claims.value import Relation, relate

MAX_PAIRS: Final = 5_000  # compared in one call; the others are counted
MAX_STEPS: Final = 1_000_000  # looked up to find those pairs


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Agreements and conflicts of two texts. Not a clean bill where `not_compared` is above 0."""

    comparisons: tuple[Comparison, ...]  # agreements and conflicts, conflicts first
    compared: int
    not_compared: int  # pairs beyond the budget

    @property
    def is_complete(self) -> bool:
        """Return whether every pair of statements that share a word was compared."""
        return self.not_compared == 0


def compare_texts(
    statements: Sequence[Statement],
    others: Sequence[Statement],
    max_pairs: int = MAX_PAIRS,
) -> Comparisons:
    """Return the agreements and conflicts between two texts' statements.

    Only pairs with a word in common are compared, at most `max_pairs`: of each statement that with the most in common first, then
    of each the next, so that no statement uses up what another one needs.
    """
    chosen, left_out = _candidates(statements, others, max_pairs)
    results = []
    for first, second in chosen:
        comparison = compare(statements[first], others[second])
        is_conflict = comparison.outcome is Outcome.CONFLICT
        if comparison.outcome is Outcome.AGREE or (is_conflict and not _is_confirmed(comparison, others)):
            results.append(comparison)
    results.sort(key=lambda comparison: (comparison.outcome is not Outcome.CONFLICT, -comparison.sameness))
    return Comparisons(tuple(results), len(chosen), left_out)


def _candidates(
    statements: Sequence[Statement], others: Sequence[Statement], max_pairs: int
) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs of each statement with most in common, and how many pairs with a word in common may be left out."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for number, statement in enumerate(others):
        for word in _keys(statement):
            holders[word].append(number)
    shared: list[tuple[int, float, int, int]] = []
    left_out = steps = 0
    for first, statement in enumerate(statements):
        keys = _keys(statement)
        steps += sum(len(holders[word]) for word in keys if word in holders)
        if steps > MAX_STEPS:
            left_out += len(others)
            continue
        weights: defaultdict[int, float] = defaultdict(float)
        for word, weight in keys.items():
            for second in holders.get(word, ()):
                weights[second] += weight
        nearest = sorted((-weight, second) for second, weight in weights.items())
        shared += [(rank, weight, first, second) for rank, (weight, second) in enumerate(nearest)]
    shared.sort()
    return [(first, second) for *_, first, second in shared[:max_pairs]], left_out + max(0, len(shared) - max_pairs)


def _keys(statement: Statement) -> Mapping[str, float]:
    """Return what two statements must share to be compared: a word, or a contact of one kind."""
    contacts = {value.kind.value: 0.0 for value in statement.values if value.kind in CONTACTS}
    return {**statement.words, **contacts} if contacts else statement.words


def _is_confirmed(conflict: Comparison, others: Sequence[Statement]) -> bool:
    """Return whether the other text states the first value too, of what is at least as much the same thing."""
    if not conflict.values:
        return False
    value = conflict.values[0][0]
    return any(
        any(relate(value, rival) is Relation.EQUAL and not rival.is_denied for rival in other.values)
        and sameness(conflict.statement, other) >= conflict.sameness
        for other in others
        if other is not conflict.other
    )
