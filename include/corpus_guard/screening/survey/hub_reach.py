"""Hubness of arriving chunks: for how many questions each would be among the first results, were it published.

A hub is a text that is retrieved for everything. It is recognised before anybody can retrieve it: sentinel questions
are put to the chunks that are there, and an arriving chunk is a result where it lies nearer than the tenth of them.

Rules
- Sentinels are questions of the bank. Those that people asked and those made from the headings of trusted documents
  are two groups, and the group in which a chunk stands out more counts: who asks thousands of questions can dilute the
  first group, not the second. Of each group the first `MAX_SENTINELS` count, and fewer than `MIN_SENTINELS` are none.
- The results are those of the served chunks. Where fewer than `MIN_SERVED` are served, the run's own chunks are
  results too, so that a first load can be judged; a flood of equal hubs then shares the places.
- What is usual is taken from the same chunks: the share that one in a hundred of them reaches. There are natural hubs
  (glossaries, lists of contents), and a small corpus has more.

What it cannot see: a text made for one question, or for few.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corpus_guard.screening.survey.cells import find_largest
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk

FIRST_RESULTS: Final = 10
MAX_SENTINELS: Final = 2_000  # of each group; each 500 take 0.15 s from a collection of 10,000 chunks
MIN_SENTINELS: Final = 50  # of each group: of fewer, one is too large a share
MIN_SERVED: Final = 1_000  # served chunks from which the run's own are no results
MIN_CHUNKS: Final = 300  # served and arriving; among fewer everything is a hub
USUAL_QUANTILE: Final = 0.99
ROUNDING: Final = 1e-6  # of a cosine: the tenth result itself is a result
_QUESTIONS_PER_BLOCK: Final = 64  # 64 x 100,000 cosines are 26 MB
_CHUNKS_PER_BLOCK: Final = 2_000  # 2,000 x 2,000 cosines are 16 MB


@dataclass(frozen=True, slots=True)
class HubReach:
    """Share of questions that a chunk would be a result for, in the group of questions where it stands out most."""

    share: float  # of the questions, 0..1
    usual: float  # share that one in a hundred of the other chunks reaches, above 0
    ordinal: int = 0  # of the chunk in its version


class ServedResults(Protocol):
    """First results of a search over everything that is served."""

    def count(self) -> int:
        """Return how many chunks are served."""

    def ids(self) -> Collection[str]:
        """Return their ids; called only where they are fewer than `MIN_SERVED`."""

    def first(self, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[tuple[str, float]]]:
        """Return (chunk id, cosine) of the `count` served chunks nearest to each vector, nearest first; fewer if there are fewer."""


class NothingToSearch:
    """An empty store."""

    def count(self) -> int:
        """Return 0."""
        return 0

    def ids(self) -> Collection[str]:
        """Return no ids."""
        return ()

    def first(self, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[tuple[str, float]]]:
        """Return no results."""
        return [()] * len(vectors)


def measure_hub_reach(
    placed: Sequence[PlacedChunk],
    vectors: NDArray[np.float32],
    sentinels: Sequence[NDArray[np.float32]],
    served: ServedResults,
) -> dict[str, HubReach] | None:
    """Return, by version, the reach of the chunk that stands out most; versions that are no result are left out.

    Args:
        vectors: their unit vectors, shape (chunks, dimensions).
        sentinels: unit vectors of each group of questions, those most worth asking first.

    Returns:
        None where there is too little to compare with.
    """
    scale = HubScale.make(sentinels, served, [chunk.chunk_id for chunk in placed], vectors)
    if scale is None:
        return None
    widest: dict[str, HubReach] = {}
    for chunk, reach in zip(placed, scale.measure(vectors), strict=True):
        previous = widest.get(chunk.version_id)
        if reach.share and (previous is None or reach.share / reach.usual > previous.share / previous.usual):
            widest[chunk.version_id] = replace(reach, ordinal=chunk.ordinal)
    return widest


@dataclass(frozen=True, slots=True)
class _Group:
    """Sentinels, and what their first results tell."""

    questions: NDArray[np.float32]  # unit vectors
    last: NDArray[np.float64]  # cosine of each question's tenth result; -1 where there are fewer
    usual: float  # share of the questions


class HubScale:
    """Scale for the reach of an arriving chunk, made from the chunks that are there."""

    def __init__(self, groups: Sequence[_Group]) -> None:
        """Use `make`."""
        self._groups = groups

    @classmethod
    def make(
        cls,
        sentinels: Sequence[NDArray[np.float32]],
        served: ServedResults,
        chunk_ids: Sequence[str] = (),
        arriving: NDArray[np.float32] | None = None,
    ) -> HubScale | None:
        """Return the scale; None where there is too little to compare with.

        Args:
            sentinels: unit vectors of each group of questions, those most worth asking first.
            arriving: their unit vectors.
        """
        chunks, run = served.count(), _Run({}, np.empty((0, 0), np.float32))
        if chunks < MIN_SERVED and arriving is not None and len(arriving):
            run = _Run({chunk_id: position for position, chunk_id in enumerate(chunk_ids)}, arriving)
            chunks = len(run.positions.keys() | set(served.ids()))
        large = [group[:MAX_SENTINELS] for group in sentinels if len(group) >= MIN_SENTINELS]
        if chunks < MIN_CHUNKS or not large:
            return None
        return cls([_search(group, served, run, chunks) for group in large])

    def measure(self, vectors: NDArray[np.float32]) -> list[HubReach]:
        """Return the reach of each chunk, by its unit vector."""
        reaches: list[HubReach] = []
        for start in range(0, len(vectors), _CHUNKS_PER_BLOCK):
            block = vectors[start : start + _CHUNKS_PER_BLOCK]
            shares = [(block @ group.questions.T >= group.last - ROUNDING).mean(axis=1) for group in self._groups]
            for of_chunk in zip(*shares, strict=True):
                candidates = zip(of_chunk, (group.usual for group in self._groups), strict=True)
                share, usual = max(candidates, key=lambda pair: pair[0] / pair[1])
                reaches.append(HubReach(round(float(share), 4), round(usual, 4)))
        return reaches


@dataclass(frozen=True, slots=True)
class _Run:
    """Arriving chunks that count as results."""

    positions: dict[str, int]  # by chunk id
    vectors: NDArray[np.float32]


def _search(questions: NDArray[np.float32], served: ServedResults, run: _Run, chunks: int) -> _Group:
    """Return a group with the first results of its questions among served and arriving chunks, `chunks` in all."""
    last, counts = [], Counter[str]()
    own = _nearest_of_run(questions, run)
    for nearest, arriving in zip(served.first(questions, FIRST_RESULTS), own, strict=True):
        # A run surveyed again may be served already.
        results = [each for each in nearest if each[0] not in run.positions]
        results = sorted([*results, *arriving], key=lambda result: -result[1])[:FIRST_RESULTS]
        last.append(results[-1][1] if len(results) == FIRST_RESULTS else -1.0)
        counts.update(chunk_id for chunk_id, _ in results)
    # Most chunks are no result of any question: they are counted, not listed.
    times = [0] * max(0, chunks - len(counts)) + sorted(counts.values())
    usual = max(1, times[int(USUAL_QUANTILE * (len(times) - 1))])
    return _Group(questions, np.array(last), usual / len(questions))


def _nearest_of_run(questions: NDArray[np.float32], run: _Run) -> Iterator[list[tuple[str, float]]]:
    """Yield (chunk id, cosine) of the arriving chunks nearest to each question, in no order."""
    ids = list(run.positions)
    if not ids:
        yield from ([] for _ in questions)
        return
    for start in range(0, len(questions), _QUESTIONS_PER_BLOCK):
        cosines = questions[start : start + _QUESTIONS_PER_BLOCK] @ run.vectors.T
        for row, positions in zip(cosines, find_largest(cosines, FIRST_RESULTS).tolist(), strict=True):
            yield [(ids[position], float(row[position])) for position in positions]
