"""Vectors of chunks, stored in Parquet beside the texts: a collection can be rebuilt without a model."""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import embedder_of, in_batches, vectors_to_table
from corpus_guard.domain import digest
from corpus_guard.models import Models

CHUNKS_PER_BATCH = 2_048  # enough to sort by length, few enough for constant memory


def embed_chunks(storage: Storage, models: Models, folder: str, chunks: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Embed (chunk id, text) pairs, unless their vectors exist.

    Returns:
        The storage name of the vectors and the embedder's identity; two empty strings where there are no
        chunks.
    """
    if not chunks:
        return "", ""
    chunk_ids = [chunk_id for chunk_id, _ in chunks]
    name = f"{folder}/vectors-{digest('vectors/v1', [str(models.embedder_weights), *chunk_ids])[:32]}.parquet"
    if storage.exists(name):
        return name, embedder_of(storage.read_table(name))
    import numpy as np

    embedder = models.embedder
    vectors = [embedder.embed([text for _, text in batch]) for batch in in_batches(chunks, CHUNKS_PER_BATCH)]
    storage.write_table(name, vectors_to_table(chunk_ids, np.concatenate(vectors), embedder.digest))
    return name, embedder.digest
