"""Re-embedding: the vectors of served texts are computed again, and those that differ are replaced.

Rules
    * a vector is computed from the text as it was judged, and compared with the one that was published; another embedder's
      vectors are not compared, because they cannot agree;
    * one that differs is written to a new file, logged, and published through the outbox; the old file stays as evidence;
    * what the store holds is not looked at: `guard verify` compares it with what was published;
    * equal vectors that an older release published for equal chunks are moved apart as new ones are
      (`corpus_guard.corpus.vectors`), without a model. A few do no harm and stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import hash_files, log_files
from corpus_guard.batches.reading import read_checked_versions, read_vectors
from corpus_guard.batches.tables import SERVED_COLUMNS, in_batches, vectors_to_table
from corpus_guard.corpus import outbox
from corpus_guard.corpus.store import Store
from corpus_guard.corpus.vectors import compute_vectors, set_apart, vectors_name
from corpus_guard.domain import JsonRecord, digest
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import IDS_PER_STATEMENT, Row, select_in_batches
from corpus_guard.ledger.states import PublicationState
from corpus_guard.ledger.tables import documents, publications, versions
from corpus_guard.models import Models

MIN_COSINE: Final = 0.9999  # between two computations of one vector: padding and the number format change it by less
DOCUMENTS_PER_BATCH: Final = 200
MANY_EQUAL: Final = 100
"""Beside 120 equal vectors Chroma's search began to miss others, beside 400 it missed many (`corpus_guard.corpus.reach`)."""


@dataclass(frozen=True, slots=True)
class ReEmbedding(JsonRecord):
    """Result of a re-embedding."""

    compared: int  # chunks
    replaced: tuple[str, ...]  # ids of the chunks whose vector was not that of their text
    other_model: int  # chunks that another embedder made: not compared


def re_embed(
    ledger: Ledger, storage: Storage, store: Store, models: Models, doc_ids: Iterable[str], run_id: str
) -> ReEmbedding:
    """Compute the vectors of what these documents serve again, and replace those that differ.

    Killed anywhere, the same call completes the work: what is replaced waits in the outbox.

    Raises:
        BatchDamaged: a batch does not hold what was judged; nothing of it was compared.
        StoreUnavailable: the vector store does not answer.
    """
    compared, other_model = 0, 0
    replaced: list[str] = []
    for part in in_batches(sorted(set(doc_ids)), DOCUMENTS_PER_BATCH):
        by_file: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in _served_chunks(ledger, part):
            if row.model == models.embedder.digest:
                by_file[row.batch, row.vectors].append(row)
            else:
                other_model += 1
        for (batch, vectors), rows in by_file.items():
            compared += len(rows)
            replaced += _replace(ledger, storage, models, run_id, batch, vectors, rows)
    outbox.drain(ledger, storage, store, run_id)
    return ReEmbedding(compared, tuple(sorted(replaced)), other_model)


def _served_chunks(ledger: Ledger, doc_ids: Iterable[str]) -> list[Row]:
    statement = (
        sa.select(publications, versions.c.batch)
        .join(documents, documents.c.target_version == publications.c.version_id)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.state == PublicationState.PUBLISHED)
    )
    with ledger.read() as connection:
        return list(select_in_batches(connection, statement, publications.c.doc_id, doc_ids))


def _replace(
    ledger: Ledger, storage: Storage, models: Models, run_id: str, batch: str, vectors: str, rows: list[Row]
) -> list[str]:
    """Compare the vectors of one file; return the chunks whose vector was replaced."""
    stored = read_checked_versions(ledger, storage, batch, {row.version_id for row in rows}, SERVED_COLUMNS)
    texts = {chunk.chunk_id: chunk.text for version in stored for chunk in version.chunks}
    published = read_vectors(storage, vectors)
    chunks = [(row.chunk_id, texts[row.chunk_id]) for row in rows]
    computed = set_apart(models.embedder.embed([text for _, text in chunks]), [chunk_id for chunk_id, _ in chunks])
    wrong = [
        (chunk_id, text)
        for (chunk_id, text), vector in zip(chunks, computed, strict=True)
        if _cosine(published.get(chunk_id), vector) < MIN_COSINE
    ]
    if not wrong:
        return []
    folder = batch.rpartition("/")[0]
    # Another name than that of the file it replaces, which stays as evidence.
    name = f"{folder}/vectors-{digest('re-embedded/v1', [vectors, vectors_name(models, folder, wrong)])[:32]}.parquet"
    ids = [chunk_id for chunk_id, _ in wrong]
    _publish_again(ledger, storage, run_id, vectors, ids, name, compute_vectors(models, wrong))
    return ids


def count_equal_vectors(ledger: Ledger) -> int:
    """Return how many published chunks share their vector with so many others that searches miss what lies near them."""
    return ledger.scalar(sa.select(sa.func.count()).select_from(_equal_vectors().subquery())) or 0


def set_published_apart(ledger: Ledger, storage: Storage, store: Store, run_id: str) -> int:
    """Give each chunk that `count_equal_vectors` counts a vector of its own. Return how many got one.

    Killed anywhere, the same call completes the work.

    Raises:
        StoreUnavailable: the vector store does not answer.
    """
    with ledger.exclusive("publish"):  # nobody publishes a chunk between the mark and the deletion
        rows = ledger.rows(_equal_vectors())
        by_file: dict[str, list[Row]] = defaultdict(list)
        by_collection: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            by_file[row.vectors].append(row)
            by_collection[row.collection].append(row.chunk_id)
        for vectors, chunks in by_file.items():
            published = read_vectors(storage, vectors)
            ids = sorted({row.chunk_id for row in chunks})
            moved = set_apart(np.stack([published[chunk_id] for chunk_id in ids]), ids)
            name = f"{vectors.rpartition('/')[0]}/vectors-{digest('set-apart/v1', [vectors, *ids])[:32]}.parquet"
            _publish_again(ledger, storage, run_id, vectors, ids, name, vectors_to_table(ids, moved, chunks[0].model))
        # Hundreds written over their old entries damage the index of Chroma 1.5.9: in four of five trials with 420 of 1,800
        # records queries missed some afterwards, once 85 for good; deleted first, none in nine. The retriever withholds what is
        # to be replaced anyway.
        for collection, chunk_ids in by_collection.items():
            store.delete(collection, chunk_ids)
    outbox.drain(ledger, storage, store, run_id)
    return len(rows)


def _equal_vectors() -> sa.Select[Any]:
    """Return a SELECT of the publications of vectors that are published `MANY_EQUAL` times."""
    vector = publications.c["collection", "vector_sha256"]
    many = (
        sa.select(*vector)
        .where(publications.c.state == PublicationState.PUBLISHED)
        .group_by(*vector)
        .having(sa.func.count() >= MANY_EQUAL)
        .subquery()
    )
    same = sa.and_(*(many.c[column.name] == column for column in vector))
    return (
        sa.select(*publications.c["chunk_id", "collection", "vectors", "model"])
        .join(many, same)
        .where(publications.c.state == PublicationState.PUBLISHED)
    )


def _publish_again(
    ledger: Ledger, storage: Storage, run_id: str, vectors: str, ids: list[str], name: str, table: pa.Table
) -> None:
    """Write `table` to a new file `name`, and let the outbox publish these chunks with its vectors."""
    storage.write_table(name, table)
    with ledger.write() as connection:
        log_files(connection, run_id, hash_files(storage, [name]))
        for part in in_batches(ids, IDS_PER_STATEMENT):
            connection.execute(
                publications.update()
                .where(publications.c.chunk_id.in_(part), publications.c.state == PublicationState.PUBLISHED)
                .values(vectors=name, state=PublicationState.PENDING, changed_at=now(), run_id=run_id)
            )
        append_event(connection, "re_embedded", vectors, run_id, chunks=ids, vectors=name)


def _cosine(published: NDArray[np.float32] | None, computed: NDArray[np.float32]) -> float:
    if published is None or published.shape != computed.shape:
        return -1.0
    norms = float(np.linalg.norm(published) * np.linalg.norm(computed))
    return float(published @ computed) / norms if norms else -1.0
