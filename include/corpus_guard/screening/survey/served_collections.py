"""Served chunks of every trust level, as those are compared with that arrive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.store import Store
from corpus_guard.domain import TrustLevel
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk, ServedChunk, document_title


class ServedCollections:
    """Served chunks of each trust level, with what is needed to find their sentences again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._existing = set(store.names())

    def near(self, trust: TrustLevel, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[ServedChunk]]:
        """Return the served chunks nearest to each vector."""
        collection = self._store.collection_name(trust)
        if collection not in self._existing:
            return [()] * len(vectors)
        return [
            [
                ServedChunk(_placed(chunk.chunk_id, chunk.metadata, trust), chunk.text, chunk.similarity)
                for chunk in nearest
            ]
            for nearest in self._store.nearest_chunks(collection, vectors, count)
        ]


def _placed(chunk_id: str, metadata: Mapping[str, str | int | float | bool], trust: TrustLevel) -> PlacedChunk:
    return PlacedChunk(
        str(metadata.get("doc_id", "")),
        str(metadata.get("version_id", "")),
        chunk_id,
        int(metadata.get("ordinal", 0)),
        int(metadata.get("start", 0)),
        trust,
        document_title(str(metadata.get("title", "")), str(metadata.get("uri", ""))),
    )
