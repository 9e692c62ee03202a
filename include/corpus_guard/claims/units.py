"""Units as people write them, and the unit that each is converted to.

Only the spellings listed here are units: pint alone would read "8 pm" as picometres and "3 turns" as an angle.
pint converts, also composed units such as ``kN/m²``.
"""

from __future__ import annotations

import re
import warnings
from functools import cache, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMES: Final = """
metre:metre,metres,meter,meters inch:inch,inches foot:foot,feet,ft yard:yard,yards,yd mile:mile,miles,mi
nautical_mile:nmi gram:gram,grams,gramme,grammes,gr tonne:tonne,tonnes ounce:ounce,ounces,oz
pound:pound,pounds,lb,lbs second:second,seconds,sec,secs minute:minute,minutes,min,mins hour:hour,hours,hr,hrs
day:day,days week:week,weeks fortnight:fortnight,fortnights month:month,months year:year,years,yr,yrs
decade:decade,decades century:century,centuries litre:litre,litres,liter,liters gallon:gallon,gallons
pint:pint,pints hectare:hectare,hectares acre:acre,acres newton:newton,newtons pascal:pascal,pascals bar:bar,bars psi:psi
joule:joule,joules watt:watt,watts volt:volt,volts ampere:ampere,amperes,amp,amps ohm:ohm,ohms hertz:hertz
kelvin:kelvin,kelvins calorie:calorie,calories,cal kilocalorie:kcal horsepower:hp,horsepower databyte:byte,bytes databit:bit,bits
mole:mole,moles lumen:lumen,lumens lux:lux knot:knot,knots atmosphere:atm mmHg:mmHg
"""
_PREFIXED_NAMES: Final = ("metre", "gram", "second", "litre", "newton", "pascal", "joule", "watt", "volt", "ampere")
_PREFIXED_NAMES_TOO: Final = ("ohm", "hertz", "databyte", "databit", "mole", "calorie", "tonne")
_NAME_PREFIXES: Final = (
    "nano",
    "micro",
    "milli",
    "centi",
    "deci",
    "hecto",
    "kilo",
    "mega",
    "giga",
    "tera",
    "kibi",
    "mebi",
    "gibi",
    "tebi",
)
_SYMBOLS: Final = (
    "m",
    "g",
    "s",
    "L",
    "l",
    "N",
    "Pa",
    "J",
    "W",
    "V",
    "A",
    "Ω",
    "Hz",
    "K",
    "bar",
    "B",
    "bit",
    "Wh",
    "Ah",
    "VA",
    "eV",
    "mol",
    "lm",
    "lx",
    "cal",
    "t",
)
_SYMBOL_PREFIXES: Final = ("", "n", "μ", "u", "m", "c", "d", "h", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti")
_RENAMED: Final = {
    "t": "tonne",
    "B": "databyte",
    "bit": "databit",
    "Ω": "ohm",
    "VA": "volt_ampere",
    "l": "litre",
    "L": "litre",
    "u": "μ",
}
_NO_PREFIX: Final = {"h", "t", "cal", "K"}
_RARE_PREFIXES: Final = {"c", "d", "h"}  # with these units only
_WITH_RARE_PREFIX: Final = {"m", "g", "l", "L", "Pa", "bar"}
_NOT_UNITS: Final = {
    "TV",
    "MA",
    "TA",
    "GA",
    "hbar",
    "hg",
    "dg",
    "hm",
    "Ms",
    "Gs",
    "Ts",
    "Mm",
    "Gm",
    "Tm",
    "TL",
    "ML",
    "GL",
}
_OPAQUE: Final = {  # no conversion that a reader would expect
    "dB": "dB", "dBm": "dBm", "rpm": "rpm", "ppm": "ppm", "ppb": "ppb", "px": "px", "dpi": "dpi", "fps": "fps",
    "pixel": "px", "pixels": "px", "degrees": "degree", "degree": "degree", "°": "degree", "IU": "IU",
    "megapixels": "megapixel", "megapixel": "megapixel", "decibels": "dB", "decibel": "dB",
}  # fmt: skip
_WHOLE: Final = {  # spellings that are no composition of the others
    "°C": "degC", "°F": "degF", "degC": "degC", "degF": "degF", "deg C": "degC", "deg F": "degF", "° C": "degC",
    "° F": "degF", "degrees Celsius": "degC", "degree Celsius": "degC", "degrees C": "degC", "degrees F": "degF",
    "degrees Fahrenheit": "degF", "degree Fahrenheit": "degF", "Celsius": "degC", "Fahrenheit": "degF",
    "mph": "mile / hour", "kph": "kilometre / hour", "kmh": "kilometre / hour", "kbps": "kilodatabit / second",
    "Mbps": "megadatabit / second", "Gbps": "gigadatabit / second", "bps": "databit / second", "hbar": "hectobar",
    "in": "inch", "sqm": "metre ** 2", "sq m": "metre ** 2", "sq ft": "foot ** 2", "ha": "hectare",
    "in.": "inch", "cc": "centimetre ** 3", "ppm": "ppm", "tons": "tonne", "ton": "tonne", "lbf": "pound_force",
}  # fmt: skip
_SQUARES: Final = {"square": 2, "cubic": 3}
# Which unit a value is converted to, by its dimension; a dimension that is not here is no quantity.
_TARGETS: Final = {
    "metre": "m", "metre ** 2": "m²", "metre ** 3": "m³", "kilogram": "kg", "second": "s", "metre / second": "m/s",
    "metre / second ** 2": "m/s²", "newton": "N", "newton / metre": "N/m", "pascal": "Pa", "joule": "J", "watt": "W",
    "watt / metre ** 2": "W/m²", "watt / kelvin": "W/K", "volt": "V", "ampere": "A", "ampere * second": "A·s",
    "ohm": "Ω", "hertz": "Hz", "degC": "°C", "databyte": "B", "databyte / second": "B/s", "kilogram / metre ** 3": "kg/m³",
    "metre ** 3 / second": "m³/s", "kilogram / second": "kg/s", "mole": "mol", "mole / metre ** 3": "mol/m³",
    "lumen": "lm", "lux": "lx", "kilogram / metre ** 2": "kg/m²", "volt / metre": "V/m",
    "joule / kilogram": "J/kg", "metre ** 3 / kilogram": "m³/kg",
}  # fmt: skip
_TORQUES: Final = {
    "Nm": "1", "N·m": "1", "N m": "1", "newton metres": "1", "newton-metres": "1", "kNm": "1000", "kN·m": "1000",
    "kN m": "1000",
}  # fmt: skip
_CALENDAR: Final = {"month": 1.0, "year": 12.0, "decade": 120.0, "century": 1200.0}
SECONDS_A_MONTH: Final = 365.2425 / 12 * 86_400


def _symbols() -> dict[str, str]:
    """Return spelling → pint's name of every unit that is no composition."""
    table: dict[str, str] = {}
    for entry in _NAMES.split():
        name, _, spellings = entry.partition(":")
        table |= dict.fromkeys(spellings.split(","), name)
    for prefix, name in product(_NAME_PREFIXES, (*_PREFIXED_NAMES, *_PREFIXED_NAMES_TOO)):
        table |= {prefix + spelling: f"{prefix}{name}" for spelling, unit in table.copy().items() if unit == name}
    return table


_BY_NAME: Final = _symbols()
_BY_SYMBOL: Final = {
    prefix + symbol: _RENAMED.get(prefix, prefix) + _RENAMED.get(symbol, symbol)
    for prefix, symbol in product(_SYMBOL_PREFIXES, _SYMBOLS)
    if prefix + symbol not in _NOT_UNITS
    and not (prefix and symbol in _NO_PREFIX)
    and (prefix not in _RARE_PREFIXES or symbol in _WITH_RARE_PREFIX)
} | {"h": "hour", "mL": "millilitre", "kt": "knot", "Mbit": "megadatabit", "Gbit": "gigadatabit", "kbit": "kilodatabit"}


def _any_of(spellings: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(spellings, key=len, reverse=True)))


_NO_COMPOSITION: Final = re.compile(
    rf"(?:{_any_of({*_WHOLE, *_OPAQUE, *_TORQUES} - {'in'})}"
    r"|in(?= (?:long|wide|tall|high|deep|thick|across|in diameter)\b))(?!\w)(?!\.\w)"
)
_PART: Final = re.compile(
    r"(?P<join> ?[/·*] ?| per )?(?P<power>(?i:square|cubic) )?(?P<atom>[^\W\d²³_]+)(?:\^?(?P<exponent>-?[23](?![\w.])|[²³]))?(?!\w)"
)
MAX_PARTS: Final = 3  # kg/(m·s) has three


def read_unit(text: str, start: int) -> int:
    """Return where the unit ends that begins at `start` of a plain text; `start`: there is none."""
    if whole := _NO_COMPOSITION.match(text, start):
        return whole.end()
    end = start
    for number in range(MAX_PARTS):
        part = _PART.match(text, end)
        if not part or bool(part["join"]) != bool(number) or not _pint_name(part["atom"]):
            break
        end = part.end()
    return end


def _pint_name(atom: str) -> str:
    """Return pint's name of an uncomposed unit; empty: not a unit."""
    return _BY_SYMBOL.get(atom) or _BY_NAME.get(atom) or _BY_NAME.get(atom.lower(), "")


@lru_cache(maxsize=1_024)
def conversion(spelling: str) -> tuple[float, float, str] | None:
    """Return factor, offset and the unit that a spelling converts to: ``value * factor + offset``; None: no quantity.

    Durations are counted in "s" or, from months on, in "month": no calendar month has a length in seconds.
    """
    if spelling in _OPAQUE:
        return 1.0, 0.0, _OPAQUE[spelling]
    if spelling in _TORQUES:  # to pint a torque is an energy
        return float(_TORQUES[spelling]), 0.0, "N·m"
    expression = _WHOLE.get(spelling) or _expression(spelling)
    if expression in _CALENDAR:
        return _CALENDAR[expression], 0.0, "month"
    return _convert(expression)


def _expression(spelling: str) -> str:
    parts: list[str] = []
    for match in _PART.finditer(spelling):
        exponent = match["exponent"] or str(_SQUARES.get((match["power"] or "").strip().lower(), 1))
        exponent = exponent.translate({ord("²"): "2", ord("³"): "3"})
        join = "" if not parts else " / " if (match["join"] or "").strip() in {"/", "per"} else " * "
        parts.append(join + _pint_name(match["atom"]) + (f" ** {exponent}" if exponent != "1" else ""))
    return "".join(parts)


@lru_cache(maxsize=1_024)
def _convert(expression: str) -> tuple[float, float, str] | None:
    registry = _registry()
    unit = registry.parse_units(expression)
    target = _targets().get(unit.dimensionality)
    if target is None:
        return None
    name, symbol = target
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at_zero, at_one = (float(registry.Quantity(x, unit).to(name).magnitude) for x in (0.0, 1.0))
    return (1.0, 0.0, symbol) if str(unit) == str(registry.parse_units(name)) else (at_one - at_zero, at_zero, symbol)


@cache
def _registry() -> Any:
    import pint  # half a second, once: only where a quantity is read

    registry: Any = pint.UnitRegistry(autoconvert_offset_to_baseunit=True)
    registry.define("databit = [information]")  # pint's own has no dimension: 5 Mbit/s would be 5 MHz
    registry.define("databyte = 8 * databit")
    return registry


@cache
def _targets() -> Mapping[Any, tuple[str, str]]:
    registry = _registry()
    return {registry.parse_units(name).dimensionality: (name, symbol) for name, symbol in reversed(_TARGETS.items())}
