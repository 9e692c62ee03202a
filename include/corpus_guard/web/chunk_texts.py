"""Texts of chunks, ready for a page."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from corpus_guard.batches import Storage
from corpus_guard.batches.reading import read_chunk_texts
from corpus_guard.domain import Span
from corpus_guard.ledger import Ledger
from corpus_guard.web.text_display import DisplayText, display_text

MAX_TEXT_BYTES: Final = 1_600
MAX_BYTES: Final = 90_000  # of all texts of a page


def load_chunk_texts(
    ledger: Ledger, storage: Storage, chunk_ids: Collection[str], marks: Mapping[str, Span] | None = None
) -> dict[str, DisplayText]:
    """Return texts by chunk id, as far as a page has room for them.

    Args:
        ledger: has the hashes.
        storage: holds the batches.
        chunk_ids: the chunks.
        marks: what to mark, by chunk id.
    """
    texts: dict[str, DisplayText] = {}
    budget = MAX_BYTES
    for chunk_id, text in read_chunk_texts(ledger, storage, chunk_ids):
        if budget > 0:
            mark = (marks or {}).get(chunk_id)
            texts[chunk_id] = display_text(text, [mark], max_bytes=min(MAX_TEXT_BYTES, budget))
            budget -= min(MAX_TEXT_BYTES, len(text))
    return texts
