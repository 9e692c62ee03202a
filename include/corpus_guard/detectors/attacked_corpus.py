"""Temporary corpus for attacks: a Chroma collection on a server of its own.

The deployment's store and ledger are never touched: a server is started on a folder in the system's temporary
directory, and stopped when the evaluation ends. Only a killed evaluation leaves the folder,
``corpus-guard-traceback-…``, behind. Texts are embedded as the guard embeds them, once each. Their id is the
hash of their text, so that a text of several rows is one record.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus import reach
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.server import running_server
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.domain import Progress, no_progress, sha256_text
from corpus_guard.errors import Inconsistent
from corpus_guard.models import TextEmbedder
from corpus_guard.settings import Settings
from corpus_guard.traceback.retrieval import RetrievedText

TEXTS_PER_BATCH = 1_024  # embedded between two progress reports
EXTRA_RESULTS = 20  # fetched beyond the request, so that a later round needs no further query
PREFIX = "evaluation"


@contextlib.contextmanager
def temporary_store(settings: Settings) -> Iterator[Store]:
    """Yield an empty store on a server of its own, and delete it at the end.

    Raises:
        StoreUnavailable: Chroma does not start.
    """
    with tempfile.TemporaryDirectory(prefix="corpus-guard-traceback-", ignore_cleanup_errors=True) as folder:
        temporary = settings.model_copy(update={"home": Path(folder), "chroma_url": ""})
        with running_server(temporary) as url:
            yield ChromaStore(url, PREFIX)


class TextVectors:
    """Vectors of texts, computed once each and cached in memory."""

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors, shape (len(texts), dimensions)."""
        self.prepare(texts)
        return np.stack([self._vectors[text] for text in texts]) if texts else self._embedder.embed([])

    def prepare(self, texts: Iterable[str], progress: Progress = no_progress) -> None:
        """Embed the new texts, sorted, so that the same texts always come in the same batches.

        The same batches give the same vectors.
        """
        new = sorted({text for text in texts if text not in self._vectors})
        for start in range(0, len(new), TEXTS_PER_BATCH):
            batch = new[start : start + TEXTS_PER_BATCH]
            progress("embedding", start, len(new))
            self._vectors.update(zip(batch, self._embedder.embed(batch), strict=True))


class AttackedCorpus:
    """Collection with planted texts; a `SearchableCorpus` of `corpus_guard.traceback`."""

    missing = 0

    def __init__(self, store: Store, name: str, size: int, vectors: TextVectors) -> None:
        """Search a collection that `fill_collection` filled."""
        self._store, self._name, self._size, self._vectors = store, name, size, vectors
        self._last_query, self._last_results = "", list[RetrievedText]()

    def retrieve(self, query: str, k: int, excluded_ids: Collection[str] = ()) -> list[RetrievedText]:
        """Return the `k` nearest texts whose ids are not in `excluded_ids`, nearest first."""
        needed = min(self._size, k + len(excluded_ids))
        if self._last_query != query or len(self._last_results) < needed:
            self._last_results = self._nearest(query, min(self._size, needed + EXTRA_RESULTS))
            self._last_query = query
        return [result for result in self._last_results if result.chunk_id not in excluded_ids][:k]

    def _nearest(self, query: str, count: int) -> list[RetrievedText]:
        if not count:
            return []
        vector = self._vectors.embed([query])[0]
        return [
            RetrievedText(
                match.record.chunk_id,
                match.record.text,
                match.similarity,
                np.asarray(match.record.vector, np.float32),
                match.collection,
            )
            for match in self._store.query([self._name], vector, count)
        ]


def fill_collection(
    store: Store, name: str, texts: Iterable[str], vectors: TextVectors, model: str, progress: Progress = no_progress
) -> AttackedCorpus:
    """Fill a new collection with texts.

    Args:
        texts: all texts; equal ones become one record.
        model: digest of the embedding model, as stored with the collection.

    Raises:
        Inconsistent: some of the texts cannot be found by any query.
    """
    by_id: Mapping[str, str] = {sha256_text(text): text for text in texts}
    vectors.prepare(by_id.values(), progress)
    ids = sorted(by_id)
    # Chroma refuses records without metadata.
    records = [
        ChunkRecord(chunk_id, by_id[chunk_id], vector, {"kind": "evaluation"})
        for chunk_id, vector in zip(ids, vectors.embed([by_id[chunk_id] for chunk_id in ids]), strict=True)
    ]
    progress("planting", 0, None)
    if records:
        written = reach.write_reachable(store, name, records, model, reach.claim_nothing)
        if written.unreachable:
            raise Inconsistent(
                f"{len(written.unreachable)} of {len(records)} texts planted in {name} are found by no query, first "
                f"{written.unreachable[0].chunk_id}: figures about retrieval would be wrong. Run again with a new collection"
            )
    return AttackedCorpus(store, name, len(records), vectors)
