"""Whether a passage supports a claim, contradicts it, or does not speak of it.

1. A claim is a sentence, or a question with an answer. "Yes" and "no" make the question itself the claim.
2. A passage *supports* a claim when a sentence of it agrees with the claim, and *contradicts* it when a sentence
   states another value or the opposite. The sentence that has most in common with the claim decides.
3. A short answer is supported by a sentence that is about what the question asks and holds every word of the
   answer, or an equal value, and does not deny it.
4. Otherwise the passage is *silent*, however similar its words are.

Words and values decide; no model is loaded. Knows nothing of sentences that need their neighbours to be understood,
but for the name they are about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from corpus_guard.claims.comparison import SHARED_OF_SMALLER, Outcome, compare, names_one
from corpus_guard.claims.statements import Rarity, Statement, read_statements, words_of_name
from corpus_guard.claims.value import Kind, Relation, Value, relate
from corpus_guard.claims.vocabulary import stem
from corpus_guard.domain import Span

_YES_NO: Final = re.compile(
    r"(?i)\s*(?P<yes>yes|yep|true|correct|right)?(?P<no>no|nope|false|not true|never)?\s*[.!]*\s*"
)
_ASKS_YES_NO: Final = re.compile(
    r"(?i)\s*(?:is|are|was|were|do|does|did|has|have|had|can|could|may|might|must|shall|should|will|would|am|need)(?:n't)?\b"
)
_HOW_OFTEN: Final = re.compile(
    r"(?i)\b(?:how (?:often|frequently)|(?:what|which) (?:\w+ ){0,3}(?:interval|frequency))\b"
)
_ASKS_BOUND: Final = re.compile(
    r"(?i)\b(?:within|most|least|max(?:imum)?|min(?:imum)?|up to|allowed|limit|may|before)\b"
)
_LONGEST_ANSWER: Final = 12  # words; a longer one is a sentence of its own


class Stance(StrEnum):
    """What a passage says of a claim."""

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody says: statements, or the answer to a question."""

    statements: tuple[Statement, ...]
    answer: Statement | None = None  # a short answer: the one statement is then its question
    slot: Kind | None = None  # of the first value: what the claim says, or its answer gives; None: words alone


@dataclass(frozen=True, slots=True)
class Support:
    """What a passage says of a claim, and the sentence that decides."""

    stance: Stance
    span: Span | None = None  # of the deciding sentence, in the passage; None: it is silent
    is_negated: bool = False  # that sentence denies something
    slot: Kind | None = None  # of the value that decides
    claimed: Value | None = None  # the claim's; None: words or a denial decide
    value: Value | None = None  # the passage's, its span in the passage; `normal` is the normal form
    sameness: float = 0.0  # share of the weight that claim and sentence are both about, 0..1


def read_claim(text: str, rarity: Rarity | None = None) -> Claim:
    """Return the claim that a text of a few sentences makes.

    Args:
        text: what somebody says.
        rarity: bits of a word, as for `read_statements`.
    """
    statements = tuple(each for each in read_statements(text, rarity).statements if not each.is_question)
    return Claim(statements, None, _slot(statements))


def read_answer(question: str, answer: str, rarity: Rarity | None = None) -> Claim:
    """Return the claim that an answer to a question makes.

    Args:
        question: what was asked.
        answer: a word, a value, a name or whole sentences.
        rarity: bits of a word, as for `read_statements`.
    """
    asked = read_statements(question, rarity).statements
    answered = read_statements(answer, rarity, title=question).statements
    if not asked or not answered:
        return Claim(answered, None, _slot(answered))
    decided = _YES_NO.match(answer)
    if decided and (decided["yes"] or decided["no"]) and _ASKS_YES_NO.match(asked[-1].text):
        if decided.end() < len(answer) and len(answered) > 1:
            return Claim(answered[1:], None, _slot(answered[1:]))  # "No. It lasts six months."
        is_negated = asked[-1].is_negated != bool(decided["no"])
        return Claim((replace(asked[-1], is_question=False, is_negated=is_negated),), None, Kind.NEGATION)
    if len(answered) > 1 or len(answer.split()) > _LONGEST_ANSWER or _speaks_of(answered[0], asked[-1]):
        return Claim(answered, None, _slot(answered))
    if _HOW_OFTEN.search(question):
        answered = read_statements(f"Interval: {answer}", rarity, title=question).statements  # 6 months: every 6 months
    return Claim((replace(asked[-1], is_question=False),), answered[0], _slot(answered))


def judge_support(claim: Claim, passage: str, rarity: Rarity | None = None, title: str = "") -> Support:
    """Return what a passage says of a claim.

    Args:
        claim: from `read_claim` or `read_answer`.
        passage: anything; may be hostile.
        rarity: bits of a word, as for `read_statements`.
        title: of the passage's document: what a sentence without a subject is about.
    """
    found = list(_judge(claim, read_statements(passage, rarity, title).statements))
    return max(found, key=lambda support: support.sameness, default=Support(Stance.SILENT))


def _judge(claim: Claim, statements: tuple[Statement, ...]) -> Iterator[Support]:
    for statement in statements:
        for claimed in claim.statements:
            support = _judge_answer(claim, claimed, statement) if claim.answer else _compare(claimed, statement)
            if support is not None:
                yield support


def _compare(claimed: Statement, statement: Statement) -> Support | None:
    comparison = compare(claimed, statement)
    if comparison.outcome is Outcome.UNRELATED:
        return None
    stance = Stance.SUPPORTS if comparison.outcome is Outcome.AGREE else Stance.CONTRADICTS
    own, value = next(((one, other) for one, other in comparison.values), (None, None))
    slot = Kind.NEGATION if comparison.is_denial else value.kind if value else None
    return Support(stance, statement.span, statement.is_negated, slot, own, value, comparison.sameness)


def _judge_answer(claim: Claim, question: Statement, statement: Statement) -> Support | None:
    """Judge a sentence by the answer to a question; None: it does not speak of it."""
    answer = claim.answer
    if answer is None or statement.is_question or statement.is_history != question.is_history:
        return None
    sameness = _answered_share(question, statement)
    if sameness < SHARED_OF_SMALLER:
        return None
    given, stated = _stated(answer), _stated(statement, without=question)
    if _ASKS_BOUND.search(question.text):  # "Within how many days?" "28" says "within 28 days"
        given, stated = list(map(_without_bound, given)), list(map(_without_bound, stated))
    for own in given:
        for value in stated:
            if relate(own, value) is Relation.EQUAL:
                is_denied = value.is_denied or (statement.is_negated and not answer.is_negated)
                stance = Stance.CONTRADICTS if is_denied else Stance.SUPPORTS
                return Support(stance, statement.span, statement.is_negated, own.kind, own, value, sameness)
    for own in given:
        rivals = [value for value in stated if relate(own, value) is Relation.DIFFERENT and not value.is_denied]
        if len(rivals) == 1:  # of several nobody knows which one answers
            return Support(Stance.CONTRADICTS, statement.span, statement.is_negated, own.kind, own, rivals[0], sameness)
    if given:
        return None
    return _judge_words(answer, question, statement, sameness)


def _judge_words(answer: Statement, question: Statement, statement: Statement, sameness: float) -> Support | None:
    """Judge a sentence by an answer in words: a name or a phrase."""
    names = [value for value in statement.values if value.kind is Kind.NAME]
    own = next((value for value in answer.values if value.kind is Kind.NAME), None)
    if set(answer.words) <= set(statement.words):
        stance = (
            Stance.SUPPORTS
            if statement.is_negated == (question.is_negated != answer.is_negated)
            else Stance.CONTRADICTS
        )
        value = next(
            (name for name in names if own and set(words_of_name(own.normal)) & set(words_of_name(name.normal))), None
        )
        return Support(stance, statement.span, statement.is_negated, own.kind if own else None, own, value, sameness)
    others = [name for name in names if not {stem(word) for word in words_of_name(name.normal)} & set(question.words)]
    if own and len(others) == 1 and not statement.is_negated and names_one(statement, others[0]):
        return Support(Stance.CONTRADICTS, statement.span, False, Kind.NAME, own, others[0], sameness)
    return None


def _answered_share(question: Statement, statement: Statement) -> float:
    """Return how much of what a question is about a sentence and the text around it are about, 0..1."""
    shared = sum(
        weight
        for word, weight in question.words.items()
        if word in statement.words or _is_around(word, question, statement)
    )
    if not question.words.keys() & statement.words.keys():
        return 0.0
    return shared / sum(question.words.values())


def _is_around(word: str, question: Statement, statement: Statement) -> bool:
    """Return whether a word of a name in the question stands in the text around the sentence."""
    return any(
        word == stem(part) and part in statement.context
        for value in question.values
        if value.kind is Kind.NAME
        for part in words_of_name(value.normal)
    )


def _stated(statement: Statement, without: Statement | None = None) -> list[Value]:
    known = without.values if without else ()
    return [
        value
        for value in statement.values
        if value.kind not in {Kind.NAME, Kind.NEGATION}
        and not any(relate(value, other) is Relation.EQUAL for other in known)
    ]


def _without_bound(value: Value) -> Value:
    """Return "at most 28 days" as "28 days"."""
    if value.low is None or value.high is None or math.isfinite(value.high - value.low):
        return value
    end = value.low if math.isfinite(value.low) else value.high
    return replace(value, low=end, high=end)


def _speaks_of(answer: Statement, question: Statement) -> bool:
    """Return whether an answer repeats what the question is about: it is a sentence of its own."""
    shared = sum(weight for word, weight in question.words.items() if word in answer.words)
    return shared >= SHARED_OF_SMALLER * sum(question.words.values())


def _slot(statements: tuple[Statement, ...]) -> Kind | None:
    kinds = [value.kind for each in statements for value in each.values if value.kind is not Kind.NEGATION]
    return next((kind for kind in kinds if kind is not Kind.NAME), kinds[0] if kinds else None)
