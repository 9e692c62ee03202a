"""Characters that make a text read differently to a model than to a person.

Findings, in the text as it stands:

- ``unicode.tags``: tag characters outside flag emoji; nothing draws them, models read them as letters.
- ``unicode.variation_selectors``: four or more in a row; they carry bytes. One and the same a few times says nothing, and is low.
- ``unicode.zero_width``: zero-width characters inside words of Latin letters, or many in a row; and other characters that
  nothing draws, where three and more stand between Latin letters close to each other.
- ``unicode.bidi``: direction overrides, and embeddings or isolates that are left open or turn Latin text
  around.
- ``unicode.mixed_script``: Cyrillic, Greek, Armenian or Cherokee lookalikes inside a Latin word.
- ``unicode.controls``: NUL, escape sequences, other control characters and noncharacters.
- ``unicode.surrogates``, ``unicode.replacement``, ``unicode.private_use``: damage, or a way to hide, where
  there is much of it.
- ``unicode.stylised``, ``unicode.marks``: words in mathematical or full-width letters; accents piled up.

Ignored: joiners in Arabic, Persian and Indic words and in emoji, a byte order mark at the start, soft
hyphens, joiners beside punctuation, µ Ω Å and Greek letters of formulas, a word wholly in one script, accents
of any language.

Nothing is removed: reviewers see, and collections hold, the text as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

import re2
from pydantic import Field

from corpus_guard.domain import Finding, Severity, Span, Version, canonical_json, digest
from corpus_guard.screening.check import Params, TextCheck
from corpus_guard.screening.checks._separators import BLANK_BESIDE_LETTERS, crowded_blanks
from corpus_guard.screening.folding import FOLDING_VERSION, latin_lookalike
from corpus_guard.screening.tags import tag_ids

MAX_HITS: Final = 10_000
"""Places of one kind that are counted in one text."""
MAX_REPEATED_SELECTORS: Final = 8
"""Times that one variation selector may stand in a row; a slip of an editor writes an emoji's four times."""


class UnicodeParams(Params):
    """The section ``unicode`` of policy.yaml."""

    selector_run: int = Field(default=4, ge=2, le=64)
    """Fewest variation selectors in a row that no script needs."""
    zero_width_run: int = Field(default=8, ge=2, le=1024)
    """Fewest zero-width characters in a row that no script needs."""
    damage_share: float = Field(default=0.02, gt=0, le=1)
    """Share of replacement or private-use characters above which a text is damaged or disguised."""


class UnicodeTricks(TextCheck[UnicodeParams]):
    """Invisible, misleading and damaged characters."""

    name = "unicode"
    params_class = UnicodeParams
    code_version = ("4",)

    def __init__(self, params: UnicodeParams | None = None) -> None:
        super().__init__(params)
        self._selectors = re.compile(f"{_SELECTOR}{{{self.params.selector_run},}}")
        self._zero_run = re.compile(f"{_ZERO_WIDTH}{{{self.params.zero_width_run},}}")

    @cached_property
    def digest(self) -> str:
        """Return the digest of the parameters, the code's version and the folding tables."""
        params = canonical_json(self.params.model_dump()).decode()
        return digest("check/unicode/v1", [params, *self.code_version, FOLDING_VERSION])

    def applies_to(self, version: Version) -> bool:
        """Return True for every version."""
        return True

    def judge(self, version: Version) -> Iterator[Finding]:
        """Look at the text: at most one finding of each code."""
        text = version.text
        if _is_plain(text):
            return
        if _CONTROL.search(text):
            yield from _controls(text)
        if text.isascii():
            return
        is_crowded = bool(BLANK_BESIDE_LETTERS.search(text.encode("utf-8", "replace")))
        if _INVISIBLE.search(text):
            yield from _tag_characters(text)
            yield from self._variation_selectors(text)
            yield from _bidi(text)
            is_crowded = True
        if is_crowded:
            yield from self._zero_width(text)
        if _MIXED.search(text):
            yield from _mixed_script(text)
        if _DAMAGED_OR_STYLISED.search(text):
            yield from self._damage(text)
            yield from _stylised(text)

    def _variation_selectors(self, text: str) -> Iterator[Finding]:
        if places := _places(self._selectors, text, _carries_bytes):
            message = "variation selectors in a row, which carry hidden bytes"
            yield _finding("variation_selectors", Severity.HIGH, 0.95, message, places)
        elif places := _places(self._selectors, text):
            message = "one variation selector several times in a row"
            yield _finding("variation_selectors", Severity.LOW, 0.3, message, places)

    def _zero_width(self, text: str) -> Iterator[Finding]:
        runs = _places(self._zero_run, text)
        inside = sorted({*_places(_ZERO_WIDTH_INSIDE, text), *crowded_blanks(text)[:MAX_HITS]}, key=lambda it: it.start)
        if runs:
            message = f"{self.params.zero_width_run} or more zero-width characters in a row, which can carry a message"
            yield _finding("zero_width", Severity.HIGH, 0.9, message, runs)
        elif len(inside) > 1:
            score = min(0.9, 0.5 + 0.05 * len(inside))
            yield _finding("zero_width", Severity.MEDIUM, score, "zero-width characters inside words", inside)
        elif inside:
            yield _finding("zero_width", Severity.LOW, 0.3, "a zero-width character inside a word", inside)

    def _damage(self, text: str) -> Iterator[Finding]:
        enough = max(4.0, self.params.damage_share * len(text))
        if places := _places(_SURROGATE, text):
            yield _finding("surrogates", Severity.MEDIUM, 0.6, "lone surrogates, which no valid text holds", places)
        if len(places := _places(_REPLACEMENT, text)) >= enough:
            yield _finding(
                "replacement", Severity.MEDIUM, 0.5, "many replacement characters: the text is damaged", places
            )
        if len(places := _places(_PRIVATE, text)) >= enough:
            yield _finding(
                "private_use",
                Severity.LOW,
                0.4,
                "many private-use characters, which each font draws differently",
                places,
            )
        elif places:
            yield _finding("private_use", Severity.INFO, 0.1, "private-use characters, often icons of a font", places)
        if places := _places(_PILED, text):
            severity, score = (Severity.MEDIUM, 0.6) if len(places) >= 5 else (Severity.LOW, 0.3)
            yield _finding("marks", severity, score, "letters with four or more accents piled on them", places)


# --- patterns -----------------------------------------------------------------------------------------------

_SELECTOR: Final = "[\ufe00-\ufe0f\U000e0100-\U000e01ef]"
_ZERO_WIDTH: Final = "[\u200b-\u200d\u2060-\u2064\ufeff\u180e\u034f\u115f\u1160\u3164\uffa0]"
_LATIN: Final = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_OTHER: Final = "\u0370-\u0373\u0376-\u03ff\u0400-\u052f\u0531-\u0587\u13a0-\u13ff\uab70-\uabbf\u1f00-\u1fff"

_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_NUL_OR_INSIDE = re.compile("\x00|(?<=[A-Za-z])[\x01-\x08\x0e-\x1b\x7f](?=[A-Za-z])")
_ESCAPE = re.compile("(?:\x1b[\\[\\]PX^_()#]|\x9b)")
_INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\u180e\u034f\u115f\u1160\u3164\uffa0"
    "\ufe00-\ufe0f\U000e0000-\U000e01ef]"
)
_TAG_RUN = re.compile(
    "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,8}\U000e007f|([\U000e0000-\U000e007f]+)"
)
_ZERO_WIDTH_INSIDE = re.compile(f"(?<=[{_LATIN}]){_ZERO_WIDTH}+(?=[{_LATIN}])")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_OVERRIDE = re.compile("[\u202d\u202e]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_TURNED = re.compile("[\u202b\u2067]([^\u202c\u2069\n]*)")
_MIXED = re.compile(f"[{_LATIN}][{_OTHER}]|[{_OTHER}][{_LATIN}]")
_LETTERS = re.compile(f"[{_LATIN}{_OTHER}\u0300-\u036f]+")
_FOREIGN = re.compile(f"[{_OTHER}]")
_LATIN_LETTER = re.compile(f"[{_LATIN}]")
_SUFFIXED = re.compile("[A-Z]{2,}[\u0430-\u045f]{1,4}")  # an abbreviation with a Russian ending: PDFка
_GREEK_AMID = re.compile("[a-z][\u0370-\u03ff]+[a-z]")
_GREEK = re.compile("[\u0370-\u03ff\u1f00-\u1fff]")
_CYRILLIC_RUN = re.compile("[\u0400-\u052f]{2}")
_AROUND_CHARS = 5_000  # on either side of the first disguised word, in which Cyrillic prose excuses slips
_STYLISED: Final = "\ufffd\ue000-\uf8ff\u0300-\u036f\uff21-\uff5a\U0001d400-\U0001d7ff\U000f0000-\U0010fffd"
_DAMAGED_OR_STYLISED = re.compile(f"[\ud800-\udfff{_STYLISED}]")
_NOT_PLAIN = re2.compile(
    "|".join((*(each.pattern for each in (_CONTROL, _INVISIBLE, _MIXED)), f"[{_STYLISED}]")).encode()
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = re.compile("\ufffd")
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U0010fffd]")
_PILED = re.compile("[\u0300-\u036f\u0489\u1ab0-\u1aff\u20d0-\u20ff]{4,}")
_STYLED_WORD = re.compile("[\uff21-\uff3a\uff41-\uff5a]{3,}|[\U0001d400-\U0001d7ff]{3,}")

# Greek letters that no formula or name needs beside Latin ones: they are drawn as Latin letters and nothing
# else.
_GREEK_LOOKALIKES: Final = frozenset("οιϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧ")


def _is_plain(text: str) -> bool:
    """Return True for a text with nothing to find, as nearly all are; RE2 tells them in a tenth of the time."""
    try:
        data = text.encode()
        return not _NOT_PLAIN.search(data) and (text.isascii() or not BLANK_BESIDE_LETTERS.search(data))
    except UnicodeEncodeError:  # a lone surrogate
        return False


def _controls(text: str) -> Iterator[Finding]:
    if len(places := _places(_NUL_OR_INSIDE, text)) > 1 or "\x00" in text:
        yield _finding("controls", Severity.MEDIUM, 0.7, "NUL or control characters inside words", places)
    elif places:
        yield _finding("controls", Severity.LOW, 0.3, "a control character inside a word", places)
    elif places := _places(_ESCAPE, text):
        yield _finding("controls", Severity.LOW, 0.4, "terminal escape sequences", places)
    else:
        yield _finding("controls", Severity.INFO, 0.1, "control characters", _places(_CONTROL, text))


def _tag_characters(text: str) -> Iterator[Finding]:
    if places := _places(_TAG_RUN, text, lambda match: bool(match[1]), group=1):
        message = "tag characters outside a flag emoji: no reader sees them, and a model reads them as letters"
        yield _finding("tags", Severity.HIGH, 0.95, message, places)


def _bidi(text: str) -> Iterator[Finding]:
    places = _places(_BIDI, text)
    if not places:
        return
    overrides = _places(_OVERRIDE, text)
    turned = _places(_TURNED, text, lambda match: _only_latin(match[1]))
    if overrides:
        yield _finding("bidi", Severity.HIGH, 0.85, "characters that override the direction of writing", overrides)
    elif turned:
        yield _finding("bidi", Severity.MEDIUM, 0.7, "Latin text marked to be drawn from right to left", turned)
    elif open_ended := _unbalanced(text, places):
        yield _finding(
            "bidi", Severity.LOW, 0.3, "direction marks that are opened and not closed in their line", open_ended
        )
    else:
        yield _finding("bidi", Severity.INFO, 0.1, "balanced direction marks", places)


def _only_latin(text: str) -> bool:
    return bool(re.search(f"[{_LATIN}]{{2}}", text)) and not _RIGHT_TO_LEFT.search(text)


def _unbalanced(text: str, places: Iterable[Span]) -> list[Span]:
    """Return marks left open at the end of their line (UAX #9 closes them), and marks that close nothing."""
    wrong: list[Span] = []
    stack: list[tuple[str, Span]] = []
    last = 0
    for place in places:
        if text.find("\n", last, place.start) >= 0:
            wrong += [span for _, span in stack]
            stack.clear()
        last = place.start
        char = text[place.start]
        if char in "\u202c\u2069":
            openers = "\u2066\u2067\u2068" if char == "\u2069" else "\u202a\u202b"
            if stack and stack[-1][0] in openers:
                stack.pop()
            else:
                wrong.append(place)
        else:
            stack.append((char, place))
    return wrong + [span for _, span in stack]


def _mixed_script(text: str) -> Iterator[Finding]:
    words = _places(_LETTERS, text, lambda match: _disguised(match[0]))
    if not words:
        return
    around = text[max(0, words[0].start - _AROUND_CHARS) : words[0].end + _AROUND_CHARS]
    is_cyrillic = _CYRILLIC_RUN.search(_LETTERS.sub(lambda match: "" if _disguised(match[0]) else match[0], around))
    slips = sum(_has_latin_i(text[word.start : word.end]) for word in words) if is_cyrillic else 0
    if len(words) - slips >= 3:
        severity, score = Severity.HIGH, min(0.95, 0.7 + 0.02 * len(words))
    elif is_cyrillic:
        # In Russian prose a Latin c or o now and then is a slip of the keyboard.
        severity, score = Severity.LOW, 0.3
    else:
        severity, score = Severity.MEDIUM, 0.6
    yield _finding("mixed_script", severity, score, "letters of another script inside Latin words, drawn alike", words)


def _has_latin_i(word: str) -> bool:
    """Return True for a Cyrillic word with a Latin i, as Ukrainian is often typed."""
    latin = _LATIN_LETTER.findall(word)
    return set(latin) <= {"i", "I"} and 2 * len(latin) < len(word)


def _disguised(word: str) -> bool:
    """Return True for a word that reads as Latin only because letters of another script in it look Latin."""
    if len(word) < 3 or word.isascii() or _SUFFIXED.fullmatch(word):
        return False
    foreign = _FOREIGN.findall(word)
    latin = _LATIN_LETTER.findall(word)
    if not foreign or not latin or any(latin_lookalike(char) is None for char in foreign):
        return False
    if not all(map(_GREEK.match, foreign)):
        return True
    if not _GREEK_LOOKALIKES.isdisjoint(foreign):
        return len(latin) >= 2
    # α, ν or ρ stands in names and formulas (TNFα, NFκB, sinα): only amid lower-case letters is it a
    # disguise.
    return len(latin) >= 4 and bool(_GREEK_AMID.search(word))


def _stylised(text: str) -> Iterator[Finding]:
    if places := _places(_STYLED_WORD, text):
        yield _finding("stylised", Severity.LOW, 0.3, "words in mathematical or full-width letters", places)


def _carries_bytes(run: re.Match[str]) -> bool:
    """Return whether a run of variation selectors is more than one of them, repeated a few times."""
    return len(set(run.group())) > 1 or len(run.group()) > MAX_REPEATED_SELECTORS


def _places(
    pattern: re.Pattern[str], text: str, accept: Callable[[re.Match[str]], bool] | None = None, group: int = 0
) -> list[Span]:
    """Return the places of the first matches that are accepted, MAX_HITS at most; what is not accepted uses up nothing."""
    matches = (match for match in pattern.finditer(text) if accept is None or accept(match))
    return [Span(*match.span(group)) for match in islice(matches, MAX_HITS)]


def _finding(code: str, severity: Severity, score: float, message: str, places: Sequence[Span]) -> Finding:
    more = "+" if len(places) >= MAX_HITS else ""
    count = f" ({len(places)}{more} places)" if len(places) > 1 else ""
    return Finding(
        check=UnicodeTricks.name,
        code=f"{UnicodeTricks.name}.{code}",
        severity=severity,
        score=score,
        message=f"The text holds {message}{count}",
        span=places[0],
        tags=tag_ids(("prompt_injection", "obfuscation")) if severity.rank >= Severity.LOW.rank else (),
    )
