"""Live corpus: the collections as they are now, queried as a RAG application queries them.

Rules
    * all collections are queried, and a record that the ledger does not vouch for is a suspect like any
      other: an application that reads Chroma directly is served it;
    * nothing of such a record is believed: it has no version and no source, its `uri` says why the ledger
      does not vouch for it, and its id names its collection, so that it cannot pass for a published chunk
      that was judged before;
    * nothing is logged as a retrieval: an investigation must not teach the query bank.

What it does not do: see what a filter in front of the application would have dropped.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.retriever import reasons_to_withhold
from corpus_guard.corpus.store import Match, Store
from corpus_guard.domain import digest, first_of_each, to_storable
from corpus_guard.ledger import Ledger
from corpus_guard.models import TextEmbedder
from corpus_guard.traceback.retrieval import RetrievedText

EXTRA_RECORDS = 8  # requested beyond need: the index is approximate, and a moving chunk may be in two collections
MAX_ID_LENGTH = 250  # characters; anybody may have written an id into Chroma


class LiveCorpus:
    """Texts that a question retrieves from the live store."""

    missing = 0

    def __init__(self, ledger: Ledger, store: Store, embedder: TextEmbedder) -> None:
        """Search a store."""
        self._ledger = ledger
        self._store = store
        self._embedder = embedder
        self._last_query: tuple[str, NDArray[np.float32]] | None = None  # with its vector

    def retrieve(self, query: str, k: int, excluded_ids: Collection[str] = ()) -> list[RetrievedText]:
        """Return the `k` nearest records without `excluded_ids`, nearest first; fewer if there are no more.

        Raises:
            StoreUnavailable, LedgerUnavailable: the store or the ledger does not answer.
        """
        names = self._store.names()
        if not names or k < 1:
            return []
        if self._last_query is None or self._last_query[0] != query:
            self._last_query = query, self._embedder.embed([query])[0]
        excluded = set(excluded_ids)
        count = k + len(excluded) + EXTRA_RECORDS
        while True:
            matches = self._store.query(names, self._last_query[1], count)
            texts = [text for text in self._texts(matches) if text.chunk_id not in excluded]
            if len(texts) >= k or len(matches) < count:
                return texts[:k]
            count *= 2

    def _texts(self, matches: list[Match]) -> list[RetrievedText]:
        """Return texts in the order of `matches`; a published chunk that lies in two collections once."""
        texts = (
            from_published_chunk(match) if reason is None else _from_unvouched_record(match, reason)
            for match, reason in zip(matches, reasons_to_withhold(self._ledger, matches), strict=True)
        )
        return list(first_of_each(texts, lambda text: text.chunk_id).values())


def from_published_chunk(match: Match) -> RetrievedText:
    """Return the text of a record that the ledger vouches for."""
    record = match.record
    version_id, source, uri = (str(record.metadata[name]) for name in ("version_id", "source", "uri"))
    return RetrievedText(
        record.chunk_id, record.text, match.similarity, record.vector, match.collection, version_id, source, uri
    )


def _from_unvouched_record(match: Match, reason: str) -> RetrievedText:
    record = match.record
    name = f"{match.collection}/{record.chunk_id}"
    storable = to_storable(name, len(name))
    if len(name) > MAX_ID_LENGTH or storable != name:
        name = f"{storable[:180]}…{digest('record-id/v1', [match.collection, record.chunk_id])[:32]}"
    return RetrievedText(name, record.text, match.similarity, record.vector, match.collection, uri=reason)
