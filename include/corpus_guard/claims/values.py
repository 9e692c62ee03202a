"""The values a text states: read sentence by sentence, the certain kinds first, each place once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from corpus_guard.claims.contacts import read_contacts
from corpus_guard.claims.dates import WEEKDAY, read_dates, read_times, read_weekdays
from corpus_guard.claims.measures import FREQUENCY_WORD, read_frequencies, read_measures
from corpus_guard.claims.names import read_editions, read_names
from corpus_guard.claims.negation import NOT, WITHOUT, read_negations
from corpus_guard.claims.numbers import NUMBER_WORD
from corpus_guard.claims.plain_text import PlainText, make_plain
from corpus_guard.claims.sentences import split_sentences
from corpus_guard.claims.value import AND_LATER, Kind, Value
from corpus_guard.domain import Span

READ: Final = "\x1f"  # stands where a value was read: neither a word, nor a digit, nor white space
_DIGIT: Final = re.compile(r"\d")
_VERSION: Final = re.compile(
    r"(?<![\w.])(?:(?i:version|release|ver\.?|rev(?:ision)?\.?) ?|[vV]\.? ?)"
    r"(?P<cued>\d{1,5}(?:\.\d{1,5}){0,4}(?:[-+]?(?i:rc|alpha|beta|dev|post|a|b)\.?\d{0,4})?)(?![\w]|\.\d)"
    r"|(?<![\w.,:/-])(?P<bare>\d{1,4}(?:\.\d{1,5}){2,4}(?:[-+]?(?i:rc|alpha|beta|dev|post|a|b)\.?\d{0,4})?)(?![\w%]|[.,]\d)"
)
_FROM_VERSION: Final = re.compile(
    r"(?<![\w.,:/-])(?P<cue>(?i:version|release|ver\.) )?(?P<number>v?\d{1,4}(?:\.\d{1,5}){0,3})"
    r"(?:\+(?![\w+])| (?i:(?:and|or) (?:later|newer|above|higher|up|upwards?|greater)|upwards?|onwards?)(?!\w))"
    r"|\b(?i:from) (?P<from_cue>(?i:version|release) )?(?P<from>v?\d{1,4}(?:\.\d{1,5}){0,3}) (?i:on|onwards?|upwards?)(?!\w)"
)
"""A version from which something holds: "3.9 and later", "from release 9 on"."""
_NAMED: Final = re.compile(r"[A-Z][A-Za-z]+ $")
_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3}){2,5}")
# Numbers that name a thing: a chapter, a norm, a book. Nothing is measured or counted by them.
_LABEL: Final = re.compile(
    r"(?<!\w)(?:(?:ISBN|ISSN|DOI|EAN|ISMN|PMID|VAT|UID)(?:-1[03])?[: ]{0,2}[\dX][\dX -]{6,20}[\dX]"
    r"|(?i:doi: ?|https?://doi\.org/)?10\.\d{4,6}/[\w.()/-]{1,60}"
    r"|(?:(?i:chapter|section|sections|figure|fig\.?|table|page|pages|pp?\.|step|appendix|annex|article|art\.|clause"
    r"|paragraph|para\.|item|question"
    r"|part no\.?|part|volume|vol\.?|issue|lesson|unit|level|phase|line|lines|row|column|room|bus|route|highway|act|rule|grade"
    r"|class|type|model|number|nos?\.|nr\.?|building|floor|gate|box|ticket|invoice|order|season|episode|verse|error|code|http"
    r"|exercise|example)"
    r"|§{1,2}|#|RFC|ISO|IEC|DIN|EN|IEEE|ANSI|CVE|PEP|BS|ASTM|MIL-STD)[ \u00a0-]?"
    r"\(?\d[\d.:/-]{0,15}(?<![.:/-])(?:(?: ?[-–] ?|,? and |,? or |, (?=\d+(?:,| and| or)))\d{1,4}(?:\.\d{1,3}){0,3}"
    r"(?![\w]|[.,]\d)){0,4}(?![\w%°€$£]))"
    r"|^\(?\d{1,3}(?:[.)](?= )|(?= [ \u00a0]))"
)
_DENIED: Final = re.compile(
    r"\b(?:not|\w+n't|rather than|instead of|no longer|as opposed to|never)(?: once)?(?: every| the| for| in| at| after| by)?\s$",
    re.IGNORECASE,
)


def read_values(text: str) -> list[Value]:
    """Return the values of a whole text in order, negations included; spans are in `text`.

    Linear in the length of the text, which may be hostile.
    """
    plain = make_plain(text)
    return [value for start, end in split_sentences(plain.text) for value in read_sentence(plain, start, end)]


def read_sentence(plain: PlainText, start: int, end: int) -> list[Value]:
    """Return the values of one sentence of a plain text in order; spans are in the original text."""
    return [place_value(value, plain, start) for value in read_values_of_sentence(plain.text[start:end])]


def place_value(value: Value, plain: PlainText, start: int) -> Value:
    """Return a value of a sentence that begins at `start` of a plain text, with its span in the original text."""
    return value.placed(plain.span(start + value.span.start, start + value.span.end))


def read_values_of_sentence(text: str) -> list[Value]:
    """Return the values of a plain sentence in order; spans are in the sentence."""
    values: list[Value] = []
    remaining = text
    has_digit = _DIGIT.search(text) is not None
    for reader, needs in _READERS:
        if needs is not None and not (has_digit or needs.search(text)):
            continue
        unread = remaining
        for value in reader(unread):
            span = value if isinstance(value, Span) else value.span
            if remaining[span.start : span.end] != unread[span.start : span.end]:
                continue  # a part of it is taken
            remaining = remaining[: span.start] + READ * (span.end - span.start) + remaining[span.end :]
            if isinstance(value, Value):
                values.append(value)
    # Names may hold a negation ("No Name Ltd"); an address or a number may not: "tickets.invalid".
    hidden = [value.span for value in values if value.kind is not Kind.NAME]
    values += [
        Value(Kind.NEGATION, Span(start, end), WITHOUT if text[start:end].lower() == WITHOUT else NOT)
        for start, end in read_negations(text)
        if not any(span.start <= start < span.end for span in hidden)
    ]
    denied = [
        value.kind is not Kind.NEGATION and bool(_DENIED.search(text[max(0, value.span.start - 30) : value.span.start]))
        for value in values
    ]
    return sorted(
        (
            replace(value, is_denied=True) if is_denied else value
            for value, is_denied in zip(values, denied, strict=True)
        ),
        key=lambda value: (value.span.start, value.span.end),
    )


def may_hold_value(text: str) -> bool:
    """Return whether a plain sentence may hold a value or a negation, names aside; False is certain, and cheap."""
    return (
        _DIGIT.search(text) is not None
        or any(needs is not None and needs.search(text) for _, needs in _READERS)
        or next(read_negations(text), None) is not None
    )


def _labels(text: str) -> Iterator[Span]:
    yield from (Span(*match.span()) for match in _LABEL.finditer(text))


def _first_versions(text: str) -> Iterator[Value]:
    for match in _FROM_VERSION.finditer(text):
        number = (match["number"] or match["from"]).lower().removeprefix("v")
        is_cued = match["cue"] or match["from_cue"] or _NAMED.search(text, max(0, match.start() - 30), match.start())
        if is_cued or "." in number:
            yield Value(Kind.VERSION, Span(*match.span()), f"v{number}{AND_LATER}")


def _versions(text: str) -> Iterator[Value]:
    for match in _VERSION.finditer(text):
        number = match["cued"] or match["bare"]
        if match["cued"] or not _THOUSANDS.fullmatch(number):
            yield Value(Kind.VERSION, Span(*match.span()), f"v{number.lower()}")


_READERS: Final[tuple[tuple[Callable[[str], Iterator[Value | Span]], re.Pattern[str] | None], ...]] = (
    (read_contacts, re.compile(r"[\w@]\.\w|://|@")),
    (_labels, _DIGIT),
    (read_dates, _DIGIT),
    (read_times, _DIGIT),
    (read_weekdays, WEEKDAY),
    (_first_versions, _DIGIT),
    (_versions, _DIGIT),
    (read_editions, _DIGIT),
    (read_frequencies, FREQUENCY_WORD),
    (read_measures, NUMBER_WORD),
    (read_names, None),
)
"""Readers in order of their certainty, and what a sentence without a digit must hold to be worth reading; None: anything."""
