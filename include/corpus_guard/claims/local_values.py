"""Values as languages other than English write them: amounts with units, money, shares, durations, dates, times, and denials.

Kinds, units and normal forms are those of `corpus_guard.claims.values`: "36 месяцев", "36个月" and "36 months" are one value. Names
of units, months and currencies come from the CLDR, small words from `corpus_guard.claims.languages`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

from babel import Locale
from babel.dates import get_day_names, get_month_names
from babel.numbers import get_currency_name, get_decimal_symbol
from babel.units import format_unit
from text_to_num import text2num

from corpus_guard.claims.contacts import read_contacts
from corpus_guard.claims.dates import read_dates, read_times
from corpus_guard.claims.languages import IDEOGRAPHS, MARKS, Language, any_of, fold, load_languages, root
from corpus_guard.claims.measures import ABOUT
from corpus_guard.claims.negation import NOT
from corpus_guard.claims.numbers import render
from corpus_guard.claims.units import conversion, read_unit
from corpus_guard.claims.value import Kind, Value
from corpus_guard.domain import Span

_UNITS: Final = {
    "duration-second": "s", "duration-minute": "minute", "duration-hour": "hour", "duration-day": "day", "duration-week": "week",
    "duration-month": "month", "duration-year": "year", "duration-decade": "decade", "duration-century": "century",
    "length-millimeter": "mm", "length-centimeter": "cm", "length-meter": "m", "length-kilometer": "km", "length-inch": "inch",
    "length-foot": "foot", "length-mile": "mile", "mass-milligram": "mg", "mass-gram": "g", "mass-kilogram": "kg",
    "mass-tonne": "tonne", "volume-milliliter": "ml", "volume-centiliter": "cl", "volume-liter": "litre", "volume-cubic-meter": "m³",
    "area-square-meter": "m²", "area-square-kilometer": "km²", "area-hectare": "hectare", "temperature-celsius": "degC",
    "temperature-fahrenheit": "degF", "speed-kilometer-per-hour": "km/h", "speed-meter-per-second": "m/s", "digital-byte": "byte",
    "digital-kilobyte": "kB", "digital-megabyte": "MB", "digital-gigabyte": "GB", "digital-terabyte": "TB", "digital-megabit": "Mbit",
    "digital-gigabit": "Gbit", "power-watt": "W", "power-kilowatt": "kW", "power-megawatt": "MW", "energy-kilowatt-hour": "kWh",
    "energy-kilojoule": "kJ", "energy-kilocalorie": "kcal", "electric-volt": "V", "electric-ampere": "A", "electric-milliampere": "mA",
    "frequency-hertz": "Hz", "frequency-kilohertz": "kHz", "frequency-megahertz": "MHz", "frequency-gigahertz": "GHz",
    "pressure-bar": "bar", "pressure-pascal": "Pa", "pressure-hectopascal": "hPa", "pressure-kilopascal": "kPa",
}  # fmt: skip
"""Unit of the CLDR → the same in English."""
_PLURALS: Final = (1, 2, 3, 5, 11, 100, 0.5)  # whose forms differ in some language
_CODES: Final = "EUR USD GBP CHF JPY CNY INR SEK NOK DKK PLN CZK AUD CAD RUB UAH TRY KRW BRL MXN HUF RON SAR AED EGP ILS THB IDR VND ZAR"
_CURRENCIES: Final = tuple(_CODES.split())
_CODE: Final = re.compile(rf"(?:{'|'.join(_CURRENCIES)})\b")
_SIGNS: Final = {
    "€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "₹": "INR", "₽": "RUB", "₺": "TRY", "₴": "UAH", "₩": "KRW",
}  # fmt: skip
_NUMBER: Final = re.compile(
    r"(?<![0-9A-Za-z])(?<![0-9][.,:/٫٬])(?<![A-Za-z]-)"
    r"(?P<digits>\d{1,3}(?:[ \u00a0'.,٬]\d{3})+(?!\d)(?:[.,٫]\d{1,9})?"
    r"|\d{1,3}(?:,\d\d)+,\d{3}(?!\d)|\d{1,15}(?:[.,٫]\d{1,9})?)(?![\d:])(?![.,/]\d)"
)
_NUMERAL: Final = re.compile("[〇零一二三四五六七八九十百千两兩]+")
_CHINESE: Final = {"十": 10, "百": 100, "千": 1_000}
_DIGITS: Final = {character: number for number, character in enumerate("〇一二三四五六七八九")} | {
    "零": 0,
    "两": 2,
    "兩": 2,
}
_WORD: Final = re.compile(rf"[^\W\d_][\w{MARKS}]*")
_SPACE: Final = re.compile(r"[ \u00a0]?")
_BEFORE: Final = re.compile(rf"(?P<word>[^\W_][\w{MARKS}]*|%)[\s\u00a0]*$")
_RANGE: Final = re.compile(r" ?(?:-|–|—|~|～|至|到|から) ?")
_PERCENT: Final = re.compile(r"[ \u00a0]?[%٪‰]")
_LETTERS_OF_OTHERS: Final = re.compile(f"[{IDEOGRAPHS}\u3041-\u30ff\uac00-\ud7a3]")
_NEUTRAL: Final = "\u2022"  # stands for a letter that touches what is written in ASCII: "联系me@example.org"
_MONTH: Final = rf"(?P<month>[^\W\d_][\w{MARKS}]{{2,}})"
_OF_YEAR: Final = r"(?:de |del |του )?(?P<year>(?:1[5-9]|20)\d\d)(?!\d)"
_DAY_MONTH: Final = re.compile(rf"(?P<day>\d{{1,2}})(?:\.|º|er|re)? (?:de |d')?{_MONTH}\.?(?:,? {_OF_YEAR})?")
_MONTH_YEAR: Final = re.compile(rf"{_MONTH} {_OF_YEAR}")
_DAY_OF_YEAR: Final = re.compile(
    r"(?:(?P<year>\d{4})\s?[年년]\s?)?(?P<month>\d{1,2})\s?[月월]\s?(?P<day>\d{1,2})\s?[日号號일]|(?P<year2>\d{4})\s?[年년]\s?(?P<month2>\d{1,2})\s?[月월]"
)
_HOUR: Final = re.compile(
    r"(?P<half>오전|오후|午前|午後|上午|下午|晚上|早上|晚)?\s?(?<![\d.:])(?P<hour>[01]?\d|2[0-4])\s?(?:(?:시(?!간)|時(?!間)|点(?!数)|點)(?:\s?(?P<minute>[0-5]?\d)\s?[分분]|(?P<thirty>半|반))?"
    r"|(?:[.:](?P<minute2>[0-5]\d))?\s(?:Uhr\b|बजे)|h\s?(?P<minute3>[0-5]\d)\b)"
)
_AFTERNOON: Final = frozenset({"오후", "午後", "下午", "晚上", "晚"})
_VERSION: Final = re.compile(
    r"(?i)(?:versión|versione|versão|versie|wersj[aięy]|verz[eií]|sürüm[üu]?|верси[яию]|версі[яюї]|έκδοση|(?:ال)?إصدار|संस्करण|版本|バージョン|버전|version|version)"
    r"\s?(?P<number>\d{1,4}(?:\.\d{1,5}){0,4})(?![\w]|\.\d)"
)
_YEAR: Final = re.compile(r"(?<![\d.,:/-])(?P<year>1[5-9]\d\d|20\d\d)(?![\d:/]|[.,]\d)")
_CAPITAL: Final = re.compile(rf"[^\W_][\w{MARKS}]*(?:[-'][^\W_][\w{MARKS}]*)*")
_LABEL: Final = re.compile(
    r"(?:№|§|#|\b[Nn](?:r\.|º|°|o\.))\s?\d+|第\s?\d+\s?[条條章节節号號版回]|제\s?\d+\s?[조장절호]"
)
_SHORT_PHONE: Final = re.compile(r"(?<![\d-])(?:\d{3,4}-\d{4}|\d{2,4}-\d{3,4}-\d{3,4})(?![\d-])")
_DUAL: Final = ("ان", "ين")
_WEEK: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MAX_NUMBER_WORDS: Final = 4
_SPELLED: Final = frozenset({"de", "fr", "es", "it", "nl", "pt"})  # of which text2num reads numbers


@dataclass(frozen=True)
class _Names:
    """Names of units, currencies and months in a language, folded."""

    units: Mapping[str, str]  # → English
    money: Mapping[str, str]  # → code
    months: Mapping[str, int]
    longest: int  # words of a name
    decimal: str


@dataclass(frozen=True, slots=True)
class _Amount:
    low: float
    high: float
    resolution: float
    start: int
    end: int
    is_one: bool = False  # an article, perhaps: "un"


def read_local_values(text: str, language: Language) -> list[Value]:
    """Return the values of a plain sentence in order, denials and names included; spans are in the sentence.

    Linear in the length of the sentence.
    """
    values: list[Value] = []
    taken: list[tuple[int, int]] = []

    def is_free(span: Span) -> bool:
        return not any(span.start < end and start < span.end for start, end in taken)

    ascii_view = _LETTERS_OF_OTHERS.sub(_NEUTRAL, text)
    for readings in (
        read_contacts(ascii_view),
        _read_short_phones(text, language),
        (Span(*match.span()) for match in _LABEL.finditer(text)),
        _read_dates(text, ascii_view, language),
        _read_times(text, ascii_view),
        _read_weekdays(text, language),
        _read_versions(text),
        _read_measures(text, ascii_view, language, taken),
        _duals(text, language),
        _read_often(text, language),
        _read_names(text, language),
        _read_denials(text, language),
    ):
        for each in readings:
            span = each if isinstance(each, Span) else each.span
            if is_free(span):
                taken.append((span.start, span.end))
                if isinstance(each, Value):
                    values.append(each)
    return sorted(values, key=lambda value: (value.span.start, value.span.end))


def is_dated(text: str, values: Iterable[Value], language: Language) -> bool:
    """Return whether a plain sentence tells of a time that a date names; what holds since then is no such thing."""
    before, after = language.since
    for value in values:
        if value.kind is Kind.DATE:
            follows = text[value.span.end : value.span.end + 12].lstrip(" \u00a0-").casefold()
            is_since = _word_before(text, value.span.start)[1] in before or follows.startswith(tuple(after))
            is_since |= language.is_joined and text[: value.span.start].endswith(tuple(before))
            if not is_since:
                return True
    return False


def number_end(text: str, value: Value) -> int:
    """Return where the number of a count ends in a plain sentence: its noun is part of what the sentence is about."""
    if value.kind is not Kind.COUNT or not value.unit:
        return value.span.end
    written = text[value.span.start : value.span.end]
    last = max((match.end() for match in re.finditer(r"[\d一二三四五六七八九十百千万億亿]", written)), default=0)
    return value.span.start + last if last else value.span.end


@cache
def _names(code: str) -> _Names:
    language, locale = load_languages()[code], Locale(code)
    units: dict[str, str] = {}
    for name, english in _UNITS.items():
        for length in ("long", "short"):
            for number in _PLURALS:
                written = format_unit(number, name, length, locale=locale)
                spelling = fold(re.sub(r"[\d.,٫\u00a0\u202f ]*\d[\u00a0\u202f ]*", "", written).strip(" \u00a0."))
                if spelling and (not spelling.isascii() or (length == "long" and len(spelling) > 1)):
                    units.setdefault(spelling, english)
    money = {
        fold(get_currency_name(currency, number, locale=locale)): currency
        for currency in _CURRENCIES
        for number in _PLURALS
    }
    months = {
        fold(name).strip("."): number
        for width in ("abbreviated", "wide")
        for context in ("format", "stand-alone")
        for number, name in get_month_names(width, context, locale).items()
    }
    units |= language.unit
    money |= language.money
    longest = max(len(name.split()) for name in (*units, *money))
    return _Names(units, money, months, longest, get_decimal_symbol(locale))


@cache
def _days(code: str) -> Mapping[str, str]:
    """Return name of a day of the week, folded → the same in English."""
    return {
        spelling: _WEEK[number]
        for context in ("format", "stand-alone")
        for number, name in get_day_names("wide", context, Locale(code)).items()
        for spelling in (fold(name), fold(name).replace("星期", "周"))
    }


@cache
def _every_day(code: str) -> re.Pattern[str]:
    """Return a pattern of what may be a day of the week, after a word for "every"."""
    language = load_languages()[code]
    space = "" if language.is_joined else "[ \u00a0]?"
    return re.compile(rf"(?:{any_of(language.every[0])}){space}(?P<day>[^\W\d]{{1,20}})")


@cache
def _denials(code: str) -> re.Pattern[str]:
    """Return a pattern of the words that deny, in a language that writes them without spaces."""
    language = load_languages()[code]
    return re.compile(any_of(language.forbidden | language.negation))


# --- numbers


def _duals(text: str, language: Language) -> Iterator[Value]:
    """Yield what Arabic says in one word: "two years"."""
    units = _names(language.code).units
    for match in _WORD.finditer(text) if language.code == "ar" else ():
        word = fold(match.group())
        if word.endswith(_DUAL) and (converted := conversion(units.get(word, "")) if word in units else None):
            factor, _, unit = converted
            number = 2 * factor
            yield Value(
                Kind.DURATION, Span(*match.span()), f"{render(number)} {unit}", unit, number, number, 0.5 * factor
            )


def _amounts(text: str, language: Language, taken: list[tuple[int, int]]) -> Iterator[_Amount]:
    for match in _NUMBER.finditer(text):
        if any(start < match.end("digits") and match.start() < end for start, end in taken):
            continue
        number, resolution = _written(match["digits"], _names(language.code).decimal)
        yield _Amount(number, number, resolution, match.start(), match.end())
    if language.is_joined:
        for match in _NUMERAL.finditer(text):
            number = _chinese(match.group())
            yield _Amount(number, number, 0.5, match.start(), match.end(), match.group() == "一")
    elif language.code in _SPELLED:
        yield from _spelled_amounts(text, language.code)


def _written(digits: str, decimal: str) -> tuple[float, float]:
    """Return a number written in digits, and half a unit of its last digit."""
    body = digits.replace("٬", "").replace("٫", ".").replace(" ", "").replace("\u00a0", "").replace("'", "")
    group = "." if decimal == "," else ","
    if re.fullmatch(rf"\d{{1,3}}(?:\{group}\d\d\d?)*\{group}\d{{3}}(?:\{decimal}\d+)?", body):
        body = body.replace(group, "")
    elif decimal == "," and re.fullmatch(r"\d{1,3}(?:,\d{3}){2,}", body):
        body = body.replace(",", "")
    body = body.replace(",", ".")
    head, _, tail = body.rpartition(".") if body.count(".") > 1 else ("", "", body)
    body = head.replace(".", "") + (f".{tail}" if head else tail)
    return float(body), 0.5 * 10.0 ** -len(body.partition(".")[2])


def _chinese(numeral: str) -> float:
    total = digit = 0
    for character in numeral:
        if character in _CHINESE:
            total += (digit or 1) * _CHINESE[character]
            digit = 0
        else:
            digit = 10 * digit + _DIGITS[character]
    return float(total + digit)


def _spelled_amounts(text: str, code: str) -> Iterator[_Amount]:
    words = [(match.start(), match.end(), match.group().lower()) for match in _WORD.finditer(text)]
    number = 0
    while number < len(words):
        if _spelled(words[number][2], code) is None:
            number += 1
            continue
        count = max(
            n
            for n in range(1, _MAX_NUMBER_WORDS + 1)
            if n == 1 or _reads_as_one(words[number : number + n], code, text)
        )
        value = _spelled(" ".join(word for *_, word in words[number : number + count]), code)
        if value is not None:
            yield _Amount(value, value, 0.5, words[number][0], words[number + count - 1][1], value <= 1)
        number += count


def _reads_as_one(words: list[tuple[int, int, str]], code: str, text: str) -> bool:
    is_run = all(text[end:start] in {" ", "-"} for (_, end, _), (start, *_) in pairwise(words))
    return is_run and len(words) > 1 and _spelled(" ".join(word for *_, word in words), code) is not None


@lru_cache(maxsize=20_000)
def _spelled(words: str, code: str) -> float | None:
    try:
        return float(text2num(words, code))
    except ValueError:
        return None


# --- what a number is of


def _read_measures(text: str, ascii_view: str, language: Language, taken: list[tuple[int, int]]) -> Iterator[Value]:
    end = 0
    for amount in sorted(_amounts(text, language, taken), key=lambda each: each.start):
        if amount.start < end:
            continue
        joined = _with_second(text, amount, language)
        value = _measure(text, ascii_view, joined, language)
        if value is not None:
            end = value.span.end
            yield value


def _with_second(text: str, amount: _Amount, language: Language) -> _Amount:
    """Return a range where an amount begins one: "8-10"."""
    join = _RANGE.match(text, amount.end)
    second = _NUMBER.match(text, join.end()) if join and not amount.is_one else None
    if second is None:
        return amount
    high, resolution = _written(second["digits"], _names(language.code).decimal)
    if high <= amount.low:
        return amount
    return replace(amount, high=high, resolution=min(resolution, amount.resolution), end=second.end())


def _measure(text: str, ascii_view: str, amount: _Amount, language: Language) -> Value | None:
    factor, end = _scale(text, amount.end, language)
    low, high, resolution = amount.low * factor, amount.high * factor, amount.resolution * factor
    start, before = _word_before(text, amount.start)
    kind, unit, slope, offset, end = _follow(text, ascii_view, amount.start, end, before, language)
    if (
        kind is Kind.COUNT
        and not unit
        and factor == 1.0
        and low == high
        and _numbers_a_name(text, start, before, language)
    ):
        return Value(Kind.NAME, Span(start, amount.end), text[start : amount.end].lower())
    if kind is Kind.COUNT and amount.is_one:
        return None
    if kind is Kind.COUNT and not unit and language.is_joined and _NUMERAL.match(text, amount.start):
        return None  # "一般", "统一"
    low, high, resolution = low * slope + offset, high * slope + offset, resolution * abs(slope)
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    normal = f"{_number(low, high)} {unit}".strip()
    if kind is Kind.DURATION and _is_every(text, amount.start, end, language):
        return Value(Kind.FREQUENCY, Span(amount.start, end), f"every {normal}", unit, low, high, resolution)
    if low == high:
        match _bound(text, start, before, end, language):
            case "least":
                high, normal = math.inf, f"at least {normal}"
            case "most":
                low, normal = -math.inf, f"at most {normal}"
            case "about":
                resolution = max(resolution, abs(low) * ABOUT)
    return Value(kind, Span(amount.start, end), normal, unit, low, high, resolution)


def _numbers_a_name(text: str, start: int, before: str, language: Language) -> bool:
    """Return whether the word before a number begins with a capital: "Luvana 7"."""
    return text[start : start + 1].isupper() and before not in language.empty


def _number(low: float, high: float) -> str:
    return render(low) if low == high else f"{render(low)} to {render(high)}"


def _scale(text: str, end: int, language: Language) -> tuple[float, int]:
    start = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    if language.ends_anywhere:
        for word, factor in language.scale.items():
            if text.startswith(word, end):
                return factor, end + len(word)
    elif (noun := _WORD.match(text, start)) and (factor := language.scale.get(fold(noun.group()), 0.0)):
        return factor, noun.end() + text.startswith(". ", noun.end())  # "50 тыс. рублей"
    return 1.0, end


def _word_before(text: str, start: int) -> tuple[int, str]:
    before = _BEFORE.search(text, max(0, start - 30), start)
    return (before.start("word"), fold(before["word"])) if before else (start, "")


def _follow(
    text: str, ascii_view: str, first: int, end: int, before: str, language: Language
) -> tuple[Kind, str, float, float, int]:
    """Return kind, unit, factor and offset of what a number is of, and where that ends."""
    start = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    signed = _money_or_share(text, first, end, before, language)
    if signed is None:
        signed = next(
            filter(None, (_named(stop, name, language) for stop, name in _names_after(text, start, language))), None
        )
    if signed is None:
        stop = read_unit(ascii_view, start)
        converted = conversion(ascii_view[start:stop]) if stop > start else None
        signed = (*_kind_of_unit(converted), stop) if converted else _count(text, start, end, language)
    return signed


def _money_or_share(
    text: str, first: int, end: int, before: str, language: Language
) -> tuple[Kind, str, float, float, int] | None:
    """Return what a sign or a word before a number, or a sign after it, says it is a number of."""
    start = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    sign = next((text[at] for at in (first - 1, first - 2) if at >= 0 and text[at] in _SIGNS), "")
    code = _CODE.match(text, start)
    money = _SIGNS.get(sign) or _SIGNS.get(text[start : start + 1]) or (code.group() if code else "")
    if money:
        stop = end if sign else code.end() if code else start + 1
        return Kind.MONEY, money, 1.0, 0.0, stop
    percent = _PERCENT.match(text, end)
    words = language.percent[0]
    if percent or before in words or (language.is_joined and any(text.endswith(word, 0, first) for word in words)):
        return Kind.PERCENTAGE, "%", 1.0, 0.0, percent.end() if percent else end
    return None


def _named(stop: int, name: str, language: Language) -> tuple[Kind, str, float, float, int] | None:
    """Return what a name after a number says it is a number of."""
    names = _names(language.code)
    converted = conversion(names.units[name]) if name in names.units else None
    if name in names.money:
        return Kind.MONEY, names.money[name], 1.0, 0.0, stop
    if name in language.percent[1]:
        return Kind.PERCENTAGE, "%", 1.0, 0.0, stop
    return (*_kind_of_unit(converted), stop) if converted else None


def _kind_of_unit(converted: tuple[float, float, str]) -> tuple[Kind, str, float, float]:
    factor, offset, unit = converted
    return (Kind.DURATION if unit in {"s", "month"} else Kind.QUANTITY), unit, factor, offset


def _count(text: str, start: int, end: int, language: Language) -> tuple[Kind, str, float, float, int]:
    if language.ends_anywhere and end == start:
        counter = text[start : start + 1]
        return (Kind.COUNT, counter, 1.0, 0.0, start + 1) if counter.isalpha() else (Kind.COUNT, "", 1.0, 0.0, end)
    noun = _WORD.match(text, start)
    if noun and start > end and fold(noun.group()) not in language.empty:
        return Kind.COUNT, root(fold(noun.group())), 1.0, 0.0, noun.end()
    return Kind.COUNT, "", 1.0, 0.0, end


def _names_after(text: str, start: int, language: Language) -> Iterator[tuple[int, str]]:
    """Yield what may be the name of a unit or currency after a number, the longest first, with its end."""
    if language.ends_anywhere:
        written = text[start : start + 8].casefold()
        yield from ((start + length, written[:length]) for length in range(len(written), 0, -1))
        return
    words: list[re.Match[str]] = []
    place = start
    for _ in range(_names(language.code).longest):
        word = _WORD.match(text, place)
        if word is None or (words and text[words[-1].end() : word.start()] not in {"", " ", "\u00a0"}):
            break
        words.append(word)
        place = _SPACE.match(text, word.end()).end()  # type: ignore[union-attr]
    for count in range(len(words), 0, -1):
        name = " ".join(fold(word.group()) for word in words[:count])
        yield words[count - 1].end(), name
        if count == 1 and language.code == "tr":  # endings: "metredir", "haftada"
            yield from ((words[0].end(), name[:length]) for length in range(len(name) - 1, max(1, len(name) - 6), -1))


def _bound(text: str, start: int, before: str, end: int, language: Language) -> str:
    """Return "least", "most" or "about" where a word before or after a number says so; empty: none does."""
    after = _WORD.match(text, _SPACE.match(text, end).end())  # type: ignore[union-attr]
    follows = fold(after.group()) if after else ""
    for name, (first, last) in language.bounds.items():
        if language.ends_anywhere:
            if any(text.startswith(word, end) or follows.startswith(word) for word in last):
                return name
            if any(text[max(0, start - 8) : end].find(word) >= 0 for word in first):
                return name
        elif before in first or follows in last:
            return name
    return ""


def _is_every(text: str, start: int, end: int, language: Language) -> bool:
    first, last = language.every
    if language.ends_anywhere:
        return any(text.endswith(word, 0, start) or text.endswith(f"{word} ", 0, start) for word in first) or any(
            text.startswith(word, end) for word in last
        )
    place, word = _word_before(text, start)
    if word in language.function and word not in first:  # "раз в 3 месяца"
        _, word = _word_before(text, place)
    return word in first


# --- dates, times, names, denials


def _read_dates(text: str, ascii_view: str, language: Language) -> Iterator[Value]:
    for match in _DAY_OF_YEAR.finditer(text) if language.ends_anywhere else ():
        year, month = match["year"] or match["year2"], int(match["month"] or match["month2"])
        day = f"-{int(match['day']):02}" if match["day"] else ""
        yield Value(Kind.DATE, Span(*match.span()), f"{year or '-'}-{month:02}{day}")
    if not language.ends_anywhere:
        yield from _written_dates(text, language)
    yield from (value for value in read_dates(ascii_view) if not _is_amount(text, value, language))
    for match in _YEAR.finditer(text):
        before, (_, word) = language.year, _word_before(text, match.start())
        after = text[match.end() : match.end() + 8].lstrip(" \u00a0-").casefold()
        follows = any(after.startswith(each) for each in before[1])
        is_cued = word in before[0] and not _is_amount(text, Value(Kind.DATE, Span(*match.span("year")), ""), language)
        if follows or is_cued or text[match.start() - 1 : match.start()] == "(":
            yield Value(Kind.DATE, Span(*match.span("year")), match["year"])


def _is_amount(text: str, value: Value, language: Language) -> bool:
    """Return whether a year is rather a number of something."""
    if value.normal and not value.normal.isdigit():
        return False
    kind, *_ = _follow(text, text, value.span.start, value.span.end, "", language)
    return kind is not Kind.COUNT


def _written_dates(text: str, language: Language) -> Iterator[Value]:
    months = _names(language.code).months
    for match in _DAY_MONTH.finditer(text):
        if month := months.get(fold(match["month"])):
            end = match.end() if match["year"] else match.end("month")
            normal = f"{match['year'] or '-'}-{month:02}-{int(match['day']):02}"
            yield Value(Kind.DATE, Span(match.start(), end), normal)
    for match in _MONTH_YEAR.finditer(text):
        if month := months.get(fold(match["month"])):
            yield Value(Kind.DATE, Span(*match.span()), f"{match['year']}-{month:02}")


def _read_times(text: str, ascii_view: str) -> Iterator[Value]:
    for match in _HOUR.finditer(text):
        hour = int(match["hour"])
        if match["half"] in _AFTERNOON and hour < 12:
            hour += 12
        minute = match["minute"] or match["minute2"] or match["minute3"] or ("30" if match["thirty"] else "0")
        yield Value(Kind.TIME, Span(*match.span()), f"{hour:02}:{int(minute):02}")
    yield from read_times(ascii_view)


def _read_weekdays(text: str, language: Language) -> Iterator[Value]:
    """Yield the day of the week on which something happens again and again: after a word for "every"."""
    days = _days(language.code)
    for match in _every_day(language.code).finditer(text.casefold()):
        written = match["day"]
        if language.ends_anywhere:
            written = next((day for day in days if written.startswith(day)), "")
        if day := days.get(fold(written)):
            yield Value(Kind.WEEKDAYS, Span(match.start("day"), match.start("day") + len(written)), f"{day}s")


def _read_short_phones(text: str, language: Language) -> Iterator[Value]:
    """Yield phone numbers without a country's code as East Asia writes them: "1588-3321"."""
    for match in _SHORT_PHONE.finditer(text) if language.ends_anywhere else ():
        yield Value(Kind.PHONE, Span(*match.span()), "tel:" + re.sub(r"\D", "", match.group()))


def _read_versions(text: str) -> Iterator[Value]:
    for match in _VERSION.finditer(text):
        yield Value(Kind.VERSION, Span(*match.span("number")), f"v{match['number']}")


def _read_often(text: str, language: Language) -> Iterator[Value]:
    """Yield how often things happen, in one word."""
    if language.ends_anywhere:
        words = [match for word in language.often for match in re.finditer(re.escape(word), text)]
    else:
        words = [match for match in _WORD.finditer(text) if fold(match.group()) in language.often]
    for match in words:
        number, unit = language.often[fold(match.group())].split()
        yield Value(
            Kind.FREQUENCY, Span(*match.span()), f"every {number} {unit}", unit, float(number), float(number), 0.0
        )


def _read_names(text: str, language: Language) -> Iterator[Value]:
    """Yield words with a capital or a digit that name something; in German every noun has a capital."""
    previous: Value | None = None
    for match in _CAPITAL.finditer(text):
        word = match.group().partition("'")[0] if language.code == "tr" else match.group()
        is_first = not text[: match.start()].strip(" \"'(*#-¿¡")
        has_digit = any(map(str.isdigit, word)) and not word.isdigit() and word[0].isalpha() and word.isascii()
        is_name = has_digit or (
            word[0].isupper() and not is_first and language.code != "de" and fold(word) not in language.empty
        )
        if not is_name:
            continue
        if previous and text[previous.span.end : match.start()] == " ":
            yield Value(Kind.NAME, Span(*match.span()), word.lower())
            continue
        previous = Value(Kind.NAME, Span(*match.span()), word.lower())
        yield previous


def _read_denials(text: str, language: Language) -> Iterator[Value]:
    """Yield the words that deny a sentence; before a comparative they bound a number instead: "not more than"."""
    if language.ends_anywhere:
        more = tuple(language.more)
        for match in _denials(language.code).finditer(text):
            after = text[match.end() : match.end() + 4].lstrip("得能可应")
            if not after.startswith(more):
                yield Value(Kind.NEGATION, Span(*match.span()), NOT)
        return
    words = list(_WORD.finditer(text))
    folded = [fold(word.group()) for word in words]
    is_open = True
    for number, word in enumerate(folded):
        is_denial = word in language.negation or bool(language.negative_ending(word))
        if word in language.forbidden:
            yield Value(Kind.NEGATION, Span(*words[number].span()), NOT)
        elif is_denial and is_open and language.more.isdisjoint(folded[number + 1 : number + 4]):
            yield Value(Kind.NEGATION, Span(*words[number].span()), NOT)
            is_open = language.code != "fr"  # "ne ... pas" is one
