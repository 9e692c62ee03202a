"""Chunks near each other: where a chunk stands, and which others it is compared with.

Rules
- A chunk is compared with the `NEAREST` chunks of a higher trust level that lie nearest to it, those that are
  served and those that arrive in the same run, and with `NEAREST_PEERS` of its own level that arrive with it.
- A trusted chunk is compared with the `NEAREST` served ones of each lower level, too.
- Chunks of one document are never compared with each other.
- Where more than 60,000 chunks of a run come into question, the nearest are looked for around the chunk only
  (`corpus_guard.screening.survey.cells`).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corpus_guard.domain import Chunk, TrustLevel, Version
from corpus_guard.screening.survey.cells import Cells, find_largest

NEAREST: Final = 8  # chunks of a higher trust level that a chunk is compared with, of each collection and of the run
NEAREST_PEERS: Final = 2  # the same of its own level
NEAR_COSINE: Final = 0.3  # below it two chunks are about different things
CHUNKS_PER_BLOCK: Final = 400  # compared at a time, of one cell: 400 x 60,000 cosines are 96 MB
_FORMAT: Final = re.compile(r"\.[A-Za-z]\w{0,7}(?=#|$)")
"""End of the name of a file, also of one of rows: "pump.pdf", "posts.jsonl#17"."""


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk with the place of its text; the text and the vector lie beside it."""

    doc_id: str
    version_id: str
    chunk_id: str
    ordinal: int
    start: int  # in the text of the version
    trust: TrustLevel
    title: str = ""  # title and path of its document: what a sentence without a subject is about

    @classmethod
    def of(cls, version: Version, chunk: Chunk) -> PlacedChunk:
        """Return the place of a version's chunk."""
        stamp = version.stamp
        title = document_title(stamp.declared.get("title", ""), stamp.uri)
        return cls(version.doc_id, version.version_id, chunk.chunk_id, chunk.ordinal, chunk.start, stamp.trust, title)


@dataclass(frozen=True, slots=True)
class ServedChunk:
    """A chunk of a collection near another one."""

    chunk: PlacedChunk
    text: str
    similarity: float  # cosine


class ServedStatements(Protocol):
    """The collections, asked by vector."""

    def near(self, trust: TrustLevel, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[ServedChunk]]:
        """Return the `count` chunks of a trust level nearest to each vector, nearest first."""


class NothingServed:
    """Empty collections, for ``guard screen`` on a folder."""

    def near(self, trust: TrustLevel, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[ServedChunk]]:
        """Return nothing for each vector."""
        return [()] * len(vectors)


def document_title(title: str, path: str) -> str:
    """Return what says what a document is about, in words: title, name of the file without its format, and folders, a line each."""
    folders, _, name = _FORMAT.sub("", path).rpartition("/")
    return "\n".join(re.sub(r"[/_.\n-]+", " ", part) for part in (title, name, folders))


OtherChunk: TypeAlias = int | ServedChunk
"""Position of an arriving chunk, or a served one."""


class NearbyChunks:
    """Arriving chunks of a run, and what lies near each."""

    def __init__(self, chunks: Sequence[PlacedChunk], vectors: NDArray[np.float32], served: ServedStatements) -> None:
        """Sort the chunks into cells.

        Args:
            chunks: every chunk of the run.
            vectors: their unit vectors, shape (chunks, dimensions).
        """
        self._chunks = chunks
        self._vectors = vectors
        self._served = served
        self._ranks = np.array([chunk.trust.rank for chunk in chunks], np.int8)
        self._arriving = {chunk.doc_id for chunk in chunks}
        self._cells = Cells(vectors)
        self._beside = lru_cache(maxsize=4)(self._arriving_beside)  # of one cell, for two levels: peers and higher ones
        self._documents = np.unique([chunk.doc_id for chunk in chunks], return_inverse=True)[1]

    def chunk(self, other: OtherChunk) -> PlacedChunk:
        """Return the place of a chunk."""
        return self._chunks[other] if isinstance(other, int) else other.chunk

    def similarity(self, position: int, other: OtherChunk) -> float:
        """Return the cosine of an arriving chunk and another one."""
        if isinstance(other, int):
            return float(self._vectors[position] @ self._vectors[other])
        return other.similarity

    def blocks(self, *, trusted: bool) -> Iterator[list[int]]:
        """Yield the positions of the trusted chunks, or of all others, in blocks of one cell each."""
        highest = self._ranks == TrustLevel.TRUSTED.rank
        yield from map(np.ndarray.tolist, self._cells.split(np.flatnonzero(highest == trusted), CHUNKS_PER_BLOCK))

    def above(self, positions: Sequence[int]) -> dict[int, list[OtherChunk]]:
        """Return the chunks that each is compared with: of higher trust first, then arriving ones of its own level."""
        nearby: dict[int, list[OtherChunk]] = {position: [] for position in positions}
        by_rank: defaultdict[int, list[int]] = defaultdict(list)
        for position in positions:
            by_rank[int(self._ranks[position])].append(position)
        for rank, rows in by_rank.items():
            for trust in sorted(TrustLevel, key=lambda trust: -trust.rank):
                if trust.rank > rank:
                    self._add_served(trust, rows, nearby)
            self._add_arriving(rank, rows, NEAREST, nearby, are_peers=False)
            self._add_arriving(rank, rows, NEAREST_PEERS, nearby, are_peers=True)
        return nearby

    def below(self, positions: Sequence[int]) -> dict[int, list[OtherChunk]]:
        """Return the served chunks of lower trust near each of some trusted chunks."""
        nearby: dict[int, list[OtherChunk]] = {position: [] for position in positions}
        for trust in TrustLevel:
            if trust is not TrustLevel.TRUSTED:
                self._add_served(trust, positions, nearby)
        return nearby

    def trusted_beside(self, positions: Set[int]) -> dict[int, list[OtherChunk]]:
        """Return the trusted chunks near each of some trusted chunks."""
        beside: dict[int, list[OtherChunk]] = {position: [] for position in sorted(positions)}
        if beside:
            self._add_served(TrustLevel.TRUSTED, list(beside), beside)
            self._add_arriving(TrustLevel.TRUSTED.rank, list(beside), NEAREST, beside, are_peers=True)
        return beside

    def _add_served(self, trust: TrustLevel, rows: Sequence[int], nearby: Mapping[int, list[OtherChunk]]) -> None:
        answers = self._served.near(trust, self._vectors[list(rows)], NEAREST)
        for position, answer in zip(rows, answers, strict=True):
            # The served version of an arriving document is about to be replaced: the new one is compared.
            nearby[position].extend(
                neighbour
                for neighbour in answer
                if neighbour.similarity >= NEAR_COSINE and neighbour.chunk.doc_id not in self._arriving
            )

    def _add_arriving(
        self, rank: int, rows: Sequence[int], count: int, nearby: Mapping[int, list[OtherChunk]], *, are_peers: bool
    ) -> None:
        columns, vectors = self._beside(rank, are_peers, int(self._cells.labels[rows[0]]))
        if not len(columns):
            return
        cosines = self._vectors[list(rows)] @ vectors.T
        cosines[self._documents[list(rows)][:, None] == self._documents[columns][None, :]] = -1.0
        for position, row, chosen in zip(rows, cosines, find_largest(cosines, count), strict=True):
            ordered = sorted((index for index in chosen.tolist() if row[index] >= NEAR_COSINE), key=lambda i: -row[i])
            nearby[position].extend(int(columns[index]) for index in ordered)

    def _arriving_beside(self, rank: int, are_peers: bool, cell: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Return the chunks of the run around a cell that have a trust level, or a higher one, and their vectors."""
        columns = self._cells.around(cell, np.flatnonzero(self._ranks == rank if are_peers else self._ranks > rank))
        is_whole = len(columns) == len(self._vectors)
        return columns, self._vectors if is_whole else self._vectors[columns]
