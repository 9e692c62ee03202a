"""Subjects of two statements: whether both may be about one thing.

1. A statement that names its subject is about that subject, and the other text must name it too. One that names none is
   about the name before it, or that of the title. Who names what a whole text is about need not repeat another name of it.
2. Two titles are two subjects where each has a telling word that the other text lacks, unless the statements share a
   rare word in the place of a subject.
3. A part, a relative or one more of a kind is another subject where the other text does not mention it: "the power
   station of the dam", "the second runway", "the children's choir".
4. So is a variant of what the other text names, "Solvane E" beside "Solvane D", and what holds for something else, a
   charge "for gas" where no gas is mentioned. So are all statements of a text about "Student Account" beside one about
   "Current Account", unless a text mentions the other's.
5. The owner of "its speed" is told before it. It is not the owner that the other statement names where each text has a word of
   its owner that the other text lacks.
6. "It", "she", "the population" and whatever has no name are two subjects where they stand for two names, each of which the
   other text lacks.

A statement that breaks none of these rules may still be about another thing: words in common are weighed in
`corpus_guard.claims.comparison`.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final, Protocol

from corpus_guard.claims.clauses import FINITE, begins_with_pronoun
from corpus_guard.claims.statements import POSSESSIVE, Statement, words_of_name
from corpus_guard.claims.vocabulary import EMPTY, stem

RARE_WEIGHT: Final = 2.5  # of a word that no vocabulary holds

_PART: Final = re.compile(
    r"(?i)\W*(?:(?:and|but|so) )?(?:(?:on|in|at|with|behind) )?(?:(?:the|a|an|all|most|older|another) )?"
    r"(?P<part>[a-z][\w'-]+(?: [a-z][\w'-]+){0,2}?) (?:of|behind|beside|for|at|in) "
)
"""A part or relative of a thing as the subject: "the power station of the dam"."""
_BARE: Final = re.compile(
    r"(?i)\W*(?:(?:as of|in|at|by|on|during|since) [^,;]{1,40}, )?(?:the|its|their) (?P<noun>[a-z]+) (?:is|are|was|were|had|has)\b"
)
"""A subject whose owner the clause does not name: "as of 2010, the population was"."""
_OTHER: Final = re.compile(
    r"(?i)\W*(?:(?:and|but|so) )?(?:(?:the|a|an|its|their) )?(?P<rank>another|other|second|third|next|older|former) [a-z]"
)
"""One more of a kind as the subject: "the second runway"."""
_PURPOSE: Final = re.compile(r"\bfor (?:(?:the|a|an|all|every|each) )?(?P<words>[a-z][a-z'-]+(?: [a-z][a-z'-]+)?)")
"""Restriction of a statement: "the basic charge for gas"."""
_MEASURES: Final = frozenset(
    map(
        stem,
        (
            "length", "height", "width", "depth", "weight", "mass", "size", "area", "volume", "capacity", "age", "date", "year", "day",
            "time", "number", "amount", "price", "cost", "fee", "rate", "limit", "maximum", "minimum", "value", "name", "address",
            "temperature", "pressure", "speed", "population", "distance", "diameter", "rule", "use", "visitors", "guests", "customers",
            "users", "members", "owners", "readers", "people", "everybody", "nobody", "anybody", "one", "it", "they",
        ),
    )
)  # fmt: skip
"""Properties that anything has, and its users: "the length of the dam" is about the dam."""


class Titled(Protocol):
    """A text, or a statement of it, as far as its title tells what it is about."""

    @property
    def title(self) -> Set[str]:
        """Return the words of the title that tell it from others."""

    @property
    def context(self) -> Set[str]:
        """Return the lower-case words of the text and its title."""


def may_have_one_subject(statement: Statement, other: Statement) -> bool:
    """Return whether two statements may be about one thing: rules 1 to 5."""
    return (
        _names_subject(statement, other)
        and _names_subject(other, statement)
        and (not have_two_subjects(statement, other) or _share_subject(statement, other))
        and not tell_of_parts(statement, other)
        and not _names_variant(statement, other)
        and not _have_two_variants(statement, other)
        and not _is_for_something_else(statement, other)
        and not _has_another_owner(statement, other)
        and not _has_another_owner(other, statement)
    )


def have_two_subjects(text: Titled, other: Titled) -> bool:
    """Return whether the titles of two texts each tell of something that the other text does not mention.

    What both titles hold, such as the name of a project, tells nothing.
    """
    own, others = text.title - other.title, other.title - text.title
    return bool(own and others) and own.isdisjoint(other.context) and others.isdisjoint(text.context)


def tell_of_parts(statement: Statement, other: Statement) -> bool:
    """Return whether one of two statements is about a part of something, or what goes with it, that the other's text lacks."""
    return _is_of_part(statement, other) or _is_of_part(other, statement)


def stand_for_two(statement: Statement, other: Statement) -> bool:
    """Return whether each is about "it", "the population" or something without a name, and stands for a name that the other text lacks."""
    return (
        bool(statement.subject and other.subject)
        and _names_no_owner(statement)
        and _names_no_owner(other)
        and not statement.subject <= other.context
        and not other.subject <= statement.context
    )


def name_two_kinds(statement: Statement, other: Statement) -> bool:
    """Return whether both tell of a thing of one name, and each text of another kind of it that the other text does not mention."""
    own, others = statement.named_kinds, other.named_kinds
    names = {word for name in (*statement.names, *other.names) for word in words_of_name(name.normal)}
    return any(
        own[named].isdisjoint(other.mentioned) and others[named].isdisjoint(statement.mentioned)
        for named in own.keys() & others.keys()
        if named[0] in names
    )


def _names_subject(statement: Statement, other: Statement) -> bool:
    """Return whether the text of `statement` may be about what `other` names: in itself, or in the title of its text."""
    if other.referent and not other.referent & (statement.words.keys() | statement.about):
        return False
    named = [words_of_name(value.normal) for value in other.names]
    if named:
        return any(word in statement.context for words in named for word in words)
    if any(word in statement.words and weight >= RARE_WEIGHT for word, weight in other.words.items()):
        return True  # perhaps a name that begins the sentence, where every word has a capital
    own = frozenset(statement.name_stems) or statement.subject
    return (
        not other.subject
        or not own
        or other.subject <= statement.context
        or bool(other.topic and other.topic <= statement.name_stems.keys())
    )


def _share_subject(statement: Statement, other: Statement) -> bool:
    """Return whether both hold a rare word that stands before the verb of one of them, where its subject stands."""
    return any(
        word in second.words and first.words[word] >= RARE_WEIGHT
        for first, second in ((statement, other), (other, statement))
        for word in first.before_verb()
    )


def _is_of_part(statement: Statement, other: Statement) -> bool:
    """Return whether the subject of `statement` is a part of something, or goes with it, that the other text does not mention."""
    if (rank := _OTHER.match(statement.text)) and rank["rank"].lower() not in other.context:
        return True
    subject = _PART.match(statement.text)
    if subject is None or FINITE.search(subject["part"]):
        return False
    words = subject["part"].lower().split()
    if any(word.endswith("'s") and stem(word) not in other.mentioned for word in words):
        return True
    return stem(words[-1]) not in _MEASURES and other.mentioned.isdisjoint(map(stem, words))


def _names_variant(statement: Statement, other: Statement) -> bool:
    """Return whether `statement` names a variant of what the other's text names: "Solvane E" beside "Solvane D"."""
    named = (words_of_name(name.normal) for name in statement.names)
    return any(len(words) > 1 and words[0] in other.context and not other.context.issuperset(words) for words in named)


def _have_two_variants(statement: Statement, other: Statement) -> bool:
    """Return whether the texts are about two names that share a word and each tell of something that the other text does not mention."""
    own, others = statement.topic, other.topic
    return not own.isdisjoint(others) and not own <= other.context and not others <= statement.context


def _is_for_something_else(statement: Statement, other: Statement) -> bool:
    """Return whether `statement` holds for something that the other's text does not mention: "the charge for gas"."""
    purposes = (
        {stem(word) for word in match["words"].split() if word not in EMPTY}
        for match in _PURPOSE.finditer(statement.masked)
    )
    return any(purpose and purpose.isdisjoint(other.mentioned) for purpose in purposes)


def _has_another_owner(statement: Statement, other: Statement) -> bool:
    """Return whether `statement` is about "its speed", and `other` about that of something else."""
    if not POSSESSIVE.match(statement.text):
        return False
    owner = statement.about - statement.heading
    return not owner <= other.mentioned and not other.words.keys() - statement.words.keys() <= statement.mentioned


def _names_no_owner(statement: Statement) -> bool:
    """Return whether a statement holds no name, or its subject is a pronoun or something that anything has: "the population"."""
    measured = _BARE.match(statement.text)
    return (
        not statement.names
        or begins_with_pronoun(statement.text)
        or (measured is not None and stem(measured["noun"].lower()) in _MEASURES)
    )
