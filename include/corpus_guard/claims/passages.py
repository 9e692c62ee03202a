"""Passages of a few sentences: what two of them state about the same things."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Final

from corpus_guard.claims.comparison import PAGE, compare
from corpus_guard.claims.contacts import read_contacts
from corpus_guard.claims.languages import root, split_local_words
from corpus_guard.claims.names import may_hold_name
from corpus_guard.claims.outcome import Comparison, Outcome
from corpus_guard.claims.statements import (
    IDENTIFIER_WEIGHT,
    MASK,
    UNKNOWN_WEIGHT,
    Rarity,
    Statement,
    StatementReader,
    presents_itself,
    word_weight,
)
from corpus_guard.claims.subjects import RARE_WEIGHT, have_two_subjects
from corpus_guard.claims.text_comparison import compare_texts
from corpus_guard.claims.value import Kind, Value
from corpus_guard.claims.values import may_hold_value
from corpus_guard.claims.vocabulary import EMPTY, stem
from corpus_guard.domain import Span

MAX_PAIRS: Final = 60  # of sentences of two passages, those of each with most in common
COPIED_SHARE: Final = 0.7  # of the phrases of the shorter passage, from which it is a near copy
MIN_PHRASES: Final = 8  # of a near copy: below, a sentence or two are alike by chance
MIN_COMMON: Final = 2  # words of two sentences and their titles, below which they are about different things
MIN_COMMON_WEIGHT: Final = 2.0  # of these words
SHORT_SENTENCE: Final = 3  # words, up to which one in common is enough
COMMON_SHARE: Final = 0.35  # of the weight of the sentence that says less, 0..1
SHARE_OF_CODE: Final = (0.0, 0.9, 0.5)  # of the sentence that says less, where none, one or both of them are code
LEAST_JACCARD: Final = (0.3, 0.2, 0.0)  # of the weight of both, where none, one or both may hold a value or a negation
MAX_SENTENCES: Final = 512
"""Sentences with letters or digits that are read of a passage: a chunk has some ten, and never more than tokens."""
MAX_KNOWN_WORDS: Final = 200_000
_WORD: Final = re.compile(r"[^\W_]+|\x1f+")
_TOKEN: Final = re.compile(r"[^\W\d_][\w'-]*")
_SITE: Final = "site"
_CONTACT: Final = re.compile(r"@|://|www\.|\w\.[a-z]{2}|\d[\d ()./-]{5,}\d|\b[A-Z]{2}\d\d")


class StatedPassage:
    """A passage, read as far as somebody asks for it.

    Most passages that lie near each other in the space of embeddings state nothing about the same thing. That is seen
    from the words of their sentences, at a tenth of what reading their values costs.
    """

    def __init__(self, text: str, rarity: Rarity | None = None, title: str = "") -> None:
        """Look at a passage; the text may be hostile.

        Args:
            title: of the document: what a sentence without a subject is about.
        """
        self._reader = StatementReader(text, rarity, title)
        self._weigh = _Weights(rarity)
        self._heading = title

    @cached_property
    def outlines(self) -> Sequence[Mapping[str, float]]:
        """The stems of each sentence that are not empty → weight."""
        return [self._outline(number) for number in self._numbers]

    def _outline(self, number: int) -> Mapping[str, float]:
        if language := self._reader.language(number):
            words = split_local_words(self._reader.text(number), language)
            return {root(word): UNKNOWN_WEIGHT for _, word in words if not word.isdigit()}
        return self._weigh.words(self._reader.text(number))

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """All statements."""
        return self.read(self._numbers)

    @cached_property
    def phrases(self) -> frozenset[tuple[str, ...]]:
        """Three words in a row, every value masked."""
        words = [
            word for statement in self.statements for word in _WORD.findall(statement.masked.lower().replace("#", MASK))
        ]
        return frozenset(zip(words, words[1:], words[2:], strict=False))

    def read(self, sentences: Iterable[int]) -> tuple[Statement, ...]:
        """Return the statements of some sentences."""
        return tuple(statement for number in sentences for statement in self._reader.read(number))

    def is_local(self, number: int) -> bool:
        """Return whether a sentence is in a language other than English that is known."""
        return self._reader.language(number) is not None

    def sentence(self, number: int) -> str:
        """Return a sentence as a reader sees it."""
        return self._reader.text(number)

    def joined(self, first: int, last: int) -> str:
        """Return the text from the first to the last of some sentences, as a reader sees it."""
        return self._reader.joined(first, last)

    def presents_itself(self, number: int) -> bool:
        """Return whether a sentence says what its own document is about."""
        return presents_itself(self._reader.text(number))

    def span(self, number: int) -> Span:
        """Return the place of a sentence."""
        return self._reader.span(number)

    def number(self, span: Span) -> int:
        """Return the sentence in which a place lies."""
        return max((number for number in self._numbers if self.span(number).start <= span.start), default=0)

    @property
    def title(self) -> frozenset[str]:
        """Return the words of the title that tell it from others."""
        return self._reader.title

    @property
    def context(self) -> frozenset[str]:
        """Return the lower-case words of the passage and its title."""
        return self._reader.context

    def common_sentences(self, other: StatedPassage) -> Iterator[tuple[int, int]]:
        """Yield a sentence and one of the other passage that may be about the same thing."""
        needs_rare = have_two_subjects(self, other)
        for number, words in enumerate(self.outlines):
            contacts = self._contacts.get(number)
            for rival, others in enumerate(other.outlines):
                has_contact = contacts and rival in other._contacts and contacts.may_differ(other._contacts[rival])
                is_common = not words.keys().isdisjoint(others)
                if has_contact or (is_common and self._may_be_same(other, number, rival, needs_rare)):
                    yield number, rival

    def _may_be_same(self, other: StatedPassage, number: int, rival: int, needs_rare: bool) -> bool:
        words, others = self.outlines[number], other.outlines[rival]
        direct = words.keys() & others.keys()
        common = direct | (self.named & others.keys()) | (other.named & words.keys())
        is_short = min(len(words), len(others)) <= SHORT_SENTENCE
        if not is_short and len(common) < MIN_COMMON:
            return False
        total, other_total = self._totals[number], other._totals[rival]
        shared = sum(map(words.__getitem__, direct))
        least = (
            0.0
            if number in self._naming and rival in other._naming
            else LEAST_JACCARD[(number in self._stating) + (rival in other._stating)]
        )
        is_code = self._reader.is_code(number) + other._reader.is_code(rival)
        if shared < least * (total + other_total - shared) or shared < SHARE_OF_CODE[is_code] * min(total, other_total):
            return False
        if needs_rare:
            return any(map(_may_be_rare, direct, map(words.__getitem__, direct)))
        weight = sum(words.get(word) or others[word] for word in common)
        return weight >= COMMON_SHARE * min(total, other_total) and (is_short or weight >= MIN_COMMON_WEIGHT)

    @cached_property
    def _totals(self) -> list[float]:
        return [sum(words.values()) for words in self.outlines]

    @cached_property
    def _numbers(self) -> range:
        """The sentences that are read; lines of marks use up none of them."""
        count = len(self._reader.sentences)
        if count > MAX_SENTENCES:
            worded = (number for number in range(count) if any(map(str.isalnum, self._reader.text(number))))
            count = next(islice(worded, MAX_SENTENCES, None), count)
        return range(count)

    @cached_property
    def named(self) -> frozenset[str]:
        """The stems of the title that are not empty."""
        return frozenset(self._weigh.words(self._heading))

    @cached_property
    def _stating(self) -> frozenset[int]:
        """The sentences that may hold a value or a negation."""
        return frozenset(
            number for number in self._numbers if self.is_local(number) or may_hold_value(self._reader.text(number))
        )

    @cached_property
    def _naming(self) -> frozenset[int]:
        """The sentences that may hold a name."""
        return frozenset(number for number in self._numbers if may_hold_name(self._reader.text(number)))

    @cached_property
    def _contacts(self) -> Mapping[int, _Contacts]:
        """The contacts of each sentence that holds one."""
        read = {number: _read_contacts(self._reader.text(number)) for number in self._numbers}
        return {number: contacts for number, contacts in read.items() if contacts.kinds}


@dataclass(frozen=True, slots=True)
class _Contacts:
    """Kinds of contact in a sentence, and those that another one must hold to be compared with it whatever it is about.

    Everybody links to many pages: the address of a page differs from that of a site only.
    """

    kinds: frozenset[str]
    rivals: frozenset[str]

    def may_differ(self, other: _Contacts) -> bool:
        return not self.rivals.isdisjoint(other.kinds)


def _read_contacts(text: str) -> _Contacts:
    if not _CONTACT.search(text):
        return _Contacts(frozenset(), frozenset())
    values = [value for value in read_contacts(text) if isinstance(value, Value)]
    kinds = {value.kind.value for value in values}
    sites = [v for v in values if v.kind is Kind.DOMAIN and not PAGE.search(text, v.span.start, v.span.end)]
    if sites:
        return _Contacts(frozenset(kinds | {_SITE}), frozenset(kinds))
    return _Contacts(
        frozenset(kinds), frozenset(kinds - {Kind.DOMAIN.value} | ({_SITE} if Kind.DOMAIN in kinds else set()))
    )


def _may_be_rare(word: str, weight: float) -> bool:
    return weight * (IDENTIFIER_WEIGHT if any(map(str.isdigit, word)) else 1.0) >= RARE_WEIGHT


@cache
class _Weights:
    """Stems of words with their weights; one for each rarity, so that a word is looked up once a process."""

    def __init__(self, rarity: Rarity | None) -> None:
        self._rarity = rarity
        self._known: dict[str, tuple[str, float]] = {}

    def words(self, text: str) -> dict[str, float]:
        """Return the stems of the words that are not empty → weight."""
        pairs, stems = self._known, dict[str, float]()
        for word in _TOKEN.findall(text.lower()):
            pair = pairs.get(word)
            if pair is None:
                pair = self._look_up(word)
            if pair[1]:
                stems[pair[0]] = pair[1]
        return stems

    def _look_up(self, word: str) -> tuple[str, float]:
        plain = word.strip("'-").removesuffix("'s")
        weight = 0.0 if plain in EMPTY or not plain else word_weight(plain, self._rarity)
        if len(self._known) >= MAX_KNOWN_WORDS:
            self._known.clear()
        pair = self._known[word] = (stem(plain), weight)
        return pair


def is_near_copy(passage: StatedPassage, other: StatedPassage) -> bool:
    """Return whether two passages are the same but for values and a few words."""
    shorter = min(len(passage.phrases), len(other.phrases))
    return shorter >= MIN_PHRASES and len(passage.phrases & other.phrases) >= COPIED_SHARE * shorter


def compare_passages(passage: StatedPassage, other: StatedPassage) -> list[Comparison]:
    """Return the agreements and conflicts of two passages, conflicts first."""
    if all(
        compare(ours, theirs).outcome is Outcome.UNRELATED
        for number, rival in passage.common_sentences(other)
        for ours in passage.read([number])
        for theirs in other.read([rival])
    ):
        return []
    return list(compare_texts(passage.statements, other.statements, max_pairs=MAX_PAIRS).comparisons)
