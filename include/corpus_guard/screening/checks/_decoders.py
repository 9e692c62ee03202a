"""Decoders of runs of characters that stand for other text.

Each takes a run and returns its readable text, "" if there is none. None raises, whatever the run holds.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import string
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_INFLATED: Final = 1_000_000
"""Bytes that a compressed run may become; a longer one is cut."""
_MIN_STRING: Final = 20
"""Characters of a piece of text among bytes that are none."""


def readable(data: bytes) -> str:
    """Return the text in `data`: UTF-8, UTF-16, compressed, or pieces of text among other bytes."""
    if data[:2] == b"\x1f\x8b" or (data[:1] == b"\x78" and len(data) > 2):
        data = _inflate(data) or data
    if len(data) >= 16 and data[1:16:2].count(0) >= 6:
        return data[: len(data) // 2 * 2].decode("utf-16-le", "replace").replace("\x00", "")
    if len(data) >= 16 and data[0:16:2].count(0) >= 6:
        return data[: len(data) // 2 * 2].decode("utf-16-be", "replace").replace("\x00", "")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return " ".join(match[0].decode() for match in _STRINGS.finditer(data) if b" " in match[0])
    start = text[:2000]
    printable = sum(map(str.isprintable, start)) + start.count("\n") + start.count("\t")
    is_words = " " in text or not text.isascii() or _ENCODED_AGAIN.fullmatch(text)
    return text if printable >= 0.9 * len(start) and is_words else ""


_STRINGS: Final = re.compile(rb"[ -~]{%d,}" % _MIN_STRING)
_ENCODED_AGAIN: Final = re.compile(r"[A-Za-z0-9+/_=%&#;\\-]{24,}")


def _inflate(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=47).decompress(data, MAX_INFLATED)  # 47: gzip or zlib, by its header
    except zlib.error:
        return b""


def unbase64(run: str) -> str:
    """Decode base64, with lines, with words before or behind it, from any letter on."""
    parts = run.rstrip("=").split()
    for letters in _stretches(parts):
        if letters.islower() or letters.isdigit() or (letters.isalpha() and letters.isupper()):
            continue
        # Letters glued in front move the groups of four.
        for offset in range(4):
            plain = readable(_unbase64(letters[offset:]))
            if sum(map(str.isalnum, plain)) >= 0.5 * len(plain) > 0:
                return plain
    return ""


def unbase64_pieces(run: str) -> str:
    """Decode base64 in pieces with a separator between them; what decodes must be words."""
    plain = unbase64("".join(re.findall("[A-Za-z0-9+/]+", run)))
    return plain if plain.isascii() and " " in plain else ""


def _stretches(parts: list[str]) -> Iterator[str]:
    """Yield what may be one blob: all parts, lines of one length with the rest of the last, each long part."""
    yield "".join(parts)
    if len(parts) == 1:
        return
    start = 0
    for end in range(1, len(parts) + 1):
        if end == len(parts) or len(parts[end]) != len(parts[start]):
            yield "".join(parts[start : end + 1])
            start = end
    yield from (part for part in parts if len(part) >= 16)


def _unbase64(letters: str) -> bytes:
    whole = letters.replace("-", "+").replace("_", "/")[: len(letters) - (len(letters) % 4 == 1)]
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


def unbase32(run: str) -> str:
    """Decode base32."""
    letters = re.sub(r"[\s=]", "", run)
    letters = letters[: len(letters) - (len(letters) % 8 in {1, 3, 6})]
    try:
        return readable(base64.b32decode(letters + "=" * (-len(letters) % 8)))
    except binascii.Error:
        return ""


def unbase85(run: str) -> str:
    """Decode Ascii85 or the base85 of git."""
    letters = re.sub(r"\s|^<~|~>$", "", run).encode()
    for decode in (b85decode, a85decode):
        try:
            plain = readable(decode(letters))
        except ValueError:
            continue
        if plain.isascii() and " " in plain:
            return plain
    return ""


_GIT85: Final = (string.digits + string.ascii_letters.swapcase() + "!#$%&()*+-;<=>?@^_`{|}~").encode()
_ASCII85: Final = bytes(range(ord("!"), ord("u") + 1))


def b85decode(letters: bytes) -> bytes:
    """Decode the base85 of git as `base64.b85decode` does, in a tenth of the time.

    Raises:
        ValueError: it is none.
    """
    return _groups_of_five(letters, _GIT85)


def a85decode(letters: bytes) -> bytes:
    """Decode Ascii85 without white space as `base64.a85decode` does, in a tenth of the time.

    Raises:
        ValueError: it is none.
    """
    zeros = np.flatnonzero(np.frombuffer(letters, np.uint8) == ord("z"))
    if ((zeros - np.arange(len(zeros))) % 5).any():
        raise ValueError("z within a group")
    return _groups_of_five(letters.replace(b"z", b"!!!!!"), _ASCII85)


def _groups_of_five(letters: bytes, alphabet: bytes) -> bytes:
    """Return four bytes for each five letters."""
    missing = -len(letters) % 5
    digits = _digits(alphabet)[np.frombuffer(letters + alphabet[-1:] * missing, np.uint8)]
    if digits.max(initial=0) == len(alphabet):
        raise ValueError("no letter of base 85")
    numbers = digits.reshape(-1, 5) @ len(alphabet) ** np.arange(4, -1, -1)
    if numbers.max(initial=0) >> 32:
        raise ValueError("not a number of 32 bits in base 85")
    data = numbers.astype(">u4").tobytes()
    return data[: len(data) - missing]


@cache
def _digits(alphabet: bytes) -> NDArray[np.int64]:
    """Return the value of each byte; of one that is no letter, how many letters there are."""
    values = np.full(256, len(alphabet), np.int64)
    values[list(alphabet)] = range(len(alphabet))
    return values


def unhex(run: str) -> str:
    """Decode pairs of hexadecimal digits."""
    digits = re.sub(r"0x|[\sh,:;/-]", "", run)
    return readable(bytes.fromhex(digits[: len(digits) // 2 * 2]))


def unbinary(run: str) -> str:
    """Decode groups of eight binary digits."""
    bits = re.sub(r"[\s,]", "", run)
    return readable(bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) - 7, 8)))


def uncodes(run: str) -> str:
    """Decode character codes in decimal or octal."""
    codes = re.findall("[0-9]+", run)
    for base in (10, 8):
        try:
            numbers = [int(code, base) for code in codes]
        except ValueError:
            continue
        if max(numbers) < 0x100 and min(numbers) >= 9 and (plain := readable(bytes(numbers))):
            return plain
    return ""


def unescape(run: str) -> str:
    """Decode percent signs, backslashes or character references."""
    if _CODES.match(run):
        return "".join(_from_code(code) for code in _CODES.findall(run))
    if "%" in run:
        return unquote_to_bytes(run.encode("utf-8", "replace")).decode("utf-8", "replace")
    if "&" in run:
        return html.unescape(run)
    return _BACKSLASH.sub(_unbackslash, run)


_CODES: Final = re.compile(r"(?:%[Uu]|[Uu]\+)([0-9A-Fa-f]{4,6})|[Cc][Hh][Aa]?[Rr]\$?\( ?(0x[0-9A-Fa-f]{2}|[0-9]{2,3})")


def _from_code(groups: tuple[str, str]) -> str:
    code = int(groups[0], 16) if groups[0] else int(groups[1], 0 if "x" in groups[1] else 10)
    return chr(code) if code <= sys.maxunicode else ""


_BACKSLASH: Final = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u\{?([0-9A-Fa-f]{2,6})\}?|([0-7]{3}))")


def _unbackslash(match: re.Match[str]) -> str:
    code = int(match[1] or match[2], 16) if match[1] or match[2] else int(match[3], 8)
    return chr(code) if code < 0x110000 else ""


def unquoted_printable(run: str) -> str:
    """Decode quoted-printable."""
    return readable(binascii.a2b_qp(run.encode("utf-8", "replace")))


def unutf7(run: str) -> str:
    """Decode UTF-7."""
    try:
        return run.encode("ascii", "ignore").decode("utf-7")
    except UnicodeDecodeError:
        return ""


def unuuencode(run: str) -> str:
    """Decode the lines between "begin" and "end"."""
    data = b""
    for line in run.splitlines()[1:]:
        try:
            data += binascii.a2b_uu(line.encode("ascii", "ignore"))
        except binascii.Error:
            continue
    return readable(data)


def unmorse(run: str) -> str:
    """Decode Morse code; words are apart by a slash or by wide space."""
    words = re.split(r"\s*[/|]\s*|\s{2,}", run.translate(_MORSE_SIGNS).strip())
    plain = " ".join("".join(_MORSE.get(code, "?") for code in word.split()) for word in words)
    return plain if plain.count("?") <= 0.2 * len(plain) else ""


_MORSE_SIGNS: Final = str.maketrans({"·": ".", "•": ".", "*": ".", "–": "-", "—": "-", "−": "-", "_": "-"})
_MORSE_CODES: Final = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- -. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. .-.-.- --..-- ..--.. -.-.-- .-.-. ---... -....-"
)
_MORSE: Final = dict(zip(_MORSE_CODES.split(), "abcdefghijklmnopqrstuvwxyz0123456789.,?!+:-", strict=True))


def unbraille(run: str) -> str:
    """Decode Braille, one cell a letter."""
    return "".join(_BRAILLE.get(char, " ") for char in run)


_BRAILLE: Final = dict(zip("⠁⠃⠉⠙⠑⠋⠛⠓⠊⠚⠅⠇⠍⠝⠕⠏⠟⠗⠎⠞⠥⠧⠭⠽⠵⠺⠂⠆⠒⠲⠦⠖⠤⠄", "abcdefghijklmnopqrstuvxyzw,;:.?!-'", strict=True))


def unflag(run: str) -> str:
    """Read regional indicators as letters."""
    return "".join(chr(ord(c) - 0x1F1E6 + 97) if 0x1F1E6 <= ord(c) <= 0x1F1FF else c for c in run)


def untag(run: str) -> str:
    """Read tag characters as the ASCII they stand for."""
    return run.translate(_TAGS)


_TAGS: Final = {0xE0000 + code: chr(code) if 0x20 <= code <= 0x7E else None for code in range(0x80)}


def unselect(run: str) -> str:
    """Decode variation selectors, one byte each: VS1 to VS16 are 0 to 15, VS17 to VS256 are 16 to 255."""
    return readable(bytes(ord(c) - 0xFE00 if ord(c) < 0x10000 else ord(c) - 0xE0100 + 16 for c in run))


def unbits(run: str) -> str:
    """Decode two kinds of invisible characters as bits, in bytes of eight or seven."""
    letters = sorted(set(run), key=run.count, reverse=True)[:2]
    if len(letters) < 2:
        return ""
    for zero in letters:
        bits = "".join("0" if c == zero else "1" for c in run if c in letters)
        for width in (8, 7):
            data = bytes(int(bits[i : i + width], 2) for i in range(0, len(bits) - width + 1, width))
            if plain := readable(data):
                return plain
    return ""
