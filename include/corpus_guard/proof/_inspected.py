"""The collections as somebody sees them who trusts nothing in them.

Facts this rests on (chromadb 1.5.9, each was measured)
    * a `get` fails as a whole where one of its records has no vector: such records are found by halving;
    * ids alone are answered from SQLite, whatever the vector index is worth;
    * a query answers what the index finds: what lies in it and cannot be reached is seen only by asking for it (#7678, #7758).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.store import MODEL_KEY, Record, Store
from corpus_guard.domain import TrustLevel
from corpus_guard.errors import StoreUnavailable

IDS = 5_000  # ids a request


@dataclass(frozen=True, slots=True)
class Terms:
    """How a collection compares, and what."""

    space: str
    model: str  # whose vectors it says it holds

    def __str__(self) -> str:
        return f"{self.space} over {self.model}"


class Inspected(Store):
    """A store that is only looked at."""

    def terms(self) -> Mapping[str, Terms]:
        """Every collection that is ours or looks like it, by name."""
        levels = "|".join(level.value for level in TrustLevel)
        # `corpus-b-open` belongs to the deployment whose prefix is `corpus-b`.
        others = re.compile(rf"{re.escape(self.prefix)}-.+-({levels})")
        with self._errors():
            return {
                collection.name: Terms(
                    str((collection.configuration.get("hnsw") or {}).get("space")),
                    str((collection.metadata or {}).get(MODEL_KEY)),
                )
                for collection in self._client.list_collections()
                if collection.name.startswith(f"{self.prefix}-") and not others.fullmatch(collection.name)
            }

    def ids(self, collection: str) -> Iterator[Sequence[str]]:
        """Every id, page by page."""
        offset = 0
        while True:
            with self._errors():
                page = self._existing(collection).get(limit=IDS, offset=offset, include=[])["ids"]
            yield page
            if len(page) < IDS:
                return
            offset += IDS

    def read(self, collection: str, chunk_ids: Sequence[str]) -> tuple[dict[str, Record], list[str]]:
        """The records that can be read, by id, and the ids of those that are there and cannot.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            return {record.chunk_id: record for record in self.get(collection, chunk_ids)}, []
        except StoreUnavailable as error:
            if not _refused(error) or not self.count(collection):
                raise
        if len(chunk_ids) == 1:
            return {}, list(chunk_ids)
        middle = len(chunk_ids) // 2
        left, broken = self.read(collection, chunk_ids[:middle])
        right, more = self.read(collection, chunk_ids[middle:])
        return left | right, broken + more

    def nearest(self, collection: str, vectors: NDArray[np.float32], count: int) -> list[list[tuple[str, float]]]:
        """(id, distance) of the `count` nearest records to each vector, nearest first; none where the index is too damaged to answer.

        Raises:
            StoreUnavailable: the server does not answer.
        """
        try:
            with self._errors():
                answer = self._existing(collection).query(
                    query_embeddings=list(vectors), n_results=count, include=["distances"]
                )
        except StoreUnavailable as error:
            if not _refused(error) or not self.count(collection):
                raise
            return [[] for _ in vectors]
        return [
            list(zip(ids, map(float, distances), strict=True))
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]


def _refused(error: BaseException) -> bool:
    from chromadb.errors import ChromaError

    cause: Any = error.__cause__
    return isinstance(cause, ChromaError)
