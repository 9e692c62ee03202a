"""Words that signs join or cut, read without them.

Each reader takes a text and returns the stretches of it in which signs stand where a person sees none, or reads past them:

- *Blanks*: characters that nothing draws stand for the spaces, or within the words.
- *Cut words*: markup, signs or numbers of notes within words, and letters by their numbers.
- *Joined words*: one and the same sign between all words or every few, of a line, of short lines, of strings or of captions.
- *Spaced-out letters*, with another sign between words.
- *Words with capitals*, *columns* of tables read downwards, and words right behind a line break as programs write it.

A trigger names the frequent words that an order can hardly do without, so that code, addresses and lists seldom hit it. Only
stretches with several such places are read, and a hit counts only where it holds enough of them: the plain words around them are
read as they stand. What it does not read: words cut by spaces, and words between more than `MAX_SHAPES` different signs.
"""

from __future__ import annotations

import html
import re
import sys
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, groupby, pairwise
from typing import Final, TypeAlias

import re2

from corpus_guard.domain import Span
from corpus_guard.screening.folding import plain_letter

MIN_PLACES: Final = 3
"""Places within `NEAR` that make a stretch."""
NEAR: Final = 120
"""Characters between two places of one stretch, at most."""
CHARS_PER_PLACE: Final = 60
"""Characters of a hit for each place that it must hold, up to `MIN_PLACES`: a long sentence may hold one by chance."""
AROUND: Final = 300
"""Characters on either side of a stretch that are read with it, at most; an empty line ends it before."""


Edit: TypeAlias = tuple[int, int, str]
"""Start and end in the document, and what stands there instead."""
Stretch: TypeAlias = tuple[Span, Sequence[Edit]]
"""A part of the document, and its edits in order."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Stretches of a text with some characters replaced."""

    text: str
    places: Sequence[int]
    """Offsets in the document of what was replaced, in order."""
    _starts: Sequence[int]  # of the pieces, in `text`
    _spans: Sequence[tuple[int, int, bool]]  # of the pieces, in the document; whether they are copied

    def locate(self, start: int, end: int) -> Span:
        """Return the span of the document that became ``text[start:end]``."""
        first, last = self._offset(start), self._offset(max(start, end - 1))
        return Span(first[0], max(last[1], first[0] + 1))

    def _offset(self, at: int) -> tuple[int, int]:
        number = max(0, bisect_right(self._starts, at) - 1)
        start, end, is_copied = self._spans[number]
        if not is_copied:
            return start, end
        place = min(start + at - self._starts[number], end - 1)
        return place, place + 1


def rewrite(text: str, stretches: Iterable[Stretch]) -> Rewriting:
    """Return stretches of a text with their edits, an empty line between them."""
    parts: list[str] = []
    starts: list[int] = []
    spans: list[tuple[int, int, bool]] = []
    places: list[int] = []
    size = 0

    def add(part: str, start: int, end: int, *, is_copied: bool) -> None:
        nonlocal size
        if part:
            parts.append(part)
            starts.append(size)
            spans.append((start, end, is_copied))
            size += len(part)

    for stretch, edits in stretches:
        at = stretch.start
        for start, end, instead in edits:
            add(text[at:start], at, start, is_copied=True)
            add(instead, start, end, is_copied=False)
            places.append(start)
            at = end
        add(text[at : stretch.end], at, stretch.end, is_copied=True)
        add("\n\n", max(stretch.end - 1, 0), stretch.end, is_copied=False)
    return Rewriting("".join(parts), places, starts, spans)


def rests_on(places: Sequence[int], span: Span) -> bool:
    """Return whether so many places are within a span that what it says rests on them."""
    enough = min(MIN_PLACES, 1 + (span.end - span.start) // CHARS_PER_PLACE)
    return bisect_left(places, span.end) - bisect_left(places, span.start) >= enough


def find_stretches(text: str, places: Sequence[int]) -> Iterator[Span]:
    """Yield the stretches with at least `MIN_PLACES` places, each at most `NEAR` characters from the next."""
    end = 0
    group: list[int] = []
    for place in (*places, sys.maxsize):
        if group and place - group[-1] > NEAR:
            if len(group) >= MIN_PLACES:
                start, end = max(end, _line_before(text, group[0])), _line_after(text, group[-1])
                yield Span(start, end)
            group = []
        group.append(place)


def _line_before(text: str, place: int) -> int:
    lowest = max(0, place - AROUND)
    blank = text.rfind("\n\n", lowest, place)
    return blank + 2 if blank >= 0 else lowest


def _line_after(text: str, place: int) -> int:
    highest = min(len(text), place + AROUND)
    blank = text.find("\n\n", place, highest)
    return blank if blank >= 0 else highest


# --- blanks -------------------------------------------------------------------------------------------------

_DRAWN_AS_NOTHING: Final = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\ufffd\U0001d159"
BLANK_BESIDE_LETTERS: Final = re2.compile(
    (
        r"[\p{Latin}\pN][.,;:!?]?"
        rf"(?:[\p{{Cf}}\p{{Me}}\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f{_DRAWN_AS_NOTHING}]|[^\P{{Mn}}\x{{300}}-\x{{36f}}])+"
        r"[\p{Latin}\pN]"
    ).encode()
)
"""A blank between letters, on UTF-8 text. Accents are none."""


@cache
def _blanks() -> re.Pattern[str]:
    """Return a pattern of blanks between visible characters; `re` knows no classes of Unicode."""
    drawn = range(0x300, 0x370)  # accents
    codes = [
        code
        for code in range(sys.maxunicode + 1)
        if code not in drawn and unicodedata.category(chr(code)) in {"Cf", "Mn", "Me"}
    ]
    controls = [*range(0x09), *range(0x0E, 0x1C), *range(0x7F, 0x85), *range(0x86, 0xA0)]
    codes = sorted({*codes, *controls, *map(ord, _DRAWN_AS_NOTHING)})
    ranges = []
    for _, group in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        row = [code for _, code in group]
        ranges.append(f"{re.escape(chr(row[0]))}-{re.escape(chr(row[-1]))}")
    return re.compile(f"(?<=\\S)(?<![{''.join(ranges)}])[{''.join(ranges)}]+(?=\\S)")


_WORD_CHAR: Final = re.compile(r"[^\W_]")
_LATIN_LETTER: Final = re.compile("[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff]")
_OTHERWISE_COUNTED: Final = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\ufffd\U000e0000-\U000e007f]+")


def read_blanks(text: str) -> tuple[Rewriting, ...]:
    """Return stretches with blanks between their letters: with spaces instead of them, and without them."""
    spans = [match.span() for match in _blanks().finditer(text)]
    places = [start for start, end in spans if _WORD_CHAR.match(text, end)]
    stretches = list(find_stretches(text, places))
    if not stretches:
        return ()

    def with_instead(instead: str) -> Rewriting:
        edits = [(start, end, instead) for start, end in spans]
        return rewrite(text, [(stretch, _within(edits, stretch)) for stretch in stretches])

    return with_instead(" "), with_instead("")


def _within(edits: Sequence[Edit], stretch: Span) -> list[Edit]:
    first, last = (bisect_left(edits, at, key=lambda edit: edit[0]) for at in (stretch.start, stretch.end))
    return [edit for edit in edits[first:last] if edit[1] <= stretch.end]


def crowded_blanks(text: str) -> list[Span]:
    """Return blanks between Latin letters that stand close to each other; not controls, tags, lost letters and soft hyphens."""
    spans = [
        Span(*match.span())
        for match in _blanks().finditer(text)
        if not _OTHERWISE_COUNTED.fullmatch(match[0])
        and _LATIN_LETTER.match(text, match.end())
        and _LATIN_LETTER.match(text, match.start() - 1)
    ]
    stretches = list(find_stretches(text, [span.start for span in spans]))
    ends = [stretch.end for stretch in stretches]
    numbers = (bisect_right(ends, span.start) for span in spans)
    return [
        span
        for span, number in zip(spans, numbers, strict=True)
        if number < len(stretches) and stretches[number].start <= span.start
    ]


# --- cut words ----------------------------------------------------------------------------------------------

_TELLING: Final = (
    "the that this these they them you your and any all must not has have are user users with when from about always never "
    "should say tell page other others will which who anyone asks answer answers ignore disregard previous instructions "
    "assistant assistants model models document recommend summarise summarize reading leave system prompt reply send reveal "
    "follow sources call out nicht alle dass eine wenn und vous toutes dans pour para todas cuando tutte"
)
TELLING: Final = tuple(_TELLING.split())
"""Words that orders can hardly do without, most of them frequent in any text."""
_SIGN: Final = r"(?:[*_`~\\.|/{}·-]{1,3}|(?:<[^<>]*>)+|= |\" ?\")"
_SIGN_OR_APOSTROPHE: Final = rf"(?:'|{_SIGN})"


def _cut_in_two(word: str) -> str:
    places = range(1, len(word))
    # "user's" is cut by no one
    return "|".join(f"{word[:at]}{_SIGN if word[at:] == 's' else _SIGN_OR_APOSTROPHE}{word[at:]}" for at in places)


CUT_WORDS: Final = (
    rf"\b(?:{'|'.join(_cut_in_two(word) for word in TELLING if len(word) > 2)})\b",
    r"[a-z](?:&#x?[0-9a-f]{2,6};|\\u\{?00[2-7][0-9a-f]\}?|%[2-7][0-9a-f])[a-z]",
    # notes behind words: words7 of8 a9 sentence10
    r"(?:\b[a-z]{2,}[.,]?(?:[0-9]{1,3}| ?\[\^?[0-9]{1,3}\])[.,]? (?:[a-z]+[.,]? ){0,2}){3}",
)
"""RE2, on folded text: a frequent word with a sign in it, a letter by its number, words with numbers of notes."""
_WITHIN_WORDS: Final = re.compile(
    r"(?P<code>&(?:\#[0-9]{2,7}|\#[xX][0-9A-Fa-f]{2,6});|\\u(?:[0-9A-Fa-f]{4}|\{[0-9A-Fa-f]{2,6}\})|\\x[0-9A-Fa-f]{2}|%[2-7][0-9A-Fa-f])"
    r"|(?P<tag>(?:<!--[^<>]{0,200}-->|</?[A-Za-z][^<>\n]{0,200}>)+)"
    r"|(?P<note>(?<=[^\W\d_])[.,]?(?:\[\^?[0-9]{1,3}\]|\^?[0-9¹²³⁰⁴-⁹₀-₉]{1,3})(?!\w))"
    r"|(?P<sign>\\[A-Za-z]{2,20}\{|[*_`~\\{}]{1,3}|(?<=[^\W\d_])(?:[-.'’|/·‐‑]|=?\r?\n[ \t]|=\r?\n|\"\s*\")(?=[^\W\d_]))"
)
"""Signs that may stand within a word, or around a part of it."""
_NOT_WORD: Final = re.compile(r"[\W_]")


def read_cut_words(text: str, window: Span) -> list[Stretch]:
    """Return stretches whose words hold markup, signs or numbers of notes, without these; letters by their numbers are read."""
    matches = list(_WITHIN_WORDS.finditer(text, window.start, window.end))
    places = [match.start() for match in matches if _is_within_word(text, match)]
    edits = [(*match.span(), _instead(text, match)) for match in matches]
    return [(stretch, _within(edits, stretch)) for stretch in find_stretches(text, places)]


def _is_within_word(text: str, match: re.Match[str]) -> bool:
    if match.lastgroup == "note":
        return True
    start, end = match.span()
    return start > 0 and end < len(text) and not (_NOT_WORD.match(text, start - 1) or _NOT_WORD.match(text, end))


def _instead(text: str, match: re.Match[str]) -> str:
    if match.lastgroup == "code":
        return _unescaped(match[0])
    if match.lastgroup == "note":
        return match[0][:1] if match[0][0] in ".," else ""
    return " " if match.lastgroup == "tag" and not _is_within_word(text, match) else ""


def _unescaped(code: str) -> str:
    if code.startswith("&"):
        return html.unescape(code)
    return chr(min(int(code.lstrip("\\ux%{").rstrip("}"), 16), sys.maxunicode))


# --- joined words -------------------------------------------------------------------------------------------

MIN_JOINED: Final = 5
"""Times that one and the same sign stands between the words of a stretch."""
MAX_WORDS: Final = 8
"""Words between two such signs."""
MAX_GAP: Final = 100
"""Characters between two words that are looked at."""
MAX_SHAPES: Final = 3
"""Different signs between the words of a stretch."""
WINDOW: Final = 14
"""Words among which `MIN_TELLING` frequent ones must be."""
MIN_TELLING: Final = 3
_ANY_TELLING: Final = "|".join(TELLING)
_LETTER: Final = r"[a-z'\x{80}-\x{10ffff}]"  # a cheap class: other scripts are seldom written so
_BY_SIGN: Final = r"(?: ?[^a-z0-9 .,;:!?'-][^a-z0-9]{0,5}|[^a-z0-9 ]{1,3})"
_BY_NUMBER: Final = r"[^a-z]*[0-9][^a-z]*"
_BY_TAG: Final = r"(?: ?<[^<>]*>)+ ?"
_LINE_MARK: Final = r"(?: (?:[>#*;+|/]{1,2}|[0-9]{1,4}\.?) |(?:\\n)?\",? ?\"|\\n)"
JOINED_WORDS: Final = (
    *(
        rf"(?:^|[^a-z])(?:{_ANY_TELLING}){sign}(?:{_LETTER}+[.,]?{sign}){{0,2}}(?:{_ANY_TELLING}){sign}"
        rf"(?:{_LETTER}+[.,]?{sign}){{0,3}}(?:{_ANY_TELLING})(?:[^a-z]|$)"
        for sign in (_BY_SIGN, _BY_NUMBER, _BY_TAG)
    ),
    r"[0-9] --> [0-9]",
    rf"(?:{_LINE_MARK}{_LETTER}+[.,]?(?: {_LETTER}+[.,]?){{0,3}}){{5}}",
)
"""RE2, on folded text: frequent words with signs or numbers between them, captions, short lines with one mark before each."""
_PARTS: Final = re.compile(r"<[^<>\n]{0,200}>|\\[nrt](?=\\|[^\w\s])|[^\W\d_]+(?:['’][^\W\d_]+)?")
TELLING_WORDS: Final = frozenset(TELLING)
_PUNCTUATION: Final = re.compile(r"^[.,;:!?]+(?=\S|\n)")


_OF_PROSE: Final = frozenset({"", *",.;:!?-–—"})


@lru_cache(maxsize=4096)
def _shape(gap: str) -> str:
    """Return what stands between two words, with digits, tags and spaces made one each; "" for what prose holds."""
    shape = re.sub(r"(?:<[^<>]*>)+", "<>", gap)
    shape = re.sub(r"\d+", "0", re.sub(r" +", " ", _PUNCTUATION.sub("", shape)))
    return "" if shape in {"'", "’"} or (" " in shape and shape.strip(" ") in _OF_PROSE) else shape


def read_joined_words(text: str, window: Span) -> list[Stretch]:
    """Return stretches in which one and the same sign stands between all words, or every few words, with spaces instead."""
    words = [match.span() for match in _PARTS.finditer(text, window.start, window.end) if match[0][0] not in "<\\"]
    gaps = (text[end : min(start, end + MAX_GAP)] for (_, end), (start, _) in pairwise(words))
    shapes = ["" if gap == " " else _shape(gap) for gap in gaps]
    stretches: list[Stretch] = []
    for first, last in _rows(shapes):
        if _tells([text[start:end].lower() for start, end in words[first : last + 1]]):
            edits = [
                (words[number][1] + len(_kept(text, words[number][1])), words[number + 1][0], " ")
                for number in range(first, last)
                if shapes[number]
            ]
            stretches.append((Span(words[first][0], _behind(text, words[last][1])), edits))
    return stretches


def _rows(shapes: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last word of each row with few shapes between the words, or every few words."""
    first, latest, count = 0, -MAX_WORDS, 0
    row_shapes: set[str] = set()
    for number, shape in enumerate(shapes):
        if not shape:
            continue
        if number - latest > MAX_WORDS or (shape not in row_shapes and len(row_shapes) == MAX_SHAPES):
            if count >= MIN_JOINED:
                yield first, min(latest + MAX_WORDS, number)
            first, count = max(latest + 1, number - MAX_WORDS + 1, 0), 0
            row_shapes.clear()
        row_shapes.add(shape)
        count += 1
        latest = number
    if count >= MIN_JOINED:
        yield first, min(latest + MAX_WORDS, len(shapes))


def _tells(words: Sequence[str]) -> bool:
    """Return whether frequent words stand close together, as in a sentence."""
    places = [number for number, word in enumerate(words) if word in TELLING_WORDS]
    return any(last - first < WINDOW for first, last in zip(places, places[MIN_TELLING - 1 :], strict=False))


_WORD: Final = re.compile("[a-z]+")


def is_telling(text: str) -> bool:
    """Return whether a frequent word is among a few."""
    return not TELLING_WORDS.isdisjoint(_WORD.findall(text.lower()))


def _kept(text: str, end: int) -> str:
    """Return the punctuation behind a word that is a sentence's own."""
    return match[0] if (match := _PUNCTUATION.match(text[end : end + 4])) else ""


def _behind(text: str, end: int) -> int:
    return end + 1 if text[end : end + 1] in {".", "!", "?"} else end


# --- spaced-out letters -------------------------------------------------------------------------------------

_SPACED_LETTERS: Final = re.compile(r"""(?<![^\W_])(?:[^\W_][ ._*·|/\-'",;:!?()]{1,6}){7,}[^\W_](?![^\W_])""")
_BETWEEN_LETTERS: Final = re.compile(r"(?<=[^\W_])[\W_]+(?=[^\W_])")
_NO_PUNCTUATION: Final = re.compile(r"[^.,;:!?]+")


def read_spaced_letters(text: str) -> list[Stretch]:
    """Return runs of single letters with one and the same sign between most of them; another sign stands between words."""
    stretches: list[Stretch] = []
    for run in _SPACED_LETTERS.finditer(text):
        gaps = list(_BETWEEN_LETTERS.finditer(text, *run.span()))
        (common, _), *others = Counter(gap[0] for gap in gaps).most_common()
        if others:
            edits = [
                (*gap.span(), "" if gap[0] == common else f"{_NO_PUNCTUATION.sub('', gap[0].strip(common))} ")
                for gap in gaps
            ]
            stretches.append((Span(*run.span()), edits))
    return stretches


# --- words with capitals, columns, line breaks that are written -------------------------------------------------

LONG_WORDS: Final = ("[a-z',]*".join([f"(?:{_ANY_TELLING})"] * MIN_TELLING),)
"""RE2, on folded text: frequent words in one run of letters."""
_CAPITALS: Final = re.compile(r"(?:[A-Z][a-z'’]*[,.]?){5,}")
_CAPITAL: Final = re.compile(r"[A-Z][a-z'’]*")


def read_capitals(text: str, window: Span) -> list[Stretch]:
    """Return words that capital letters join, as WordsInCamelCase, with spaces between them."""
    stretches: list[Stretch] = []
    for match in _CAPITALS.finditer(text, window.start, window.end):
        words = list(_CAPITAL.finditer(text, *match.span()))
        if _tells([word[0].lower() for word in words]):
            # A place is where a word ends, so that what is found of two words holds one.
            edits = [(word.end() - 1, word.end(), f"{text[word.end() - 1]} ") for word in words[:-1]]
            stretches.append((Span(match.start(), _behind(text, match.end())), edits))
    return stretches


COLUMNS: Final = (
    ".*".join([rf"[,;:\]](?:{_ANY_TELLING}) [^ ]+[,;:\]]"] * MIN_TELLING),
    ".*".join([rf"\| ?(?:{_ANY_TELLING})(?: [^ ]+)?(?: \|| [^ |]+ [^ |]+ \|)"] * MIN_TELLING),
)
"""RE2, on folded text: frequent words at the ends of lines or in cells."""
_LINE: Final = re.compile(r"[^\n]+")
_CELL: Final = re.compile(r"[^|,;:\t\]]+")
MIN_ROWS: Final = 4
"""Lines with as many cells each that make a table."""
MAX_CELL_WORDS: Final = 4


def read_columns(text: str, window: Span) -> list[Stretch]:
    """Return the columns of tables whose cells hold a few words each, read downwards."""
    stretches: list[Stretch] = []
    lines = [list(_CELL.finditer(text, *line.span())) for line in _LINE.finditer(text, window.start, window.end)]
    for size, group in groupby(lines, len):
        rows = list(group)
        if size < 2 or len(rows) < MIN_ROWS:
            continue
        for column in zip(*rows, strict=True):
            spans = [_trimmed(text, *cell.span()) for cell in column if cell[0].strip(' "')]
            words = [text[start:end].lower().split() for start, end in spans]
            if all(len(each) <= MAX_CELL_WORDS for each in words) and _tells(list(chain.from_iterable(words))):
                edits = [(end, start, " ") for (_, end), (start, _) in pairwise(spans)]
                stretches.append((Span(spans[0][0], spans[-1][1]), edits))
    return stretches


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    cell = text[start:end]
    return start + len(cell) - len(cell.lstrip(' "')), end - len(cell) + len(cell.rstrip(' "'))


WRITTEN_BREAKS: Final = (r"[a-z.,;!?]\\n\w",)
"""RE2, on folded text: a line break as programs write it, with a word right behind it."""
_WRITTEN_BREAK: Final = re.compile(r"(?:\\[nr])+([^\W_])")


def read_written_breaks(text: str, window: Span) -> list[Stretch]:
    r"""Return what stands behind each ``\n``, up to the next and `AROUND` at most, as lines of their own."""
    matches = list(_WRITTEN_BREAK.finditer(text, window.start, window.end))
    ends = [*(match.start() for match in matches[1:]), len(text)][: len(matches)]
    return [
        (
            Span(match.start(), min(end, _line_after(text, match.end()))),
            [(*match.span(), match[1])],
        )
        for match, end in zip(matches, ends, strict=True)
    ]


# --- styled letters ---------------------------------------------------------------------------------------------

STYLED_LETTERS: Final = re2.compile("[\u24b6-\u24e9\U0001d400-\U0001d6a3\U0001f110-\U0001f189]{2}".encode())
"""Letters in circles, squares and brackets, and mathematical ones, on UTF-8 text."""
_STYLED_LETTER: Final = re.compile("[\u24b6-\u24e9\U0001d400-\U0001d6a3\U0001f110-\U0001f189]")


def read_styled_letters(text: str) -> tuple[Rewriting, ...]:
    """Return stretches with letters in circles, squares and brackets, and mathematical ones, as plain letters."""
    edits = [(*match.span(), plain_letter(match[0])) for match in _STYLED_LETTER.finditer(text)]
    stretches = [(span, _within(edits, span)) for span in find_stretches(text, [edit[0] for edit in edits])]
    return (rewrite(text, stretches),) if stretches else ()
