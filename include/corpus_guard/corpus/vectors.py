"""Vectors of chunks, stored in Parquet beside the texts: a collection can be rebuilt without a model.

Rules
    * vectors are used again only from a file whose hash a run has logged: they decide what a question finds;
    * no two chunks have the same vector: each is moved a little in a direction that its id chooses. Hundreds of
      equal ones, as a footer on each page makes them, hide others from a search through a graph of neighbours.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from hashlib import shake_256
from typing import Final

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.logged_files import hash_files, logged_hashes, verified_hash
from corpus_guard.batches.reading import read_checked_versions
from corpus_guard.batches.storage import FileDamaged, parquet_bytes
from corpus_guard.batches.tables import SERVED_COLUMNS, embedder_of, in_batches, vectors_to_table
from corpus_guard.domain import Progress, Version, digest, no_progress
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import publications
from corpus_guard.models import Models

log = logging.getLogger(__name__)

CHUNKS_PER_BATCH = 2_048  # enough to sort by length, few enough for constant memory
DISPLACEMENT: Final = 0.005
"""Length by which the unit vector of a chunk is moved: less than bfloat16 changes it (cosine 0.99999), and equal texts are
farther apart than `reach.DISTANCE_TOLERANCE`."""


def embed_chunks(
    ledger: Ledger,
    storage: Storage,
    models: Models,
    folder: str,
    chunks: Sequence[tuple[str, str]],
    progress: Progress = no_progress,
) -> tuple[str, str]:
    """Embed (chunk id, text) pairs, unless their vectors exist as a run recorded them.

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
        if _is_recorded(ledger, storage, name):
            with contextlib.suppress(FileDamaged):
                return name, embedder_of(storage.read_table(name))
        log.warning(
            "%s: no run recorded these vectors, or they changed since. They are computed again", storage.location(name)
        )
    storage.write(name, parquet_bytes(compute_vectors(models, chunks, progress)))
    return name, models.embedder.digest


def _is_recorded(ledger: Ledger, storage: Storage, name: str) -> bool:
    """Return whether a file of vectors is as logged; releases that logged no hashes at least published chunks with it."""
    published = sa.select(sa.exists().where(publications.c.vectors == name))
    with ledger.read() as connection:
        if name in logged_hashes(connection, name.rpartition("/")[0]):
            return verified_hash(connection, storage, name) is not None
        return bool(connection.scalar(published))


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
    vectors, model = embed_chunks(ledger, storage, models, batch.rpartition("/")[0], chunks)
    return stored, vectors, model, hash_files(storage, [vectors] if vectors else [])


def vectors_name(models: Models, folder: str, chunks: Sequence[tuple[str, str]]) -> str:
    """Return the storage name of the vectors of (chunk id, text) pairs: it covers the embedder, the chunks and their order."""
    parts = [str(models.embedder_weights), *(chunk_id for chunk_id, _ in chunks)]
    return f"{folder}/vectors-{digest('vectors/v1', parts)[:32]}.parquet"


def compute_vectors(models: Models, chunks: Sequence[tuple[str, str]], progress: Progress = no_progress) -> pa.Table:
    """Embed (chunk id, text) pairs, one or more; return a table with one row per chunk."""
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
    chunk_ids = [chunk_id for chunk_id, _ in chunks]
    return vectors_to_table(chunk_ids, set_apart(np.concatenate(vectors), chunk_ids), embedder.digest)


def set_apart(vectors: NDArray[np.float32], chunk_ids: Sequence[str]) -> NDArray[np.float32]:
    """Return unit vectors (chunks × dimensions), each moved by `DISPLACEMENT` in the direction that its chunk's id chooses."""
    dimensions = vectors.shape[1]
    bytes_of_ids = b"".join(shake_256(chunk_id.encode()).digest(dimensions) for chunk_id in chunk_ids)
    directions = np.frombuffer(bytes_of_ids, np.uint8).reshape(-1, dimensions).astype(np.float32) - np.float32(127.5)
    return _unit(vectors + np.float32(DISPLACEMENT) * _unit(directions))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / lengths
