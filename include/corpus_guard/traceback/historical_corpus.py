"""Historical corpus: what was published at an earlier moment, with the texts and vectors of that time.

Rules
    * the event log says what was served: every chunk that was published and not withdrawn by that moment, in
      the order of the log;
    * vectors come from the Parquet files that the publications name, texts from the batches, and a text
      counts only if it has the hash that the ledger stores for its chunk;
    * of chunks that a purge has erased since, only the number is known (`missing`);
    * one question is put to it: vectors are streamed, and only the texts that a trace can reach are read.

What it does not do: know what somebody wrote directly into Chroma, because the log does not record it. The
ids of the whole corpus are held in memory, some 200 bytes each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import read_versions
from corpus_guard.domain import sha256_text
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.tables import chunks, events, publications, purges, versions
from corpus_guard.models import TextEmbedder
from corpus_guard.traceback.loop import MAX_JUDGED_TEXTS
from corpus_guard.traceback.retrieval import InMemoryCorpus, RetrievedText

MAX_REACHABLE_TEXTS = MAX_JUDGED_TEXTS + 100
"""Nearest texts that a trace can request: all it may judge, and the largest K."""
EVENTS_PER_PAGE = 1_000  # held in memory at a time


@dataclass(frozen=True, slots=True)
class _PublishedChunk:
    """Chunk with the places of its text and vector."""

    chunk_id: str
    collection: str
    version_id: str
    vectors: str  # storage name of the file with its vector
    model: str  # that made the vector
    batch: str  # storage name of the file with its text
    text_sha256: str
    source: str
    uri: str


@dataclass(frozen=True, slots=True)
class _NearbyChunk:
    """Chunk among the nearest to the question."""

    chunk: _PublishedChunk
    similarity: float  # cosine, -1..1
    vector: NDArray[np.float32]


def corpus_as_of(
    ledger: Ledger, storage: Storage, embedder: TextEmbedder, when: datetime, query: str
) -> InMemoryCorpus:
    """Return what `query` could retrieve at `when`.

    Args:
        embedder: embeds the question; the one that made the vectors of that time.
        when: with its time zone.
        query: the question; for another one the corpus may lack texts that are far from this one.

    Raises:
        Misuse: `when` has no time zone or lies in the future, nothing was served then, or another embedder
            made the vectors of that time.
        Inconsistent: a file is gone, or does not hold what the ledger published.
    """
    if when.tzinfo is None or when > now():
        raise Misuse(f"as of {when.isoformat()}: expected a time in the past with its time zone")
    served = _served_chunks(ledger, when)
    if not served:
        raise Misuse(f"as of {when.isoformat()}: nothing was served then; {_first_publication(ledger)}")
    files, missing = _vector_files(ledger, served)
    nearest: list[_NearbyChunk] = []
    if files:
        question = embedder.embed([query])[0]
        for name in sorted(files):
            nearest = _keep_nearest([*nearest, *_nearest_in_file(storage, name, files[name], question)])
    texts = _read_texts(storage, nearest)
    vectors = np.array([near.vector for near in nearest], np.float32) if nearest else np.empty((0, 0), np.float32)
    return InMemoryCorpus(texts, vectors, embedder, missing)


def _served_chunks(ledger: Ledger, when: datetime) -> dict[str, str]:
    """Return the collection of each chunk that was served at `when`, according to the log."""
    statement = (
        sa.select(events.c.kind, events.c.subject, events.c.body)
        .where(events.c.kind.in_(("published", "unpublished")), events.c.at <= when)
        .order_by(events.c.seq)
        .execution_options(yield_per=EVENTS_PER_PAGE)
    )
    served: dict[str, set[str]] = {}
    with ledger.read() as connection:
        for row in connection.execute(statement):
            for chunk_id in row.body["chunks"]:
                if row.kind == "published":
                    served.setdefault(chunk_id, set()).add(row.subject)
                else:
                    served.get(chunk_id, set()).discard(row.subject)
    # While the trust level of its source changes, a chunk lies in two collections; it is one text all the same.
    return {chunk_id: max(collections) for chunk_id, collections in served.items() if collections}


def _first_publication(ledger: Ledger) -> str:
    """Return since when the log knows of served texts, in words."""
    first = ledger.scalar(sa.select(sa.func.min(events.c.at)).where(events.c.kind == "published"))
    return f"the first text was published at {first.isoformat()}" if first else "no text was ever published"


def _vector_files(ledger: Ledger, served: Mapping[str, str]) -> tuple[dict[str, dict[str, _PublishedChunk]], int]:
    """Return the chunks of each vector file by their ids, and how many chunks were erased since."""
    columns = (
        *publications.c["chunk_id", "collection", "version_id", "vectors", "model"],
        versions.c.batch,
        versions.c.stamp,
        chunks.c.text_sha256,
    )
    statement = (
        sa.select(*columns)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
    )
    files: dict[str, dict[str, _PublishedChunk]] = {}
    missing = 0
    with ledger.read() as connection:
        erased = {version_id for purged in connection.scalars(sa.select(purges.c.versions)) for version_id in purged}
        for row in select_in_batches(connection, statement, publications.c.chunk_id, served):
            if served[row.chunk_id] != row.collection:
                continue
            if row.version_id in erased:
                missing += 1
                continue
            files.setdefault(row.vectors, {})[row.chunk_id] = _PublishedChunk(
                chunk_id=row.chunk_id,
                collection=row.collection,
                version_id=row.version_id,
                vectors=row.vectors,
                model=row.model,
                batch=row.batch,
                text_sha256=row.text_sha256,
                source=str(row.stamp["source"]),
                uri=str(row.stamp["uri"]),
            )
    return files, missing


def _nearest_in_file(
    storage: Storage, name: str, published: Mapping[str, _PublishedChunk], question: NDArray[np.float32]
) -> Iterator[_NearbyChunk]:
    """Yield the chunks of one file that are nearest to the question."""
    import pyarrow.compute as pc

    table = storage.read_table(name)
    table = table.filter(pc.field("chunk_id").isin(list(published)))
    chunk_ids = table["chunk_id"].to_pylist()
    lost = set(published) - set(chunk_ids)
    if lost:
        raise Inconsistent(
            f"{storage.location(name)} lacks vectors of {len(lost):,} chunks that were published from it; "
            "restore the storage folder from a copy"
        )
    column = table["vector"].combine_chunks()
    if column.type.list_size != len(question):
        raise Misuse(
            f"{storage.location(name)} holds vectors of another embedder "
            f"({next(iter(published.values())).model}); set CORPUS_GUARD_EMBEDDER to that one"
        )
    vectors = np.asarray(column.flatten(), dtype="<f4").reshape(len(column), column.type.list_size)
    similarities = vectors @ question
    for index in np.argsort(-similarities, kind="stable")[:MAX_REACHABLE_TEXTS].tolist():
        yield _NearbyChunk(published[chunk_ids[index]], float(similarities[index]), vectors[index].copy())


def _keep_nearest(nearby: Iterable[_NearbyChunk]) -> list[_NearbyChunk]:
    return sorted(nearby, key=lambda near: (-near.similarity, near.chunk.chunk_id))[:MAX_REACHABLE_TEXTS]


def _read_texts(storage: Storage, nearest: Sequence[_NearbyChunk]) -> list[RetrievedText]:
    """Return the texts of chunks, in their order."""
    published = [near.chunk for near in nearest]
    texts = _texts_by_chunk(storage, published, lambda chunk: chunk.batch)
    # A version that came again may have been chunked anew into another batch; the earlier one lies beside its vectors.
    unread = [chunk for chunk in published if chunk.chunk_id not in texts]
    texts |= _texts_by_chunk(storage, unread, lambda chunk: f"{chunk.vectors.rpartition('/')[0]}/versions.parquet")
    lost = [chunk.chunk_id for chunk in published if chunk.chunk_id not in texts]
    if lost:
        raise Inconsistent(
            f"{len(lost):,} chunks that were served then are in no batch, first {lost[0]}; restore the "
            "storage folder from a copy"
        )
    return [
        RetrievedText(
            chunk_id=near.chunk.chunk_id,
            text=texts[near.chunk.chunk_id],
            similarity=near.similarity,
            vector=near.vector,
            collection=near.chunk.collection,
            version_id=near.chunk.version_id,
            source=near.chunk.source,
            uri=near.chunk.uri,
        )
        for near in nearest
    ]


def _texts_by_chunk(
    storage: Storage, published: Sequence[_PublishedChunk], batch_of: Callable[[_PublishedChunk], str]
) -> dict[str, str]:
    """Return the texts that the chunks' batches hold unchanged, by chunk id."""
    by_batch: dict[str, list[_PublishedChunk]] = {}
    for chunk in published:
        by_batch.setdefault(batch_of(chunk), []).append(chunk)
    texts: dict[str, str] = {}
    for batch, in_batch in sorted(by_batch.items()):
        if not storage.exists(batch):
            continue
        expected = {chunk.chunk_id: chunk.text_sha256 for chunk in in_batch}
        for version in read_versions(storage, batch, sorted({chunk.version_id for chunk in in_batch})):
            for chunk_text in version.chunks:
                if expected.get(chunk_text.chunk_id) == sha256_text(chunk_text.text):
                    texts[chunk_text.chunk_id] = chunk_text.text
    return texts
