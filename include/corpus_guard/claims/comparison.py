"""Whether two sentences state the same thing, and whether they then agree or contradict each other.

1. Questions state nothing, and how it was formerly does not contradict how it is.
2. Two sentences are about the same thing when most of what they are about, weighed by rarity, is common, and
   neither puts another name or another word in the place of one: "the red pump" is not "the blue pump".
   An embedder may add pairs that say it in other words, never such a pair.
3. They *conflict* when values of one kind differ beyond rounding, or when one says what the other denies. A name
   is a value only where one name can be right: "the CEO is", "founded by", "is called". Where a date differs and
   something else too, the sentences tell of two times.
4. They *agree* when a value is equal, or when the words are the same and there is none to compare.
5. Otherwise they are *unrelated*, also where a range and a value in it can both be true.

Precision before recall: a conflict is shown to a person. Which statement is right is not decided here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from corpus_guard.claims.statements import MASK, Statement, stem
from corpus_guard.claims.value import Kind, Relation, Value, relate
from corpus_guard.models import TextEmbedder

SHARED_OF_SMALLER: Final = 0.6  # of the weight of the sentence that says less, 0..1
SHARED_OF_BOTH: Final = 0.3  # of the weight of both together (Jaccard), 0..1
SAME_WORDING: Final = 0.75  # Jaccard from which a negation alone is a contradiction, and no value an agreement, 0..1
SAME_TEMPLATE: Final = 0.8  # of the words around two names that exclude each other, 0..1
SAME_MEANING: Final = 0.8  # cosine of the masked sentences that makes up for other words
MAX_PAIRS: Final = 5_000  # compared in one call; the others are counted
MAX_STEPS: Final = 1_000_000  # looked up to find those pairs
_LONGEST_ALIGNED: Final = 80  # words: aligning is quadratic

# Where one name only can be right; \x1f stands for it.
_ONE_NAME: Final = re.compile(
    r"(?:called|named|known as|(?:founded|invented|written|discovered|directed|composed|designed|built|led|owned|made|created"
    r"|manufactured|published|painted|approved|signed) by|(?:born|located|based|headquartered|held|founded|situated|buried)"
    r" (?:in|at|near)) (?:the )?\x1f"
    r"|^\x1f (?:(?:is|was|remains|became) the|(?:founded|invented|discovered|wrote|won|directed|composed|painted) the)\b"
    r"|^the [^\x1f]{1,80} (?:is|was|remains|became) \x1f[.!]?$"
)


class Outcome(StrEnum):
    """How two statements relate."""

    AGREE = "agree"
    CONFLICT = "conflict"
    UNRELATED = "unrelated"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two statements, compared."""

    one: Statement
    other: Statement
    outcome: Outcome
    sameness: float  # share of the weight that both are about, 0..1
    values: tuple[tuple[Value, Value], ...] = ()  # equal ones of an agreement, differing ones of a conflict
    is_denial: bool = False  # one says what the other denies


@dataclass(frozen=True, slots=True)
class Comparisons:
    """What of two texts agrees and conflicts. Not a clean bill where `not_compared` is above 0."""

    comparisons: tuple[Comparison, ...]  # agreements and conflicts, conflicts first
    compared: int
    not_compared: int  # pairs beyond the budget

    @property
    def is_complete(self) -> bool:
        """Return whether every pair of statements that share a word was compared."""
        return self.not_compared == 0


def compare(one: Statement, other: Statement, similarity: float | None = None) -> Comparison:
    """Return whether two statements agree, conflict, or are about different things.

    Args:
        one: a statement.
        other: another.
        similarity: cosine of the embedded `masked` sentences; None: words alone decide.
    """
    smaller, jaccard = _shared(one, other)
    outcome, values, is_denial = Outcome.UNRELATED, list[tuple[Value, Value]](), False
    is_same = smaller >= SHARED_OF_SMALLER and jaccard >= SHARED_OF_BOTH
    is_same |= similarity is not None and similarity >= SAME_MEANING and jaccard > 0
    own_names, other_names = _names_apart(one, other), _names_apart(other, one)
    if one.is_question or other.is_question or one.is_history != other.is_history:
        pass
    elif own_names and other_names:
        if pair := _name_conflict(one, other, own_names, other_names):
            outcome, values = Outcome.CONFLICT, [pair]
    elif is_same and not _substitutes(one, other):
        equal, different = _relate_values(one, other)
        is_complete = len(equal) >= min(len(_stated(one)), len(_stated(other)))  # nothing else is at odds
        if one.is_negated != other.is_negated:
            if not different and is_complete and jaccard >= SAME_WORDING:
                outcome, values, is_denial = Outcome.CONFLICT, equal, True
        elif different and not _tell_of_two_times(different):
            outcome, values = Outcome.CONFLICT, different
        elif not different and (equal or (jaccard >= SAME_WORDING and not _stated(one) and not _stated(other))):
            outcome, values = Outcome.AGREE, equal
    return Comparison(one, other, outcome, jaccard, tuple(values), is_denial)


def compare_texts(
    ones: Sequence[Statement],
    others: Sequence[Statement],
    embedder: TextEmbedder | None = None,
    max_pairs: int = MAX_PAIRS,
) -> Comparisons:
    """Return the agreements and conflicts between two texts' statements.

    Only pairs with a word in common are compared, those with the most in common first, and at most `max_pairs`.
    """
    chosen, left_out = _candidates(ones, others, max_pairs)
    vectors = _embed(embedder, ones, others, chosen)
    results = []
    for first, second in chosen:
        similarity = float(vectors[0][first] @ vectors[1][second]) if vectors else None
        comparison = compare(ones[first], others[second], similarity)
        if comparison.outcome is not Outcome.UNRELATED:
            results.append(comparison)
    results.sort(key=lambda comparison: (comparison.outcome is not Outcome.CONFLICT, -comparison.sameness))
    return Comparisons(tuple(results), len(chosen), left_out)


def _candidates(
    ones: Sequence[Statement], others: Sequence[Statement], max_pairs: int
) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs with most in common, and how many pairs with a word in common may be left out."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for number, statement in enumerate(others):
        for word in statement.words:
            holders[word].append(number)
    shared: list[tuple[float, int, int]] = []
    left_out = steps = 0
    for first, statement in enumerate(ones):
        steps += sum(len(holders[word]) for word in statement.words if word in holders)
        if steps > MAX_STEPS:
            left_out += len(others)
            continue
        weights: defaultdict[int, float] = defaultdict(float)
        for word, weight in statement.words.items():
            for second in holders.get(word, ()):
                weights[second] += weight
        shared += [(-weight, first, second) for second, weight in weights.items()]
    shared.sort()
    return [(first, second) for _, first, second in shared[:max_pairs]], left_out + max(0, len(shared) - max_pairs)


def _embed(
    embedder: TextEmbedder | None,
    ones: Sequence[Statement],
    others: Sequence[Statement],
    chosen: Sequence[tuple[int, int]],
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    if embedder is None or not chosen:
        return None
    return (
        embedder.embed([statement.masked for statement in ones]),
        embedder.embed([statement.masked for statement in others]),
    )


def _shared(one: Statement, other: Statement) -> tuple[float, float]:
    """Return the common weight as a share of the smaller sentence and of both together, 0..1."""
    common = sum(min(weight, other.words[word]) for word, weight in one.words.items() if word in other.words)
    own, others = sum(one.words.values()), sum(other.words.values())
    if not common:
        return 0.0, 0.0
    return common / min(own, others), common / (own + others - common)


def _names_apart(one: Statement, other: Statement) -> list[Value]:
    """Return the names of `one` of which `other` does not hold every word."""
    words = set(other.text.lower().replace("'s", "").split()) | set(re.findall(r"[\w'-]+", other.text.lower()))
    return [
        value
        for value in one.values
        if value.kind is Kind.NAME and not set(re.findall(r"[\w'-]+", value.normal)) <= words
    ]


def _name_conflict(
    one: Statement, other: Statement, own: Sequence[Value], others: Sequence[Value]
) -> tuple[Value, Value] | None:
    """Return the two names of which only one can be right; None: they may be two subjects."""
    if len(own) != 1 or len(others) != 1 or one.is_negated != other.is_negated:
        return None
    if any(map(str.isdigit, own[0].normal + others[0].normal)):
        return None  # OX-12 and OX-14 are two things
    templates = [
        statement.text.lower().replace(value.normal, MASK, 1)
        for statement, value in ((one, own[0]), (other, others[0]))
    ]
    if not all(map(_ONE_NAME.search, templates)):
        return None
    first, second = (template.split()[:_LONGEST_ALIGNED] for template in templates)
    same = SequenceMatcher(None, first, second, autojunk=False).ratio()
    return (own[0], others[0]) if same >= SAME_TEMPLATE else None


def _substitutes(one: Statement, other: Statement) -> bool:
    """Return whether the sentences differ by one word in the place of another: a different subject or attribute."""
    own, others = one.order[:_LONGEST_ALIGNED], other.order[:_LONGEST_ALIGNED]
    for tag, start, end, other_start, other_end in SequenceMatcher(None, own, others, autojunk=False).get_opcodes():
        if tag != "replace" or end - start != other_end - other_start or end - start > 2:
            continue
        pairs = zip(own[start:end], others[other_start:other_end], strict=True)
        if any(
            word in one.words and word not in other.words and instead in other.words and instead not in one.words
            for word, instead in pairs
        ):
            return True
    return False


def _tell_of_two_times(different: Sequence[tuple[Value, Value]]) -> bool:
    kinds = [value.kind for value, _ in different]
    return Kind.DATE in kinds and any(kind is not Kind.DATE for kind in kinds)


def _stated(statement: Statement) -> list[Value]:
    """Return the values that a statement affirms, names and negations aside."""
    return [value for value in statement.values if value.kind not in {Kind.NAME, Kind.NEGATION} and not value.is_denied]


def _relate_values(one: Statement, other: Statement) -> tuple[list[tuple[Value, Value]], list[tuple[Value, Value]]]:
    """Return the pairs of equal values, and the pairs that differ where nothing equal is left."""
    own, others = _stated(one), _stated(other)
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
            rival = max(rivals, key=lambda candidate: len(_nearby(one, value) & _nearby(other, candidate)))
            if len(own) == len(rivals) == 1 or _nearby(one, value) & _nearby(other, rival):
                different.append((value, rival))
                others.remove(rival)
    return equal, different


def _nearby(statement: Statement, value: Value) -> set[str]:
    """Return the words near a value that the statement is about."""
    start = max(0, value.span.start - statement.span.start)
    around = f"{statement.text[max(0, start - 40) : start]} {statement.text[start + value.span.end - value.span.start :][:30]}"
    return set(_stems(around)) & statement.words.keys()


def _stems(text: str) -> Iterator[str]:
    for word in re.findall(r"[^\W_][\w'-]*", text):
        yield stem(word)
