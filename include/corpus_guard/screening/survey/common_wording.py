"""Common wording of the members of a group: the words that they share, and whether they repeat each other.

Rules
- A word is shared if most other members hold it. Words that say nothing of a subject are not counted.
- Members repeat each other where most of what they say is shared, and stands in runs of `RUN_WORDS` words that several of
  them hold: replies that quote, mirrors, news taken from one agency. Planted siblings are each written anew.
- Words with which all of them begin are left out: a question in front of every text is no quotation.
- They must repeat each other with and without the names: whoever writes about a thing must name it, and who varies the rest quotes
  nobody. A word is a name if it is written with a capital within a sentence, and nowhere without one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice, takewhile
from statistics import median
from typing import Final

from corpus_guard.claims.vocabulary import EMPTY
from corpus_guard.domain import Span
from corpus_guard.screening.wording import COMMON_BITS, WORD, split_words, stem

SHARED_BY: Final = 0.6  # share of the other members that hold a shared word
REPEATED_BY: Final = 0.34  # share of the other members that hold a repeated run, two of them at least
HELD_BY: Final = 0.5  # the same, where it is asked how much they repeat each other
RUN_WORDS: Final = 3
MAX_MEMBERS: Final = 24  # compared with each other
MAX_WORDS: Final = 200  # read of each
NAMES_ADD: Final = 0.06  # by so much more members must repeat each other where their names are counted
_MIN_OPENING: Final = 5  # words with which all begin, to be left out
_WITHIN: Final = re.compile(r"(?<=[^\s.!?:;\"“„»«(] )\w")
"""The first letter of a word that does not begin a sentence."""


def find_shared_words(text: str, others: Sequence[Set[str]]) -> tuple[Span, ...]:
    """Return the places of the words of a text that most of the others hold.

    Args:
        others: the stems of the words of each other member.
    """
    holders = Counter(word for words in others for word in words)
    return tuple(
        Span(*match.span())
        for match in WORD.finditer(text)
        if (word := match.group().lower()) not in EMPTY and holders[stem(word)] >= max(1.0, SHARED_BY * len(others))
    )


def repetition(texts: Sequence[str], rarity: Callable[[str], float]) -> float:
    """Return how much the members repeat each other, 0..1: so much without their names, and `NAMES_ADD` more with them.

    It is the mean of two shares, by rarity of the words, and of the members their median: how much of what a member says half of
    the others say too, and how much of that stands in repeated runs.
    """
    read = [split_words(text)[:MAX_WORDS] for text in texts[:MAX_MEMBERS]]
    opening = _common_opening(read)
    members = [words[opening:] for words in read]
    names = _find_names(texts[:MAX_MEMBERS])
    shares = [
        _repetition_of(words, [*members[:number], *members[number + 1 :]], names, rarity)
        for number, words in enumerate(members)
    ]
    with_names, without = (median(share[side] for share in shares) for side in (0, 1))
    return max(0.0, min(with_names - NAMES_ADD, without))


def _find_names(texts: Sequence[str]) -> frozenset[str]:
    """Return the words that are written with a capital within sentences, and nowhere without."""
    named, plain = set[str](), set[str]()
    for text in texts:
        if text.isupper():
            continue
        for match in islice(WORD.finditer(text), MAX_WORDS):
            word = match.group()
            if not word[0].isupper():
                plain.add(word)
            elif _WITHIN.match(text, match.start()):
                named.add(word.lower())
    return frozenset(named - plain)


def _common_opening(texts: Sequence[Sequence[str]]) -> int:
    """Return the number of words with which all texts begin; 0: too few to be more than chance."""
    count = sum(1 for _ in takewhile(lambda words: len(set(words)) == 1, zip(*texts, strict=False)))
    return count if count >= _MIN_OPENING else 0


def _repetition_of(
    words: Sequence[str], others: Sequence[Sequence[str]], names: Set[str], rarity: Callable[[str], float]
) -> tuple[float, float]:
    """Return how much a member repeats the others, with its names and without them."""
    stems = [{stem(word) for word in other} for other in others]
    runs = Counter(run for other in others for run in set(_runs(other)))
    least = max(min(2, len(others)), REPEATED_BY * len(others))
    repeated = {word for run in _runs(words) if runs[run] >= least for word in run}
    weights = {word: max(bits - 10.0, 0.5) for word in set(words) if (bits := rarity(word)) >= COMMON_BITS}
    shared = {
        word
        for word in weights
        if sum(stem(word) in text_stems for text_stems in stems) >= max(1.0, HELD_BY * len(others))
    }

    def share(left_out: Set[str]) -> float:
        parts = (weights.keys() - left_out, shared - left_out, (shared & repeated) - left_out)
        total, common, again = (sum(map(weights.__getitem__, part)) for part in parts)
        return (common / total + again / common) / 2 if common else 0.0

    return share(frozenset()), share(names)


def _runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(RUN_WORDS)), strict=False)
