"""Dates and times of day, as ISO 8601: ``2026-11-22``, ``2026-11``, ``2026``, ``--11-22``, ``14:30``; a season as ``2025/2026``;
weekdays that come again as ``mondays and fridays``.

A date such as 03/04/2026, which two continents read differently, stays as it is written.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator
from typing import Final

from corpus_guard.claims.value import Kind, Value
from corpus_guard.domain import Span

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_NUMBERS: Final = {name[:3].lower(): number for number, name in enumerate(_MONTHS, 1)}
_MONTH: Final = rf"(?P<name>{'|'.join(f'{name}|{name[:4]}|{name[:3]}' for name in _MONTHS)}|[A-Z]{{3,9}})\.?"
_DAY: Final = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR: Final = r"(?P<year>1[0-9]\d\d|2[01]\d\d)"
_WRITTEN: Final = tuple(
    re.compile(rf"(?<![\w.,:/-]){pattern}(?![\w]|[-:/]\d)")
    for pattern in (
        rf"{_YEAR}(?P<separator>[-/.])(?P<month>\d\d)(?P=separator)(?P<day>\d\d)(?=$|[^\d]|T\d)",
        rf"{_DAY} (?:of )?{_MONTH},? {_YEAR}",
        rf"{_MONTH} {_DAY},? {_YEAR}",
        rf"{_MONTH},? (?:of )?{_YEAR}",
        rf"{_YEAR}-(?P<month>0[1-9]|1[0-2])",
        rf"(?P<first>\d{{1,2}})(?P<separator>[./])(?P<second>\d{{1,2}})(?P=separator){_YEAR}",
        rf"{_DAY} (?:of )?{_MONTH}",
        rf"{_MONTH} {_DAY}",
    )
)
_YEARLESS: Final = re.compile(r"(?<![\w-])--(?P<month>\d\d)-(?P<day>\d\d)(?!\w)")
_BARE_YEAR: Final = re.compile(
    r"(?:\b(?i:in|since|by|of|until|till|from|before|after|during|year|early|late|mid|circa|©|and|to|for) |[(]|^)"
    r"(?P<year>1[5-9]\d\d|20\d\d|2100)(?=$|[).,;:!?](?!\d)"
    r"| (?i:the|a|an|and|to|until|by|it|we|he|she|they|was|were|is|as|with|for|in|at|but|or|gave|asked|had|did|said|came|took"
    r"|you|I|people|there|no|all|only|my|our|his|her|their|its)\b)"
)
_SEASON_OF: Final = re.compile(
    r"(?i:\b(?:winter|summer|spring|autumn|fall|season|draft|edition|rules?|reform|census|war|crisis|year) of )"
    r"(?P<year>1[5-9]\d\d|20\d\d)(?= [a-z])"
)
_YEAR_OF: Final = re.compile(r"(?i:\bthe )(?P<year>(?:1[89]|20)\d\d)(?= [a-z])")  # the 2010 census
# "the 1984 Summer Olympics".
_YEAR_OF_NAME: Final = re.compile(r"(?<![\w.,:/$€£-])(?<![-–] )(?P<year>(?:1[89]|20)\d\d)(?= [A-Z][a-z]{3})")
# "the 2012-13 season"; 2010-11 is a month.
_SEASON: Final = re.compile(r"(?<![\w.,:/$€£-])(?P<year>(?:1[89]|20)\d\d)[-–/](?P<next>\d\d|\d{4})(?![\w]|[-–/]\d)")
_CLOCK: Final = re.compile(
    r"(?<![\w.,:/-])(?:(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d)?|(?P<only>1[0-2]|[1-9])(?= ?(?i:[ap]\.?m\b|o'clock)))"
    r"(?: ?(?P<half>(?i:[ap]m\b|[ap]\.m\.))| o'clock)?(?![\w]|:\d)"
)

_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAMED_DAY: Final = rf"(?:{'|'.join(_WEEK)})"
_WEEKDAYS: Final = re.compile(
    rf"(?i)(?<![\w-])(?:(?P<rank>first|second|third|fourth|last) (?P<ranked>{_NAMED_DAY}) (?:of|in) (?:the|each|every) month"
    rf"|(?P<first>{_NAMED_DAY})s?(?: to | through |-|–)(?P<last>{_NAMED_DAY})s?"
    rf"|(?:every|each) {_NAMED_DAY}(?:(?:, | and |, and ){_NAMED_DAY})*"
    rf"|{_NAMED_DAY}s(?:(?:, | and |, and ){_NAMED_DAY}s)*)(?![\w-])"
)
WEEKDAY: Final = re.compile(rf"(?i){_NAMED_DAY}")
"""Word that every sentence about weekdays holds."""


def read_weekdays(text: str) -> Iterator[Value]:
    """Yield the weekdays of a plain sentence on which something happens again and again, not those of one week."""
    for match in _WEEKDAYS.finditer(text):
        if match["rank"]:
            normal = f"{match['rank']} {match['ranked']} of each month".lower()
        elif match["first"]:
            first, last = (_WEEK.index(match[group].lower()) for group in ("first", "last"))
            normal = _recurring(range(first, last + 1 if first <= last else last + 8))
        else:
            normal = _recurring(_WEEK.index(day.lower()) for day in WEEKDAY.findall(match.group()))
        yield Value(Kind.WEEKDAYS, Span(*match.span()), normal)


def _recurring(days: Iterable[int]) -> str:
    return " and ".join(f"{_WEEK[day]}s" for day in sorted({day % len(_WEEK) for day in days}))


def read_dates(text: str) -> Iterator[Value]:
    """Yield the dates of a plain sentence, each as far as it is written: a day, a month or a year."""
    for pattern in (*_WRITTEN, _YEARLESS):
        for match in pattern.finditer(text):
            if normal := _normal(match.groupdict()):
                yield Value(Kind.DATE, Span(*match.span()), normal)
    for match in _SEASON.finditer(text):
        following = f"{int(match['year']) + 1}"
        if match["next"] in {following, following[2:]}:
            yield Value(Kind.DATE, Span(*match.span()), f"{match['year']}/{following}")
    for match in (
        *_BARE_YEAR.finditer(text),
        *_SEASON_OF.finditer(text),
        *_YEAR_OF.finditer(text),
        *_YEAR_OF_NAME.finditer(text),
    ):
        yield Value(Kind.DATE, Span(*match.span("year")), match["year"])


def _normal(parts: dict[str, str | None]) -> str | None:
    """Return a date in ISO 8601; None for one that no calendar has."""
    year, day, month = parts.get("year"), parts.get("day"), parts.get("month")
    if name := parts.get("name"):
        full = next((whole for whole in _MONTHS if whole.lower().startswith(name.lower())), None)
        month = str(_NUMBERS[name[:3].lower()]) if full or name.lower() == "sept" else None
        if month is None:
            return None
    if parts.get("first"):
        first, second = int(parts["first"] or 0), int(parts["second"] or 0)
        if first <= 12 and second <= 12 and first != second and parts["separator"] == "/":
            return f"{first:02}/{second:02}/{year}"
        day, month = map(str, (first, second) if second <= 12 else (second, first))
    try:
        date = datetime.date(int(year or 2000), int(month or 1), int(day or 1))
    except ValueError:
        return None
    if not year:
        return f"--{date:%m-%d}"
    return f"{date.year}-{date:%m-%d}" if day else f"{date.year}-{date:%m}" if month else year


def read_times(text: str) -> Iterator[Value]:
    """Yield the times of day of a plain sentence, as 24-hour clock."""
    for match in _CLOCK.finditer(text):
        hour, half = int(match["hour"] or match["only"]), (match["half"] or "").lower()[:1]
        if half and not 1 <= hour <= 12:
            continue
        hour = hour % 12 + (12 if half == "p" else 0) if half else hour
        yield Value(Kind.TIME, Span(*match.span()), f"{hour:02}:{match['minute'] or '00'}")
