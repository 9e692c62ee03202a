"""The directory of a zip, read without inflating anything: cheap enough for the process that detects media types.

Written for bytes that lie: every offset is checked, and the number of listed entries is limited.
"""

from __future__ import annotations

import struct

_END_RECORD = struct.Struct("<4s4H2LH")  # APPNOTE.TXT 4.3.16
_ENTRY = struct.Struct("<4s6H3L5H2L")  # 4.3.12
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")  # 4.3.7
MAX_NAMES = 4_096  # that are listed
_TAIL_BYTES = 65_557  # the longest comment, and the record before it


def find_end_record(content: bytes) -> int:
    """Return the offset of the directory's end record, if the bytes end with one; else -1."""
    offset = content.rfind(b"PK\x05\x06", max(0, len(content) - _TAIL_BYTES))
    if offset < 0 or offset + _END_RECORD.size > len(content):
        return -1
    comment = _END_RECORD.unpack_from(content, offset)[7]
    return offset if offset + _END_RECORD.size + comment == len(content) else -1


def declared_entry_count(content: bytes) -> int:
    """Return the number of entries in the end record; -1 without one, or where a ZIP64 record holds the number."""
    end = find_end_record(content)
    count = int(_END_RECORD.unpack_from(content, end)[4]) if end >= 0 else -1
    return -1 if count == 0xFFFF else count


def list_names(content: bytes) -> list[str]:
    """Return the first `MAX_NAMES` names in the directory, in its order; none where there is no directory."""
    names: list[str] = []
    end = find_end_record(content)
    if end < 0:
        return names
    size = _END_RECORD.unpack_from(content, end)[5]
    offset = max(0, end - size)  # not the offset that it states: bytes may stand before the zip
    while len(names) < MAX_NAMES and offset + _ENTRY.size <= end:
        fields = _ENTRY.unpack_from(content, offset)
        if fields[0] != b"PK\x01\x02":
            break
        length, extra, comment = fields[10], fields[11], fields[12]
        start = offset + _ENTRY.size
        names.append(content[start : start + length].decode("utf-8" if fields[3] & 0x800 else "cp437", "replace"))
        offset = start + length + extra + comment
    return names


def read_first_stored(content: bytes, name: bytes, limit: int = 200) -> bytes:
    """Return the first `limit` bytes of the first entry if it is called `name` and stored uncompressed."""
    if len(content) < _LOCAL_HEADER.size:
        return b""
    fields = _LOCAL_HEADER.unpack_from(content)
    start = _LOCAL_HEADER.size + fields[9]
    if fields[0] != b"PK\x03\x04" or fields[3] != 0 or content[_LOCAL_HEADER.size : start] != name:
        return b""
    start += fields[10]
    return content[start : start + min(fields[7], limit)]
