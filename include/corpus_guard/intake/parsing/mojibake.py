r"""Repair of control characters that a wrong decoder made of UTF-8.

UTF-8 read as Latin-1 or Windows-1252 turns an apostrophe into ``â\x80\x99``: a letter and control characters
of the block C1, which no text needs. Such sequences are read again as the bytes that they came from.

Rules
- A text without a sequence that holds a C1 control stays as it is: its ``Ã©`` may be meant.
- In a text with one, every sequence of valid UTF-8 is repaired, so that no word is repaired by halves; except
  two characters that stand alone and may be meant, such as ``É»`` at the end of a quotation.
- A sequence that stands for another control character stays: it was damaged twice, or made to hide something.
- The result is the document's text, for every check, chunk and collection; the bytes are kept as they came.
"""

from __future__ import annotations

import re
from typing import Final

# Windows-1252 gives most bytes from 0x80 to 0x9f a printed character; decoders mix both tables.
_PRINTED: Final = {
    character: byte for byte in range(0x80, 0xA0) if (character := bytes([byte]).decode("cp1252", "ignore"))
}
_BYTES: Final = {chr(byte): byte for byte in range(0x80, 0x100)} | _PRINTED
_NEXT: Final = f"[\x80-\xbf{''.join(_PRINTED)}]"
_SEQUENCE: Final = re.compile(f"[\xc2-\xdf]{_NEXT}|[\xe0-\xef]{_NEXT}{{2}}|[\xf0-\xf4]{_NEXT}{{3}}")
_RUN: Final = re.compile(f"(?:{_SEQUENCE.pattern})+")
_C1: Final = re.compile("[\x80-\x9f]")
_MARKED: Final = "\xc2\xc3"  # before Latin letters and signs; before other characters hardly anybody writes them


def repair_mojibake(text: str) -> tuple[str, int]:
    """Return the text with its sequences read as UTF-8, and how many were repaired."""
    if not _C1.search(text) or not any(_read(match[0]) for match in _SEQUENCE.finditer(text) if _C1.search(match[0])):
        return text, 0
    repaired = 0

    def repair(sequence: re.Match[str]) -> str:
        nonlocal repaired
        character = _read(sequence[0])
        repaired += character is not None
        return character or sequence[0]

    def repair_run(run: re.Match[str]) -> str:
        is_alone = len(run[0]) == 2 and run[0][0] not in _MARKED and not _C1.search(run[0])
        return run[0] if is_alone else _SEQUENCE.sub(repair, run[0])

    return _RUN.sub(repair_run, text), repaired


def _read(sequence: str) -> str | None:
    """Return the character that the sequence stands for; None: none, or another control character."""
    try:
        character = bytes(_BYTES[each] for each in sequence).decode()
    except UnicodeDecodeError:
        return None
    return None if _C1.match(character) else character
