"""Statements: what a sentence is about, what it says of it, and whether it says or denies it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from corpus_guard.claims.negation import OPPOSITES, SAME_WORDS
from corpus_guard.claims.plain_text import make_plain
from corpus_guard.claims.sentences import split_sentences
from corpus_guard.claims.value import Kind, Value
from corpus_guard.claims.values import read_sentence
from corpus_guard.domain import Span

MAX_STATEMENTS: Final = 2_000  # read of one text; the others are counted
MASK: Final = "\x1f"
LONGEST_GAP: Final = 12  # characters between "not" and the value it denies: " once every "
IDENTIFIER_WEIGHT: Final = 2.0  # "OX-12" says more than "sensor"
COMMON_BITS: Final = 11.0  # the words below it say how a text speaks, not what it is about

Rarity = Callable[[str], float]
"""Bits of a lower-case word, 0 to about 16: the rarer, the more; `screening.wording.Wording.rarity` is one."""

_WORD: Final = re.compile(r"\x1f+|[^\W_][\w'-]*")
_FUNCTION_WORDS: Final = (
    "a an the and or but if then than that this these those there here it its he she they them their his her we us our you "
    "your i me my who whom whose which what when where why how is are was were be been being am do does did done has have had "
    "having will would shall should can could may might must need needs to of in on at by for from with about as into onto "
    "over under per through during before after between within without not no nor never yes cannot so such also only just "
    "very too more less most least much many some any all each every both either neither once twice times now still yet "
    "again while because since until unless however therefore thus up down out off one two three four five six seven eight "
    "nine ten approximately around roughly maximum minimum max min exactly currently usually always please recommended "
    "according official officially states stated says said don't doesn't isn't aren't wasn't can't won't mustn't shouldn't"
)
_EMPTY: Final = frozenset(_FUNCTION_WORDS.split())
_ENDINGS: Final = ("ations", "ation", "ating", "ated", "ates", "ate", "ings", "ing", "ies", "ed", "es", "s", "e", "y")
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
    words: Mapping[str, float]  # stem of what it is about → weight, > 0; names included
    order: tuple[str, ...]  # the stems as they stand, MASK for a value
    is_negated: bool
    is_question: bool
    is_history: bool  # tells how it was formerly

    def names(self) -> frozenset[str]:
        """Return the proper names and identifiers."""
        return frozenset(value.normal for value in self.values if value.kind is Kind.NAME)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a text, and how many more sentences it has."""

    statements: tuple[Statement, ...]
    not_read: int = 0


def read_statements(text: str, rarity: Rarity | None = None) -> Statements:
    """Return the statements of a text, the first MAX_STATEMENTS of them.

    Args:
        text: anything; linear in its length.
        rarity: bits of a word. None: every word that is not empty weighs the same.
    """
    plain = make_plain(text)
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
        order = tuple(stem(match.group()) for match in _WORD.finditer(masked))
        negations = sum(value.kind is Kind.NEGATION and not _denies(value, values) for value in values)
        read.append(
            Statement(
                span=plain.span(start, end),
                text=sentence,
                masked=re.sub(f"{MASK}+", "#", masked),
                values=values,
                words=_weights(masked, values, rarity),
                order=order,
                is_negated=bool(negations % 2),
                is_question=sentence.rstrip("\"')").endswith("?"),
                is_history=bool(_HISTORY.search(sentence)),
            )
        )
    return Statements(tuple(read), not_read)


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


def _weights(masked: str, values: tuple[Value, ...], rarity: Rarity | None) -> dict[str, float]:
    weights: dict[str, float] = {}
    identifiers = {value.normal for value in values if value.kind is Kind.NAME and any(map(str.isdigit, value.normal))}
    for match in _WORD.finditer(masked):
        word = match.group().lower().strip("'-").removesuffix("'s")
        if word in _EMPTY or word.startswith(MASK) or not word:
            continue
        weight = 1.0
        if rarity is not None:
            bits = rarity(word)
            if bits < COMMON_BITS:
                continue
            weight = max(0.5, (bits - COMMON_BITS + 1) / 2)
        weights[stem(word)] = weight * (IDENTIFIER_WEIGHT if word in identifiers else 1.0)
    return weights


def stem(word: str) -> str:
    """Return a word without its English ending and its own negation: "calibrated" and "calibration" are one."""
    word = word.lower().strip("'-").removesuffix("'s")
    if word.startswith(MASK):
        return MASK
    word = OPPOSITES.get(word) or SAME_WORDS.get(word) or word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word
