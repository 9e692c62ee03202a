"""Outcome of comparing two statements, and how their values relate."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from corpus_guard.claims.statements import Statement
from corpus_guard.claims.value import Kind, Relation, Value, relate

_LONGEST_NEARBY: Final = 40  # characters before a value that tell two values of one kind apart


class Outcome(StrEnum):
    """Relation of two statements."""

    AGREE = "agree"
    CONFLICT = "conflict"
    LIKELY = "likely conflict"  # in the eyes of a trained reader; the rules never say so
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two statements, compared."""

    statement: Statement
    other: Statement
    outcome: Outcome
    sameness: float  # share of the weight that both are about, 0..1
    values: tuple[tuple[Value, Value], ...] = ()  # equal ones of an agreement, differing ones of a conflict
    is_denial: bool = False  # one says what the other denies

    @property
    def kind(self) -> Kind | None:
        """Return the kind of the first value; NEGATION: one denies what the other says; None: no value is stated."""
        if self.is_denial:
            return Kind.NEGATION
        return self.values[0][0].kind if self.values else None


def stated_values(statement: Statement) -> list[Value]:
    """Return the values that a statement affirms, names and negations aside."""
    return [value for value in statement.values if value.kind not in {Kind.NAME, Kind.NEGATION} and not value.is_denied]


def relate_values(
    statement: Statement, other: Statement
) -> tuple[list[tuple[Value, Value]], list[tuple[Value, Value]]]:
    """Return the pairs of equal values, and the pairs that differ where nothing equal is left."""
    own, others = stated_values(statement), stated_values(other)
    equal: list[tuple[Value, Value]] = []
    for wanted, pairs in ((Relation.EQUAL, equal), (Relation.OVERLAPPING, [])):
        for value in own.copy():
            match = next((candidate for candidate in others if relate(value, candidate) is wanted), None)
            if match is not None:
                pairs.append((value, match))
                own.remove(value)
                others.remove(match)
    different = []
    for value in own:
        rivals = [candidate for candidate in others if relate(value, candidate) is Relation.DIFFERENT]
        if rivals:
            rival = max(rivals, key=lambda candidate: len(_nearby(statement, value) & _nearby(other, candidate)))
            if len(own) == len(rivals) == 1 or _nearby(statement, value) & _nearby(other, rival):
                different.append((value, rival))
                others.remove(rival)
    return equal, different


def _nearby(statement: Statement, value: Value) -> set[str]:
    """Return the words near a value that the statement is about."""
    start, end = statement.places[statement.values.index(value)]
    return {word for place, word in statement.stems if start - _LONGEST_NEARBY <= place < end + 30}
