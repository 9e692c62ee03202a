r"""Repair of control characters that a wrong decoder made of UTF-8.

UTF-8 read as Latin-1 or Windows-1252 turns an apostrophe into ``â\x80\x99``: a letter and control characters
of the block C1, which no text needs. Such a run is read again as the bytes that it came from.

Rules
- Only runs that hold a C1 control and are valid UTF-8 are repaired. What has no control character (``Ã©``)
  may be meant, and stays.
- A run that stands for another control character stays: it was damaged twice, or made to hide something.
- The result is the document's text, for every check, chunk and collection; the bytes are kept as they came.
"""

from __future__ import annotations

import re
from typing import Final

# Windows-1252 gives most bytes from 0x80 to 0x9f a printed character; decoders mix both tables.
_PRINTED: Final = {bytes([byte]).decode("cp1252", "ignore"): byte for byte in range(0x80, 0xA0)}
_BYTES: Final = {chr(byte): byte for byte in range(0x80, 0x100)} | {
    character: byte for character, byte in _PRINTED.items() if character
}
_NEXT: Final = "[\x80-\xbf" + "".join(character for character in _PRINTED if character) + "]"
_RUN: Final = re.compile(f"[\xc2-\xdf]{_NEXT}|[\xe0-\xef]{_NEXT}{{2}}|[\xf0-\xf4]{_NEXT}{{3}}")
_C1: Final = re.compile("[\x80-\x9f]")


def repair_mojibake(text: str) -> tuple[str, int]:
    """Return the text with its runs read as UTF-8, and how many were repaired."""
    if not _C1.search(text):
        return text, 0
    repaired = 0

    def read_again(match: re.Match[str]) -> str:
        nonlocal repaired
        character = _decode(match[0]) if _C1.search(match[0]) else None
        repaired += character is not None
        return character or match[0]

    return _RUN.sub(read_again, text), repaired


def _decode(run: str) -> str | None:
    try:
        character = bytes(_BYTES[each] for each in run).decode()
    except UnicodeDecodeError:
        return None
    return None if _C1.match(character) else character
