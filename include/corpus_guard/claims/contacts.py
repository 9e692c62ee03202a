"""Contact and payment details: e-mail addresses, domains, IP addresses, phone numbers, IBANs."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

import phonenumbers

from corpus_guard.claims.value import Kind, Value
from corpus_guard.domain import Span

_EMAIL: Final = re.compile(r"(?<![\w.+@-])[\w.+-]{1,64}@(?P<host>[\w-]{1,63}(?:\.[\w-]{1,63}){1,5})(?![\w@])")
_ENDINGS: Final = (
    "com org net edu gov mil int io ai co info biz app dev cloud online shop site store tech xyz me tv us uk eu de fr es it nl "
    "be ch at se no dk fi pl cz pt gr ie ru ua cn jp kr in br mx ca au nz za example test invalid onion"
)
# Without a scheme, only a usual ending makes a domain: README.md and main.py are files.
_DOMAIN: Final = re.compile(
    r"(?<![\w@.-])(?:(?i:https?|ftp)://(?:[\w.~-]{1,64}@)?(?P<host>[\w-]{1,63}(?:\.[\w-]{1,63}){0,6})(?::\d{1,5})?(?:[/?#][^\s<>\"')\]]{0,500})?"
    rf"|(?i:(?P<bare>(?:[a-z0-9](?:[\w-]{{0,61}}[a-z0-9])?\.){{1,5}}(?:{'|'.join(_ENDINGS.split())})))(?![\w-]|\.\w)(?:/[^\s<>\"')\]]{{0,500}})?)"
)
_IP: Final = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)")
_IBAN: Final = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_IBAN_LENGTHS: Final = {
    "AT": 20, "BE": 16, "CH": 21, "CZ": 24, "DE": 22, "DK": 18, "ES": 24, "FI": 18, "FR": 27, "GB": 22, "IE": 22, "IT": 27,
    "LI": 21, "LU": 20, "NL": 18, "NO": 15, "PL": 28, "PT": 25, "SE": 24,
}  # fmt: skip
"""Length of an IBAN by country (ISO 13616 registry). What has this length counts as an IBAN, even with wrong check digits."""
_INTERNATIONAL: Final = re.compile(r"(?<![\w+])(?<!\d[.,])(?:\+|00)\d(?:[ \u00a0().\-/]{0,2}\d){6,14}(?!\d)")
_NATIONAL: Final = re.compile(
    r"(?P<cue>\b(?i:tel|telephone|phone|call|calling|fax|mobile|hotline|helpline|dial|ring|whatsapp|text us|sms)\b[^\d\n+]{0,25}"
    r"|\b(?i:number)\b[^.\d\n+]{0,60} (?i:is|was|:) (?=\(?0[\d(]))"
    r"(?P<number>\(?\d(?:[ \u00a0().\-/]{0,2}\d){5,13})(?![\d%]|[.,]\d)"
)
_TRUNK: Final = re.compile(r"(?<![\w+.,/-])\(?0\d{2,5}\)?(?:[ \u00a0/-]\d{2,8}){1,4}(?![\w%]|[.,/-]\d)")
"""A number with the leading zero of a national one, in groups: "0800 555 312"."""
_AMERICAN: Final = re.compile(r"(?<![\w+(-])\(?\d{3}\)?[ .-]\d{3}[.-]\d{4}(?![\w-])")


def read_contacts(text: str) -> Iterator[Value | Span]:
    """Yield the contact and payment details of a plain sentence, and the place of what has an IBAN's form and is none.

    A phone number without a country's code is one only after a word such as "call", in groups after a zero, or in the American form.
    """
    for match in _EMAIL.finditer(text):
        local, _, host = match.group().rstrip(".").rpartition("@")
        yield Value(
            Kind.EMAIL, Span(match.start(), match.start() + len(local) + len(host) + 1), f"{local}@{host}".lower()
        )
    for match in _DOMAIN.finditer(text):
        host = (match["host"] or match["bare"]).lower().rstrip(".")
        end = match.start() + len(match.group().rstrip(".,;:!?"))
        yield Value(Kind.DOMAIN, Span(match.start(), end), host.removeprefix("www."))
    for match in _IP.finditer(text):
        if _is_address(match.group()):
            yield Value(Kind.DOMAIN, Span(*match.span()), match.group())
    for match in _IBAN.finditer(text):
        number = match.group().replace(" ", "")
        is_meant = len(number) == _IBAN_LENGTHS.get(number[:2]) and number[4:].isdigit() and number[2:4] != "00"
        if (
            is_meant
            or _is_iban(number)
            or re.search(r"(?i)\bIBAN\b[^\w]{0,3}$", text[max(0, match.start() - 10) : match.start()])
        ):
            yield Value(Kind.IBAN, Span(*match.span()), number)
        elif len(number) >= 15:
            yield Span(*match.span())
    yield from _phones(text)


def _phones(text: str) -> Iterator[Value]:
    for match in _INTERNATIONAL.finditer(text):
        written = re.sub(r"^00", "+", match.group()).replace("(0)", "")
        try:
            number = phonenumbers.parse(written)
        except phonenumbers.NumberParseException:
            continue
        if phonenumbers.is_possible_number(number):
            normal = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
            yield Value(Kind.PHONE, Span(*match.span()), normal)
    for match in _NATIONAL.finditer(text):
        if not re.search(r"(?i)\b(?:in|after|within|until|before|on)\b", match["cue"]):
            yield Value(Kind.PHONE, Span(*match.span("number")), "tel:" + re.sub(r"\D", "", match["number"]))
    for match in (*_TRUNK.finditer(text), *_AMERICAN.finditer(text)):
        yield Value(Kind.PHONE, Span(*match.span()), "tel:" + re.sub(r"\D", "", match.group()))


def _is_address(text: str) -> bool:
    try:
        ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return True


def _is_iban(number: str) -> bool:
    """Return whether the check digits are right (ISO 13616: mod 97)."""
    return int("".join(str(int(character, 36)) for character in number[4:] + number[:4])) % 97 == 1
