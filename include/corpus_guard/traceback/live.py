"""The collections as they are now, asked the way a RAG application asks them.

Rules
    * all collections are asked, and what the ledger does not vouch for is a suspect like any other: whoever asks Chroma past the guard
      is served it;
    * of such a record nothing is believed: it has no version and no source, its `uri` says why the ledger does not vouch for it, and its
      id names its collection, so that it cannot pass for a published chunk that was judged before;
    * nothing is logged as a retrieval: an investigation must not teach the query bank.

What it does not do: see what a filter in front of the application would have dropped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corpus_guard.corpus.retriever import unvouched
from corpus_guard.domain import digest
from corpus_guard.traceback.suspects import Suspect

if TYPE_CHECKING:
    from corpus_guard.corpus.store import Match, Store
    from corpus_guard.guard import Guard
    from corpus_guard.ledger import Ledger
    from corpus_guard.traceback.suspects import Embeds

SLACK = 8  # records more than are needed: the index is approximate, and a moving chunk may be in two collections
LONGEST_ID = 250  # characters; Chroma's ids may be anybody's


class LiveCorpus:
    """What a question retrieves from the live store."""

    missing = 0

    def __init__(self, guard: Guard, embedder: Embeds | None = None) -> None:
        """Ask the store of `guard`.

        Args:
            guard: the deployment.
            embedder: of the questions; the deployment's own unless given.

        Raises:
            StoreUnavailable: Chroma does not answer.
        """
        self._ledger: Ledger = guard.ledger
        self._store: Store = guard.store
        self._embedder = embedder or guard.models.embedder
        self._asked: tuple[str, NDArray[np.float32]] | None = None

    def retrieve(self, query: str, k: int, without: Collection[str] = ()) -> list[Suspect]:
        """The `k` nearest records whose ids are not among `without`, nearest first; fewer where there are no more.

        Raises:
            StoreUnavailable, LedgerUnavailable: they do not answer.
        """
        names = self._store.names()
        if not names or k < 1:
            return []
        if self._asked is None or self._asked[0] != query:
            self._asked = query, self._embedder.embed([query])[0]
        set_aside = set(without)
        wanted = k + len(set_aside) + SLACK
        while True:
            matches = self._store.query(names, self._asked[1], wanted)
            found = [one for one in self._suspects(matches) if one.chunk_id not in set_aside]
            if len(found) >= k or len(matches) < wanted:
                return found[:k]
            wanted *= 2

    def _suspects(self, matches: list[Match]) -> list[Suspect]:
        """In the order of `matches`; a published chunk that lies in two collections once."""
        suspects: dict[str, Suspect] = {}
        for match, reason in zip(matches, unvouched(self._ledger, matches), strict=True):
            one = _vouched_for(match) if reason is None else _nobodys(match, reason)
            suspects.setdefault(one.chunk_id, one)
        return list(suspects.values())


def _vouched_for(match: Match) -> Suspect:
    record = match.record
    version, source, uri = (str(record.metadata[name]) for name in ("version_id", "source", "uri"))
    return Suspect(
        record.chunk_id, record.text, match.similarity, record.vector, match.collection, version, source, uri
    )


def _nobodys(match: Match, reason: str) -> Suspect:
    record = match.record
    name = f"{match.collection}/{record.chunk_id}"
    storable = name.encode("utf-8", "replace").decode().replace("\x00", "�")
    if len(name) > LONGEST_ID or storable != name:
        name = f"{storable[:180]}…{digest('record-id/v1', [match.collection, record.chunk_id])[:32]}"
    return Suspect(name, record.text, match.similarity, record.vector, match.collection, uri=reason)
