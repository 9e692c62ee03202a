"""What a purged text or vector leaves behind, as hashes, and the search for it in any bytes. Part of `corpus_guard.proof.purge`.

Rules
    * a trace is the hash of WIDTH bytes in a row; whoever keeps traces keeps no text;
    * of each text and vector several windows are traced, far apart: where a database page ends inside one, the others are whole;
    * a window of few different bytes (blanks, rules, zeros) belongs to nobody and is not traced;
    * hashing runs along the bytes (Karp and Rabin 1987, "Efficient randomized pattern-matching algorithms"), so that a pass costs the
      same for one trace and for a million; a hit counts when SHA-256 agrees.

What is not done here: seeing bytes that are compressed or encrypted. `corpus_guard.proof._purge_files` reads Parquet decoded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

WIDTH = 24  # bytes of a window: 6 numbers of a vector, some 4 words
WINDOWS = 32  # of a text or vector, looked at for one that nobody else has
KEPT = 8  # of those
FEWEST = 8  # different bytes a window must have
BLOCK = 1 << 17  # bytes held at a time; their hashes fit into a processor's cache
_BITS = 22  # of a hash, looked up before the hash itself
_BASE = 0x9E3779B97F4A7C15  # odd

Trace: TypeAlias = tuple[int, str]
"""(rolling hash, 64 bits; first half of the SHA-256, hex) of WIDTH bytes."""


class Traces:
    """Traces to be found."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        self._digests: dict[int, set[str]] = {}
        for rolling, sha256 in traces:
            self._digests.setdefault(rolling, set()).add(sha256)
        self._known = np.array(sorted(self._digests), np.uint64)
        self._near = np.zeros(1 << _BITS, bool)
        self._near[self._known >> np.uint64(64 - _BITS)] = True

    def __len__(self) -> int:
        """How many."""
        return sum(map(len, self._digests.values()))

    def found_in(self, content: bytes | memoryview) -> set[Trace]:
        """Those whose bytes lie in `content`."""
        found: set[Trace] = set()
        if not self._digests:
            return found
        view = memoryview(content).cast("B")
        for start in range(0, len(view), BLOCK):
            found |= self._in_block(view[start : start + BLOCK + WIDTH - 1])
        return found

    def found_in_stream(self, stream: BinaryIO) -> set[Trace]:
        """The same for a file of any length."""
        found: set[Trace] = set()
        rest = b""
        while part := stream.read(BLOCK):
            block = rest + part
            found |= self.found_in(block)
            rest = block[-(WIDTH - 1) :]
        return found

    def _in_block(self, block: memoryview) -> set[Trace]:
        hashes = _rolling(block)
        places = np.flatnonzero(self._near[hashes >> np.uint64(64 - _BITS)])
        places = places[self._known[np.searchsorted(self._known, hashes[places]) % len(self._known)] == hashes[places]]
        found = set()
        for place in places.tolist():
            rolling, sha256 = int(hashes[place]), _sha256(block[place : place + WIDTH])
            if sha256 in self._digests[rolling]:
                found.add((rolling, sha256))
        return found


def traces_of(content: bytes) -> list[Trace]:
    """At most WINDOWS traces, spread over `content`; none where it is too short or too plain to be told from others."""
    hashes = _rolling(memoryview(content))
    places = np.unique(np.linspace(0, max(len(hashes) - 1, 0), WINDOWS).astype(int)).tolist() if len(hashes) else []
    windows = [(place, content[place : place + WIDTH]) for place in places]
    return [(int(hashes[place]), _sha256(window)) for place, window in windows if len(set(window)) >= FEWEST]


def spread(traces: list[Trace]) -> list[Trace]:
    """KEPT of them, far apart."""
    if len(traces) <= KEPT:
        return traces
    return [traces[place] for place in np.linspace(0, len(traces) - 1, KEPT).astype(int).tolist()]


def _rolling(block: memoryview) -> NDArray[np.uint64]:
    """Hash of the WIDTH bytes that begin at each place; built from hashes of 1, 2, 4, 8 and 16 bytes, modulo 2^64."""
    if len(block) < WIDTH:
        return np.empty(0, np.uint64)
    hashes = np.frombuffer(block, np.uint8).astype(np.uint64)
    width = 1
    by_width = {}
    while width < 16:
        hashes = _joined(hashes, hashes[width:], width)
        width *= 2
        by_width[width] = hashes
    return _joined(by_width[16], by_width[8][16:], 8)


def _joined(left: NDArray[np.uint64], right: NDArray[np.uint64], width: int) -> NDArray[np.uint64]:
    """Hash of what `left` tells of followed by the `width` bytes that `right` tells of."""
    return left[: len(right)] * np.uint64(pow(_BASE, width, 1 << 64)) + right


def _sha256(window: bytes | memoryview) -> str:
    return hashlib.sha256(window).hexdigest()[:32]
