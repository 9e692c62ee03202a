"""Quantities, counts, percentages, money, durations and frequencies, with ranges and bounds.

``95 kN``, "ninety-five kilonewtons" and ``95,000 N`` are all ``95000 N``; "twice a year" is ``every 6 month``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from corpus_guard.claims.numbers import AMOUNT, AMOUNT_AFTER_DASH, Amount, read_amount, render
from corpus_guard.claims.units import conversion, read_unit
from corpus_guard.claims.value import Kind, Value
from corpus_guard.domain import Span

ABOUT: Final = 0.05  # what "about" allows
_CURRENCIES: Final = (
    "EUR",
    "USD",
    "GBP",
    "CHF",
    "JPY",
    "CNY",
    "INR",
    "SEK",
    "NOK",
    "DKK",
    "PLN",
    "CZK",
    "AUD",
    "CAD",
    "BTC",
)
_SIGNS: Final = {"€": "EUR", "$": "USD", "US$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "A$": "AUD", "C$": "CAD"}
_NAMES: Final = {
    "euro": "EUR",
    "dollar": "USD",
    "us dollar": "USD",
    "pounds sterling": "GBP",
    "swiss franc": "CHF",
    "yen": "JPY",
}
_MONEY_BEFORE: Final = re.compile(rf"(?:{'|'.join(_CURRENCIES)}|(?:US|A|C)?[$€£¥₹])\s?$")
_MONEY_AFTER: Final = re.compile(
    rf"(?P<scale>(?:m|M|K|B)(?!\w))?(?:\s?(?P<code>{'|'.join(_CURRENCIES)}|[€$£¥₹])(?!\w)"
    r"|[ -](?P<name>(?i:(?:us )?dollars?|euros?|pounds sterling|swiss francs?|yen))(?!\w))?"
)
_LETTER_SCALES: Final = {"m": 1e6, "M": 1e6, "K": 1e3, "B": 1e9}
_BELOW_A_HUNDRED: Final = (
    r"\d{2}|(?i:(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[ -](?:one|two|three|four|five|six|seven|eight|nine))?"
    r"|ten|eleven|twelve|fifteen)"
)
_CENTS: Final = re.compile(
    rf" (?:and )?(?P<cents>{_BELOW_A_HUNDRED}) (?:cents?|pence)(?!\w)"
    rf"|(?<=[a-z]) (?P<bare>{_BELOW_A_HUNDRED})(?![\w%]|[.,]\d| (?:per ?cent|percent|euros?|dollars?|pounds?)\b)"
)
"""After an amount: "six euros fifty", "6 € and 50 cents"."""
_PERCENT: Final = re.compile(r"\s?[%‰]|[ -](?i:per ?cent|pct|percentage points?|percent points?)(?!\w)")
_JOIN: Final = re.compile(r"\s?(?P<dash>-|–|—)\s?| (?P<to>to|through) | and | ?± ?| \+/- ?| (?P<by>[x×]) ")
_BOUND: Final = re.compile(
    r"(?P<low>at least|no less than|not less than|no fewer than|minimum of|a minimum|more than|over|above|exceeding|>=?|≥)\s?$"
    r"|(?P<high>at most|up to|no more than|not more than|no later than|not later than|maximum of|a maximum"
    r"|less than|under|below|not exceed(?:ing)?|within|fewer than|<=?|≤)\s?$"
    r"|(?P<about>about|approximately|approx\.?|around|roughly|circa|ca\.|some|nearly|almost|~|≈)\s?$",
    re.IGNORECASE,
)
_BOUND_AFTER: Final = re.compile(
    r" (?:or (?P<low>more|above|older|longer)|or (?P<high>less|below|fewer|earlier))\b", re.IGNORECASE
)
_NOUN: Final = re.compile(r"[ -](?P<noun>[^\W\d_]{2,30})")
_FUNCTION_WORDS: Final = (
    "according among during throughout upon "
    "a an and are as at be been but by can could did do does for from had has have he her his if in into is it its may must no "
    "nor not of off on or our over per shall she should since so than that the their then there these they this to under "
    "until up was we were when where which while who will with would you your about after all also another any before "
    "between both each every more most other others percent some such thus times "
    "again already although because even hence however instead just only otherwise still therefore though unless whereas yet"
)
_NO_NOUN: Final = frozenset(_FUNCTION_WORDS.split())
_CALENDAR: Final = {
    "hourly": (1 / 24, ""), "daily": (1, ""), "nightly": (1, ""), "weekly": (7, ""), "fortnightly": (14, ""),
    "monthly": (1, "month"), "quarterly": (3, "month"), "yearly": (12, "month"), "annually": (12, "month"),
    "biannually": (6, "month"), "semi-annually": (6, "month"), "semiannually": (6, "month"),
    "half-yearly": (6, "month"), "twice-yearly": (6, "month"), "biennially": (24, "month"),
}  # fmt: skip
_ADVERB: Final = re.compile(rf"(?<![\w-])(?i:{'|'.join(_CALENDAR)})(?![\w-])")
FREQUENCY_WORD: Final = re.compile(rf"(?i)\b(?:once|twice|thrice|times|every|{'|'.join(_CALENDAR)})\b")
"""A word without which no sentence says how often something happens, unless in digits."""
_EVERY: Final = re.compile(
    r"(?i:(?:once )?(?:every|each)(?P<other> other| second)?|once in(?: every)?|(?:once )?per) $"
)
_TIMES_A: Final = re.compile(
    r"(?<![\w-])(?i:(?P<word>once|twice|thrice)|(?P<times>\d{1,3}|two|three|four|five|six|seven|eight|nine|ten|twelve) times)"
    r"(?:(?: every|,? (?:an?|per|each|every)|/) ?(?P<period>(?i:second|minute|hour|day|week|fortnight|month|quarter|year|decade))s?"
    r"| (?P<adverb>(?i:hourly|daily|weekly|monthly|quarterly|yearly|annually)))(?!\w)"
)
_EVERY_PERIOD: Final = re.compile(
    r"(?<![\w-])(?i:(?:once )?every(?P<other> other| second)?"
    r" (?P<period>second|minute|hour|day|week|fortnight|month|quarter|year|decade))(?![\w])"
)
_ONCE: Final = {"once": 1.0, "twice": 2.0, "thrice": 3.0}
_INTERVAL: Final = re.compile(r"(?i)\b(?:interval|frequency|cycle|cadence)s?\b")
_INTERVAL_AFTER: Final = re.compile(r"(?i) between [a-z]+s\b|[ -]intervals?\b")


@dataclass(frozen=True, slots=True)
class _Measure:
    """Text after a number: a unit, a currency, a percent sign, a noun, or nothing."""

    kind: Kind
    unit: str
    factor: float
    offset: float
    end: int


def read_measures(text: str) -> Iterator[Value]:
    """Yield what the numbers of a plain sentence say."""
    taken = 0
    has_interval = bool(_INTERVAL.search(text))
    for match in AMOUNT.finditer(text):
        amount = read_amount(match) if match.start() >= taken else None
        if amount is None:
            continue
        if value := _read(text, amount, has_interval):
            yield value
            taken = value.span.end


def _read(text: str, first: Amount, has_interval: bool) -> Value | None:
    second, join = _second(text, first)
    measure = _follow(text, first, second or first, join)
    if second is None and measure.kind is Kind.COUNT and not measure.unit and first.is_spelled and first.value == 1:
        return None  # "one of them"
    low, high = first.value, (second or first).value
    if "±" in join or "+/-" in join:
        low, high = first.value - abs(high), first.value + abs(high)
    elif second is not None and (low > high or (low < 0 < high and "-" in join)):
        return None  # a score, not a range
    resolution = min(first.resolution, second.resolution if second else first.resolution)
    low, high = (x * measure.factor + measure.offset for x in (low, high))
    resolution *= abs(measure.factor)
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    start, prefix = first.start, text[: first.start]
    if money := _MONEY_BEFORE.search(prefix[-6:]):
        start -= len(money.group())
        prefix = text[:start]
    kind, normal = measure.kind, f"{_number(low, high)} {measure.unit}".strip()
    if kind is Kind.DURATION and (every := _EVERY.search(prefix[-25:])):
        start -= len(every.group())
        if every["other"]:
            low, high = 2 * low, 2 * high
        kind, normal = Kind.FREQUENCY, _every(low, high, measure.unit)
    elif kind is Kind.DURATION and (has_interval or _INTERVAL_AFTER.match(text, measure.end)):
        kind, normal = Kind.FREQUENCY, _every(low, high, measure.unit)
    elif low == high and (bound := _BOUND.search(prefix[-20:]) or _BOUND_AFTER.match(text, measure.end)):
        groups = bound.groupdict()
        if groups["low"]:
            high, normal = math.inf, f"at least {normal}"
        elif groups["high"]:
            low, normal = -math.inf, f"at most {normal}"
        else:
            resolution = max(resolution, abs(low) * ABOUT)
    return Value(kind, Span(start, measure.end), normal, measure.unit, low, high, resolution)


def _every(low: float, high: float, unit: str) -> str:
    return f"every {_number(low, high)} {unit}"


def _number(low: float, high: float) -> str:
    return render(low) if low == high else f"{render(low)} to {render(high)}"


def _second(text: str, first: Amount) -> tuple[Amount | None, str]:
    """Return the other end of a range and what stands between; None: there is no range."""
    position = read_unit(text, _after_space(text, first.end))  # 5 kN to 10 kN
    for end in (first.end, position, first.end + 1 if text[first.end : first.end + 1] == "%" else first.end):
        join = _JOIN.match(text, end)
        if not join or join["by"]:
            continue
        if join.group() == " and " and not re.search(
            r"(?i)\bbetween (?:[$€£]|EUR |USD )?$", text[max(0, first.start - 14) : first.start]
        ):
            continue
        after = join.end() + len(re.match(r"[$€£]?", text[join.end() :]).group())  # type: ignore[union-attr]
        match = AMOUNT_AFTER_DASH.match(text, after)
        second = read_amount(match) if match else None
        if second is not None:
            return second, join.group()
    return None, ""


def _after_space(text: str, end: int) -> int:
    return end + (text[end : end + 1] in {" ", "\u00a0", "-"} and end + 1 < len(text))


def _follow(text: str, first: Amount, last: Amount, join: str) -> _Measure:
    """Return what the number that ends a range, or the only one, is a number of."""
    end = last.end
    before = _MONEY_BEFORE.search(text[max(0, first.start - 6) : first.start])
    after = _MONEY_AFTER.match(text, end)
    if after and (before or after["code"] or after["name"]):
        sign = (before.group().strip() if before else "") or after["code"] or after["name"].lower()
        currency = _SIGNS.get(sign) or _NAMES.get(sign) or _NAMES.get(sign.rstrip("s")) or sign
        scale = _LETTER_SCALES.get(after["scale"] or "", 1.0)
        cents = _CENTS.match(text, after.end()) if scale == 1.0 and first is last and first.value % 1 == 0 else None
        part = _amount((cents["cents"] or cents["bare"]).lower()) / 100 if cents else 0.0
        return _Measure(Kind.MONEY, currency, scale, part, (cents or after).end())
    if percent := _PERCENT.match(text, end):
        factor = 0.1 if percent.group().strip() == "‰" else 1.0
        return _Measure(Kind.PERCENTAGE, "%", factor, 0.0, percent.end())
    start = _after_space(text, end)
    stop = read_unit(text, start)
    if stop > start and (unit_conversion := conversion(text[start:stop])):
        factor, offset, unit = unit_conversion
        kind = Kind.DURATION if unit in {"s", "month"} else Kind.QUANTITY
        return _Measure(kind, unit, factor, 0.0 if "±" in join else offset, stop)
    noun = _NOUN.match(text, end)
    if noun and noun["noun"].lower() not in _NO_NOUN:
        return _Measure(Kind.COUNT, _singular(noun["noun"].lower()), 1.0, 0.0, noun.end())
    return _Measure(Kind.COUNT, "", 1.0, 0.0, end)


def _singular(noun: str) -> str:
    return noun[:-1] if len(noun) > 3 and noun.endswith("s") and not noun.endswith("ss") else noun


def read_frequencies(text: str) -> Iterator[Value]:
    """Yield how often things happen, where no number with a unit says it: "daily", "twice a year"."""
    counted = list(_TIMES_A.finditer(text))
    for match in _ADVERB.finditer(text):
        if not any(each.start() <= match.start() < each.end() for each in counted):  # "four times daily"
            yield _frequency(match, *_calendar(match.group()))
    for match in counted:
        times = _ONCE.get((match["word"] or "").lower()) or _amount(match["times"])
        number, unit = _period(match["period"]) if match["period"] else _calendar(match["adverb"])
        yield _frequency(match, number / max(times, 1.0), unit)
    for match in _EVERY_PERIOD.finditer(text):
        number, unit = _period(match["period"])
        yield _frequency(match, number * (2 if match["other"] else 1), unit)


def _calendar(adverb: str) -> tuple[float, str]:
    number, unit = _CALENDAR[adverb.lower()]
    return (number, unit) if unit else (number * 86_400, "s")


def _amount(written: str) -> float:
    match = AMOUNT.fullmatch(written)
    amount = read_amount(match) if match else None
    return amount.value if amount else 1.0


def _period(name: str) -> tuple[float, str]:
    if name.lower() == "quarter":
        return 3.0, "month"
    factor, _, unit = conversion(name.lower()) or (1.0, 0.0, "s")
    return factor, unit


def _frequency(match: re.Match[str], number: float, unit: str) -> Value:
    return Value(Kind.FREQUENCY, Span(*match.span()), _every(number, number, unit), unit, number, number, 0.0)
