"""Vectors of chunks, stored in Parquet beside the texts: a collection can be rebuilt without a model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import hash_files
from corpus_guard.batches.reading import read_checked_versions
from corpus_guard.batches.storage import FileDamaged, parquet_bytes
from corpus_guard.batches.tables import SERVED_COLUMNS, embedder_of, in_batches, vectors_to_table
from corpus_guard.domain import Progress, digest, no_progress
from corpus_guard.models import Models

if TYPE_CHECKING:
    import pyarrow as pa

    from corpus_guard.domain import Version
    from corpus_guard.ledger import Ledger

log = logging.getLogger(__name__)

CHUNKS_PER_BATCH = 2_048  # enough to sort by length, few enough for constant memory


def embed_chunks(
    storage: Storage, models: Models, folder: str, chunks: Sequence[tuple[str, str]], progress: Progress = no_progress
) -> tuple[str, str]:
    """Embed (chunk id, text) pairs, unless their vectors exist and can be read.

    Args:
        progress: called with (activity, chunks embedded, chunks in all) after each batch of the model.

    Returns:
        The storage name of the vectors and the embedder's identity; two empty strings where there are no
        chunks.
    """
    if not chunks:
        return "", ""
    name = vectors_name(models, folder, chunks)
    if storage.exists(name):
        try:
            return name, embedder_of(storage.read_table(name))
        except FileDamaged as error:
            log.warning("%s Its vectors are computed again", error)
            storage.write(name, parquet_bytes(compute_vectors(models, chunks, progress)))
    else:
        storage.write_table(name, compute_vectors(models, chunks, progress))
    return name, models.embedder.digest


def embed_stored(
    ledger: Ledger, storage: Storage, models: Models, batch: str, version_ids: Sequence[str]
) -> tuple[list[Version], str, str, dict[str, str]]:
    """Read versions of a batch, checked against the ledger, and embed their chunks.

    Returns:
        The versions, the two values of `embed_chunks`, and the hashes of the files that were written, by name.

    Raises:
        BatchDamaged: the batch does not hold what was judged; nothing was embedded.
    """
    stored = read_checked_versions(ledger, storage, batch, version_ids, SERVED_COLUMNS)
    chunks = [(chunk.chunk_id, chunk.text) for version in stored for chunk in version.chunks]
    vectors, model = embed_chunks(storage, models, batch.rpartition("/")[0], chunks)
    return stored, vectors, model, hash_files(storage, [vectors] if vectors else [])


def vectors_name(models: Models, folder: str, chunks: Sequence[tuple[str, str]]) -> str:
    """Return the storage name of the vectors of (chunk id, text) pairs: it covers the embedder, the chunks and their order."""
    parts = [str(models.embedder_weights), *(chunk_id for chunk_id, _ in chunks)]
    return f"{folder}/vectors-{digest('vectors/v1', parts)[:32]}.parquet"


def compute_vectors(models: Models, chunks: Sequence[tuple[str, str]], progress: Progress = no_progress) -> pa.Table:
    """Embed (chunk id, text) pairs, one or more; return a table with one row per chunk."""
    import numpy as np

    progress("loading the embedder", 0, len(chunks))
    embedder, done = models.embedder, 0

    def count(texts: int) -> None:
        nonlocal done
        done += texts
        progress("embedding chunks", done, len(chunks))

    embedder.on_batch = count
    try:
        vectors = [embedder.embed([text for _, text in batch]) for batch in in_batches(chunks, CHUNKS_PER_BATCH)]
    finally:
        embedder.on_batch = None
    return vectors_to_table([chunk_id for chunk_id, _ in chunks], np.concatenate(vectors), embedder.digest)
