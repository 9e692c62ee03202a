"""Hashes of pieces of a purged text or vector, and the search for these pieces in arbitrary bytes.

Rules
    * a trace is the hash of WINDOW_BYTES consecutive bytes; traces can be kept without keeping the text;
    * of each text and vector several windows are traced, far apart: if a page boundary of a database cuts
      one, the others are whole;
    * a window with few different bytes (blanks, ruled lines, zeros) occurs everywhere and is not traced;
    * a rolling hash runs along the bytes (Karp and Rabin 1987, "Efficient randomized pattern-matching
      algorithms"), so that a pass costs the same for one trace and for a million; a hit counts only when
      SHA-256 agrees.

Not done here: looking into compressed or encrypted bytes. `corpus_guard.removal.storage_files` decodes
Parquet first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import BinaryIO, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

WINDOW_BYTES: Final = 24  # 6 numbers of a vector, about 4 words
MAX_WINDOWS: Final = 32  # windows of a text or vector that are considered
TRACES_PER_TEXT: Final = 8  # traces that are kept of them
MIN_DISTINCT_BYTES: Final = 8  # in a window
BLOCK_BYTES: Final = 1 << 17  # searched at a time; the hashes of a block fit into a processor's cache
_PREFIX_BITS = 22  # of a hash: looked up before the hash itself
_BASE = 0x9E3779B97F4A7C15  # odd

TextTrace: TypeAlias = tuple[int, str]
"""(rolling hash, 64 bits; first half of the SHA-256, hex) of WINDOW_BYTES bytes."""


class TraceIndex:
    """Traces to search for, indexed by their rolling hash."""

    def __init__(self, traces: Iterable[TextTrace]) -> None:
        self._digests: dict[int, set[str]] = {}
        for rolling, sha256 in traces:
            self._digests.setdefault(rolling, set()).add(sha256)
        self._hashes = np.array(sorted(self._digests), np.uint64)
        self._prefixes = np.zeros(1 << _PREFIX_BITS, bool)
        self._prefixes[self._hashes >> np.uint64(64 - _PREFIX_BITS)] = True

    def __len__(self) -> int:
        """Return the number of traces."""
        return sum(map(len, self._digests.values()))

    def found_in(self, content: bytes | memoryview) -> set[TextTrace]:
        """Return the traces whose bytes occur in `content`."""
        hits: set[TextTrace] = set()
        if not self._digests:
            return hits
        view = memoryview(content).cast("B")
        for start in range(0, len(view), BLOCK_BYTES):
            hits |= self._search_block(view[start : start + BLOCK_BYTES + WINDOW_BYTES - 1])
        return hits

    def found_in_stream(self, stream: BinaryIO) -> set[TextTrace]:
        """Return the traces whose bytes occur in a file of any length, read block by block."""
        hits: set[TextTrace] = set()
        overlap = b""
        while part := stream.read(BLOCK_BYTES):
            block = overlap + part
            hits |= self.found_in(block)
            overlap = block[-(WINDOW_BYTES - 1) :]
        return hits

    def _search_block(self, block: memoryview) -> set[TextTrace]:
        hashes = _rolling_hashes(block)
        offsets = np.flatnonzero(self._prefixes[hashes >> np.uint64(64 - _PREFIX_BITS)])
        nearest = self._hashes[np.searchsorted(self._hashes, hashes[offsets]) % len(self._hashes)]
        hits = set()
        for offset in offsets[nearest == hashes[offsets]].tolist():
            rolling, sha256 = int(hashes[offset]), _half_sha256(block[offset : offset + WINDOW_BYTES])
            if sha256 in self._digests[rolling]:
                hits.add((rolling, sha256))
        return hits


def text_traces(content: bytes) -> list[TextTrace]:
    """Return at most MAX_WINDOWS traces, spread over `content`; none where it is too short or too plain to be recognised."""
    hashes = _rolling_hashes(memoryview(content))
    last = max(len(hashes) - 1, 0)
    offsets = np.unique(np.linspace(0, last, MAX_WINDOWS).astype(int)).tolist() if len(hashes) else []
    windows = [(offset, content[offset : offset + WINDOW_BYTES]) for offset in offsets]
    return [
        (int(hashes[offset]), _half_sha256(window))
        for offset, window in windows
        if len(set(window)) >= MIN_DISTINCT_BYTES
    ]


def spread_traces(traces: list[TextTrace]) -> list[TextTrace]:
    """Return at most TRACES_PER_TEXT of `traces`, far apart."""
    if len(traces) <= TRACES_PER_TEXT:
        return traces
    return [traces[index] for index in np.linspace(0, len(traces) - 1, TRACES_PER_TEXT).astype(int).tolist()]


def _rolling_hashes(block: memoryview) -> NDArray[np.uint64]:
    """Return the hash of the WINDOW_BYTES bytes that begin at each offset, modulo 2^64.

    They are built from the hashes of 1, 2, 4, 8 and 16 bytes.
    """
    if len(block) < WINDOW_BYTES:
        return np.empty(0, np.uint64)
    hashes = np.frombuffer(block, np.uint8).astype(np.uint64)
    width = 1
    by_width = {}
    while width < 16:
        hashes = _concatenate(hashes, hashes[width:], width)
        width *= 2
        by_width[width] = hashes
    return _concatenate(by_width[16], by_width[8][16:], 8)


def _concatenate(head: NDArray[np.uint64], tail: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
    """Return the hashes of the bytes behind `head` followed by the `width` bytes behind `tail`."""
    return head[: len(tail)] * np.uint64(pow(_BASE, width, 1 << 64)) + tail


def _half_sha256(window: bytes | memoryview) -> str:
    return hashlib.sha256(window).hexdigest()[:32]
