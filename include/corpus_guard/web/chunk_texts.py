"""Texts of chunks, read from their batches, ready for a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import read_versions
from corpus_guard.domain import sha256_text
from corpus_guard.errors import GuardError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import chunks, versions
from corpus_guard.web.text_display import DisplayText, display_text

MAX_TEXT_BYTES: Final = 1_600
MAX_BYTES: Final = 90_000  # of all texts of a page


def load_chunk_texts(ledger: Ledger, storage: Storage, chunk_ids: Collection[str]) -> dict[str, DisplayText]:
    """Return texts by chunk id, of the chunks whose batch still holds the text that the ledger has the hash of."""
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
    texts: dict[str, DisplayText] = {}
    budget = MAX_BYTES
    for batch, version_ids in versions_by_batch.items():
        try:
            stored = read_versions(storage, batch, version_ids)
        except (GuardError, ValueError, OSError):  # purged meanwhile, or damaged: the page shows the hash alone
            continue
        for chunk in (chunk for version in stored for chunk in version.chunks):
            if hashes.get(chunk.chunk_id) == sha256_text(chunk.text) and budget > 0:
                texts[chunk.chunk_id] = display_text(chunk.text, max_bytes=min(MAX_TEXT_BYTES, budget))
                budget -= min(MAX_TEXT_BYTES, len(chunk.text))
    return texts
