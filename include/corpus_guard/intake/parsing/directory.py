"""The directory of a zip, read without inflating anything: cheap enough for the process that decides what a document is.

Written for bytes that lie: every offset is checked, and no more entries are listed than asked for.
"""

from __future__ import annotations

import struct

_END = struct.Struct("<4s4H2LH")  # APPNOTE.TXT 4.3.16
_ENTRY = struct.Struct("<4s6H3L5H2L")  # 4.3.12
_LOCAL = struct.Struct("<4s5H3L2H")  # 4.3.7
_TAIL = 65_557  # the longest comment, and the record before it


def end_of(content: bytes) -> int:
    """Where the directory's end record starts, if the bytes end with one; else -1."""
    place = content.rfind(b"PK\x05\x06", max(0, len(content) - _TAIL))
    if place < 0 or place + _END.size > len(content):
        return -1
    comment = _END.unpack_from(content, place)[7]
    return place if place + _END.size + comment == len(content) else -1


def stated(content: bytes) -> int:
    """How many entries the end record says there are; -1 where there is none, or where it leaves that to a ZIP64 record."""
    end = end_of(content)
    count = int(_END.unpack_from(content, end)[4]) if end >= 0 else -1
    return -1 if count == 0xFFFF else count


def names(content: bytes, most: int = 4_096) -> list[str]:
    """The names in the directory, in its order, at most `most`; none where there is no directory."""
    found: list[str] = []
    end = end_of(content)
    if end < 0:
        return found
    size = _END.unpack_from(content, end)[5]
    place = max(0, end - size)  # not the offset that it states: bytes may stand before the zip
    while len(found) < most and place + _ENTRY.size <= end:
        fields = _ENTRY.unpack_from(content, place)
        if fields[0] != b"PK\x01\x02":
            break
        length, extra, comment = fields[10], fields[11], fields[12]
        start = place + _ENTRY.size
        found.append(content[start : start + length].decode("utf-8" if fields[3] & 0x800 else "cp437", "replace"))
        place = start + length + extra + comment
    return found


def stored_first(content: bytes, name: bytes, most: int = 200) -> bytes:
    """The content of the first entry if it is called `name` and stored as it is; at most `most` bytes of it."""
    if len(content) < _LOCAL.size:
        return b""
    fields = _LOCAL.unpack_from(content)
    start = _LOCAL.size + fields[9]
    if fields[0] != b"PK\x03\x04" or fields[3] != 0 or content[_LOCAL.size : start] != name:
        return b""
    start += fields[10]
    return content[start : start + min(fields[7], most)]
