"""Comparison of two sentences in a language other than English.

1. Both are in one language. Questions state nothing. What was so at a time that is named does not contradict what is so, and what
   stands under a title says nothing of what another one is about.
2. They are about the same thing when at most one of them says something that the other does not, words of its title aside, and
   most of the shorter one is common. Two forms of one word are the same.
3. What only one of them says may tell of another thing. A name must stand in the text of the other or in its title, and so must what
   may be a name, unless the text of the other is much shorter: a post of one sentence repeats little of a page.
4. A statement that names nothing is about what was named last before it.
5. They conflict where values of one kind differ, or where one denies what the other says. They agree where a value is equal.
   Where values of several kinds differ, both tell of two cases.

Less is known of these languages than of English: neither clauses nor times are told apart, so more is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from corpus_guard.claims.languages import IDEOGRAPHS, fold
from corpus_guard.claims.outcome import Comparison, Outcome, relate_values
from corpus_guard.claims.statements import LocalWords, Statement
from corpus_guard.claims.value import Kind, Value

SHARED_OF_SMALLER: Final = 0.6  # of the words of the sentence that says less, 0..1
SHARED_TO_DENY: Final = 0.6  # of the words of both, where one denies what the other says, 0..1
MIN_SHARED: Final = 2  # words; one, where a text mentions what the title of the other is about
_IDEOGRAPH: Final = re.compile(f"[{IDEOGRAPHS}]")


def compare_local(statement: Statement, other: Statement) -> Comparison:
    """Return whether two statements, one of them at least not in English, agree, conflict, or are about different things."""
    local, rival = statement.local, other.local
    if local is None or rival is None or not _may_relate(statement, local, other, rival):
        return Comparison(statement, other, Outcome.UNRELATED, 0.0)
    shared, jaccard = _share(local, rival)
    if shared < SHARED_OF_SMALLER or not _are_about_one(statement, other, local, rival):
        return Comparison(statement, other, Outcome.UNRELATED, jaccard)
    equal, different = relate_values(statement, other)
    outcome, values, is_denial = Outcome.UNRELATED, equal, statement.is_negated != other.is_negated
    if is_denial:
        outcome = Outcome.UNRELATED if different or jaccard < SHARED_TO_DENY else Outcome.CONFLICT
    elif different:
        outcome, values = (Outcome.UNRELATED if _tell_of_two_cases(different) else Outcome.CONFLICT), different
    elif equal:
        outcome = Outcome.AGREE
    is_denial = is_denial and outcome is Outcome.CONFLICT
    return Comparison(
        statement, other, outcome, jaccard, () if outcome is Outcome.UNRELATED else tuple(values), is_denial
    )


def _may_relate(statement: Statement, own: LocalWords, other: Statement, others: LocalWords) -> bool:
    """Return whether both state something in one language, of one time, in texts on one thing."""
    return (
        own.language is others.language
        and not (statement.is_question or other.is_question)
        and own.is_dated == others.is_dated
        and not _have_two_topics(own, others)
        and not _names_another_model(own, others)
        and not _names_another_model(others, own)
    )


def _share(own: LocalWords, other: LocalWords) -> tuple[float, float]:
    """Return the common words as a share of the shorter sentence, and of both, 0..1; what only names the other's title does not count."""
    words, others = own.words, other.words
    common = sum(word in others for word in words), sum(word in words for word in others)
    more = (
        sum(word not in others and word not in other.heading for word in words),
        sum(word not in words and word not in own.heading for word in others),
    )
    if max(common) + _share_title(own, other) < MIN_SHARED:
        return 0.0, 0.0
    smaller = max(count / max(1, count + lacking) for count, lacking in zip(common, more, strict=True))
    return smaller, common[0] / max(1, common[0] + sum(more))


def _share_title(own: LocalWords, other: LocalWords) -> bool:
    """Return whether the text of one mentions what the title of the other is about."""
    return own.heading.meets(other.context) or other.heading.meets(own.context)


def _have_two_topics(own: LocalWords, other: LocalWords) -> bool:
    """Return whether the titles of two texts each tell of something that the other text does not mention."""
    if any(numbers & other.models.get(name, frozenset()) for name, numbers in own.models.items()):
        return False  # "Luvana 7: service" and "The Luvana 7 pump"
    more = [word for word in own.topic if word not in other.topic]
    others = [word for word in other.topic if word not in own.topic]
    numbers, other_numbers = ({word for word in words if word[-1].isdigit()} for words in (own.topic, other.topic))
    if numbers and other_numbers and numbers.isdisjoint(other_numbers) and own.topic.meets(other.topic):
        return True  # "X200" and "X300", or two years
    more, others = ([word for word in words if not word.isdigit()] for words in (more, others))
    return (
        bool(more and others)
        and not any(other.context.holds_name(word, own.language) for word in more)
        and not any(own.context.holds_name(word, own.language) for word in others)
    )


def _names_another_model(own: LocalWords, other: LocalWords) -> bool:
    """Return whether a sentence names another number of what the title of the other text numbers: "Luvana 9" beside "Luvana 7"."""
    return any(number not in numbers for name, number in own.numbered if (numbers := other.models.get(name)))


def _are_about_one(statement: Statement, other: Statement, own: LocalWords, others: LocalWords) -> bool:
    if _more(statement, others) and _more(other, own):
        return False
    if not (_names(statement, others) and _names(other, own)):
        return False
    size, other_size = len(own.context), len(others.context)
    return (size > 2 * other_size or (_mentions(others, own) and not _follows_another(own, others))) and (
        other_size > 2 * size or (_mentions(own, others) and not _follows_another(others, own))
    )


def _more(statement: Statement, other: LocalWords) -> bool:
    """Return whether a statement has a word that neither the other one nor the title of its text holds."""
    return _lacks(statement.stems, lambda word: word in other.words or word in other.heading)


def _lacks(stems: Sequence[tuple[int, str]], is_held: Callable[[str], bool]) -> bool:
    """Return whether one of some words in their places is not held; two that are cover the pair of characters where they meet."""
    covered = {place: is_held(word) for place, word in stems}
    return any(
        not own and not (_IDEOGRAPH.match(word) and covered.get(place - 1) and covered.get(place + 1))
        for (place, word), own in zip(stems, covered.values(), strict=True)
    )


def _names(statement: Statement, other: LocalWords) -> bool:
    """Return whether the text of another statement mentions all that a statement names."""
    names = [value for value in statement.values if value.kind is Kind.NAME]
    places = [place for value, place in zip(statement.values, statement.places, strict=True) if value.kind is Kind.NAME]
    numbered = (fold(name.normal) for name in names if name.normal[-1:].isdigit())
    words = (word for at, word in statement.stems if any(start <= at < end for start, end in places))
    return all(other.context.holds_name(word, other.language) for word in words) and all(
        name in other.context for name in numbered
    )


def _mentions(other: LocalWords, own: LocalWords) -> bool:
    """Return whether the text of one statement mentions all that the other may be about."""
    return not _lacks(own.naming, lambda word: other.context.holds_name(word, own.language))


def _follows_another(own: LocalWords, other: LocalWords) -> bool:
    """Return whether a statement that names nothing stands behind a name which the text of the other does not mention."""
    names_itself = bool(own.naming) and any(word in other.heading for word in own.words)
    return not names_itself and not all(other.context.holds_name(word, own.language) for word in own.before)


def _tell_of_two_cases(different: list[tuple[Value, Value]]) -> bool:
    """Return whether values of several kinds differ: one of them says when the other holds, or for whom."""
    return len({value.kind for value, _ in different}) > 1
