"""Re-embedding: the vectors of served texts are computed again, and those that differ are replaced.

Rules
    * a vector is computed from the text as it was judged, and compared with the one that was published; another embedder's
      vectors are not compared, because they cannot agree;
    * one that differs is written to a new file, logged, and published through the outbox; the old file stays as evidence;
    * what the store holds is not looked at: `guard verify` compares it with what was published.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import sqlalchemy as sa

from corpus_guard.batches.logged_files import hash_files, log_files
from corpus_guard.batches.reading import read_checked_versions, read_vectors
from corpus_guard.batches.tables import SERVED_COLUMNS, in_batches
from corpus_guard.corpus import outbox
from corpus_guard.corpus.vectors import compute_vectors, set_apart, vectors_name
from corpus_guard.domain import JsonRecord, digest
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row, select_in_batches
from corpus_guard.ledger.states import PublicationState
from corpus_guard.ledger.tables import documents, publications, versions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from corpus_guard.batches import Storage
    from corpus_guard.corpus.store import Store
    from corpus_guard.ledger import Ledger
    from corpus_guard.models import Models

MIN_COSINE: Final = 0.9999  # between two computations of one vector: padding and the number format change it by less
DOCUMENTS_PER_BATCH: Final = 200


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
    storage.write_table(name, compute_vectors(models, wrong))
    ids = [chunk_id for chunk_id, _ in wrong]
    with ledger.write() as connection:
        log_files(connection, run_id, hash_files(storage, [name]))
        connection.execute(
            publications.update()
            .where(publications.c.chunk_id.in_(ids), publications.c.state == PublicationState.PUBLISHED)
            .values(vectors=name, state=PublicationState.PENDING, changed_at=now(), run_id=run_id)
        )
        append_event(connection, "re_embedded", vectors, run_id, chunks=ids, vectors=name)
    return ids


def _cosine(published: NDArray[np.float32] | None, computed: NDArray[np.float32]) -> float:
    if published is None or published.shape != computed.shape:
        return -1.0
    norms = float(np.linalg.norm(published) * np.linalg.norm(computed))
    return float(published @ computed) / norms if norms else -1.0
