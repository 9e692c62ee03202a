"""Vectors of chunks, made once and kept in Parquet beside their texts, so that a collection can be rebuilt by copying."""

from __future__ import annotations

from collections.abc import Sequence

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import model_of, split, vectors_to_table
from corpus_guard.domain import digest
from corpus_guard.models import Models

AT_ONCE = 2_048  # chunks: long enough to sort by length, short enough for flat memory


def embed_chunks(storage: Storage, models: Models, folder: str, chunks: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Embed (chunk id, text) pairs, unless it was done before.

    Returns:
        The storage name of the vectors and the embedder's identity; two empty strings where there are no chunks.
    """
    if not chunks:
        return "", ""
    made_from = [str(models.embedder_weights), *(chunk for chunk, _ in chunks)]
    name = f"{folder}/vectors-{digest('vectors/v1', made_from)[:32]}.parquet"
    if storage.exists(name):
        return name, model_of(storage.read_table(name))
    import numpy as np

    embedder = models.embedder
    parts = [embedder.embed([text for _, text in part]) for part in split(chunks, AT_ONCE)]
    storage.write_table(name, vectors_to_table([chunk for chunk, _ in chunks], np.concatenate(parts), embedder.digest))
    return name, embedder.digest
