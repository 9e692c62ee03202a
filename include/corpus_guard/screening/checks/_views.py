"""Texts hidden in a text in another form.

Kinds:

- *Runs* of characters that stand for others (base64, hex, Morse, tag characters, …; see `_decoders`). The
  runs of one kind are read as one text, so that an order cut into several runs is read whole.
- *The whole text* by another reading: reversed, upside down, words in reverse order, digits for letters.
- *Stretches* whose letters are shifted or mirrored in the alphabet (see `_ciphers`).
- *Letters one by one*: spaced out.
- *Stretches* in which signs join or cut the words (see `_separators`).
- *Words* that are encoded one by one (see `_word_codes`).

A cheap test decides which decoders run. Every position in a view leads back to a span of the original. Where
a budget ends the reading, the view says so (`cut_off`): what was not read is not clean.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import re2

from corpus_guard.domain import Span
from corpus_guard.errors import GuardError
from corpus_guard.screening.checks import _decoders
from corpus_guard.screening.checks._ciphers import COMMON, KEYS, KINDS, SHIFTED, TRIGGER, decipher, whole_word
from corpus_guard.screening.checks._separators import (
    BLANK_BESIDE_LETTERS,
    COLUMNS,
    CUT_WORDS,
    JOINED_WORDS,
    LONG_WORDS,
    STYLED_LETTERS,
    WRITTEN_BREAKS,
    Rewriting,
    Stretch,
    read_blanks,
    read_capitals,
    read_columns,
    read_cut_words,
    read_joined_words,
    read_spaced_letters,
    read_styled_letters,
    read_written_breaks,
    rests_on,
    rewrite,
)
from corpus_guard.screening.checks._word_codes import LEET_LETTERS, LEET_WORDS, WORD_CODES
from corpus_guard.screening.folding import FoldedText, fold

MAX_RUNS: Final = 20_000
"""Encoded runs of one kind that are decoded in one text."""
MAX_RUN_CHARS: Final = 2_000_000
"""Characters of one run that are decoded."""
MAX_DECODED_CHARS: Final = 2_000_000
"""Characters of decoded text of one kind in one text."""
WINDOW_CHARS: Final = 4_000
"""Characters of a part of a text that is searched for signs between and within words; the parts overlap by half."""
LEETSPEAK: Final = LEET_WORDS.kind


@dataclass(frozen=True, slots=True)
class DecodedView:
    """Text decoded from another form in a document."""

    kind: str  # of disguise, in words for a reviewer
    text: str
    locate: Callable[[int, int], Span]  # offsets in `text` → span of the document
    loose: bool = False  # word boundaries, and the difference between i and l, are lost
    cut_off: bool = False  # the document holds more of this kind than was decoded
    places: Sequence[int] = ()  # offsets in the document of what was replaced; empty: all of the view was

    rules_alone: bool = False  # the classifier would take names and messages of programs for orders

    def is_disguised(self, span: Span) -> bool:
        """Return whether a span of the document reads differently in this view."""
        return not self.places or rests_on(self.places, span)


def decode_views(folded: FoldedText, without: Collection[str] = ()) -> Iterator[DecodedView]:
    """Yield the texts that `folded` holds in another form, where a cheap test triggers the decoder.

    Args:
        folded: the text.
        without: kinds that led to this text; after a reading of the whole text no other is tried, for it would
            lead back, or find words where nobody reads any.
    """
    text = folded.original
    read_whole = bool(_READING_KINDS & set(without))
    if not folded.is_plain:
        data = text.encode("utf-8", "replace")
        if BLANKS not in without and BLANK_BESIDE_LETTERS.search(data):
            yield from _rewritten(BLANKS, read_blanks(text))
        if STYLED not in without and STYLED_LETTERS.search(data):
            yield from _rewritten(STYLED, read_styled_letters(text))
    if not text.isascii() and _UNUSUAL.search(text.encode("utf-8", "replace")):
        for decoder in _UNUSUAL_RUNS:
            yield from _runs(decoder, text)
        if _ZERO_WIDTH_JOIN.search(text):
            # Zero-width characters may stand for the spaces that folding has lost with them.
            yield DecodedView("zero-width characters", _skeleton(folded.text), folded.origin, loose=True)
        if not read_whole and len(_TURNED_LETTERS.findall(text)) >= _MIN_TURNED:
            turned = text.translate(_TURNED)[::-1]
            yield DecodedView(UPSIDE_DOWN, turned, _mirrored(len(text)))
    runs, readings, *_ = _triggers()
    if triggered := _triggered_signs(folded.data):
        yield from _without_signs(text, triggered, without)
    for trigger in _triggered(runs, folded.data):
        yield from _runs(_RUN_DECODERS[trigger], text)
    if not read_whole:
        for trigger in _triggered(readings, folded.data):
            _, _, read = _READINGS[trigger]
            yield from read(folded)


def _rewritten(kind: str, rewritings: Iterable[Rewriting]) -> Iterator[DecodedView]:
    for each in rewritings:
        yield DecodedView(kind, each.text, each.locate, places=each.places, rules_alone=kind in _RULES_ALONE)


def _without_signs(text: str, triggered: list[int], without: Collection[str]) -> Iterator[DecodedView]:
    """Yield the stretches in which signs join or cut the words, of each kind as one text."""
    windows: dict[str, list[Span]] = {kind: [] for _, kind, _ in _SIGNS if kind not in without}
    for window, triggers in _windows(text, triggered):
        for kind in {_SIGNS[trigger][1] for trigger in triggers} & windows.keys():
            spans = windows[kind]
            start = spans.pop().start if spans and spans[-1].end >= window.start else window.start
            spans.append(Span(start, window.end))
    for kind, read in dict.fromkeys(each[1:] for each in _SIGNS):
        stretches = [stretch for window in windows.get(kind, ()) for stretch in read(text, window)]
        if stretches:
            yield from _rewritten(kind, [rewrite(text, stretches)])


def _windows(text: str, triggered: list[int]) -> Iterator[tuple[Span, list[int]]]:
    """Yield the parts of a text in which triggers of signs hit, with these; a short text is one part."""
    if len(text) <= 2 * WINDOW_CHARS:
        yield Span(0, len(text)), triggered
        return
    for start in range(0, len(text) - WINDOW_CHARS // 2, WINDOW_CHARS // 2):
        window = Span(start, min(len(text), start + WINDOW_CHARS))
        if triggers := _triggered_signs(fold(text[window.start : window.end]).data):
            yield window, triggers


# --- runs ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _RunDecoder:
    kind: str
    trigger: str  # RE2, on folded text: runs without it are not searched for
    pattern: re.Pattern[str]  # on the text as it stands
    decode: Callable[[str], str]


def _runs(decoder: _RunDecoder, text: str) -> Iterator[DecodedView]:
    """Yield the readable runs of one kind as one text."""
    runs = ((decoder.decode(match[0][:MAX_RUN_CHARS]), Span(*match.span())) for match in decoder.pattern.finditer(text))
    yield from _joined(decoder.kind, runs, separator=" ")


def _joined(
    kind: str, runs: Iterable[tuple[str, Span]], *, separator: str, loose: bool = False
) -> Iterator[DecodedView]:
    plains: list[str] = []
    spans: list[Span] = []
    starts: list[int] = []
    size, cut_off = 0, False
    for number, (plain, span) in enumerate(runs):
        if number == MAX_RUNS or size > MAX_DECODED_CHARS:
            cut_off = True
            break
        cut_off |= span.end - span.start > MAX_RUN_CHARS
        if plain:
            plains.append(plain)
            spans.append(span)
            starts.append(size)
            size += len(plain) + len(separator)

    def locate(start: int, end: int) -> Span:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, end - 1)) - 1
        return Span(spans[first].start, spans[last].end)

    if plains:
        yield DecodedView(kind, separator.join(plains), locate, loose, cut_off)
    elif cut_off:
        yield DecodedView(kind, "", lambda _start, _end: Span(0, 1), loose, cut_off)


_UNUSUAL: Final = re2.compile(
    "[\u200b-\u200d\u2060-\u2064\ufeff\u180e\ufe00-\ufe0f\U000e0000-\U000e01ef\u2801-\u28ff\U0001f1e6-\U0001f1ffɐǝɥʞɯɹʇʌʍʎ]".encode()
)
_UNUSUAL_RUNS: Final = (
    _RunDecoder("tag characters", "", re.compile("[\U000e0001-\U000e007f]{2,}"), _decoders.untag),
    _RunDecoder("variation selectors", "", re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}"), _decoders.unselect),
    _RunDecoder("zero-width bits", "", re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u180e]{32,}"), _decoders.unbits),
    _RunDecoder("Braille", "", re.compile("[\u2801-\u28ff][\u2800-\u28ff\\s]{7,}"), _decoders.unbraille),
    _RunDecoder(
        "regional indicators",
        "",
        re.compile("(?:[\U0001f1e6-\U0001f1ff][\u200b\u200d]?[^\\w\\S]*){8,}"),
        _decoders.unflag,
    ),
)
_ZERO_WIDTH_JOIN = re.compile("[A-Za-z][\u200b-\u200d\u2060\ufeff\u180e]+[A-Za-z]")

_RUN_DECODERS: Final = (
    _RunDecoder(
        "base64",
        r"[a-z0-9+/_-]{24}|(?:\b[a-z0-9+/]{8,76}={0,2} [>#*| ]{0,4}){4}",
        # A blob in pieces of 24 and more letters, or lines of fewer.
        re.compile(
            r"[A-Za-z0-9+/_-]{24,}(?:\s{1,4}[A-Za-z0-9+/_-]{4,})*={0,2}"
            r"|(?:(?<=\n)|^)(?:[A-Za-z0-9+/]{8,23}[ \t]*\r?\n){3,}[A-Za-z0-9+/]+={0,2}"
        ),
        _decoders.unbase64,
    ),
    _RunDecoder(
        "base64 in pieces",
        r"(?:[a-z0-9+/]{8,76}[^a-z0-9+/= ][^a-z0-9+/=]{0,3}){4}",
        # One and the same separator between the pieces.
        re.compile(
            r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{8,76}([^A-Za-z0-9+/=]{1,4})(?:[A-Za-z0-9+/]{8,76}\1){2,}[A-Za-z0-9+/]+={0,2}"
        ),
        _decoders.unbase64_pieces,
    ),
    _RunDecoder(
        "base32", r"[a-z2-7]{24}", re.compile(r"(?<![A-Za-z0-9])(?:[A-Z2-7]{8,}\s?){3,}={0,6}"), _decoders.unbase32
    ),
    _RunDecoder("base85", r"[!-~]{40}|<~", re.compile(r"<~[!-z\s]{20,}~>|(?<!\S)[!-~]{40,}(?!\S)"), _decoders.unbase85),
    _RunDecoder(
        "hexadecimal",
        r"(?:[0-9a-f]{2}h?[ :,;/-]?){12}|(?:0x[0-9a-f]{2}[ ,]*){12}",
        # Up to the end of a word: in "…6c6c Fees" the letters Fe are not part of the run.
        re.compile(
            r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}h?[\s:,;/-]?){12,}(?![0-9A-Za-z])|(?:0x[0-9A-Fa-f]{2}[\s,]*){12,}"
        ),
        _decoders.unhex,
    ),
    _RunDecoder("binary digits", r"(?:[01]{8}[ ,]?){12}", re.compile(r"(?:[01]{8}[\s,]?){12,}"), _decoders.unbinary),
    _RunDecoder(
        "character codes",
        r"(?:[0-9]{2,3}[ ,;.:|/\[\]-]{1,2}){12}",
        re.compile(r"(?<![0-9])(?:[0-9]{2,3}(?:[ ,;.:|/\[\]-]{1,2}|\r?\n)){12,}[0-9]{2,3}(?![0-9])"),
        _decoders.uncodes,
    ),
    _RunDecoder(
        "character escapes",
        r"(?:%[0-9a-f]{2}[a-z]?){8}|(?:\\x[0-9a-f]{2}){8}|(?:\\u\{?00[0-9a-f]{2}\}?){8}|(?:\\[0-7]{3}){8}"
        r"|(?:&#x?[0-9a-f]{2,7};){8}|(?:%u00[0-9a-f]{2}){8}|(?:u\+00[0-9a-f]{2}[ ,;]{0,2}){8}"
        r"|(?:ch(?:a)?r\$?\( ?(?:0x)?[0-9a-f]{2,3} ?\)[ +.&|,]{0,3}){8}",
        re.compile(
            r"(?:%[0-9A-Fa-f]{2}[A-Za-z]?){8,}|(?:\\x[0-9A-Fa-f]{2} ?){8,}|(?:\\u\{?00[0-9A-Fa-f]{2}\}? ?){8,}"
            r"|(?:\\[0-7]{3} ?){8,}|(?:&#(?:x[0-9A-Fa-f]{2,6}|[0-9]{2,7});\s?){8,}"
            r"|(?:%u[0-9A-Fa-f]{4}){8,}|(?:[Uu]\+[0-9A-Fa-f]{4,6}[\s,;]{0,2}){8,}"
            r"|(?:[Cc][Hh][Aa]?[Rr]\$?\( ?(?:0x[0-9A-Fa-f]{2}|[0-9]{2,3}) ?\)[\s+.&|,]{0,4}){8,}"
        ),
        _decoders.unescape,
    ),
    _RunDecoder(
        "quoted-printable",
        r"(?:=[0-9a-f]{2}[a-z]?){8}",
        re.compile(r"(?:=[0-9A-Fa-f]{2}(?:[A-Za-z]|=\r?\n)?){8,}"),
        _decoders.unquoted_printable,
    ),
    _RunDecoder(
        "UTF-7",
        r"(?:\+[a-z0-9/]{3,60}-[ .,]?){2}",
        re.compile(r"(?:\+[A-Za-z0-9/]{3,200}-[ .,]?){2,}"),
        _decoders.unutf7,
    ),
    _RunDecoder(
        "uuencode",
        r"\bbegin [0-7]{3} ",
        re.compile(r"begin [0-7]{3} [^\n]*\n(?:[ -`]{1,62}\r?\n)+"),
        _decoders.unuuencode,
    ),
    _RunDecoder(
        "Morse code",
        r"(?:[.·•*_-]{1,6}[ /|]{1,3}){10}",
        re.compile(r"(?:[.·•*_–—−-]{1,6}(?:[ \t]{1,3}|\s?[/|]\s?|\n)){10,}[.·•*_–—−-]{0,6}"),
        _decoders.unmorse,
    ),
)


# --- readings of the whole text -----------------------------------------------------------------------------

BLANKS: Final = "words with invisible characters between or within them"
CUT: Final = "words cut by signs"
JOINED: Final = "words joined by signs"
CAPITALS: Final = "words joined by capital letters"
COLUMN: Final = "words in a column"
STYLED: Final = "letters in circles, squares or other styles"
BREAKS: Final = "line breaks as programs write them"
_RULES_ALONE: Final = frozenset({BREAKS})
REVERSED: Final = "reversed letters"
REVERSED_WORDS: Final = "words in reverse order"
SPACED: Final = "spaced-out letters"
UPSIDE_DOWN: Final = "letters upside down"

_KEYS: Final = (*KEYS, "system prompt")
_BACKWARDS: Final = (
    # "DNA", "sed" and "sap" are words, and so is "dnu" in Slavic languages
    *sorted(set(COMMON) - {"alle", "and", "dat", "des", "las", "les", "pas", "und"}),
    *("with", "about", "answer", "always", "should", "nicht", "eine", "ist"),
    *("vous", "pour", "cette", "esta", "questo", "niet"),
)
"""Words that are none when their letters are reversed."""


def _mirrored(size: int) -> Callable[[int, int], Span]:
    return lambda start, end: Span(max(0, size - end), max(0, size - start))


def _deciphered(folded: FoldedText) -> Iterator[DecodedView]:
    for kind, plain in decipher(folded.text):
        yield DecodedView(kind, plain, folded.origin)


def _reversed(folded: FoldedText) -> Iterator[DecodedView]:
    size = len(folded.text)
    yield DecodedView(REVERSED, folded.text[::-1], lambda start, end: folded.origin(size - end, size - start))


def _reversed_words(folded: FoldedText) -> Iterator[DecodedView]:
    words = [(match[0].strip(".,;:!?"), *match.span()) for match in re.finditer(r"\S+", folded.text)][::-1]
    starts: list[int] = []
    size = 0
    for word, _, _ in words:
        starts.append(size)
        size += len(word) + 1

    def locate(start: int, end: int) -> Span:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, max(start, end - 1)) - 1
        return folded.origin(words[last][1], words[first][2])

    yield DecodedView(REVERSED_WORDS, " ".join(word for word, _, _ in words), locate)


_SPACED = re.compile(r"""(?<![^\W_])(?:[^\W_][ ._*·|/\-'",;:!?]{1,3}){7,}[^\W_](?![^\W_])""")


def _spaced(folded: FoldedText) -> Iterator[DecodedView]:
    # In the folded text, because invisible and lookalike letters may be mixed in. Word gaps are gone.
    runs = (
        (_skeleton(re.sub(r"[\W_]", "", match[0])), folded.origin(*match.span()))
        for match in _SPACED.finditer(folded.text)
    )
    yield from _joined(SPACED, runs, separator="", loose=True)
    if stretches := read_spaced_letters(folded.original):
        yield from _rewritten(SPACED, [rewrite(folded.original, stretches)])


_SKELETON: Final = str.maketrans("l", "i")
_LEET: Final = LEET_LETTERS | _SKELETON


def _skeleton(text: str) -> str:
    return text.translate(_SKELETON)


def _leet(folded: FoldedText) -> Iterator[DecodedView]:
    if not _LEET_NEIGHBOURS.search(folded.data):
        return
    words = " ".join(map(_mask_numbers, folded.text.split(" ")))
    if _LEET_LETTER.search(words):
        yield DecodedView(LEETSPEAK, words.translate(_LEET), folded.origin, loose=True)
    text = folded.original
    if stretches := LEET_WORDS.read(text, Span(0, len(text))):
        yield from _rewritten(LEETSPEAK, [rewrite(text, stretches)])


def _mask_numbers(word: str) -> str:
    """Return a word with numbers, digests and addresses in it made signs; few words hold what they need."""
    if word.isalpha() or not _IN_NO_WORDS.search(word):
        return word
    return _NO_WORDS.sub(lambda match: "#" * len(match[0]), word)


_IN_NO_WORDS: Final = re.compile("[0-9@]|://|[.:,/-]{4}")
_NO_WORDS: Final = re.compile(
    r"\b(?=[a-f]*[0-9])[0-9a-f]{6,}\b|\b[0-9.:,/-]{4,}\b|\S+@\S+\.\S+|[\w-]+@\d[\d.,]*\b|\w+://\S+"
)


_LEET_LETTER: Final = re.compile(r"[a-z][013457@$!|+][a-z]|\b[013457@$!|][a-z]{2}|[a-z][013457@$]{1,2}\b")
_LEET_NEIGHBOURS: Final = re2.compile(rb"[a-z][013457@$!|+][a-z]|[013457@$!|][a-z]{2}|[a-z][013457@$]")
"""Signs that every place of `_LEET_LETTER` holds; most texts hold none."""
_LEET_KEYS: Final = (
    r"[i1!|]gn[o0]r[e3]",
    r"d[i1!|][s5$]r[e3][g96][a4@]rd",
    r"f[o0]r[g96][e3][t7+]",
    r"[i1!|]n[s5$][t7+]ruc[t7+][i1!|][o0]n",
    r"pr[e3]v[i1!|][o0]u[s5$]",
    r"[s5$]y[s5$][t7+][e3]m pr[o0]mp[t7+]",
    r"[g96]u[i1!|]d[e3][l1!|][i1!|]n[e3]",
    r"d[i1!|]r[e3]c[t7+][i1!|]v[e3]",
    r"ru[l1!|][e3][s5$]",
    r"y[o0]ur n[e3]w [t7+][a4@][s5$]k",
    r"[a4@][s5$]{2}[i1!|][s5$][t7+][a4@]n[t7+]",
    # three words near each other in which something stands for a letter
    "[^ ]*(?: [^ ]+){0,3} [^ ]*".join([r"[a-z][01345789@$]{1,6}[a-z]"] * 3),
)
_TURNED: Final = str.maketrans("ɐqɔpǝɟƃɓɥᴉıɾʞlɯuodbɹsʇnʌʍxʎz˙'¿¡", "abcdefgghiijklmnopqrstuvwxyz.,?!")
_TURNED_LETTERS: Final = re.compile("[ɐǝɟƃɥᴉɾʞɯɹʇʌʍʎ]")
_MIN_TURNED: Final = 6

_READINGS: Final[tuple[tuple[str, str, Callable[[FoldedText], Iterator[DecodedView]]], ...]] = (
    (TRIGGER, SHIFTED, _deciphered),
    ("|".join((*(key[::-1] for key in _KEYS), whole_word(key[::-1] for key in _BACKWARDS))), REVERSED, _reversed),
    (
        r"\b(?:instructions?|prompts?|directions|guidelines|orders|rules),? (?:previous|prior|earlier|above|system|your)"
        r"(?: (?:the|your|all|these|of|any)){0,3} (?:ignore|disregard|forget|reveal|print|override|follow)\b",
        REVERSED_WORDS,
        _reversed_words,
    ),
    (r"""(?:\b[\pL0-9@$!|][ ._*·|/'",;:!?-]{1,3}){7}""", SPACED, _spaced),
    ("|".join(_LEET_KEYS), LEETSPEAK, _leet),
)


_SIGNS: Final[tuple[tuple[str, str, Callable[[str, Span], list[Stretch]]], ...]] = (
    *((trigger, CUT, read_cut_words) for trigger in CUT_WORDS),
    *((trigger, JOINED, read_joined_words) for trigger in JOINED_WORDS),
    # A set of its own begins here.
    *((trigger, CAPITALS, read_capitals) for trigger in LONG_WORDS),
    *((trigger, COLUMN, read_columns) for trigger in COLUMNS),
    *((trigger, BREAKS, read_written_breaks) for trigger in WRITTEN_BREAKS),
    *((code.trigger, code.kind, code.read) for code in WORD_CODES),
)
_SIGNS_IN_FIRST_SET: Final = len(CUT_WORDS) + len(JOINED_WORDS)
_READING_KINDS: Final = frozenset({UPSIDE_DOWN, *KINDS, *(kind for _, kind, _ in _READINGS)}) - {SPACED}


@cache
def _triggers() -> tuple[re2.Set, ...]:
    """Return the triggers of runs, of readings and of signs: one automaton of them all counts too many things at once."""
    runs = (decoder.trigger for decoder in _RUN_DECODERS)
    signs = [trigger for trigger, _, _ in _SIGNS]
    readings = (trigger for trigger, _, _ in _READINGS)
    return tuple(map(_trigger_set, (runs, readings, signs[:_SIGNS_IN_FIRST_SET], signs[_SIGNS_IN_FIRST_SET:])))


def _trigger_set(patterns: Iterable[str]) -> re2.Set:
    options = re2.Options()
    options.max_mem = 64 << 20
    triggers = re2.Set.SearchSet(options)
    triggers.Add("")  # always hits: its absence shows that the set ran out of memory
    for pattern in patterns:
        triggers.Add(pattern)
    triggers.Compile()
    return triggers


def _triggered_signs(data: bytes) -> list[int]:
    """Return the numbers of the triggers in `_SIGNS` that hit."""
    _, _, first, second = _triggers()
    return [*_triggered(first, data), *(_SIGNS_IN_FIRST_SET + number for number in _triggered(second, data))]


def _triggered(triggers: re2.Set, data: bytes) -> list[int]:
    """Return the numbers of the triggers that hit, from 0."""
    hits = triggers.Match(data)
    if not hits:
        raise GuardError("encodings: RE2 ran out of memory on a text, expected an answer; the text counts as unchecked")
    return sorted(number - 1 for number in hits if number)
