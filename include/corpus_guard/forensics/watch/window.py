"""Retrievals as arrays: what the detectors look at, whether it comes from the log or from a generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.sketches import unpack_sketches

DAY = 86_400.0  # seconds
MIN_QUESTIONS_PER_CLUSTER = 20
MAX_CLUSTERS = 64
MAX_FITTED = 10_000  # sketches from which clusters are made; the others are assigned to them
UNKNOWN = -1  # a cluster, an asker or a document that is not known

Integers = NDArray[np.int32]
Seconds = NDArray[np.float64]  # since 1970


@dataclass(frozen=True, slots=True)
class RetrievalWindow:
    """Retrievals of some weeks. Indexes count from 0; `UNKNOWN` stands for what is not known."""

    at: Seconds  # of each retrieval, ascending
    asker: Integers  # of each retrieval: its user, else its session, else its question
    question: Integers  # of each retrieval
    cluster: Integers  # of each question
    hit_retrieval: Integers  # of each served chunk, ascending
    hit_chunk: Integers  # of each served chunk
    chunk_document: Integers  # of each chunk; UNKNOWN: the ledger never published it
    entered: Seconds  # of each document: when the corpus first took it in
    changed: Seconds  # of each document: when the text that it serves was first fetched; 0: nothing is served
    leaves: NDArray[np.bool_]  # of each document: it is not served any more
    chunk_ids: Sequence[str]
    documents: Sequence[str]  # ids
    unnamed: int = 0  # retrievals that name neither user nor session

    def until(self, moment: float) -> RetrievalWindow:
        """Return the retrievals before `moment`."""
        return self._between(0, int(np.searchsorted(self.at, moment)))

    def since(self, moment: float) -> RetrievalWindow:
        """Return the retrievals from `moment` on."""
        return self._between(int(np.searchsorted(self.at, moment)), len(self.at))

    @property
    def hit_document(self) -> Integers:
        """Document of each served chunk."""
        return self.chunk_document[self.hit_chunk]

    @property
    def hit_asker(self) -> Integers:
        """Asker of each served chunk."""
        return self.asker[self.hit_retrieval]

    @property
    def hit_cluster(self) -> Integers:
        """Question cluster of each served chunk."""
        return self.cluster[self.question[self.hit_retrieval]]

    def select(self, hits: NDArray[np.bool_]) -> RetrievalWindow:
        """Return the window with some of its served chunks."""
        return self._with_hits(self.hit_retrieval[hits], self.hit_chunk[hits])

    def _between(self, first: int, last: int) -> RetrievalWindow:
        low, high = np.searchsorted(self.hit_retrieval, [first, last])
        cut = self._with_hits(self.hit_retrieval[low:high] - np.int32(first), self.hit_chunk[low:high])
        return replace(cut, at=self.at[first:last], asker=self.asker[first:last], question=self.question[first:last])

    def _with_hits(self, retrieval: Integers, chunk: Integers) -> RetrievalWindow:
        return replace(self, hit_retrieval=retrieval, hit_chunk=chunk)


def cluster_questions(sketches: Sequence[str | None]) -> Integers:
    """Return the cluster of each question; UNKNOWN where there is no sketch, or too few to make clusters."""
    from sklearn.cluster import MiniBatchKMeans  # a second to import

    clusters = np.full(len(sketches), UNKNOWN, np.int32)
    present = [(number, sketch) for number, sketch in enumerate(sketches) if sketch]
    count = min(MAX_CLUSTERS, len(present) // MIN_QUESTIONS_PER_CLUSTER)
    if count < 2:
        return clusters
    signs = unpack_sketches([sketch for _, sketch in present])
    step = max(1, len(present) // MAX_FITTED)
    model = MiniBatchKMeans(count, random_state=0, n_init=1, batch_size=2_048, max_iter=20).fit(signs[::step])
    clusters[[number for number, _ in present]] = model.predict(signs)
    return clusters
