"""Support that a text gives to a reported claim: the sentence that supports it, and what opposes it.

A text *supports* a claim where one of its sentences says the answer, about what was asked, without denying it. It
*opposes* the claim where a sentence about the same thing states another value of the same kind, or the other of
yes and no. Similar words alone are neither.

* A value is compared as a value: "three years" holds "36 months"; "7 games" does not answer "how many seasons".
* An answer of words is held by a sentence with most of their weight.
* Yes or no is held by a sentence about what was asked that affirms or denies it.

A sentence is about what was asked as far as it, the sentence before it and the beginning of the text hold the words of
the question, by weight.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from corpus_guard.claims.negation import read_negations
from corpus_guard.claims.plain_text import PlainText, make_plain
from corpus_guard.claims.sentences import split_sentences
from corpus_guard.claims.value import Kind, Relation, Value, relate
from corpus_guard.claims.values import read_sentence
from corpus_guard.domain import Span
from corpus_guard.screening.wording import stem
from corpus_guard.traceback.reported_claim import ReportedClaim

MAX_TEXT_LENGTH: Final = 6_000  # characters read of a text
MAX_SENTENCES: Final = 80  # read of a text
MIN_HELD: Final = 0.6  # share of an answer's words, by weight, from which a sentence holds it, 0..1
CONTEXT_SHARE: Final = 0.6  # what a word of the question counts that only the context of a sentence holds
NEARNESS: Final = 8.0  # words after which a word of the question counts a third
UNIT_REACH: Final = 4  # words around a number in which its noun may stand
BROKEN_SHARE: Final = 0.4  # what an answer counts of which only the words that the question lacks are there
MIN_ABOUT: Final = 0.35  # of the question, from which a sentence can support or oppose

_WORD: Final = re.compile(r"[^\W_]+")
_NUMBER_WORDS: Final = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen twenty
"""
NUMBERS: Final = {word: str(value) for value, word in enumerate(_NUMBER_WORDS.split())}
_DENIES_WHAT_FOLLOWS: Final = re.compile(
    r"(?i)(?:\b(?:not|never|no longer|isn't|wasn't|aren't|rather than|instead of|contrary to|unlike|formerly|previously|originally"
    r"|mistaken(?:ly)?|misconception|misunderstood|erroneously|falsely|wrongly|incorrectly|thought|believed|neither)\b)[^.;:]{0,45}$"
)
_TURNS: Final = re.compile(
    r"(?i)\b(?:however|contrary to|misconceptions?|myth|erroneously|mistakenly|wrongly|falsely|incorrectly|unlike|misunderstood"
    r"|only the|except)\b"
)
_FORMER: Final = re.compile(
    r"\b(?:[Ff]ormer|old|older|earlier|previous|outdated|obsolete|superseded|first generation)\b"
)
_FORMER_BEFORE: Final = re.compile(rf"(?:{_FORMER.pattern})[^.;]{{0,25}}$")
_FORMER_AFTER: Final = re.compile(rf"[^.;]{{0,40}}(?:{_FORMER.pattern})")
_COMPARED: Final = frozenset(Kind) - {Kind.NAME, Kind.NEGATION}


@dataclass(frozen=True, slots=True)
class SupportEvidence:
    """What a text says about a claim."""

    support: float  # of the best sentence, 0..1: how far it is about what was asked, and states the answer
    opposition: float  # the same of the best sentence that states something else
    denial: float  # of the best sentence that denies the answer
    nearness: float  # of the answer's words to the question's, 0..1
    unit: float  # 1: the number measures what was asked; 0: something else; 0.5: not said, or no number
    support_share: float  # of the text's sentences, 0..1
    held: tuple[int, ...]  # numbers of the sentences that hold the answer
    span: Span | None  # the sentence that supports the claim best, in the text; None: none does

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return the numbers, one per name in SUPPORT_FEATURES."""
        return self.support, self.opposition, self.denial, self.nearness, self.unit, self.support_share

    @property
    def supports(self) -> bool:
        """Return whether a sentence states the answer about what was asked."""
        return self.support >= MIN_ABOUT

    @property
    def opposes(self) -> bool:
        """Return whether the text states something else instead."""
        return self.opposition >= MIN_ABOUT and self.opposition > self.support


SUPPORT_FEATURES: Final = ("support", "oppose", "deny", "close", "unit", "supshare")


@dataclass(frozen=True, slots=True)
class AskedClaim:
    """Reported claim with the weights of its words."""

    claim: ReportedClaim
    question: Mapping[str, float]  # weight by stem
    answer: Mapping[str, float]  # weight by stem of what the answer adds
    nouns: frozenset[str]  # stems of the question that a number may count
    phrase: tuple[str, ...]  # stems of the whole answer, the question's words included

    @property
    def values(self) -> list[Value]:
        """Return the values that a text must state."""
        return [value for value in self.claim.values if value.kind in _COMPARED]


@dataclass(frozen=True, slots=True)
class _Sentence:
    span: tuple[int, int]  # in the plain text
    text: str
    words: list[str]


def read_support(asked: AskedClaim, text: str) -> SupportEvidence:
    """Return what a text says about a claim. Linear in the text, which may be hostile."""
    plain = make_plain(text[:MAX_TEXT_LENGTH])
    sentences = [
        _Sentence((start, end), plain.text[start:end], stems(plain.text[start:end]))
        for start, end in islice(split_sentences(plain.text), MAX_SENTENCES)
    ]
    if not sentences:
        return SupportEvidence(0.0, 0.0, 0.0, 0.0, 0.5, 0.0, (), None)
    about = list(_about(asked.question, sentences))
    readings = [_read(asked, plain, sentence) for sentence in sentences]
    supports = [share * reading.holds * (not reading.denies) for share, reading in zip(about, readings, strict=True)]
    best = max(range(len(sentences)), key=supports.__getitem__)
    units = [reading.unit for reading in readings if reading.holds >= MIN_HELD]
    span = plain.span(*sentences[best].span) if supports[best] > 0 else None
    return SupportEvidence(
        support=supports[best],
        opposition=max(share * reading.opposes for share, reading in zip(about, readings, strict=True)),
        denial=max(share * reading.holds * reading.denies for share, reading in zip(about, readings, strict=True)),
        nearness=_nearness(asked, sentences),
        unit=max(units, default=0.5),
        support_share=sum(support >= MIN_ABOUT for support in supports) / len(sentences),
        held=tuple(number for number, reading in enumerate(readings) if reading.holds >= MIN_HELD),
        span=span,
    )


def _about(question: Mapping[str, float], sentences: Sequence[_Sentence]) -> Iterator[float]:
    """Yield how far each sentence is about what was asked, 0..1."""
    total = sum(question.values()) or 1.0
    head = set(sentences[0].words)
    before: set[str] = set()
    for sentence in sentences:
        own = set(sentence.words)
        context = head | before
        yield (
            sum(
                weight * (1.0 if word in own else CONTEXT_SHARE if word in context else 0.0)
                for word, weight in question.items()
            )
            / total
        )
        before = own


@dataclass(frozen=True, slots=True)
class _Reading:
    """One sentence's word on a claim."""

    holds: float = 0.0  # the answer, 0..1
    opposes: float = 0.0  # 0..1
    denies: bool = False
    unit: float = 0.5


def _read(asked: AskedClaim, plain: PlainText, sentence: _Sentence) -> _Reading:
    if asked.claim.is_affirmed is not None and not asked.values:
        return _read_polarity(asked.claim.is_affirmed, sentence)
    if asked.values:
        return _read_values(asked, plain, sentence)
    held = _share(asked.answer, sentence.words)
    if held < MIN_HELD:
        return _Reading()
    if len(asked.phrase) > len(asked.answer) and f" {' '.join(asked.phrase)} " not in f" {' '.join(sentence.words)} ":
        held *= BROKEN_SHARE  # "Salt Lake County, Utah" is not Utah County
    return _Reading(holds=held, denies=_is_denied(asked.answer, sentence.text))


def _read_polarity(is_affirmed: bool, sentence: _Sentence) -> _Reading:
    if sentence.text.rstrip("\"')").endswith("?"):
        return _Reading()
    negations = sum(1 for _ in read_negations(sentence.text))
    turned = bool(_TURNS.search(sentence.text))
    affirms = negations % 2 == 0 and not (turned and not negations)
    return _Reading(holds=1.0) if affirms is is_affirmed else _Reading(opposes=1.0)


def _read_values(asked: AskedClaim, plain: PlainText, sentence: _Sentence) -> _Reading:
    stated = [value for value in read_sentence(plain, *sentence.span) if value.kind in _COMPARED]
    holds, unit, is_denied, opposes = 0.0, 0.0, True, 0.0
    for value in stated:
        relation, fits = _relate(asked, value, sentence)
        if relation is Relation.OVERLAPPING and value.low is not None:
            continue  # both can be true: "at most 16 V" states nothing of 10.5 to 36 V
        if relation in {Relation.EQUAL, Relation.OVERLAPPING}:
            strength = 1.0 if relation is Relation.EQUAL else 0.6
            holds, unit = max((strength, fits), (holds, unit))
            is_denied &= value.is_denied or _is_former(plain, value, sentence)
        elif relation is Relation.DIFFERENT and not value.is_denied and not _is_former(plain, value, sentence):
            opposes = max(opposes, fits)
    if not holds and _share(asked.answer, sentence.words) >= 0.99:  # written in a way that no value is read from
        return _Reading(holds=0.8, denies=_is_denied(asked.answer, sentence.text), unit=0.4)
    return _Reading(
        holds=holds, opposes=0.0 if holds else opposes, denies=bool(holds) and is_denied, unit=unit if holds else 0.5
    )


def _is_former(plain: PlainText, value: Value, sentence: _Sentence) -> bool:
    """Return whether a sentence tells of a value that held formerly, or that it denies."""
    if plain.positions is not None:
        return bool(_FORMER.search(sentence.text))
    start, end = (place - sentence.span[0] for place in (value.span.start, value.span.end))
    before, after = sentence.text[max(0, start - 60) : start], sentence.text[end : end + 60]
    return bool(_DENIES_WHAT_FOLLOWS.search(before) or _FORMER_BEFORE.search(before) or _FORMER_AFTER.match(after))


def _relate(asked: AskedClaim, value: Value, sentence: _Sentence) -> tuple[Relation | None, float]:
    """Return how a text's value relates to the reported ones, and whether it measures what was asked, 0..1."""
    relations: list[tuple[Relation, float]] = []
    for reported in asked.values:
        relation = _relate_times(reported, value) or relate(reported, value)
        if relation is not None and reported.kind is not Kind.COUNT:
            relations.append((relation, 1.0))
        elif reported.low is not None and value.low is not None and Kind.COUNT in {reported.kind, value.kind}:
            fits = _unit_fits(asked, value, reported, sentence)
            if math.isclose(reported.low, value.low) and math.isclose(reported.high or 0, value.high or 0):
                relations.append((Relation.EQUAL, fits))
            elif fits > 0.5:
                relations.append((Relation.DIFFERENT, fits))
    order = (Relation.EQUAL, Relation.OVERLAPPING, Relation.DIFFERENT)
    return min(relations, key=lambda pair: (order.index(pair[0]), -pair[1]), default=(None, 0.5))


def _relate_times(reported: Value, value: Value) -> Relation | None:
    """Return how an interval and a duration relate: "every 36 months" and "36 months"; None: they are not such a pair."""
    if {reported.kind, value.kind} != {Kind.DURATION, Kind.FREQUENCY}:
        return None
    return relate(replace(reported, kind=Kind.FREQUENCY), replace(value, kind=Kind.FREQUENCY))


def _unit_fits(asked: AskedClaim, value: Value, reported: Value, sentence: _Sentence) -> float:
    """Return whether a bare number counts what was asked: 1 where its noun is the question's."""
    if value.unit and (stem(value.unit) in asked.nouns or stem(value.unit) == stem(reported.unit)):
        return 1.0
    number = f"{value.low:g}" if value.low is not None else ""
    for place, word in enumerate(sentence.words):
        if word == number and asked.nouns & set(sentence.words[max(0, place - UNIT_REACH) : place + UNIT_REACH + 1]):
            return 0.8
    return 0.3 if value.unit else 0.5


def _is_denied(answer: Mapping[str, float], text: str) -> bool:
    """Return whether every place of the answer's heaviest word follows a denial."""
    heaviest = max(answer, key=answer.__getitem__)
    places = [match.start() for match in _WORD.finditer(text) if _stem(match.group()) == heaviest]
    return bool(places) and all(_DENIES_WHAT_FOLLOWS.search(text, max(0, place - 80), place) for place in places)


def _nearness(asked: AskedClaim, sentences: Sequence[_Sentence]) -> float:
    words = [word for sentence in sentences for word in sentence.words]
    answer = [place for place, word in enumerate(words) if word in asked.answer]
    total = sum(asked.question.values())
    if not answer or not total:
        return 0.0
    distances = dict.fromkeys(asked.question, math.inf)
    last = -math.inf
    places = set(answer)
    for direction in (range(len(words)), range(len(words) - 1, -1, -1)):
        last = math.inf
        for place in direction:
            last = 0 if place in places else last + 1
            if words[place] in distances:
                distances[words[place]] = min(distances[words[place]], last)
    return sum(weight * math.exp(-distances[word] / NEARNESS) for word, weight in asked.question.items()) / total


def _share(expected: Mapping[str, float], present: Collection[str]) -> float:
    total = sum(expected.values())
    return sum(weight for word, weight in expected.items() if word in present) / total if total else 0.0


def stems(text: str) -> list[str]:
    """Return the words of a text as the judge compares them: folded, stemmed, numbers in digits."""
    return [_stem(word) for word in _WORD.findall(unicodedata.normalize("NFKC", text[:MAX_TEXT_LENGTH]))]


def _stem(word: str) -> str:
    """Return the stem without a silent e, so that "calibrate" and "calibrated" are one word."""
    folded = word.casefold()
    short = stem(NUMBERS.get(folded, folded))
    return short[:-1] if short.endswith("e") and len(short) > 4 else short
