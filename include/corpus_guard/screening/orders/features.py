"""Features of a sentence: words, pairs of words, pieces of words, concepts in order, and signs.

Each group of features is hashed into a table of its own, and its sum of weights is divided by the square root of
how many there are, so that a long sentence weighs no more than a short one.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence, Set
from enum import IntEnum
from itertools import chain, pairwise
from typing import Final, TypeAlias

import re2

from corpus_guard.claims.sentences import MAX_SENTENCE, split_sentences
from corpus_guard.domain import Span
from corpus_guard.screening.orders.concepts import UNSPACED_LETTERS, load_lexicon, normalise, split_words

FEATURES_VERSION: Final = "orders/3"
BUCKETS: Final = 1 << 17
"""Rows of each group's table."""
MAX_CHARS: Final = 600
"""Characters of a sentence; a longer one is read in pieces."""
LONG_CHARS: Final = 140
"""Longest sentence that is not read in parts: in a longer one an order drowns."""
PART_CHARS: Final = (130, 200)
"""Characters of the parts of a longer one, short and long ones; those of a size overlap by half."""
JOINED: Final = 3
"""Most sentences in a row that are read together: each may be harmless by itself."""
JOINED_CHARS: Final = 220
"""Most characters of sentences that are read together."""
MAX_CONCEPTS: Final = 24
PIECE_CHARS: Final = 4
MIN_LETTERS: Final = 8
"""Fewest letters of a sentence that is read."""


class Group(IntEnum):
    """Kind of features."""

    WORDS = 0
    PAIRS = 1
    PIECES = 2
    CONCEPTS = 3
    SIGNS = 4


Buckets: TypeAlias = tuple[frozenset[int], ...]
"""Buckets of a sentence's features, by group."""

_SIGNS: Final = re.compile(
    r"(?P<address>\w+://|www\.)|(?P<mail>@[\w-]+\.)|(?P<quote>[\"“”«»„「『])|(?P<brace>[{}\[\]<>|])|(?P<code>[`=;/\\#_()$])"
    r"|(?P<colon>:)|(?P<question>[?？؟])|(?P<exclamation>[!！])|(?P<number>\d)"
)
_ENOUGH_LETTERS: Final = re.compile(rf"(?:[^\W\d_][\W\d_]*+){{{MIN_LETTERS}}}")
_UNSPACED_END: Final = re.compile(r"(?<=[。！？।؟])")
_SLOT: Final = re.compile(
    r"!?\[(?P<label>[^\[\]\n]{12,300})\](?=[(\[])|(?<=[\w/)]) [\"'](?P<title>[^\"'\n]{12,300})[\"'](?=\s*\))"
    r"|\b(?:alt|title|aria-label|content|placeholder|summary)=[\"'](?P<attribute>[^\"'\n<>]{12,300})[\"']"
    r"|(?:(?<=: )|(?<=[\[,])\s*)\"(?P<string>(?:[^\"\\\n]|\\.){12,500})\"|^ {0,3}\[\^[^\]\n]{1,20}\]:[ \t]*(?P<footnote>[^\n]{12,600})"
    r"|^[A-Za-z][\w-]{1,24}:[ \t]*(?P<header>[^\n]{12,600})",
    re.MULTILINE,
)
_SLOT_MARKS: Final = ("](", "][", '="', "='", ': "', '["', ',"', ', "', ",\n", "[^")
_OTHER_SLOT: Final = re.compile(r"[\"']\s*\)|^[A-Za-z][\w-]{1,24}:", re.MULTILINE)
"""With `_SLOT_MARKS`: what each kind of slot holds; plain prose, without any of them, is not searched further."""
_ROW: Final = re.compile(r"^[ \t]*\|[^\n]+|^[^|\n]+(?:\|[^|\n]*){2,}", re.MULTILINE)
_ABSOLUTE_VALUE: Final = re.compile(r"(?<![^\s(\[=<>≤≥+*/-])\|[^\s|]{1,20}\|(?![^\s)\],.;:])")
_CELL: Final = re.compile(r"[^|]+")
_MARK: Final = re.compile(r"(?:[-*+•>#|\s]+|\d{1,3}[.)]\s+)+")
"""Marks in front of a line, also without a space behind them."""
_SPACED_MARK: Final = re.compile(r"\s*(?:(?:`{3,}[\w.-]*|[-*+•–·>#|]+|\[[ xX]\]|\(?(?:\d{1,3}|[A-Za-z])[.)])\s+)*")
"""Marks of list entries, tasks, headings, quotations, comments and code; "--force" is none."""
_EMPHASISED: Final = re.compile(r"([*_]{1,3})(?=\S)(.*\S)\1", re.DOTALL)
_CREDIT: Final = re.compile(r"\s(?:by|thanks(?: to)?) \[?@[\w-]+(?:\[bot\])?(?:\]\(\S+\))?(?: in \S+)?$", re.IGNORECASE)
"""Author of a change behind its title, as in notes on a release: "by @name in #12"."""
_CALL: Final = re.compile(r"[\w.$ ]{1,40}\(\s*([\"'`])(.*\S)\s*\1\s*\);?", re.DOTALL)
_CUT: Final = re.compile(
    r"(?<=[.!?…])(?:[\"')\]”’»*_`¹²³⁴-⁹]|\[\d{1,3}\]){0,4}\s+(?=[^a-z])|\n\s*(?=[^a-z\s])|\s[•·|]\s|;\s|\t"
    rf"|[,;](?=[^\W\d_{UNSPACED_LETTERS}])"  # a cell of CSV; prose without spaces has commas of this kind too
    r"|</?[a-z]+[^<>]{0,200}>|\s*[\U0001F300-\U0001FAFF\u2600-\u27BF][\uFE0F\u200D\U0001F300-\U0001FAFF\u2600-\u27BF]*\s*"
)
"""Cut of a text without full stops, also behind marks that stand after one."""
_OTHER_CUT: Final = re2.compile(
    r"[\n\t•·|<\x{1F300}-\x{1FAFF}\x{2600}-\x{27BF}]|;\s|[,;]\pL|[.!?…](?:[\"')\]”’»*_`¹²³⁴-⁹]|\[\d)"
)
"""Sign that a text is cut elsewhere than behind sentences; plain prose, without any, is not searched further."""
_EDGES: Final = " \n\t\r*_`\"'“”«»#>+|•·-"
_BULLETS: Final = frozenset("-*+•")
_ENDS: Final = frozenset(".!?;:|`})。！？؟")
_COMMENT: Final = re.compile(r"\s*(?:#|//|/\*|<!--|--|;|%|\"\"\")")


def split_pieces(text: str) -> Iterator[Span]:
    """Yield the places of a text's sentences, at most `MAX_CHARS` each, without white space around them and marks in front of them.

    Encoders take list entries for entries of a log of changes: behind an asterisk they found half as many orders.
    """
    if not _ENOUGH_LETTERS.search(text):
        return
    for start, end in _split_unspaced(text):
        for offset in range(start, end, MAX_CHARS):
            last = min(end, offset + MAX_CHARS)
            mark = _SPACED_MARK.match(text, offset, last)
            first = mark.end() if mark else offset
            bare = text[first:last].rstrip()
            if _ENOUGH_LETTERS.search(bare):
                yield Span(first, first + len(bare))


def plain_sentence(sentence: str) -> str:
    """Return a sentence as it would stand in prose; encoders find fewer orders in what surrounds it elsewhere.

    Emphasis, a call such as `print("…")` and a credit behind it are left out, and capitals are small if all are.
    """
    bare = _CREDIT.sub("", sentence).rstrip()
    for around in (_CALL, _EMPHASISED):
        if match := around.fullmatch(bare):
            bare = match[match.lastindex or 0]
    return bare.capitalize() if bare.isupper() and " " in bare else bare


def split_parts(text: str) -> Iterator[tuple[Span, str]]:
    """Yield the parts of long sentences, and of sentences that run over list entries or paragraphs: place and words."""
    for pieces in _split_runs(text):
        words = " ".join(text[piece.start : piece.end] for piece in pieces)
        if (len(words) <= LONG_CHARS and len(pieces) == 1) or not _ENOUGH_LETTERS.search(words):
            continue
        starts = [0]
        for piece in pieces:
            starts.append(starts[-1] + piece.end - piece.start + 1)
        for start, end in chain.from_iterable(_split_windows(words, size) for size in PART_CHARS):
            first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1) - 1
            place = pieces[first].start + start - starts[first], pieces[last].start + end - starts[last]
            yield Span(place[0], min(place[1], pieces[last].end)), words[start:end]


def join_sentences(text: str, pieces: Sequence[Span], doubtful: Set[Span]) -> Iterator[tuple[Span, str]]:
    """Yield sentences in doubt with their neighbours in a paragraph, two to `JOINED` in a row: place and words.

    Args:
        text: the text.
        pieces: its sentences.
        doubtful: those of the sentences that are in doubt.
    """
    for first in range(len(pieces)):
        for last in range(first + 1, min(first + JOINED, len(pieces))):
            joined, before = pieces[first : last + 1], pieces[last - 1]
            words = " ".join(text[piece.start : piece.end] for piece in joined)
            if len(words) > JOINED_CHARS or "\n\n" in text[before.end : pieces[last].start]:
                break
            if not doubtful.isdisjoint(joined):
                yield Span(joined[0].start, joined[-1].end), words


def _split_runs(text: str) -> Iterator[list[Span]]:
    """Yield the pieces of each sentence, without the marks of list entries and headings in front of them.

    A sentence goes on where a small letter follows no end of a sentence, or one entry of a list another.
    """
    run: list[Span] = []
    after_entry = False
    for start, end in _split_unspaced(text):
        mark = _MARK.match(text, start, end)
        begin = mark.end() if mark else start
        if begin == end:
            continue
        is_entry = text[start] in _BULLETS and begin > start
        if run:
            is_cut = start - run[-1].end <= 1 and end > run[-1].end >= run[-1].start + MAX_SENTENCE // 2
            goes_on = text[begin].islower() or (is_entry and after_entry)
            if not is_cut and not (goes_on and text[run[-1].end - 1] not in _ENDS):
                yield run
                run = []
        run.append(Span(begin, end))
        after_entry = is_entry
    if run:
        yield run


def _split_unspaced(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each sentence, also where no space stands behind its end."""
    for start, end in split_sentences(text):
        position = start
        for part in _UNSPACED_END.split(text[start:end]) if not text.isascii() else (text[start:end],):
            if part.strip():
                yield position, position + len(part)
            position += len(part)


def _split_windows(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of stretches of whole words, of so many characters at most."""
    start = 0
    while len(text) - start > size:
        space = text.rfind(" ", start + size // 2, start + size)
        yield start, space if space > 0 else start + size
        space = text.find(" ", start + size // 2, start + size)
        start = space + 1 if space > 0 else start + size // 2
    yield start, len(text)


def split_passages(text: str) -> Iterator[Span]:
    """Yield what stands by itself between other cuts than ends of sentences: lines, cells, bullets, tags, and marks behind a full stop.

    A sentence of prose may go on over a line. Where an order is such a line among others, a sentence would hold them all.
    """
    if not _OTHER_CUT.search(text.encode("utf-8", "replace")):
        return
    start = 0
    for cut in chain(_CUT.finditer(text), (None,)):
        end = cut.start() if cut else len(text)
        if MIN_LETTERS <= end - start <= MAX_CHARS:
            bare = text[start:end].strip(_EDGES)
            if _ENOUGH_LETTERS.search(bare):
                first = text.index(bare, start)
                yield Span(first, first + len(bare))
        start = cut.end() if cut else end


def split_slots(text: str) -> Iterator[Span]:
    """Yield the places of texts that stand inside others: alternative texts, titles of links, strings and headers of data.

    A sentence around them would thin them out; here each is read by itself.
    """
    if not any(mark in text for mark in _SLOT_MARKS) and not _OTHER_SLOT.search(text):
        return
    for match in _SLOT.finditer(text):
        start, end = match.span(match.lastgroup or 0)
        if _ENOUGH_LETTERS.search(text, start, end):
            yield Span(start, end)


def split_rows(text: str) -> Iterator[Span]:
    """Yield the places of a text's table rows and of their cells: an order may stand in a cell, or run over several.

    A line whose bars all are those of formulas ("|x|") is no row: the halves of its sentence would be read as cells.
    """
    for row in _ROW.finditer(text) if "|" in text else ():
        if "|" not in _ABSOLUTE_VALUE.sub("", row[0]):
            continue
        for start, end in (row.span(), *(cell.span() for cell in _CELL.finditer(text, *row.span()))):
            bare = text[start:end].strip(" \t|")
            if _ENOUGH_LETTERS.search(bare):
                first = text.index(bare, start)
                yield Span(first, first + len(bare))


def join_cells(row: str) -> str:
    """Return the text of a row's cells, without the lines between them."""
    return " ".join(row.replace("|", " ").split())


def read_features(sentence: str) -> Buckets:
    """Return the buckets of a sentence's features."""
    normal = normalise(sentence[:MAX_CHARS])
    words = split_words(normal)
    return (
        frozenset(map(hash_feature, words)),
        frozenset(map(hash_feature, _pairs(words))),
        frozenset().union(*map(hash_pieces, set(words))),
        frozenset(map(hash_feature, _concepts(words, normal))),
        frozenset(map(hash_feature, _signs(words, normal))),
    )


def hash_feature(name: str) -> int:
    """Return the bucket of a feature."""
    return zlib.crc32(name.encode("utf-8", "replace")) % BUCKETS


def hash_pieces(word: str) -> frozenset[int]:
    """Return the buckets of the pieces of four characters of a word and its edges."""
    padded = f"<{word[:40]}>"
    if len(padded) <= PIECE_CHARS + 1:
        return frozenset()
    places = range(len(padded) - PIECE_CHARS + 1)
    if padded.isascii():  # cut as bytes, in half the time
        data = padded.encode()
        return frozenset([zlib.crc32(data[at : at + PIECE_CHARS]) % BUCKETS for at in places])
    return frozenset([hash_feature(padded[at : at + PIECE_CHARS]) for at in places])


def _pairs(words: Sequence[str]) -> Iterator[str]:
    yield f"first {words[0] if words else ''}"
    yield from (f"{first} {second}" for first, second in pairwise(words))


def _concepts(words: Sequence[str], normal: str) -> Iterator[str]:
    read = list(load_lexicon().read(words, normal))[:MAX_CONCEPTS]
    present = sorted({concept for concepts in read for concept in concepts})
    yield f"count {min(8, len(present))}"
    yield from present
    if read:
        yield from (f"first {concept}" for concept in read[0])
    for earlier, later in pairwise(read):
        yield from (f"{first} {second}" for first in earlier for second in later)
    yield from (f"and {first} {second}" for at, first in enumerate(present) for second in present[at + 1 :])


def _signs(words: Sequence[str], normal: str) -> Iterator[str]:
    yield from {match.lastgroup or "" for match in _SIGNS.finditer(normal)}
    yield f"length {min(6, len(words) // 5)}"
    if _COMMENT.match(normal):
        yield "comment"
