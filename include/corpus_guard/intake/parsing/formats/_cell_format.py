"""Number formats of spreadsheets (ECMA-376, part 1, 18.8.31): what a reader sees in a cell.

A format has up to four sections: for positive numbers, negative ones, zero, and text. A section may show the value, words beside
it, words alone, or nothing. Dates and shares are written as such; apart from that a number keeps all its digits, whatever the
format rounds.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

_BUILT_IN: Final = {9: "0%", 10: "0.00%", 49: "@"} | {
    **dict.fromkeys((14, 15, 16, 17, 27, 30, 36, 50, 57), "yyyy-mm-dd"),
    **dict.fromkeys((18, 19, 20, 21, 45, 46, 47), "h:mm:ss"),
    22: "yyyy-mm-dd h:mm",
}
_SECTION: Final = re.compile(r"(?:\"[^\"]*\"|\\.|\[[^\]]*\]|[^;\"\\\[])*")
_PIECE: Final = re.compile(
    r"\"(?P<quoted>[^\"]*)\"|\\(?P<escaped>.)|[_*].|\[(?P<bracket>[^\]]*)\]|(?P<general>General)|(?P<text>@)"
    r"|(?P<digits>[0#?][0#?.,/]*(?:[Ee][+-]0+)?)|(?P<date>AM/PM|A/P|[ymdhsYMDHS]+(?:\.0+)?)|(?P<share>%)|(?P<plain>[^\"\\])",
    re.IGNORECASE,
)
_CONDITION: Final = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d{1,15}(?:\.\d{1,15})?)")
_COLOR: Final = re.compile(r"black|blue|cyan|green|magenta|red|white|yellow|color ?\d{1,2}")
_CURRENCY: Final = re.compile(r"\$([^-\]]{1,8})")
_ELAPSED: Final = re.compile(r"[hms]+", re.IGNORECASE)
_MAX_CODE_CHARS: Final = 300
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # a spreadsheet knows no zones
_LAST_DAY: Final = 2_958_466
_GENERAL: Final = "General"


def find_format(number: int, own: dict[int, str]) -> str:
    """Return the code of a format by its number; `own` are the workbook's."""
    return own.get(number, _BUILT_IN.get(number, _GENERAL))[:_MAX_CODE_CHARS]


def show_number(text: str, code: str, *, from_1904: bool = False) -> tuple[str, bool]:
    """Return what a cell with a number shows, and whether that holds the number."""
    try:
        value = float(text)
    except ValueError:
        return text, True
    sections = _split(code)
    section, is_negative = _choose_section(sections[:3], value)
    written = format(value, ".15g") if len(text) > 15 else text
    if len(sections) == 1 and not section.strip():
        return written, True
    pieces, shows = [], False
    kinds = [piece.lastgroup for piece in _pieces(section)]
    is_date, is_share = "date" in kinds, "share" in kinds
    if kinds.count("digits") > 1 and not is_date:  # a fraction, or a number with signs within
        return written, True
    if is_negative and any(piece[0] in {"-", "(", "\\-", "\\("} for piece in _pieces(section)):
        value, written = -value, written.removeprefix("-")
    for piece in _pieces(section):
        kind = piece.lastgroup
        if kind in {"quoted", "escaped", "plain"}:
            pieces.append("" if is_date else piece[kind])
        elif kind == "bracket":
            currency = _CURRENCY.match(piece["bracket"])
            pieces.append(currency[1] if currency else "")
            is_date = is_date or _ELAPSED.fullmatch(piece["bracket"]) is not None
        elif kind in {"general", "text", "digits"} and not shows and not is_date:
            shows = True
            pieces.append(format(value * 100, ".15g") + "%" if is_share else written)
    if is_date:
        return _write_date(value, section, from_1904=from_1904) or written, True
    return "".join(pieces).strip(), shows


def _choose_section(sections: tuple[str, ...], value: float) -> tuple[str, bool]:
    """Return the section for a number, and whether it is that for negative ones, which shows no sign of its own."""
    conditions = [_CONDITION.search(section) if "[" in section else None for section in sections]
    if any(conditions):
        fitting = (
            section
            for section, condition in zip(sections, conditions, strict=True)
            if not condition or _holds(condition, value)
        )
        return next(fitting, sections[-1]), False
    if value < 0 and len(sections) > 1:
        return sections[1], True
    return (sections[2] if value == 0 and len(sections) > 2 else sections[0]), False


def find_color(text: str, code: str) -> str:
    """Return the colour that a format gives to what a cell shows, in lower case: a word, or "color" and a number; empty: none."""
    if "[" not in code:
        return ""
    sections = _split(code)
    try:
        section = _choose_section(sections[:3], float(text))[0]
    except ValueError:
        section = sections[3] if len(sections) > 3 else next((each for each in sections if "@" in each), "")
    brackets = (piece["bracket"].lower() for piece in _pieces(section) if piece["bracket"])
    return next((bracket for bracket in brackets if _COLOR.fullmatch(bracket)), "")


def show_text(text: str, code: str) -> tuple[str, bool]:
    """Return what a cell with a text shows, and whether that holds the text."""
    sections = _split(code)
    if len(sections) < 4:
        return text, True
    pieces = list(_pieces(sections[3]))
    if any(piece.lastgroup in {"text", "general"} for piece in pieces):
        return text, True
    shown = "".join(piece[piece.lastgroup] for piece in pieces if piece.lastgroup in {"quoted", "escaped", "plain"})
    return shown.strip(), False


@lru_cache(maxsize=1_024)
def _split(code: str) -> tuple[str, ...]:
    sections, position = [], 0
    while position <= len(code):
        section = _SECTION.match(code, position)
        end = section.end() if section else len(code)
        sections.append(code[position:end])
        position = end + 1
    return tuple(sections)


@lru_cache(maxsize=1_024)
def _pieces(section: str) -> tuple[re.Match[str], ...]:
    return tuple(_PIECE.finditer(section))


def _holds(condition: re.Match[str], value: float) -> bool:
    sign, bound = condition[1], float(condition[2])
    if sign == "=":
        return value == bound
    if sign == "<>":
        return value != bound
    return (
        value < bound
        if sign == "<"
        else value <= bound
        if sign == "<="
        else value > bound
        if sign == ">"
        else value >= bound
    )


def _write_date(value: float, section: str, *, from_1904: bool) -> str:
    """Return a date, a time or both in the form of ISO 8601; empty where the number stands for none."""
    if not 0 <= value < _LAST_DAY:
        return ""
    letters = "".join(piece["date"] or piece["bracket"] or "" for piece in _pieces(section)).lower()
    if "[" in section and "y" not in letters and "d" not in letters:  # a span of time, which may exceed a day
        minutes, seconds = divmod(round(value * 86_400), 60)
        return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    moment = (_EPOCH_1904 if from_1904 else _EPOCH) + timedelta(seconds=round(value * 86_400))
    has_day = "y" in letters or "d" in letters or ("m" in letters and "h" not in letters and "s" not in letters)
    has_time = "h" in letters or "s" in letters
    time = moment.strftime("%H:%M:%S").removesuffix(":00")
    return " ".join(filter(None, (moment.date().isoformat() if has_day else "", time if has_time else "")))
