"""Asking the collections without believing them.

What Chroma returns is compared with the ledger before it is handed on: a record that nobody published, or whose text, vector or
metadata is not the published one, is withheld and named. Anyone who can reach Chroma's port can write past the guard; they
cannot get past this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.corpus.store import Match, Store
from corpus_guard.domain import TrustLevel
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import chunks, publications
from corpus_guard.models.embedder import Embedder

AT_ONCE = 500  # ids a statement


@dataclass(frozen=True, slots=True)
class Answer:
    """A chunk that may be served."""

    chunk_id: str
    text: str
    similarity: float  # cosine, -1..1
    trust: TrustLevel
    source: str
    uri: str
    doc_id: str
    collection: str


@dataclass(frozen=True, slots=True)
class Withheld:
    """A record that Chroma returned and the ledger does not vouch for."""

    chunk_id: str
    collection: str
    reason: str


class GuardedRetriever:
    """Queries over the collections of some trust levels."""

    def __init__(self, ledger: Ledger, store: Store, embedder: Embedder) -> None:
        self._ledger = ledger
        self._store = store
        self._embedder = embedder

    def query(
        self, text: str, k: int = 5, trust: Sequence[TrustLevel] = tuple(TrustLevel)
    ) -> tuple[list[Answer], list[Withheld]]:
        """The `k` nearest chunks the ledger vouches for, and what was withheld.

        Args:
            text: the question.
            k: how many answers at most.
            trust: levels to search.
        """
        existing = set(self._store.names())
        collections = [name for level in trust if (name := self._store.collection_name(level)) in existing]
        vector = self._embedder.embed([text])[0]
        answers: list[Answer] = []
        withheld: dict[tuple[str, str], Withheld] = {}
        asked = 2 * k
        while True:  # as often as planted records crowd out real ones
            matches = self._store.query(collections, vector, asked)
            answers = []
            for match, reason in zip(matches, self._reasons(matches), strict=True):
                if reason is None:
                    answers.append(_answer(match))
                else:
                    found = Withheld(match.record.chunk_id, match.collection, reason)
                    withheld[found.chunk_id, found.collection] = found
            if len(answers) >= k or len(matches) < asked:
                return answers[:k], list(withheld.values())
            asked *= 2

    def _reasons(self, matches: Sequence[Match]) -> list[str | None]:
        """For each match, why it may not be served."""
        statement = sa.select(publications, chunks.c.text_sha256).join(
            chunks, chunks.c.chunk_id == publications.c.chunk_id
        )
        known = {}
        with self._ledger.read() as connection:
            for ids in split((match.record.chunk_id for match in matches), AT_ONCE):
                rows = connection.execute(statement.where(publications.c.chunk_id.in_(ids)))
                known.update({(row.chunk_id, row.collection): row for row in rows})
        reasons: list[str | None] = []
        for match in matches:
            row = known.get((match.record.chunk_id, match.collection))
            if row is None:
                reasons.append("the ledger never published it")
                continue
            if row.state != "published":
                reasons.append(f"the ledger does not serve it (state {row.state})")
                continue
            expected = (row.text_sha256, row.vector_sha256, row.metadata_sha256)
            wrong = [
                name
                for name, found, right in zip(
                    ("text", "vector", "metadata"), match.record.fingerprint, expected, strict=True
                )
                if found != right
            ]
            reasons.append(f"its {' and '.join(wrong)} changed since it was published" if wrong else None)
        return reasons


def _answer(match: Match) -> Answer:
    metadata = match.record.metadata
    return Answer(
        chunk_id=match.record.chunk_id,
        text=match.record.text,
        similarity=match.similarity,
        trust=TrustLevel(str(metadata["trust"])),
        source=str(metadata["source"]),
        uri=str(metadata["uri"]),
        doc_id=str(metadata["doc_id"]),
        collection=match.collection,
    )
