"""Texts hidden in a text in another form.

Tag characters, variation selectors and zero-width bits, base64, hex, escapes, rot13, reversed letters,
spaced-out letters, leetspeak. A cheap test decides which decoders run. Every position in a view leads back to
a span of the original.
"""

from __future__ import annotations

import base64
import codecs
import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final
from urllib.parse import unquote

import re2

from corpus_guard.domain import Span
from corpus_guard.errors import GuardError
from corpus_guard.screening.folding import FoldedText

MAX_ENCODED_RUNS: Final = 200
"""Encoded runs of one kind that are decoded in one text."""
MAX_RUN_CHARS: Final = 100_000
"""Characters of one run that are decoded."""
LEETSPEAK: Final = "leetspeak"


@dataclass(frozen=True, slots=True)
class DecodedView:
    """Text decoded from another form in a document."""

    kind: str  # of disguise, in words for a reviewer
    text: str
    locate: Callable[[int, int], Span]  # offsets in `text` → span of the document
    loose: bool = False  # word boundaries, and the difference between i and l, are lost


def decode_views(folded: FoldedText) -> Iterator[DecodedView]:
    """Yield the texts that `folded` holds in another form, where a cheap test triggers the decoder."""
    text = folded.original
    if not text.isascii() and _CARRIERS.search(text):
        yield from _tags(text)
        yield from _variation_selectors(text)
        yield from _zero_width(folded)
    triggers = _triggers().Match(folded.data)
    if not triggers:
        raise GuardError("encodings: RE2 ran out of memory on a text, expected an answer; the text counts as unchecked")
    for trigger in triggers:
        if trigger < len(_DECODERS):
            yield from _DECODERS[trigger](folded)


def _whole(span: Span) -> Callable[[int, int], Span]:
    return lambda _start, _end: span


_CARRIERS = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff\u180e\ufe00-\ufe0f\U000e0000-\U000e01ef]")
_TAG_RUN = re.compile("[\U000e0001-\U000e007f]{2,}")
_SELECTOR_RUN = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{8,}")
_BIT_RUN = re.compile("[\u200b-\u200f\u2060-\u2064\ufeff\u180e]{32,}")


def _runs(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, Span]]:
    for number, match in enumerate(pattern.finditer(text)):
        if number == MAX_ENCODED_RUNS:
            return
        yield match[0][:MAX_RUN_CHARS], Span(*match.span())


def _tags(text: str) -> Iterator[DecodedView]:
    for run, span in _runs(_TAG_RUN, text):
        plain = "".join(chr(ord(c) - 0xE0000) for c in run if 0xE0020 <= ord(c) <= 0xE007E)
        yield DecodedView("tag characters", plain, _whole(span))


def _variation_selectors(text: str) -> Iterator[DecodedView]:
    # One byte a selector: VS1-VS16 are 0-15, VS17-VS256 are 16-255.
    for run, span in _runs(_SELECTOR_RUN, text):
        data = bytes(ord(c) - 0xFE00 if ord(c) < 0x10000 else ord(c) - 0xE0100 + 16 for c in run)
        if plain := _readable(data):
            yield DecodedView("variation selectors", plain, _whole(span))


def _zero_width(folded: FoldedText) -> Iterator[DecodedView]:
    text = folded.original
    for run, span in _runs(_BIT_RUN, text):
        letters = sorted(set(run), key=run.count, reverse=True)[:2]
        for zero, _ in (letters, letters[::-1]) if len(letters) == 2 else ():
            bits = "".join("0" if c == zero else "1" for c in run if c in letters)
            for width in (8, 7):
                data = bytes(int(bits[i : i + width], 2) for i in range(0, len(bits) - width + 1, width))
                if plain := _readable(data):
                    yield DecodedView("zero-width bits", plain, _whole(span))
    # Zero-width characters may stand for the spaces that folding has lost with them.
    if _ZERO_WIDTH_JOIN.search(text):
        yield DecodedView("zero-width characters", _skeleton(folded.text), folded.origin, loose=True)


_ZERO_WIDTH_JOIN = re.compile("[A-Za-z][\u200b-\u200d\u2060\ufeff\u180e]+[A-Za-z]")

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{24,}(?:\s{1,4}[A-Za-z0-9+/_-]{4,})*={0,2}")
# Up to the end of a word: in "…6c6c Fees" the letters Fe are not part of the run.
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}[ :,]?){12,}(?![0-9A-Za-z])|(?:0x[0-9A-Fa-f]{2}[ ,]*){12,}")
_DECIMAL = re.compile(r"(?<![0-9])(?:[0-9]{2,3}[ ,;]{1,2}){12,}[0-9]{2,3}(?![0-9])")
_BINARY = re.compile(r"(?:[01]{8}[ ,]?){12,}")
_ESCAPES = re.compile(
    r"(?:%[0-9A-Fa-f]{2}[A-Za-z]?){8,}|(?:\\x[0-9A-Fa-f]{2}){8,}|(?:\\u00[0-9A-Fa-f]{2}){8,}"
    r"|(?:&#(?:x[0-9A-Fa-f]{2,6}|[0-9]{2,7});){8,}"
)


def _base64(folded: FoldedText) -> Iterator[DecodedView]:
    for run, span in _runs(_BASE64, folded.original):
        parts = run.rstrip("=").split()
        if parts[0].islower() or parts[0].isdigit():
            continue
        # Lines of one blob; or a blob with words behind it, which look like more of it.
        for letters in ("".join(parts), parts[0]) if len(parts) > 1 else parts:
            if plain := _readable(_unbase64(letters)):
                yield DecodedView("base64", plain, _whole(span))
                break


def _unbase64(letters: str) -> bytes:
    whole = letters.replace("-", "+").replace("_", "/")[: len(letters) - (len(letters) % 4 == 1)]
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


def _hex(folded: FoldedText) -> Iterator[DecodedView]:
    for run, span in _runs(_HEX, folded.original):
        digits = re.sub(r"0x|[ ,:]", "", run)
        if plain := _readable(bytes.fromhex(digits[: len(digits) // 2 * 2])):
            yield DecodedView("hexadecimal", plain, _whole(span))


def _binary(folded: FoldedText) -> Iterator[DecodedView]:
    for run, span in _runs(_BINARY, folded.original):
        bits = re.sub(r"[ ,]", "", run)
        if plain := _readable(bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) - 7, 8))):
            yield DecodedView("binary digits", plain, _whole(span))


def _decimal(folded: FoldedText) -> Iterator[DecodedView]:
    for run, span in _runs(_DECIMAL, folded.original):
        codes = [int(code) for code in re.findall("[0-9]+", run)]
        if max(codes) < 0x100 and (plain := _readable(bytes(codes))):
            yield DecodedView("character codes", plain, _whole(span))


def _escapes(folded: FoldedText) -> Iterator[DecodedView]:
    for run, span in _runs(_ESCAPES, folded.original):
        if run.startswith("%"):
            plain = unquote(run, errors="replace")
        elif run.startswith("&"):
            plain = html.unescape(run)
        else:
            plain = "".join(chr(int(code[-2:], 16)) for code in re.findall(r"\\(?:x|u00)[0-9A-Fa-f]{2}", run))
        yield DecodedView("character escapes", plain, _whole(span))


def _readable(data: bytes) -> str:
    """Return `data` as text if most of it is text, else ""."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        # Some shells encode UTF-16; anything else is no text.
        if len(data) < 16 or data[1:16:2].count(0) < 7:
            return ""
        text = data[: len(data) // 2 * 2].decode("utf-16-le", "replace")
    if data[1:16:2].count(0) >= 7:
        text = text.replace("\x00", "")
    letters = sum(map(str.isprintable, text[:2000])) + text[:2000].count("\n")
    words = " " in text or not text.isascii() or _BASE64.fullmatch(text)
    return text if letters >= 0.9 * len(text[:2000]) and words else ""


_KEYS: Final = ("ignore", "disregard", "forget", "instructions", "system prompt", "assistant", "previous", "guidelines")
_COMMON: Final = (
    # Rotated or reversed, hardly any of these is a word of any language.
    *("the", "your", "you", "and", "this", "that", "only", "must", "from", "rules"),
    *("und", "alle", "que", "les", "las", "todas", "tutte", "des", "pas", "para", "dat", "instrucciones"),
)


def _rot13(folded: FoldedText) -> Iterator[DecodedView]:
    yield DecodedView("rot13", codecs.encode(folded.text, "rot13"), folded.origin)


def _reversed(folded: FoldedText) -> Iterator[DecodedView]:
    size = len(folded.text)
    yield DecodedView("reversed letters", folded.text[::-1], lambda start, end: folded.origin(size - end, size - start))


_SPACED = re.compile(r"""(?<![^\W_])(?:[^\W_][ ._*·|/\-'",;:!?]{1,3}){7,}[^\W_](?![^\W_])""")


def _spaced(folded: FoldedText) -> Iterator[DecodedView]:
    # In the folded text, because invisible and lookalike letters may be mixed in. Word gaps are gone.
    for run, span in _runs(_SPACED, folded.text):
        letters = _skeleton(re.sub(r"[\W_]", "", run))
        yield DecodedView("spaced-out letters", letters, _whole(folded.origin(span.start, span.end)), loose=True)


_LEET: Final = str.maketrans("013456789@$!|+l", "oieasgtbgasiiti")
_SKELETON: Final = str.maketrans("l", "i")


def _skeleton(text: str) -> str:
    return text.translate(_SKELETON)


def _leet(folded: FoldedText) -> Iterator[DecodedView]:
    if _LEET_LETTER.search(folded.text):
        yield DecodedView(LEETSPEAK, folded.text.translate(_LEET), folded.origin, loose=True)


_LEET_LETTER: Final = re.compile(r"[a-z][013457@$!|+][a-z]|\b[013457@$!|][a-z]{2}|[a-z][013457@$]{1,2}\b")
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

_TRIGGER_PATTERNS: Final[tuple[tuple[str, Callable[[FoldedText], Iterator[DecodedView]]], ...]] = (
    (r"[a-z0-9+/_-]{24}", _base64),
    (r"(?:[0-9a-f]{2}[ :,]?){12}|(?:0x[0-9a-f]{2}[ ,]*){12}", _hex),
    (r"(?:[01]{8}[ ,]?){12}", _binary),
    (r"(?:[0-9]{2,3}[ ,;]{1,2}){12}", _decimal),
    (r"(?:%[0-9a-f]{2}[a-z]?){8}|(?:\\x[0-9a-f]{2}){8}|(?:\\u00[0-9a-f]{2}){8}|(?:&#x?[0-9a-f]{2,7};){8}", _escapes),
    (
        "|".join(
            (
                *(codecs.encode(key, "rot13") for key in _KEYS),
                *(rf"\b{codecs.encode(key, 'rot13')}\b" for key in _COMMON),
            )
        ),
        _rot13,
    ),
    ("|".join((*(key[::-1] for key in _KEYS), *(rf"\b{key[::-1]}\b" for key in _COMMON))), _reversed),
    (r"""(?:\b[\pL0-9@$!|][ ._*·|/'",;:!?-]{1,3}){7}""", _spaced),
    ("|".join(_LEET_KEYS), _leet),
)


@cache
def _triggers() -> re2.Set:
    options = re2.Options()
    options.max_mem = 64 << 20
    triggers = re2.Set.SearchSet(options)
    for pattern, _ in _TRIGGER_PATTERNS:
        triggers.Add(pattern)
    triggers.Add("")  # always hits: its absence shows that the set ran out of memory
    triggers.Compile()
    return triggers


_DECODERS: Final = tuple(decode for _, decode in _TRIGGER_PATTERNS)
