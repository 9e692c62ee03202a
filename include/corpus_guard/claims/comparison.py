"""Comparison of two sentences: whether they state the same thing, and then agree or contradict each other.

0. What is compared are clauses (`corpus_guard.claims.clauses`), each with the subject that it stands for.
1. Questions and conditions state nothing, and what two documents say of themselves ("in this guide we cover …") is about
   two things. How it was formerly, or at a time that is named, does not contradict how it is, and what happened once does
   not contradict a rule.
2. Two sentences are about the same thing when most of what they are about, weighed by rarity, is common, when they may
   have one subject (`corpus_guard.claims.subjects`), and when only one of them says more than the other. Where each has
   a word that the other lacks, one may stand in the place of the other: "the red pump" is not "the blue pump". Words
   after the value, in a clause of their own, do not count, nor does a name that the other text holds elsewhere.
3. They *conflict* when values of one kind differ beyond rounding, or when one says what the other denies. A name
   is a value only where one name can be right: "the CEO is", "founded by", "is called". Where a date differs and
   something else too, the sentences tell of two times; so they do of two weekdays.
4. They *agree* when a value is equal, or when the words are the same and there is none to compare.
5. Two contacts of one kind conflict also where the text around one holds every word that is said of the other, whatever
   the sentence of that other says besides.
   Addresses of pages and pictures are links, which conflict only in sentences about the same thing.
6. Code and commands conflict only where they are the same but for the value, and short ones only by a contact. The reader's
   own machine ("localhost") is no contact, and lines of links say nothing themselves.
7. Statements in another language than English are compared by rules of their own (`corpus_guard.claims.local_comparison`).
8. Two steps in another order conflict: "pay before you check", "check before you pay".
9. Otherwise they are *unrelated*, also where a range and a value in it can both be true.

Precision before recall: a conflict is shown to a person. Which statement is right is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from corpus_guard.claims.clauses import FINITE
from corpus_guard.claims.local_comparison import compare_local
from corpus_guard.claims.outcome import Comparison, Outcome, relate_values, stated_values
from corpus_guard.claims.statements import MASK, Statement, Tense, words_of_name
from corpus_guard.claims.subjects import (
    RARE_WEIGHT,
    have_two_subjects,
    may_have_one_subject,
    name_two_kinds,
    stand_for_two,
    tell_of_parts,
)
from corpus_guard.claims.value import Kind, Value
from corpus_guard.claims.vocabulary import stem

SHARED_OF_SMALLER: Final = 0.6  # of the weight of the sentence that says less, 0..1
SHARED_OF_BOTH: Final = 0.2  # of the weight of both together (Jaccard), 0..1
SAME_WORDING: Final = 0.6  # Jaccard from which a negation alone is a contradiction, and no value an agreement, 0..1
NEARLY_SAME_WORDING: Final = 0.75  # the same where the affirmation has fewer words than the negation
SAME_CODE: Final = 0.9  # Jaccard from which two pieces of code are compared: the same line with another value, 0..1
SHARED_BY_NUMBERS: Final = 0.4  # the same where the values are bare numbers, which count or name anything
MIN_SHARED: Final = 2  # words in common, where the two do not consist of the same one

CONTACTS: Final = frozenset({Kind.PHONE, Kind.IBAN, Kind.EMAIL, Kind.DOMAIN})
_WORDS_OF_CONTACT: Final = frozenset(
    stem(word)
    for word in (
        "call", "phone", "telephone", "number", "hotline", "mail", "address", "account", "write", "reach", "contact", "site",
        "website", "page",
    )
)  # fmt: skip

# Where one name only can be right; \x1f stands for it.
_ONE_NAME: Final = re.compile(
    r"(?:called|named|known as|(?:born|located|based|headquartered|held|founded|situated|buried) (?:in|at|near)) (?:the )?\x1f"
    r"|(?!(?:used|visited|followed|caused|supported|influenced|inspired|surrounded|joined|affected|read|loved))\b\w+(?:ed|ten|ilt|ade|led|wn)"
    r"(?: in (?:\w+ )?\d{4})? by (?:the )?(?:yard |firm |company )?(?:of )?\x1f"
    r"|^\x1f (?:(?:is|was|remains|became) the|(?:founded|invented|discovered|wrote|won|directed|composed|painted) the)\b"
    r"|(?:\bthe |'s )[^\x1f]{1,80} (?:is|was|remains|became) (?:the |(?:mrs?|ms|dr|prof)\.? )?\x1f(?:[.!]?$|, )"
)
_LINKS: Final = re.compile(r"\W*(?:\[[^\[\]]*\](?:\([^()\s]*\)|:\s*\S+)[^\w\[]*)+")
"""Links that say nothing themselves: "[Source](…) - [Documentation](…)", "[Source]: …"."""
_UNNAMED: Final = frozenset(map(stem, ("default", "maximum", "minimum", "value", "option")))
"""Words of a sentence that does not say what has this value: "Defaults to 100."."""
_OBJECT: Final = re.compile(r"(?i)\b(?:it|them)\b")
_HERE: Final = re.compile(r"localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0")
FEWEST_WORDS_OF_CODE: Final = 5  # of a line of code whose values conflict; contacts aside
_SINCE: Final = frozenset(
    map(stem, ("new", "added", "changed", "deprecated", "removed", "version", "release", "available"))
)
PAGE: Final = re.compile(r"[^/:]/[^\s/?#]")
"""In the address of a page or a picture, not of a site."""
_NEXT_CLAUSE: Final = re.compile(
    r"[;:]\s|,? (?:so|but|because|since|which|then|although|as I|as we)\b|,? and (?!\w+ \x1f)"
)
_SUPPOSED: Final = re.compile(r"(?i)\b(?:if|whether|unless|in case|when)\b[^,;]*")
_FIRST_CLAUSE: Final = re.compile(r"[;:]\s")


def compare(statement: Statement, other: Statement) -> Comparison:
    """Return whether two statements agree, conflict, or are about different things."""
    if statement.local or other.local:
        return compare_local(statement, other)
    comparison = _compare_orders(statement, other) or _compare(statement, other)
    # Asked last: what a statement stands for is read from the sentences before it.
    if comparison.outcome is not Outcome.UNRELATED and (
        statement.is_history != other.is_history
        or stand_for_two(statement, other)
        or (comparison.kind not in CONTACTS and name_two_kinds(statement, other))
    ):
        return Comparison(statement, other, Outcome.UNRELATED, comparison.sameness)
    return comparison


def sameness(statement: Statement, other: Statement) -> float:
    """Return the share of the weight that two statements are both about, 0..1."""
    return _shared(_weights(statement, other), _weights(other, statement))[1]


def _compare_orders(statement: Statement, other: Statement) -> Comparison | None:
    """Return the conflict of two statements that tell of the same two steps in another order; None: there is none."""
    order, rival = statement.order, other.order
    if order is None or rival is None:
        return None
    first, second = order.first - order.second, order.second - order.first
    other_first, other_second = rival.first - rival.second, rival.second - rival.first
    exchanged = len(first & other_second), len(second & other_first)
    unchanged = len(first & other_first) + len(second & other_second)
    fewest = min(len(first | second), len(other_first | other_second))
    is_exchanged = all(exchanged) and sum(exchanged) > unchanged and sum(exchanged) >= SHARED_OF_SMALLER * fewest
    if not is_exchanged or statement.is_question or other.is_question or not may_have_one_subject(statement, other):
        return None
    jaccard = sum(exchanged) / len(first | second | other_first | other_second)
    return Comparison(statement, other, Outcome.CONFLICT, jaccard, ((order.value, rival.value),))


def _compare(statement: Statement, other: Statement) -> Comparison:
    """Compare two statements as if both told of the present, and "it" stood for one thing."""
    if not _may_relate(statement, other) or _share_too_little(statement, other):
        return Comparison(statement, other, Outcome.UNRELATED, 0.0)
    words, other_words = _weights(statement, other), _weights(other, statement)
    too_few = len(words.keys() & other_words.keys()) < MIN_SHARED < min(len(words), len(other_words)) - 1
    if too_few:
        return Comparison(statement, other, Outcome.UNRELATED, 0.0)
    smaller, jaccard = _shared(words, other_words)
    if not _have_two_years(statement, other) and (names := _exchanged_names(statement, other)):
        return Comparison(statement, other, Outcome.CONFLICT, jaccard, (names,))
    own_names, other_names = _names_apart(statement, other), _names_apart(other, statement)
    if own_names and other_names:
        return _compare_names(statement, other, own_names, other_names)
    is_common = _share_most(statement, other, smaller, jaccard)
    return _compare_values(statement, other, jaccard, is_same=is_common and may_have_one_subject(statement, other))


def _compare_values(statement: Statement, other: Statement, jaccard: float, *, is_same: bool) -> Comparison:
    """Compare what two statements say, of the same thing or not: contacts may be those of one thing all the same."""
    equal, different = relate_values(statement, other)
    if different and all(value.kind in CONTACTS for value, _ in different):  # everybody has an address
        is_same = _name_one_contact(statement, other, different, jaccard, is_same=is_same)
    if not is_same or (jaccard < SAME_CODE and (statement.is_code or other.is_code)):
        return Comparison(statement, other, Outcome.UNRELATED, jaccard)
    if statement.is_negated != other.is_negated:
        if not different and _is_denial(statement, other, equal, jaccard):
            return Comparison(statement, other, Outcome.CONFLICT, jaccard, tuple(equal), is_denial=True)
    elif different:
        if conflicting := _conflicting(statement, other, different, jaccard):
            return Comparison(statement, other, Outcome.CONFLICT, jaccard, conflicting)
    elif _is_agreement(statement, other, equal, jaccard):
        return Comparison(statement, other, Outcome.AGREE, jaccard, tuple(equal))
    return Comparison(statement, other, Outcome.UNRELATED, jaccard)


def _may_relate(statement: Statement, other: Statement) -> bool:
    """Return whether two statements hold anything to compare: most pairs do not, and cost no more than this."""
    if statement.is_question or other.is_question or (_is_since(statement) and _is_since(other)):
        return False
    if statement.presents_itself and other.presents_itself and statement.text != other.text:
        return False
    own, others = statement.kinds - {Kind.NEGATION}, other.kinds - {Kind.NEGATION}
    if own & others or statement.is_negated != other.is_negated:
        return True
    return own <= {Kind.NAME} and others <= {Kind.NAME}


def _share_too_little(statement: Statement, other: Statement) -> bool:
    """Return whether two statements of many words have fewer than MIN_SHARED in common, whatever they need not repeat."""
    fewest = min(len(statement.words) - len(statement.name_stems), len(other.words) - len(other.name_stems))
    return fewest > MIN_SHARED + 1 and len(statement.reach & other.reach) < MIN_SHARED


def _share_most(statement: Statement, other: Statement, smaller: float, jaccard: float) -> bool:
    """Return whether most of what two statements are about is common, by weight and by the number of words."""
    return (
        smaller >= SHARED_OF_SMALLER
        and jaccard >= SHARED_OF_BOTH
        and (
            len(statement.words.keys() & other.words.keys()) >= MIN_SHARED
            or _covers(statement, other)
            or _covers(other, statement)
        )
    )


def _is_denial(statement: Statement, other: Statement, equal: Sequence[tuple[Value, Value]], jaccard: float) -> bool:
    """Return whether one statement denies what the other says, and nothing else is at odds."""
    return (
        len(equal) >= min(len(stated_values(statement)), len(stated_values(other)))
        and not _differ_in_time(statement, other)
        and _contradicts(statement, other, jaccard)
    )


def _is_agreement(statement: Statement, other: Statement, equal: Sequence[tuple[Value, Value]], jaccard: float) -> bool:
    """Return whether a value is equal, or the words are the same and there is none to compare."""
    if _differ_in_subject(statement, other, None, None):
        return False
    return bool(equal) or (jaccard >= SAME_WORDING and not stated_values(statement) and not stated_values(other))


def _conflicting(
    statement: Statement, other: Statement, different: Sequence[tuple[Value, Value]], jaccard: float
) -> tuple[tuple[Value, Value], ...]:
    """Return the pairs of different values that cannot both be right."""
    if _name_nothing(statement, other) or _tell_of_two_times(statement, other, different):
        return ()
    return tuple(pair for pair in different if _exclude_each_other(statement, other, pair, jaccard))


def _name_nothing(statement: Statement, other: Statement) -> bool:
    """Return whether neither statement says what has its value."""
    return _weights(statement, other).keys() | _weights(other, statement).keys() <= _UNNAMED


def _exclude_each_other(statement: Statement, other: Statement, pair: tuple[Value, Value], jaccard: float) -> bool:
    """Return whether two different values are stated of the same thing, each in the clause where it stands."""
    value, rival = pair
    is_contact = value.kind in CONTACTS
    if _is_short_code(statement, other) and not is_contact:
        return False
    if _is_in_title(statement, value) and _is_in_title(other, rival):
        return False
    if not _says_of_what(value) and jaccard < SHARED_BY_NUMBERS:
        return False
    return (
        not _differ_in_subject(statement, other, value, rival)
        or _pay_one(statement, other, [pair])
        or (is_contact and _is_within(statement, other))
    )


def _is_short_code(statement: Statement, other: Statement) -> bool:
    is_code = statement.is_code or other.is_code
    return is_code and min(len(statement.words), len(other.words)) < FEWEST_WORDS_OF_CODE


def _shared(own: Mapping[str, float], others: Mapping[str, float]) -> tuple[float, float]:
    """Return the common weight as a share of the smaller sentence and of both together, 0..1."""
    common = sum(min(weight, others[word]) for word, weight in own.items() if word in others)
    total, other_total = sum(own.values()), sum(others.values())
    if not common:
        return 0.0, 0.0
    return common / min(total, other_total), common / (total + other_total - common)


def _names_apart(statement: Statement, other: Statement) -> list[Value]:
    """Return the names of `statement` of which `other` and its text do not hold every word."""
    return [value for value in statement.names if not set(words_of_name(value.normal)) <= other.context]


def _compare_names(statement: Statement, other: Statement, own: Sequence[Value], others: Sequence[Value]) -> Comparison:
    """Compare two statements that hold a name each that the other's text lacks: two subjects, or two answers."""
    name, rival = _only_answer(statement, own), _only_answer(other, others)
    if name is None or rival is None:
        return Comparison(statement, other, Outcome.UNRELATED, 0.0)
    words, other_words = (
        {word: weight for word, weight in weights.items() if word not in apart}
        for weights, apart in (
            (_weights(first, second), {stem(word) for value in names for word in words_of_name(value.normal)})
            for first, second, names in ((statement, other, own), (other, statement, others))
        )
    )
    smaller, jaccard = _shared(words, other_words)
    conflicts = (
        not have_two_subjects(statement, other)
        and not _have_two_years(statement, other)
        and not tell_of_parts(statement, other)
        and smaller >= SHARED_OF_SMALLER
        and jaccard >= SHARED_OF_BOTH
        and statement.is_negated == other.is_negated
        and not any(map(str.isdigit, name.normal + rival.normal))  # OX-12 and OX-14 are two things
        and not _are_numbered_apart(statement, other)
        and not _differ_in_subject(statement, other, name, rival)
    )
    if conflicts:
        return Comparison(statement, other, Outcome.CONFLICT, jaccard, ((name, rival),))
    return Comparison(statement, other, Outcome.UNRELATED, jaccard)


def _are_numbered_apart(statement: Statement, other: Statement) -> bool:
    """Return whether numbers in the place of the subject differ: "parts of 81050 are in Bent County"."""
    numbers, others = (
        {
            value.normal
            for value, (start, _) in zip(side.values, side.places, strict=True)
            if value.kind is Kind.COUNT
            and not value.unit
            and (verb := FINITE.search(side.text))
            and start < verb.start()
        }
        for side in (statement, other)
    )
    return bool(numbers and others) and numbers.isdisjoint(others)


def _only_answer(statement: Statement, names: Sequence[Value]) -> Value | None:
    """Return the first of some names if it stands where one name only can be right; those after it say more of it."""
    first = min(names, key=lambda name: name.span.start)
    return first if _names_one(statement, first) else None


def _names_one(statement: Statement, name: Value) -> bool:
    """Return whether a name stands where only one name can be right: "the CEO is", "founded by"."""
    return bool(_ONE_NAME.search(statement.text.lower().replace(name.normal, MASK, 1)))


def _exchanged_names(statement: Statement, other: Statement) -> tuple[Value, Value] | None:
    """Return the names of two clauses that are the same but for a name, where one name can be right."""
    own, others = (
        [name for name in first.names if not {stem(word) for word in words_of_name(name.normal)} & second.words.keys()]
        for first, second in ((statement, other), (other, statement))
    )
    if (
        len(own) != 1
        or len(others) != 1
        or statement.is_negated != other.is_negated
        or any(map(str.isdigit, own[0].normal))
    ):
        return None
    ours, theirs = (
        first.words.keys() - {stem(word) for word in words_of_name(name.normal)}
        for first, name in ((statement, own[0]), (other, others[0]))
    )
    is_same = (
        ours == theirs and len(ours) > MIN_SHARED and _names_one(statement, own[0]) and _names_one(other, others[0])
    )
    return (own[0], others[0]) if is_same else None


def _weights(statement: Statement, other: Statement) -> Mapping[str, float]:
    """Return the weights of the words of `statement`, but for names that only the text around `other` holds, and weekdays beside others.

    What `statement` need not repeat counts where `other` says it: "it weighs 2 kg" is about the pump before.
    """
    apart = {name for word, name in statement.name_stems.items() if word in other.context} - other.reach
    if Kind.WEEKDAYS in statement.kinds & other.kinds:
        apart |= statement.weekday_stems
    weights = (
        {word: weight for word, weight in statement.words.items() if word not in apart}
        if apart
        else dict(statement.words)
    )
    for word in statement.reach & other.words.keys():
        if word in statement.about or word in statement.condition:
            weights[word] = other.words[word]
    return weights


def _name_one_contact(
    statement: Statement, other: Statement, different: Sequence[tuple[Value, Value]], jaccard: float, *, is_same: bool
) -> bool:
    """Return whether two different contacts are those of the same thing, in sentences that are about the same or not."""
    if _LINKS.fullmatch(statement.text) or _LINKS.fullmatch(other.text):
        return False
    if any(_HERE.match(value.normal) for pair in different for value in pair):
        return False  # the machine of whoever reads it
    if all(_is_deep_link(statement, value) and _is_deep_link(other, rival) for value, rival in different):
        return is_same and jaccard >= SHARED_BY_NUMBERS
    is_apart = _names_apart(statement, other) or _names_apart(other, statement)
    is_within = not is_apart and (_is_within(statement, other) or _is_within(other, statement))
    return (is_same or is_within or _pay_one(statement, other, different)) and all(
        bool(first.names) or first.subject <= second.context
        for first, second in ((statement, other), (other, statement))
    )


def _pay_one(statement: Statement, other: Statement, different: Sequence[tuple[Value, Value]]) -> bool:
    """Return whether two accounts are those of one rare name, which one statement holds and the text of the other too."""
    return any(value.kind is Kind.IBAN for value, _ in different) and any(
        second.context.issuperset(words_of_name(name.normal))
        and any(first.words.get(stem(word), 0.0) >= RARE_WEIGHT for word in words_of_name(name.normal))
        for first, second in ((statement, other), (other, statement))
        for name in first.names
    )


def _is_since(statement: Statement) -> bool:
    """Return whether a statement is "new in version 2.1" and no more: it is about what stands around it."""
    return statement.kinds == {Kind.VERSION} and statement.words.keys() <= _SINCE


def _is_deep_link(statement: Statement, value: Value) -> bool:
    """Return whether a value is the address of a page or a picture, not of a site: everybody links to many."""
    start, end = statement.places[statement.values.index(value)]
    return value.kind is Kind.DOMAIN and bool(PAGE.search(statement.text, start, end))


def _is_within(statement: Statement, other: Statement) -> bool:
    allowed_words = {stem(word) for word in other.context} | _WORDS_OF_CONTACT
    return statement.words.keys() <= allowed_words and not statement.words.keys() <= _WORDS_OF_CONTACT


def _is_in_title(statement: Statement, value: Value) -> bool:
    """Return whether a value is part of the title of its text: "Women's 63 kg" names what the text is about."""
    start, end = statement.places[statement.values.index(value)]
    return {stem(word) for word in re.findall(r"\w+", statement.text[start:end])} <= statement.about


def _says_of_what(value: Value) -> bool:
    return value.kind is not Kind.COUNT or bool(value.unit)


def _covers(statement: Statement, other: Statement) -> bool:
    """Return whether `statement` and what it need not repeat hold every word of `other`, at least one of them itself."""
    return (
        bool(statement.words.keys() & other.words.keys())
        and other.words.keys() <= statement.words.keys() | statement.about | statement.condition
    )


def _contradicts(statement: Statement, other: Statement, jaccard: float) -> bool:
    """Return whether one sentence affirms what the other denies, in one clause and without merely supposing it."""
    common = len(statement.words.keys() & other.words.keys())
    is_short = common <= MIN_SHARED
    if is_short and _OBJECT.search(statement.text) and _OBJECT.search(other.text):
        return False  # "do not push it" beside "push them"
    if (
        common + bool(statement.referent | other.referent) < MIN_SHARED
        or statement.text.startswith("#")
        or other.text.startswith("#")
    ):
        return False  # a heading says nothing, and one word no sentence: "not a mass" beside "to get mass"
    if any(
        (first.referent and not first.referent & second.words.keys())
        or (is_short and not first.names and not first.subject <= second.context)
        for first, second in ((statement, other), (other, statement))
    ):
        return False
    affirmed, denied = (other, statement) if statement.is_negated else (statement, other)
    one_condition = _supposed_words(statement) & _supposed_words(other)
    return any(
        jaccard >= least and _weights(second, first).keys() <= clause | first.heading | one_condition
        for first, second, least in ((affirmed, denied, SAME_WORDING), (denied, affirmed, NEARLY_SAME_WORDING))
        for clause in _clauses(first)
    )


def _supposed_spans(statement: Statement) -> list[tuple[int, int]]:
    return [match.span() for match in _SUPPOSED.finditer(statement.text)]


def _is_within_any(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)


def _supposed_words(statement: Statement) -> frozenset[str]:
    """Return the words of the conditions under which a statement holds."""
    spans = _supposed_spans(statement)
    return statement.condition | {word for place, word in statement.stems if _is_within_any(place, spans)}


def _clauses(statement: Statement) -> Iterator[set[str]]:
    """Yield the words of each clause that is not supposed ("if the lid is open")."""
    supposed = _supposed_spans(statement)
    cuts = [0, *(match.start() for match in _NEXT_CLAUSE.finditer(statement.text)), len(statement.text)]
    for start, end in pairwise(cuts):
        yield {word for place, word in statement.stems if start <= place < end and not _is_within_any(place, supposed)}


def _differ_in_subject(statement: Statement, other: Statement, value: Value | None, rival: Value | None) -> bool:
    """Return whether each sentence has a word, in the clause of its value, that the other lacks."""
    return bool(_more(statement, value, other) and _more(other, rival, statement))


def _more(statement: Statement, value: Value | None, other: Statement) -> bool:
    """Return whether `statement` has a word that neither `other` nor a name of its text has."""
    start, end, skipped = 0, len(statement.text), range(0)
    if value is not None:
        place = statement.places[statement.values.index(value)]
        if value.kind is Kind.NAME:
            skipped = range(*place)
        elif first := [match.end() for match in _FIRST_CLAUSE.finditer(statement.text, 0, place[0])]:
            start = first[-1]
        if after := _NEXT_CLAUSE.search(statement.text, place[1]):
            end = after.start()
    names = {stem(word) for name in statement.names for word in words_of_name(name.normal) if word in other.context}
    if Kind.WEEKDAYS in statement.kinds & other.kinds:
        names |= statement.weekday_stems
    other_words = other.words.keys() | names | other.about
    return (
        any(word not in other_words for place, word in statement.stems if start <= place < end and place not in skipped)
        or not statement.condition <= other_words | other.condition | statement.words.keys()
    )


def _tell_of_two_times(statement: Statement, other: Statement, different: Sequence[tuple[Value, Value]]) -> bool:
    kinds = [value.kind for value, _ in different]
    if _name_other_weekdays(statement, other) and any(kind is not Kind.WEEKDAYS for kind in kinds):
        return True
    if _have_two_years(statement, other) and any(value.normal[:4] in statement.years for value, _ in different):
        return True
    return any(kind is not Kind.DATE for kind in kinds) and (Kind.DATE in kinds or _differ_in_time(statement, other))


def _differ_in_time(statement: Statement, other: Statement) -> bool:
    """Return whether one tells what happened, or of a named time, and the other what holds; or their titles name two years."""
    if _have_two_years(statement, other) and Tense.PAST in {statement.tense, other.tense}:
        return True
    return statement.is_dated != other.is_dated or {statement.tense, other.tense} == {Tense.PAST, Tense.PRESENT}


def _name_other_weekdays(statement: Statement, other: Statement) -> bool:
    """Return whether both tell of weekdays, and of none in common: opening hours."""
    own, others = (
        {day for value in each.values if value.kind is Kind.WEEKDAYS for day in value.normal.split(" and ")}
        for each in (statement, other)
    )
    return bool(own and others) and own.isdisjoint(others)


def _have_two_years(statement: Statement, other: Statement) -> bool:
    return bool(statement.years and other.years) and statement.years.isdisjoint(other.years)
