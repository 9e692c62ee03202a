"""The vectors of a run's new chunks, brought together: who agrees with whom, and what questions lie near."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.batches.tables import vectors_from_table, versions_from_table
from corpus_guard.corpus.query_bank import QueryBank
from corpus_guard.corpus.store import Store
from corpus_guard.domain import TrustLevel
from corpus_guard.guard import Guard
from corpus_guard.screening import semantic
from corpus_guard.screening.coordination import Coordination
from corpus_guard.screening.semantic import Passage, Semantics

BACKGROUND = 1_000  # chunks that new ones are seen against, at least, where so many are served
FIRST = 24  # nearest served chunks asked for a new one: its voices, and whom it is linked to


def semantics(guard: Guard, shards: Iterable[tuple[str, str]]) -> Semantics:
    """Read what the shards' chunks say together.

    Args:
        guard: the deployment.
        shards: (folder of the batch, storage name of its vectors).
    """
    passages: list[Passage] = []
    vectors: list[NDArray[np.float32]] = []
    places: list[tuple[str, int]] = []  # of each passage: batch, position of its version there
    for folder, name in shards:
        if not name:
            continue
        known = vectors_from_table(guard.storage.read_table(name))
        table = guard.storage.read_table(
            f"{folder}/versions.parquet", columns=["version_id", "doc_id", "stamp", "chunks"]
        )
        for position, row in enumerate(table.to_pylist()):
            is_open = orjson.loads(row["stamp"])["trust"] == TrustLevel.OPEN
            for ordinal, chunk in enumerate(row["chunks"]):
                passages.append(Passage(row["version_id"], row["doc_id"], ordinal, is_open))
                vectors.append(known[chunk["chunk_id"]])
                places.append((folder, position))
    if not passages:
        return Semantics()
    _fill_up(guard, passages, vectors)

    def texts(positions: Sequence[int]) -> list[str]:
        found: dict[int, str] = {}
        for folder in dict.fromkeys(places[position][0] for position in positions):
            stored = versions_from_table(guard.storage.read_table(f"{folder}/versions.parquet"))
            found |= {
                position: stored[places[position][1]].chunks[passages[position].ordinal].text
                for position in positions
                if places[position][0] == folder
            }
        return [found[position] for position in positions]

    coordination = guard.screening.check(Coordination.name)
    return semantic.read(
        passages,
        np.stack(vectors),
        texts,
        vocabulary=guard.models.frequency_vocabulary,
        grouping=coordination.grouping if isinstance(coordination, Coordination) else None,
        bank=QueryBank.load(guard.ledger, guard.storage, guard.models),
        served=_OpenCollection(guard.store, guard.collection(TrustLevel.OPEN)),
    )


def _fill_up(guard: Guard, passages: list[Passage], vectors: list[NDArray[np.float32]]) -> None:
    """On a quiet day what is served makes up the background that a group must stand out from; it is never a member."""
    arriving = {passage.doc_id for passage in passages}
    existing = set(guard.store.names())
    for trust in TrustLevel:
        collection = guard.collection(trust)
        missing = BACKGROUND - len(passages)
        if missing > 0 and collection in existing:
            for document, vector in guard.store.sample(collection, missing):
                if document not in arriving:
                    passages.append(Passage("", document, 0, open=False))
                    vectors.append(vector)


class _OpenCollection:
    """The chunks of open sources that are served: a poisoned answer may come a text a day."""

    def __init__(self, store: Store, collection: str) -> None:
        self._store = store
        self._collection = collection if collection in store.names() else None

    def near(self, vectors: NDArray[np.float32]) -> Sequence[Sequence[tuple[str, str, float]]]:
        """(document id, text, cosine) of the nearest to each vector."""
        if self._collection is None:
            return [()] * len(vectors)
        return self._store.near(self._collection, vectors, FIRST)
