"""What changed between two texts, word by word, in time that no text can stretch.

A patience diff (Cohen 2003): after what both texts begin and end with, words that stand exactly once in each are matched in
their longest common order, and what lies between two of them is compared in the same way. Where nothing stands once,
the rest counts as replaced. difflib's matcher needs minutes for two texts of a few thousand equal words; this one is
n log n a level, of at most MAX_DEPTH levels.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corpus_guard.domain import Span

MAX_DEPTH: Final = 24
DOMAINS: Final = "com|net|org|info|biz|io|co|uk|eu|de|fr|ru|cn|gov|edu|app|dev|xyz|top|site|online|shop|example"
"""Top-level domains by which a host without a scheme is told from ``config.yaml`` or ``os.path``."""

_TOKEN: Final = re.compile(
    r"https?://[^\s<>\"'()\[\]]+"  # an address is one word
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{1,255}"
    rf"|(?<![\w.-])(?:[A-Za-z0-9-]{{1,63}}\.){{1,8}}(?:{DOMAINS})(?![\w-])"
    r"|\d+(?:[.,:/-]\d+)*"
    r"|[^\W_]+(?:['’][^\W_]+)*"
    r"|\S"
)


@dataclass(frozen=True, slots=True)
class Text:
    """A text and its words."""

    text: str
    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]  # of each word, in code points

    @classmethod
    def of(cls, text: str) -> Text:
        """Cut at white space and punctuation; addresses, dates and decimal numbers are one word."""
        matches = [(match[0], match.span()) for match in _TOKEN.finditer(text)]
        return cls(text, tuple(word for word, _ in matches), tuple(place for _, place in matches))

    def span(self, start: int, end: int) -> Span:
        """Where words [start, end) stand. Of none, the word before the gap, so that a reader has something to look at."""
        if not self.places:
            return Span(0, 0)
        first = min(start, len(self.places) - 1) if start < end else max(0, min(start, len(self.places)) - 1)
        return Span(self.places[first][0], self.places[max(first, end - 1)][1])


@dataclass(frozen=True, slots=True)
class Change:
    """Words [old_start, old_end) of the predecessor became words [new_start, new_end)."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int

    @property
    def size(self) -> int:
        """Words on the longer side."""
        return max(self.old_end - self.old_start, self.new_end - self.new_start)


def changes(old: Sequence[str], new: Sequence[str]) -> list[Change]:
    """What turns `old` into `new`, in order; neighbours never touch."""
    joined: list[Change] = []
    for change in _compare(old, new, Change(0, len(old), 0, len(new))):
        last = joined[-1] if joined else None
        if last and (last.old_end, last.new_end) == (change.old_start, change.new_start):
            joined[-1] = Change(last.old_start, change.old_end, last.new_start, change.new_end)
        else:
            joined.append(change)
    return joined


def _compare(old: Sequence[str], new: Sequence[str], whole: Change) -> Iterator[Change]:
    """Depth first, left to right, without recursion: a hostile text chooses the depth."""
    todo = [(whole, 0)]
    while todo:
        part, depth = todo.pop()
        part = _trimmed(old, new, part)
        if part.size == 0:
            continue
        pairs = _in_order(old, new, part) if depth < MAX_DEPTH else []
        if not pairs:
            yield part
            continue
        starts = [(part.old_start, part.new_start), *((a + 1, b + 1) for a, b in pairs)]
        ends = [*pairs, (part.old_end, part.new_end)]
        between = [(Change(a, c, b, d), depth + 1) for (a, b), (c, d) in zip(starts, ends, strict=True)]
        todo.extend(reversed(between))


def _trimmed(old: Sequence[str], new: Sequence[str], part: Change) -> Change:
    a, c, b, d = part.old_start, part.old_end, part.new_start, part.new_end
    while a < c and b < d and old[a] == new[b]:
        a, b = a + 1, b + 1
    while a < c and b < d and old[c - 1] == new[d - 1]:
        c, d = c - 1, d - 1
    return Change(a, c, b, d)


def _in_order(old: Sequence[str], new: Sequence[str], part: Change) -> list[tuple[int, int]]:
    """Words that stand once on each side, as many as keep their order: a longest increasing subsequence."""
    left, right = old[part.old_start : part.old_end], new[part.new_start : part.new_end]
    if not left or not right:
        return []
    once = {word for word, count in Counter(left).items() if count == 1}
    once &= {word for word, count in Counter(right).items() if count == 1}
    where = {word: part.new_start + at for at, word in enumerate(right) if word in once}
    pairs = [(part.old_start + at, where[word]) for at, word in enumerate(left) if word in once]
    tails: list[int] = []  # smallest last position of an increasing sequence of each length
    chain: list[int] = []  # which pair that is
    before: list[int] = []  # pair → the one before it
    for number, (_, position) in enumerate(pairs):
        length = bisect_left(tails, position)
        before.append(chain[length - 1] if length else -1)
        if length == len(tails):
            tails.append(position)
            chain.append(number)
        else:
            tails[length], chain[length] = position, number
    found: list[tuple[int, int]] = []
    number = chain[-1] if chain else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]
