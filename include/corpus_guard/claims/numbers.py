"""Numbers as people write them: ``95,000``, ``1.234,56``, ``1.2 million``, ``½``, "ninety-five", "two and a half"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from text_to_num import text2num

_SMALL = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen \
eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
_WORD: Final = rf"(?:{'|'.join(sorted(_SMALL.split(), key=len, reverse=True))}|hundred|thousand|million|billion)"
_SPELLED: Final = (
    rf"(?:half a dozen|half an?|(?:a |one )?dozen|an? (?:hundred|thousand|million|billion)|{_WORD}(?:(?: and |[ -]){_WORD}){{0,11}}"
    r"(?: and a half)?)(?!\w)"
)
NUMBER_WORD: Final = re.compile(rf"(?i)\b(?:{_WORD}|half|dozen)\b|[½¼¾⅓⅔]")
"""Word or sign that every number without a digit holds."""
_FRACTIONS: Final = {"½": 0.5, "¼": 0.25, "¾": 0.75, "⅓": 1 / 3, "⅔": 2 / 3}
_SCALES: Final = {"thousand": 1e3, "k": 1e3, "million": 1e6, "mn": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
_SCALE: Final = r"(?:[ \u00a0-]?(?i:thousand|million|billion|trillion|bn|mn)s?|k)(?!\w)"
_DIGITS: Final = (
    r"(?:\d{1,3}(?:[,\u00a0' ]\d{3}){1,5}(?:\.\d{1,10})?|\d{1,3}(?:\.\d{3}){1,5},\d{1,4}|\d{1,3}(?:\.\d{3}){2,5}"
    r"|\d{1,4} [1-9]/[2-9]|(?:\d{1,3} ?)?[½¼¾⅓⅔]|\d{1,17}(?:[.,]\d{1,16})?)(?!\d|[.,:/]\d)(?:[eE][+-]?\d{1,3}(?!\w))?(?![eE][+-]?\d)"
)
_PARTS: Final = rf"(?P<minus>-|minus )?(?:(?P<digits>{_DIGITS})(?P<scale>{_SCALE})?|(?P<words>(?i:{_SPELLED})))"
AMOUNT: Final = re.compile(rf"(?<![\w½¼¾⅓⅔])(?<!\d[.,:/])(?<!\w[-–]){_PARTS}")
"""A number that is no part of a word, of a longer number or of an identifier such as OX-12."""
AMOUNT_AFTER_DASH: Final = re.compile(_PARTS)
"""A number at a known place, such as the second of a range."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number that was written out."""

    value: float  # finite
    resolution: float  # half a unit of the last written digit, > 0
    start: int
    end: int
    is_spelled: bool = False


def read_amount(match: re.Match[str]) -> Amount | None:
    """Return the number that AMOUNT matched; None for one that no float holds or no reader understands."""
    if match["words"] is not None:
        value = _spelled(match["words"].lower())
        decimals, scale = (1 if value is not None and value % 1 else 0), 1.0
    else:
        value, decimals = _written(match["digits"])
        scale = _SCALES[match["scale"].strip(" \u00a0-").lower().rstrip("s")] if match["scale"] else 1.0
    if value is None or not math.isfinite(value * scale):
        return None
    sign = -1.0 if match["minus"] else 1.0
    resolution = 0.5 * scale * 10.0 ** max(-300, min(300, -decimals))
    return Amount(sign * value * scale, resolution, match.start(), match.end(), match["words"] is not None)


def _written(digits: str) -> tuple[float | None, int]:
    """Return a number written in digits and its decimals."""
    if digits[-1] in _FRACTIONS:
        whole = digits[:-1].strip()
        return float(whole or 0) + _FRACTIONS[digits[-1]], 2
    if "/" in digits:
        whole, _, part = digits.partition(" ")
        return float(whole) + int(part[0]) / int(part[2]), 2
    body, _, exponent = digits.lower().partition("e")
    if re.fullmatch(r"\d{1,3}(?:\.\d{3})+(?:,\d+)?", body) and (body.count(".") > 1 or "," in body):
        body = body.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"\d{1,3}(?:[,\u00a0' ]\d{3})+(?:\.\d+)?", body):
        body = re.sub(r"[,\u00a0' ]", "", body)
    else:
        body = body.replace(",", ".")
    decimals = len(body.partition(".")[2])
    value = float(f"{body}e{exponent}" if exponent else body)
    return (value if math.isfinite(value) else None), decimals - int(exponent or 0)


@lru_cache(maxsize=4_096)
def _spelled(words: str) -> float | None:
    if words.startswith("half a") or words == "half":
        return 6.0 if words.endswith("dozen") else 0.5
    if words.endswith("dozen"):
        return 12.0
    half = 0.5 if words.endswith(" and a half") else 0.0
    words = words.removesuffix(" and a half")
    if words.startswith(("a ", "an ")):
        words = "one " + words.partition(" ")[2]
    try:
        return float(text2num(words, "en")) + half
    except ValueError:
        return None


def render(number: float) -> str:
    """Return a number with ten significant digits, as AMOUNT reads it again: "95000", "0.0254", "1e+21"."""
    return f"{number:.10g}" if number else "0"
