"""Calculations in values of CSS (``calc()``, ``min()``, ``sin()`` and the like), worked out as far as a screen's size does not matter.

A length relative to the screen or to a box around is taken once as on a small screen and once as on a large one. Of the two results
the one that hides less counts; where one would hide a text and the other not, the calculation stays as it is written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

_MAX_ROUNDS = 30  # brackets within each other, and calculations beside each other
_MAX_CHARS = 500
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "calc": lambda number: number, "": lambda number: number, "min": min, "max": max,
    "clamp": lambda least, number, most: max(least, min(number, most)), "abs": abs,
    "mod": lambda number, step: number % step, "rem": math.fmod, "hypot": math.hypot,
}  # fmt: skip
_OF_NUMBERS: dict[str, Callable[..., float]] = {
    "sign": lambda number: (number > 0) - (number < 0), "sqrt": math.sqrt, "pow": math.pow, "exp": math.exp, "log": math.log,
    "sin": math.sin, "cos": math.cos, "tan": math.tan,
}  # fmt: skip
"""Functions whose result has no unit."""
_ROUNDING: Mapping[str, Callable[[float], float]] = {
    "nearest": round, "up": math.ceil, "down": math.floor, "to-zero": math.trunc,
}  # fmt: skip
_CALL = re.compile(rf"(?<![\w-])(round|{'|'.join((_FUNCTIONS | _OF_NUMBERS).keys())})\(([^()]*)\)")
_EXPONENT = re.compile(r"(?<![\w.#])([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))e([+-]?\d{1,3})(?![\d.])")
_LARGEST_EXPONENT = 9
# Insets that a browser knows are 0 on a usual screen; of all others the fallback counts.
_SURROUNDINGS = re.compile(r"env\(\s*((?:safe-area|keyboard)-inset-|titlebar-area-)?[\w-]+\s*(?:,([^()]*))?\)")
_SUM, _PRODUCT = re.compile(r"\s+([+-])\s+"), re.compile(r"\s*([*/])\s*")
_QUANTITY = re.compile(r"([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))([a-z]{1,4}|%)?")
_ANGLES = {"deg": math.pi / 180, "grad": math.pi / 200, "rad": 1.0, "turn": 2 * math.pi}
_ABSOLUTE = {"px": 1.0, "pt": 1.33, "in": 96.0, "cm": 38.0, "mm": 3.8, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0}
_SCREENS = ({"%": 3.0, "vw": 10.24, "vh": 7.0}, {"%": 20.0, "vw": 19.2, "vh": 10.8})
"""Pixels on a small and on a large screen; ``%`` is relative to the box around."""
_HIDING = 1.0  # a size or opacity that is not above it may hide a text, and so may a place below zero


def calculate(value: str) -> str:
    """Return a value, in lower case, with its calculations replaced by lengths in pixels or by numbers."""
    if len(value) > _MAX_CHARS:
        return value
    value = _SURROUNDINGS.sub(_answer_surroundings, _EXPONENT.sub(_write_out, value)).strip()
    for _ in range(_MAX_ROUNDS):
        replaced = _CALL.sub(_work_out, value, count=1)
        if replaced == value:
            break
        value = replaced
    return value


def _write_out(number: re.Match[str]) -> str:
    exponent = min(max(int(number[2]), -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    return f"{float(number[1]) * 10.0**exponent:.9f}"


def _answer_surroundings(use: re.Match[str]) -> str:
    return "0px" if use[1] else use[2].strip() if use[2] is not None else use[0]


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
    """Return the result of a function, and its unit; None where it is not known."""
    strategy = terms.pop(0).strip() if name == "round" and terms[0].strip() in _ROUNDING else "nearest"
    try:
        amounts = [_add(term.strip(), screen | _ANGLES if name in _OF_NUMBERS else screen) for term in terms]
        numbers = [number for number, _ in amounts]
        if name == "round":
            step = numbers[1] if len(numbers) == 2 else 1.0
            result = _ROUNDING[strategy](numbers[0] / step) * step
        else:
            result = (_FUNCTIONS | _OF_NUMBERS)[name](*numbers)
        unit = "px" if name not in _OF_NUMBERS and any(is_length for _, is_length in amounts) else ""
        return (float(result), unit) if math.isfinite(result) else None
    except (ArithmeticError, TypeError, ValueError):  # not numbers, too many of them, or beyond what can be worked out
        return None


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
