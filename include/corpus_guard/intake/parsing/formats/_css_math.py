"""Calculations in values of CSS (``calc()``, ``min()``, ``max()``, ``clamp()``), worked out as far as a screen's size does not matter.

A length relative to the screen or to a box around is taken once as on a small screen and once as on a large one. Of the two results
the one that hides less counts; where one would hide a text and the other not, the calculation stays as it is written.
"""

from __future__ import annotations

import re

_MAX_ROUNDS = 30  # brackets within each other, and calculations beside each other
_MAX_CHARS = 500
_CALL = re.compile(r"(?<![\w-])(calc|min|max|clamp|)\(([^()]*)\)")
_SUM, _PRODUCT = re.compile(r"\s+([+-])\s+"), re.compile(r"\s*([*/])\s*")
_QUANTITY = re.compile(r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))([a-z]{1,4}|%)?")
_ABSOLUTE = {"px": 1.0, "pt": 1.33, "in": 96.0, "cm": 38.0, "mm": 3.8, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0}
_SCREENS = ({"%": 3.0, "vw": 10.24, "vh": 7.0}, {"%": 20.0, "vw": 19.2, "vh": 10.8})
"""Pixels on a small and on a large screen; ``%`` is relative to the box around."""
_HIDING = 1.0  # a size or opacity that is not above it may hide a text, and so may a place below zero


def calculate(value: str) -> str:
    """Return a value, in lower case, with its calculations replaced by lengths in pixels or by numbers."""
    if len(value) > _MAX_CHARS:
        return value
    for _ in range(_MAX_ROUNDS):
        replaced = _CALL.sub(_work_out, value, count=1)
        if replaced == value:
            break
        value = replaced
    return value


def _work_out(call: re.Match[str]) -> str:
    results = [_evaluate(call[1], call[2].split(","), screen) for screen in _SCREENS]
    small, large = results
    if small is None or large is None:
        return call[0]
    (first, unit), (second, _) = small, large
    if (first <= _HIDING) != (second <= _HIDING):
        return call[0]
    return f"{max(first, second) if first <= _HIDING else min(first, second):.4f}{unit}"


def _evaluate(name: str, terms: list[str], screen: dict[str, float]) -> tuple[float, str] | None:
    try:
        amounts = [_add(term.strip(), screen) for term in terms]
    except (ValueError, ZeroDivisionError):
        return None
    unit = "px" if any(is_length for _, is_length in amounts) else ""
    numbers = [number for number, _ in amounts]
    if name == "clamp" and len(numbers) == 3:
        return max(numbers[0], min(numbers[1], numbers[2])), unit
    if name in {"min", "max"}:
        return (min if name == "min" else max)(numbers), unit
    return (numbers[0], unit) if len(numbers) == 1 else None


def _add(term: str, screen: dict[str, float]) -> tuple[float, bool]:
    first, *rest = _SUM.split(term)
    number, is_length = _multiply(first, screen)
    for sign, factor in zip(rest[::2], rest[1::2], strict=True):
        other, has_unit = _multiply(factor, screen)
        number += other if sign == "+" else -other
        is_length |= has_unit
    return number, is_length


def _multiply(term: str, screen: dict[str, float]) -> tuple[float, bool]:
    first, *rest = _PRODUCT.split(term)
    number, is_length = _measure(first, screen)
    for sign, factor in zip(rest[::2], rest[1::2], strict=True):
        other, has_unit = _measure(factor, screen)
        number = number * other if sign == "*" else number / other
        is_length |= has_unit
    return number, is_length


def _measure(text: str, screen: dict[str, float]) -> tuple[float, bool]:
    quantity = _QUANTITY.fullmatch(text.strip())
    if not quantity:
        raise ValueError("not a number, or in a unit that is not known here")
    unit = quantity[2]
    pixels = 1.0 if unit is None else screen.get(unit) or _ABSOLUTE.get(unit)
    if pixels is None:
        raise ValueError("not a length")
    return float(quantity[1]) * pixels, unit is not None
