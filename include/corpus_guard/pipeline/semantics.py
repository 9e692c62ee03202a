"""Comparison of a run's new chunks by their vectors: which agree with each other, and which questions they answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import orjson
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import vectors_from_table
from corpus_guard.corpus.heading_questions import TrustedVersion
from corpus_guard.corpus.query_bank import QueryBank
from corpus_guard.corpus.store import VECTORS_PER_QUERY, Store
from corpus_guard.domain import TrustLevel
from corpus_guard.ledger import Ledger
from corpus_guard.models import Models
from corpus_guard.models.chat_cache import LedgerAnswerCache
from corpus_guard.screening.checks.conflict import Conflict
from corpus_guard.screening.checks.coordination import Coordination
from corpus_guard.screening.checks.hubness import Hubness
from corpus_guard.screening.runner import Screening
from corpus_guard.screening.survey import semantics as semantic
from corpus_guard.screening.survey.agreement import Passage, passage_origin
from corpus_guard.screening.survey.hub_reach import measure_hub_reach
from corpus_guard.screening.survey.nearby_chunks import PlacedChunk, document_title
from corpus_guard.screening.survey.opposed_groups import find_opposed_groups
from corpus_guard.screening.survey.semantics import Semantics
from corpus_guard.screening.survey.served_collections import ServedCollections
from corpus_guard.screening.survey.statement_search import find_related_statements
from corpus_guard.screening.wording import load_wording

MIN_BACKGROUND_CHUNKS = 1_000  # at least so many chunks to compare with, if so many are served
NEAREST_SERVED = 24  # served chunks compared with each new one


def compare_chunks(
    ledger: Ledger,
    storage: Storage,
    store: Store,
    models: Models,
    screening: Screening,
    shards: Iterable[tuple[str, str]],
) -> Semantics:
    """Compare the chunks of all shards.

    Args:
        shards: (folder of the batch, storage name of its vectors).
    """
    chunks = _read_chunks(storage, shards)
    if not chunks.passages:
        return Semantics()
    background = _background(store, chunks.passages)
    passages = [*chunks.passages, *(passage for passage, _ in background)]
    vectors = np.stack([*chunks.vectors, *(vector for _, vector in background)])
    own_vectors = vectors[: len(chunks.placed)]
    coordination = screening.check(Coordination.name)
    wording = load_wording(models.frequency_vocabulary)
    served = _OpenCollection(store, store.collection_name(TrustLevel.OPEN))
    bank = QueryBank.load(ledger, storage, models, arriving=chunks.trusted)
    semantics = semantic.survey_semantics(
        passages,
        vectors,
        chunks.texts,
        vocabulary=models.frequency_vocabulary,
        grouping=coordination.grouping if isinstance(coordination, Coordination) else None,
        bank=bank,
        served=served,
    )
    if screening.check(Hubness.name) is not None:
        groups = [bank.vectors[: bank.asked_count], bank.vectors[bank.asked_count :]]
        hubness = measure_hub_reach(chunks.placed, own_vectors, groups, _Results(store))
        semantics = replace(semantics, hubness=hubness)
    conflict = screening.check(Conflict.name)
    if not isinstance(conflict, Conflict):
        return semantics
    related = find_related_statements(
        chunks.placed,
        own_vectors,
        chunks.texts,
        ServedCollections(store),
        wording.rarity,
        conflict.params.comparisons,
        conflict.likely(models, LedgerAnswerCache(ledger)),
    )
    semantics = replace(
        semantics, related=related.statements, not_compared=related.not_compared, contradicted=related.contradicted
    )
    if isinstance(coordination, Coordination):
        opposed = find_opposed_groups(
            passages, chunks.placed, vectors, chunks.texts, wording, related.statements, served
        )
        semantics = semantics.with_agreements(opposed)
    return semantics


@dataclass(frozen=True, slots=True)
class _NewChunks:
    """New chunks of a run: the same place of each list is about one chunk, but for `trusted`, which are versions."""

    storage: Storage
    passages: list[Passage] = field(default_factory=list)
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    placed: list[PlacedChunk] = field(default_factory=list)
    places: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Batch, row of the version there, start and end in its text."""
    trusted: list[TrustedVersion] = field(default_factory=list)

    def texts(self, positions: Sequence[int]) -> list[str]:
        """Return the texts of some chunks; each batch is read once."""
        by_position: dict[int, str] = {}
        by_folder: dict[str, list[int]] = {}
        for position in positions:
            by_folder.setdefault(self.places[position][0], []).append(position)
        for folder, own in by_folder.items():
            stored = self.storage.read_table(f"{folder}/versions.parquet", columns=["text"])["text"]
            whole = {row: stored[row].as_py() for row in {self.places[position][1] for position in own}}
            for position in own:
                _, row, start, end = self.places[position]
                by_position[position] = whole[row][start:end]
        return [by_position[position] for position in positions]


def _read_chunks(storage: Storage, shards: Iterable[tuple[str, str]]) -> _NewChunks:
    """Return the chunks of all shards that have vectors."""
    chunks = _NewChunks(storage)
    for folder, name in shards:
        if not name:
            continue
        by_chunk = vectors_from_table(storage.read_table(name))
        table = storage.read_table(f"{folder}/versions.parquet", columns=["version_id", "doc_id", "stamp", "chunks"])
        for position, row in enumerate(table.to_pylist()):
            doc_id, version_id = row["doc_id"], row["version_id"]
            stamp = orjson.loads(row["stamp"])
            trust, title = TrustLevel(stamp["trust"]), document_title(stamp["declared"].get("title", ""), stamp["uri"])
            origin, is_open = passage_origin(stamp["source"], stamp["uri"]), trust is TrustLevel.OPEN
            if trust is TrustLevel.TRUSTED:
                chunks.trusted.append(TrustedVersion(doc_id, version_id, f"{folder}/versions.parquet"))
            for ordinal, chunk in enumerate(row["chunks"]):
                chunk_id, start = chunk["chunk_id"], chunk["start"]
                chunks.passages.append(Passage(version_id, doc_id, ordinal, open=is_open, origin=origin))
                chunks.vectors.append(by_chunk[chunk_id])
                chunks.places.append((folder, position, start, chunk["end"]))
                chunks.placed.append(PlacedChunk(doc_id, version_id, chunk_id, ordinal, start, trust, title))
    return chunks


def _background(store: Store, arriving: Sequence[Passage]) -> list[tuple[Passage, NDArray[np.float32]]]:
    """Return served chunks with their vectors where few are new: a group must stand out from them, and they never join one."""
    documents = {passage.doc_id for passage in arriving}
    existing = set(store.names())
    background: list[tuple[Passage, NDArray[np.float32]]] = []
    for trust in TrustLevel:
        collection = store.collection_name(trust)
        missing = MIN_BACKGROUND_CHUNKS - len(arriving) - len(background)
        if missing > 0 and collection in existing:
            background += [
                (Passage("", document, 0, open=False), vector)
                for document, vector in store.sample_vectors(collection, missing)
                if document not in documents
            ]
    return background


class _OpenCollection:
    """Served chunks of open sources: a poisoned answer may arrive one text a day."""

    def __init__(self, store: Store, collection: str) -> None:
        self._store = store
        self._collection = collection if collection in store.names() else None

    def near(self, vectors: NDArray[np.float32]) -> Sequence[Sequence[tuple[str, str, float]]]:
        """Return (document id, text, cosine) of the served chunks nearest to each vector."""
        if self._collection is None:
            return [()] * len(vectors)
        return self._store.nearest_texts(self._collection, vectors, NEAREST_SERVED)


class _Results:
    """First results over all collections: who asks may be served from each."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def count(self) -> int:
        """Return how many chunks are served."""
        return sum(self._store.count(collection) for collection in self._store.names())

    def ids(self) -> set[str]:
        """Return the ids of all served chunks."""
        pages = (page for collection in self._store.names() for page in self._store.ids(collection))
        return {chunk_id for page in pages for chunk_id in page}

    def first(self, vectors: NDArray[np.float32], count: int) -> Sequence[Sequence[tuple[str, float]]]:
        """Return (chunk id, cosine) of the nearest chunks to each vector."""
        results: list[list[tuple[str, float]]] = [[] for _ in vectors]
        for collection in self._store.names():
            for start in range(0, len(vectors), VECTORS_PER_QUERY):
                answers = self._store.nearest_ids(collection, vectors[start : start + VECTORS_PER_QUERY], count)
                for candidates, nearest in zip(results[start:], answers, strict=False):
                    candidates += [(chunk_id, 1.0 - distance) for chunk_id, distance in nearest]
        return [sorted(candidates, key=lambda result: -result[1])[:count] for candidates in results]
