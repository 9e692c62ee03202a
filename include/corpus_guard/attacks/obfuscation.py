"""Encodings of a sentence that a model can still read and a filter may miss."""

from __future__ import annotations

import base64
import codecs
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

_LEET = str.maketrans("aeiostAEIOST", "431057431057")
_CYRILLIC_AND_GREEK = str.maketrans("aceopxyijsABCEHIKMOPTXY", "асеорхуіјѕАВСЕНІКМОРТХΥ")
_ZERO_WIDTH_SPACE, _ZERO_WIDTH_NON_JOINER, _SOFT_HYPHEN = "\u200b", "\u200c", "\u00ad"
_RIGHT_TO_LEFT_OVERRIDE, _POP = "\u202e", "\u202c"
_TAGS = 0xE0000  # the block that repeats ASCII without drawing it
_FULLWIDTH = 0xFEE0  # from "!" to its wide form
_BOLD_UPPER, _BOLD_LOWER = 0x1D400, 0x1D41A  # mathematical alphabet
_COMBINING = "\u0336\u0332\u0307"  # stroke, low line, dot above


def _tags(text: str) -> str:
    return "".join(chr(_TAGS + ord(character)) for character in text if ord(character) < 0x7F)


def _fullwidth(text: str) -> str:
    return "".join(chr(ord(c) + _FULLWIDTH) if "!" <= c <= "~" else "\u3000" if c == " " else c for c in text)


def _bold(text: str) -> str:
    return "".join(
        chr(_BOLD_UPPER + ord(c) - ord("A"))
        if "A" <= c <= "Z"
        else chr(_BOLD_LOWER + ord(c) - ord("a"))
        if "a" <= c <= "z"
        else c
        for c in text
    )


def _marked(text: str) -> str:
    return "".join(c + _COMBINING[i % len(_COMBINING)] if c.isalpha() else c for i, c in enumerate(text))


def _between(mark: str) -> Callable[[str], str]:
    return lambda text: " ".join(mark.join(word) for word in text.split(" "))


OBFUSCATIONS: Final[Mapping[str, Callable[[str], str]]] = MappingProxyType(
    {
        "plain": lambda text: text,
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
        "hex": lambda text: text.encode().hex(),
        "rot13": lambda text: codecs.encode(text, "rot13"),
        "leetspeak": lambda text: text.translate(_LEET),
        "spaced letters": lambda text: "   ".join(" ".join(word) for word in text.split(" ")),
        "homoglyphs": lambda text: text.translate(_CYRILLIC_AND_GREEK),
        "zero width": _between(_ZERO_WIDTH_SPACE),
        "zero width, in two words": lambda text: " ".join(
            _ZERO_WIDTH_NON_JOINER.join(word) if index in {0, 2} else word for index, word in enumerate(text.split(" "))
        ),
        "soft hyphens": _between(_SOFT_HYPHEN),
        "tag characters": _tags,
        "bidi override": lambda text: _RIGHT_TO_LEFT_OVERRIDE + text[::-1] + _POP,
        "fullwidth": _fullwidth,
        "mathematical bold": _bold,
        "combining marks": _marked,
        "HTML entities": lambda text: "".join(f"&#{ord(character)};" for character in text),
        "percent encoding": lambda text: "".join(
            quote(c, safe="") if not c.isalnum() else f"%{ord(c):02X}" for c in unicodedata.normalize("NFC", text)
        ),
        "reversed": lambda text: text[::-1],
    }
)
"""Name → deterministic function of an ASCII sentence."""
