"""Queries of media, answered for a browser on a wide, light screen (Media Queries 4 and 5).

A query is asked of two screens, the smallest and the largest that count as wide; it holds where it holds on both. A feature
that is not known here is neither true nor false, and neither is its opposite: what a rule says then does not count.
"""

from __future__ import annotations

import re
from functools import lru_cache

_MAX_DEPTH = 20  # of brackets
_MAX_CHARS = 1_000  # of one query; a longer one counts as true, which may hide too much but publishes nothing
_SCREENS = (
    {"width": 1_024.0, "height": 1_024.0, "resolution": 1.0, "aspect-ratio": 1.25},
    {"width": 4_000.0, "height": 4_000.0, "resolution": 3.0, "aspect-ratio": 2.4},
)
"""Pixels, dots to a pixel, width to height."""
_MEDIA = frozenset({"all", "screen"})
_USUAL = {
    "any-hover": "hover",
    "any-pointer": "fine",
    "color-gamut": "srgb",
    "display-mode": "browser",
    "dynamic-range": "standard",
    "forced-colors": "none",
    "hover": "hover",
    "inverted-colors": "none",
    "orientation": "landscape",
    "overflow-block": "scroll",
    "overflow-inline": "scroll",
    "pointer": "fine",
    "prefers-color-scheme": "light",
    "prefers-contrast": "no-preference",
    "prefers-reduced-data": "no-preference",
    "prefers-reduced-motion": "no-preference",
    "prefers-reduced-transparency": "no-preference",
    "scripting": "enabled",
    "update": "fast",
    "video-color-gamut": "srgb",
    "video-dynamic-range": "standard",
}
"""Features of a desktop computer whose settings nobody changed."""
_NUMBERS = {"color": 8.0, "color-index": 0.0, "grid": 0.0, "monochrome": 0.0}
_OFF = frozenset({"none", "no-preference"})
_AMOUNT = re.compile(
    r"(-?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(?:\s*/\s*(\d{1,6}(?:\.\d{0,9})?))?(px|r?em|pt|in|cm|dppx|dpi|dpcm|x)?"
)
_SCALES = {"px": 1.0, "em": 16.0, "rem": 16.0, "pt": 4 / 3, "in": 96.0, "cm": 38.0, "dpi": 1 / 96, "dpcm": 2.54 / 96}
_RANGE = re.compile(r"([^<>=]*?)\s*([<>]=?|=)\s*([^<>=]*?)(?:\s*([<>]=?|=)\s*([^<>=]*))?")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def holds(queries: str) -> bool:
    """Return whether one of these queries, parted by commas and in lower case, holds on every wide screen."""
    each = (" ".join(query.split()) for query in queries.split(","))
    return any(len(query) > _MAX_CHARS or _holds_everywhere(query) for query in each)


@lru_cache(maxsize=1_024)
def _holds_everywhere(query: str) -> bool:
    return all(_answer(query, screen) for screen in _SCREENS)


def _answer(query: str, screen: dict[str, float], depth: int = 0) -> bool | None:
    """Return whether a query holds on a screen; None where it cannot be told."""
    words = _part(query)
    if depth > _MAX_DEPTH or not words:
        return None if words else True
    negated = words[0] == "not"
    if words[0] in {"not", "only"}:
        del words[0]
    terms, links = words[::2], set(words[1::2])
    if not terms or len(links) > 1 or not links <= {"and", "or"}:
        return None
    answers = [_answer_term(term, screen, depth) for term in terms]
    holds_all = None if None in answers else all(answers)
    if links == {"or"}:
        answer = True if True in answers else None if None in answers else False
    else:
        answer = False if False in answers else holds_all
    return answer if answer is None or not negated else not answer


def _part(query: str) -> list[str]:
    """Return the words of a query and its brackets, each bracket as a whole."""
    words: list[str] = []
    depth, start = 0, 0
    text = query.strip() + " "
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and (sign.isspace() or sign == ")"):
            if word := text[start : place + 1].strip():
                words.append(word)
            start = place + 1
    return words


def _answer_term(term: str, screen: dict[str, float], depth: int) -> bool | None:
    if not term.startswith("("):
        return term in _MEDIA
    inner = term[1:-1].strip()
    if inner.startswith(("(", "not ", "not(")):
        return _answer(inner, screen, depth + 1)
    name, colon, value = (part.strip() for part in inner.partition(":"))
    if colon:
        return _compare_feature(name, value, screen)
    if (bounds := _RANGE.fullmatch(inner)) is not None:
        return _answer_range(bounds, screen)
    if name in _USUAL:
        return _USUAL[name] not in _OFF
    amount = screen.get(name, _NUMBERS.get(name))
    return amount != 0 if amount is not None else None


def _compare_feature(name: str, value: str, screen: dict[str, float]) -> bool | None:
    """Return whether a feature has a value, or is at least or at most as much."""
    if name in _USUAL:
        return _USUAL[name] == value
    name = name.replace("-webkit-min-device-pixel-ratio", "min-resolution")
    name = name.replace("-webkit-max-device-pixel-ratio", "max-resolution")
    operator = {"min-": ">=", "max-": "<="}.get(name[:4], "=")
    return _compare(name if operator == "=" else name[4:], operator, value, screen)


def _answer_range(bounds: re.Match[str], screen: dict[str, float]) -> bool | None:
    first, sign, second, other_sign, third = bounds.groups()
    if other_sign is not None:
        answers = [_compare(second, _MIRRORED[sign], first, screen), _compare(second, other_sign, third, screen)]
        return False if False in answers else None if None in answers else True
    is_named = _read_number(first) is None
    return _compare(first, sign, second, screen) if is_named else _compare(second, _MIRRORED[sign], first, screen)


def _compare(name: str, operator: str, value: str, screen: dict[str, float]) -> bool | None:
    name = name.removeprefix("device-")
    amount, limit = screen.get(name, _NUMBERS.get(name)), _read_number(value)
    if amount is None or limit is None:
        return None
    if operator == "=":
        return amount == limit if name in _NUMBERS else None
    return amount >= limit if operator[0] == ">" else amount <= limit


def _read_number(text: str) -> float | None:
    amount = _AMOUNT.fullmatch(text)
    if amount is None:
        return None
    return float(amount[1]) / (float(amount[2] or 1) or 1.0) * _SCALES.get(amount[3] or "", 1.0)
