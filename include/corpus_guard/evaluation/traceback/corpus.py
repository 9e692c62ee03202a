"""A corpus to attack: a Chroma collection of its own, thrown away with its server.

The deployment's store and ledger are never touched: a server is started for this on a folder in the system's temporary place, and dies
with the evaluation, however that ends; only a killed one leaves the folder, ``corpus-guard-traceback-…``, behind. Texts are embedded as
the guard embeds them, once each, and stand under the hash of their text, so that a text of several rows is one record.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus import reach
from corpus_guard.corpus.server import serving
from corpus_guard.corpus.store import Record, Store
from corpus_guard.domain import sha256_text
from corpus_guard.errors import Inconsistent
from corpus_guard.settings import Settings
from corpus_guard.traceback.suspects import Embeds, Suspect

Progress = Callable[[str, int, int | None], object]
AT_ONCE = 1_024  # texts embedded between two signs of progress
AHEAD = 20  # asked for beyond what is wanted, so that a later round needs no further request
PREFIX = "evaluation"


@contextlib.contextmanager
def throwaway(settings: Settings) -> Iterator[Store]:
    """An empty store on a server of its own; gone at the end.

    Raises:
        StoreUnavailable: Chroma does not start.
    """
    with tempfile.TemporaryDirectory(prefix="corpus-guard-traceback-", ignore_cleanup_errors=True) as folder:
        # Nothing answers at port 1, so that `serving` starts a server on the folder instead of finding the deployment's.
        own = settings.model_copy(update={"home": Path(folder), "chroma_url": "http://127.0.0.1:1"})
        with serving(own) as url:
            yield Store(url, PREFIX)


class Vectors:
    """Vectors of texts, made once each and kept in memory."""

    def __init__(self, embedder: Embeds) -> None:
        self._embedder = embedder
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors, shape (len(texts), dimensions)."""
        self.prepare(texts)
        return np.stack([self._known[text] for text in texts]) if texts else self._embedder.embed([])

    def prepare(self, texts: Iterable[str], progress: Progress = lambda what, done, total: None) -> None:
        """Embed what is new, sorted, so that the same texts come in the same batches and get the same vectors."""
        new = sorted({text for text in texts if text not in self._known})
        for start in range(0, len(new), AT_ONCE):
            part = new[start : start + AT_ONCE]
            progress("embedding", start, len(new))
            self._known.update(zip(part, self._embedder.embed(part), strict=True))


class AttackedCorpus:
    """A collection that questions are asked of; the `Suspects` of `corpus_guard.traceback`."""

    missing = 0

    def __init__(self, store: Store, name: str, size: int, vectors: Vectors) -> None:
        """Over a collection that `plant` filled.

        Args:
            store: holds it.
            name: of the collection.
            size: records in it.
            vectors: of questions.
        """
        self._store, self._name, self._size, self._vectors = store, name, size, vectors
        self._asked: tuple[str, list[Suspect]] = "", []

    def retrieve(self, query: str, k: int, without: Collection[str] = ()) -> list[Suspect]:
        """The `k` nearest texts whose ids are not among `without`, nearest first."""
        wanted = min(self._size, k + len(without))
        if self._asked[0] != query or len(self._asked[1]) < wanted:
            self._asked = query, self._nearest(query, min(self._size, wanted + AHEAD))
        return [one for one in self._asked[1] if one.chunk_id not in without][:k]

    def _nearest(self, query: str, count: int) -> list[Suspect]:
        if not count:
            return []
        vector = self._vectors.embed([query])[0]
        return [
            Suspect(
                match.record.chunk_id,
                match.record.text,
                match.similarity,
                np.asarray(match.record.vector, np.float32),
                match.collection,
            )
            for match in self._store.query([self._name], vector, count)
        ]


def plant(
    store: Store,
    name: str,
    texts: Iterable[str],
    vectors: Vectors,
    model: str,
    progress: Progress = lambda what, done, total: None,
) -> AttackedCorpus:
    """Fill a new collection with texts.

    Args:
        store: to make it in.
        name: of the collection.
        texts: all of them; equal ones become one record.
        vectors: of texts and questions.
        model: what the vectors are of, as the store remembers it.
        progress: told what is being done.
    """
    by_id: Mapping[str, str] = {sha256_text(text): text for text in texts}
    vectors.prepare(by_id.values(), progress)
    ids = sorted(by_id)
    # A record has to have metadata: Chroma refuses an empty one.
    records = [
        Record(one, by_id[one], vector, {"kind": "evaluation"})
        for one, vector in zip(ids, vectors.embed([by_id[one] for one in ids]), strict=True)
    ]
    progress("planting", 0, None)
    if records:
        written = reach.write(store, name, records, model, reach.lend_nothing)
        if written.lost:
            raise Inconsistent(
                f"{len(written.lost)} of {len(records)} texts planted in {name} are found by no query, first {written.lost[0].chunk_id}: "
                "figures about what is retrieved would be wrong. Run again: another collection is made"
            )
    return AttackedCorpus(store, name, len(records), vectors)
