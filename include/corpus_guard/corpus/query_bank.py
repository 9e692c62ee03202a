"""Questions that real people asked: what a poisoned text would have to be retrieved for.

FilterRAG's features need a question, and at ingestion nobody has asked one. The bank supplies the ones most worth checking: what
was reported first, then what is asked most, then what was asked last. It works empty and gets better as the retrieval log fills.

What it does not do: whoever may ask questions can put questions into it; it is bounded, and reported ones cannot be crowded out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import vectors_from_table
from corpus_guard.corpus import retrieval_log
from corpus_guard.corpus.vectors import embed_chunks
from corpus_guard.domain import sha256_text
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import queries
from corpus_guard.models import Models

MOST = 5_000  # questions: 7 MB of vectors, and 0.3 ms to compare a chunk with all of them
FOLDER = "query-bank"


class Embeds(Protocol):
    """Texts to unit vectors."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dimensions), rows of length 1."""


@dataclass(frozen=True)
class QueryBank:
    """Questions and their vectors, as they were at one moment."""

    questions: tuple[str, ...]  # the most worth checking first
    vectors: NDArray[np.float32]  # shape (questions, dimensions), rows of length 1

    @classmethod
    def of(cls, questions: Sequence[str], embedder: Embeds) -> QueryBank:
        """A bank of these questions, equal ones once; for evaluations, without a ledger."""
        first: dict[str, str] = {}
        for text in questions:
            first.setdefault(retrieval_log.query_id(text), text)
        distinct = list(first.values())
        vectors = embedder.embed(distinct) if distinct else np.empty((0, 0), np.float32)
        return cls(tuple(distinct), vectors)

    @classmethod
    def load(cls, ledger: Ledger, storage: Storage, models: Models, most: int = MOST) -> QueryBank:
        """The bank of a deployment.

        Vectors are kept in `storage` under the hash of the questions: a bank that did not change loads no model.

        Args:
            ledger: its table of questions.
            storage: where vectors are kept.
            models: the embedder chunks are embedded with.
            most: how many questions at most.
        """
        statement = (
            sa.select(queries.c.text)
            .order_by(
                sa.case((queries.c.origin == "report", 0), else_=1),
                queries.c.count.desc(),
                queries.c.last_seen_at.desc(),
                queries.c.query_id,
            )
            .limit(most)
        )
        with ledger.read() as connection:
            questions = tuple(connection.scalars(statement))
        # In an order of their own: that one question is asked more often than another now makes no other file.
        keyed = sorted({sha256_text(text)[:32]: text for text in questions}.items())
        name, _ = embed_chunks(storage, models, FOLDER, keyed)
        if not name:
            return cls((), np.empty((0, 0), np.float32))
        found = vectors_from_table(storage.read_table(name))
        return cls(questions, np.stack([found[sha256_text(text)[:32]] for text in questions]))

    def __len__(self) -> int:
        """How many questions."""
        return len(self.questions)

    def nearest(self, vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """The questions nearest to each chunk.

        Args:
            vectors: unit vectors of chunks by the same embedder, shape (chunks, dimensions).
            k: how many questions a chunk; fewer where the bank is smaller, none where it is empty.

        Returns:
            Indices into `questions`, nearest first, and their cosines; both of shape (chunks, min(k, questions)).
        """
        wanted = min(k, len(self))
        if not wanted or not len(vectors):
            return np.empty((len(vectors), wanted), np.intp), np.empty((len(vectors), wanted), np.float32)
        indices = np.empty((len(vectors), wanted), np.intp)
        cosines = np.empty((len(vectors), wanted), np.float32)
        for start in range(0, len(vectors), 1_000):  # a table of 1,000 x 5,000 cosines is 20 MB
            part = vectors[start : start + 1_000] @ self.vectors.T
            best = np.argsort(-part, axis=1, kind="stable")[:, :wanted]
            indices[start : start + 1_000] = best
            cosines[start : start + 1_000] = np.take_along_axis(part, best, axis=1)
        return indices, cosines


def add(ledger: Ledger, text: str, origin: str = "report", at: datetime | None = None) -> str:
    """Put a question into the bank, or count it once more; returns its id.

    Args:
        ledger: which bank.
        text: the question; its first 2,000 characters are kept.
        origin: ``report`` (kept for good, first in line) or ``log``.
        at: when it was asked or reported; default: now.
    """
    with ledger.write() as connection:
        return retrieval_log.note(ledger, connection, text, origin, at or now())
