"""Statements: what a sentence is about, what it says of it, and whether it says or denies it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from corpus_guard.claims.negation import NOT
from corpus_guard.claims.plain_text import make_plain
from corpus_guard.claims.sentences import split_sentences
from corpus_guard.claims.value import Kind, Value
from corpus_guard.claims.values import read_sentence, read_values
from corpus_guard.claims.vocabulary import EMPTY, stem
from corpus_guard.domain import Span

MAX_STATEMENTS: Final = 2_000  # read of one text; the others are counted
MASK: Final = "\x1f"
LONGEST_GAP: Final = 12  # characters between "not" and the value it denies: " once every "
IDENTIFIER_WEIGHT: Final = 2.0  # "OX-12" says more than "sensor"
COMMON_BITS: Final = 11.0  # the words below it are some thousand that every text uses
MIN_WEIGHT: Final = 0.5  # of such a word

Rarity = Callable[[str], float]
"""Bits of a lower-case word, 0 to about 16: the rarer, the more; `screening.wording.Wording.rarity` is one."""

_WORD: Final = re.compile(r"\x1f+|[^\W_][\w'-]*")
_NAME_WORD: Final = re.compile(r"[\w-]+")
_HISTORY: Final = re.compile(
    r"(?i)\b(?:former(?:ly)?|previous(?:ly)?|used to (?:be|have|take|last|cost)|no longer|old revision|was once|originally|in the past"
    r"|obsolete|outdated|superseded|until (?:19|20)\d\d)\b"
)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, read."""

    span: Span  # in the text
    text: str  # as a reader sees it
    masked: str  # the same with every value but names as "#": what an embedder compares
    values: tuple[Value, ...]  # denied ones and negations included
    places: tuple[tuple[int, int], ...]  # of the values, in `text`
    stems: tuple[tuple[int, str], ...]  # (place in `text`, stem) of the words that it is about; names included
    words: Mapping[str, float]  # each of these stems → weight, > 0
    is_negated: bool
    is_question: bool
    is_history: bool  # tells how it was formerly
    context: frozenset[str]  # lower-case words of the text and its title
    subject: frozenset[str]  # words of the name it is about where it holds none: from before it, or from the title

    def names(self) -> frozenset[str]:
        """Return the proper names and identifiers."""
        return frozenset(value.normal for value in self.values if value.kind is Kind.NAME)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a text, and how many more sentences it has."""

    statements: tuple[Statement, ...]
    not_read: int = 0


def read_statements(text: str, rarity: Rarity | None = None, title: str = "") -> Statements:
    """Return the statements of a text, the first MAX_STATEMENTS of them.

    Args:
        text: anything; linear in its length.
        rarity: bits of a word. None: every word that is not empty weighs the same.
        title: of the text: what a sentence without a subject is about.
    """
    plain = make_plain(text)
    context = frozenset(_plain_words(f"{title}\n{plain.text}"))
    subject = _first_name(read_values(title))
    read: list[Statement] = []
    not_read = 0
    for start, end in split_sentences(plain.text):
        if len(read) == MAX_STATEMENTS:
            not_read += 1
            continue
        sentence = plain.text[start:end]
        values = tuple(read_sentence(plain, start, end))
        places = _places(values, plain.positions, start, end)
        masked = _mask(sentence, values, places)
        stems, words = _weigh(masked, values, rarity)
        negations = sum(
            value.kind is Kind.NEGATION and value.normal == NOT and not _denies(value, values) for value in values
        )
        read.append(
            Statement(
                span=plain.span(start, end),
                text=sentence,
                masked=re.sub(f"{MASK}+", "#", masked),
                values=values,
                places=tuple(places),
                stems=stems,
                words=words,
                is_negated=bool(negations % 2),
                is_question=sentence.rstrip("\"')").endswith("?"),
                is_history=_tells_history(sentence, values, places),
                context=context,
                subject=subject,
            )
        )
        subject = _first_name(values) or subject
    return Statements(tuple(read), not_read)


def _first_name(values: Iterable[Value]) -> frozenset[str]:
    """Return the words of the first name among `values`."""
    return next((frozenset(words_of_name(value.normal)) for value in values if value.kind is Kind.NAME), frozenset())


def _tells_history(sentence: str, values: Sequence[Value], places: Sequence[tuple[int, int]]) -> bool:
    """Return whether the first value is of former times; a later clause about them makes no history of it."""
    marked = _HISTORY.search(sentence)
    if marked is None:
        return False
    first = next(
        (end for value, (_, end) in zip(values, places, strict=True) if value.kind not in {Kind.NAME, Kind.NEGATION}),
        len(sentence),
    )
    return "," not in sentence[first : marked.start()]


def _places(values: tuple[Value, ...], positions: object, start: int, end: int) -> list[tuple[int, int]]:
    """Return where the values stand in the plain sentence."""
    if positions is None:
        return [(value.span.start - start, value.span.end - start) for value in values]
    assert isinstance(positions, list)  # noqa: S101 - make_plain's own
    back = {position: place - start for place, position in reversed(list(enumerate(positions[start:end], start)))}
    last = {position: place - start for place, position in enumerate(positions[start:end], start)}
    return [(back[value.span.start], last[value.span.end - 1] + 1) for value in values]


def _mask(sentence: str, values: tuple[Value, ...], places: list[tuple[int, int]]) -> str:
    for value, (start, end) in zip(values, places, strict=True):
        if value.kind in {Kind.NAME, Kind.NEGATION}:
            continue
        stop = end
        if value.kind is Kind.COUNT and value.unit:  # the noun is part of what the sentence is about
            noun = re.search(r"[^\W\d_]+$", sentence[start:end])
            stop -= len(noun.group()) if noun else 0
        sentence = sentence[:start] + MASK * (stop - start) + sentence[stop:]
    return sentence


def _denies(negation: Value, values: tuple[Value, ...]) -> bool:
    """Return whether a negation belongs to a denied value: "every 6 months, not 36"."""
    gaps = (value.span.start - negation.span.end for value in values if value.is_denied)
    return any(0 <= gap <= LONGEST_GAP for gap in gaps)


def _weigh(
    masked: str, values: tuple[Value, ...], rarity: Rarity | None
) -> tuple[tuple[tuple[int, str], ...], dict[str, float]]:
    """Return the stems of a masked sentence with their places, and the weight of each."""
    stems: list[tuple[int, str]] = []
    weights: dict[str, float] = {}
    identifiers = {value.normal for value in values if value.kind is Kind.NAME and any(map(str.isdigit, value.normal))}
    found = [(match.start(), match.group().lower().strip("'-").removesuffix("'s")) for match in _WORD.finditer(masked)]
    found = [(place, word) for place, word in found if word and not word.startswith(MASK)]
    # A sentence of nothing but such words ("It may be used down to 300 m") is compared by them.
    for place, word in [pair for pair in found if pair[1] not in EMPTY] or found:
        weight = 1.0 if rarity is None else max(MIN_WEIGHT, (rarity(word) - COMMON_BITS + 1) / 2)
        stems.append((place, stem(word)))
        weights[stem(word)] = weight * (IDENTIFIER_WEIGHT if word in identifiers else 1.0)
    return tuple(stems), weights


def shift_statement(statement: Statement, start: int) -> Statement:
    """Return a statement of a part of a text as one of the whole, in which the part begins at `start`."""
    values = tuple(
        replace(value, span=Span(value.span.start + start, value.span.end + start)) for value in statement.values
    )
    span = Span(statement.span.start + start, statement.span.end + start)
    return replace(statement, span=span, values=values)


def _plain_words(text: str) -> list[str]:
    """Return the words of a name or a text as they are compared, lower case and without "'s"."""
    return _NAME_WORD.findall(text.lower().replace("'s", ""))


@lru_cache(maxsize=100_000)
def words_of_name(name: str) -> tuple[str, ...]:
    """Return the words of a name as they are compared."""
    return tuple(_plain_words(name))
