"""A value that a sentence states, and how two values relate."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from corpus_guard.claims.units import SECONDS_A_MONTH
from corpus_guard.domain import Span


class Kind(StrEnum):
    """Kind of a value."""

    QUANTITY = "quantity"  # with a unit
    COUNT = "count"  # without
    PERCENTAGE = "percentage"
    MONEY = "money"
    DURATION = "duration"
    FREQUENCY = "frequency"
    DATE = "date"
    TIME = "time"  # of day
    WEEKDAYS = "weekdays"  # that come again: "on Mondays"
    VERSION = "version"
    PHONE = "phone"
    IBAN = "iban"
    EMAIL = "email"
    DOMAIN = "domain"  # or an IP address
    ORDER = "order"  # of two steps
    NAME = "name"
    NEGATION = "negation"


@dataclass(frozen=True, slots=True)
class Value:
    """Value that a sentence states in one place.

    Two values of one kind and unit are comparable. Numbers are ranges: ``at least 5 kN`` is 5000 to infinity.
    """

    kind: Kind
    span: Span
    normal: str  # normal form; read as a text, it has the same normal form
    unit: str = ""  # "N", "s", "month", "%", "EUR"; of a count its noun
    low: float | None = None
    high: float | None = None  # >= low; None: not a number
    resolution: float = 0.0  # half a unit of the last written digit, or what "about" allows
    is_denied: bool = False  # "not 36 months but 6": the sentence says that it is not this

    def placed(self, span: Span) -> Value:
        """Return the same value in another place; `dataclasses.replace` would take twice as long."""
        return Value(self.kind, span, self.normal, self.unit, self.low, self.high, self.resolution, self.is_denied)


class Relation(StrEnum):
    """Relation of two comparable values."""

    EQUAL = "equal"
    OVERLAPPING = "overlapping"  # both can be true: a range and a value in it, a year and its day
    DIFFERENT = "different"


MAX_ROUNDING: Final = 0.05  # of the larger value: 6 and 6.2 may be one number, 1 and 1.4 are not
CALENDAR_SLACK: Final = 0.02  # 180 days are six months
AND_LATER: Final = " and later"
"""End of the normal form of a version from which something holds."""
_TIMES: Final = {Kind.DURATION, Kind.FREQUENCY}
_ONE_SIGN: Final = ({"USD", "AUD", "CAD"}, {"JPY", "CNY"})
"""Currencies that share a sign."""


def relate(value: Value, other: Value) -> Relation | None:
    """Return how two values relate; None: they are not comparable."""
    if value.kind is not other.kind:
        return None
    if value.low is not None and value.high is not None and other.low is not None and other.high is not None:
        if value.unit != other.unit and value.kind not in _TIMES:
            return Relation.DIFFERENT if _is_in_another_currency(value, other) else None
        return _relate_numbers(value, other)
    if value.normal == other.normal:
        return Relation.EQUAL
    narrower, wider = sorted((value.normal, other.normal), key=len, reverse=True)
    match value.kind:
        case Kind.NEGATION:
            return None
        case Kind.DATE:
            overlapping = bool(_dates(narrower) & _dates(wider)) or any(
                day.startswith(wider) or day.endswith(wider.removeprefix("-")) for day in _dates(narrower)
            )
        case Kind.VERSION:
            bounds = [each.normal.endswith(AND_LATER) for each in (value, other)]
            overlapping = narrower.startswith(wider + ".") or any(bounds) is not all(bounds)
        case Kind.WEEKDAYS:
            overlapping = set(wider.split(" and ")) <= set(narrower.split(" and "))
        case Kind.DOMAIN:
            overlapping = narrower.endswith("." + wider)
        case Kind.PHONE:  # one may lack the country's code
            shorter, longer = sorted((re.sub(r"^(?:tel:|\+)0*", "", each.normal) for each in (value, other)), key=len)
            overlapping = longer.endswith(shorter)
        case _:
            overlapping = False
    return Relation.OVERLAPPING if overlapping else Relation.DIFFERENT


def _is_in_another_currency(value: Value, other: Value) -> bool:
    """Return whether two amounts of money are one number of two currencies: "$120" and "€120", no conversion."""
    return (
        value.kind is Kind.MONEY
        and (value.low, value.high) == (other.low, other.high)
        and not any({value.unit, other.unit} <= currencies for currencies in _ONE_SIGN)
    )


def _relate_numbers(value: Value, other: Value) -> Relation:
    scales = [SECONDS_A_MONTH if each.unit == "month" and value.unit != other.unit else 1.0 for each in (value, other)]
    (low, high), (other_low, other_high) = (
        (each.low * scale if each.low is not None else 0.0, each.high * scale if each.high is not None else 0.0)
        for each, scale in zip((value, other), scales, strict=True)
    )
    coarsest = max(value.resolution * scales[0], other.resolution * scales[1])
    slack = coarsest
    if value.resolution == other.resolution and value.unit == other.unit:
        slack = 0.0  # written to the same digit: what differs, differs
    largest = max(abs(x) for x in (low, high, other_low, other_high, 0.0) if math.isfinite(x))
    # What a conversion leaves of zero (32 °F) is measured by the digits that were written.
    slack = min(slack, MAX_ROUNDING * largest) + 1e-9 * max(largest, coarsest)
    if value.unit != other.unit:
        slack += CALENDAR_SLACK * largest
    if _near(low, other_low, slack) and _near(high, other_high, slack):
        return Relation.EQUAL
    ranges = low < high and other_low < other_high
    is_moved = ranges and (_near(low, other_low, slack) or _near(high, other_high, slack))  # 10 to 16 V, 10 to 36 V
    if (
        max(low, other_low) <= min(high, other_high) + slack
        and not is_moved
        and not _same_bound(low, high, other_low, other_high)
    ):
        return Relation.OVERLAPPING
    return Relation.DIFFERENT


def _near(number: float, other: float, slack: float) -> bool:
    return number == other or abs(number - other) <= slack


def _same_bound(low: float, high: float, other_low: float, other_high: float) -> bool:
    """Return whether both are lower or both upper bounds: "at least 6" and "at least 36" are two rules."""
    return (math.isinf(high) and math.isinf(other_high)) or (math.isinf(low) and math.isinf(other_low))


def _dates(normal: str) -> set[str]:
    """Return the days a date may be: 03/04/2026 is two."""
    if match := re.fullmatch(r"(\d\d)/(\d\d)/(\d{4})", normal):
        first, second, year = match.groups()
        return {f"{year}-{first}-{second}", f"{year}-{second}-{first}"}
    return {normal}
