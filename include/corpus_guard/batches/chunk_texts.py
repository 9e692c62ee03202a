"""Texts of chunks, read back from their batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import sqlalchemy as sa

from corpus_guard.batches.storage import Storage
from corpus_guard.batches.tables import read_versions
from corpus_guard.domain import sha256_text
from corpus_guard.errors import GuardError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import chunks, versions


def read_chunk_texts(ledger: Ledger, storage: Storage, chunk_ids: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield id and text of the chunks whose batch still holds the text that the ledger has the hash of."""
    statement = (
        sa.select(chunks.c.chunk_id, chunks.c.text_sha256, versions.c.version_id, versions.c.batch)
        .join(versions, versions.c.version_id == chunks.c.version_id)
        .where(chunks.c.chunk_id.in_(list(chunk_ids)))
    )
    hashes: dict[str, str] = {}
    versions_by_batch: dict[str, set[str]] = defaultdict(set)
    with ledger.read() as connection:
        for row in connection.execute(statement):
            hashes[row.chunk_id] = row.text_sha256
            versions_by_batch[row.batch].add(row.version_id)
    for batch, version_ids in versions_by_batch.items():
        try:
            stored = read_versions(storage, batch, version_ids)
        except (GuardError, ValueError, OSError):  # purged meanwhile, or damaged: the hash alone is known
            continue
        for chunk in (chunk for version in stored for chunk in version.chunks):
            if hashes.get(chunk.chunk_id) == sha256_text(chunk.text):
                yield chunk.chunk_id, chunk.text
