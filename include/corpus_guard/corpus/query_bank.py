"""Questions that real people asked: a poisoned text would have to be retrieved for one of them.

FilterRAG's features need a question, and at ingestion nobody has asked one. The bank supplies the questions
most worth checking: first those that were reported, then the most frequent, then the latest. It works empty
and gets better as the retrieval log fills.

What it does not do: keep strangers out. Anyone who may ask questions can put questions into it; it is
bounded, and reported questions cannot be crowded out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

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
from corpus_guard.ledger.states import QueryOrigin
from corpus_guard.ledger.tables import queries
from corpus_guard.models import Models, TextEmbedder

MAX_QUESTIONS = 5_000  # questions: 7 MB of vectors, and 0.3 ms to compare a chunk with all of them
FOLDER = "query-bank"


@dataclass(frozen=True)
class QueryBank:
    """Questions and their vectors, as they were at one moment."""

    questions: tuple[str, ...]  # most worth checking first
    vectors: NDArray[np.float32]  # shape (questions, dimensions), rows of length 1

    @classmethod
    def from_questions(cls, questions: Sequence[str], embedder: TextEmbedder) -> QueryBank:
        """Return a bank of these questions, equal ones once; for evaluations, without a ledger."""
        by_id: dict[str, str] = {}
        for text in questions:
            by_id.setdefault(retrieval_log.query_id(text), text)
        distinct = list(by_id.values())
        vectors = embedder.embed(distinct) if distinct else np.empty((0, 0), np.float32)
        return cls(tuple(distinct), vectors)

    @classmethod
    def load(cls, ledger: Ledger, storage: Storage, models: Models, max_questions: int = MAX_QUESTIONS) -> QueryBank:
        """Return the bank of a deployment.

        Vectors are stored under the hash of the questions: a bank that did not change loads no model.

        Args:
            ledger: holds the questions.
            storage: holds their vectors.
            models: the embedder of the chunks.
            max_questions: number of questions at most.
        """
        statement = (
            sa.select(queries.c.text)
            .order_by(
                sa.case((queries.c.origin == QueryOrigin.REPORT, 0), else_=1),
                queries.c.count.desc(),
                queries.c.last_seen_at.desc(),
                queries.c.query_id,
            )
            .limit(max_questions)
        )
        with ledger.read() as connection:
            questions = tuple(connection.scalars(statement))
        # Sorted by hash: when one question becomes more frequent than another, the file stays the same.
        keyed = sorted({sha256_text(text)[:32]: text for text in questions}.items())
        name, _ = embed_chunks(storage, models, FOLDER, keyed)
        if not name:
            return cls((), np.empty((0, 0), np.float32))
        vectors = vectors_from_table(storage.read_table(name))
        return cls(questions, np.stack([vectors[sha256_text(text)[:32]] for text in questions]))

    def __len__(self) -> int:
        """Return the number of questions."""
        return len(self.questions)

    def nearest(self, vectors: NDArray[np.float32], k: int) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
        """Find the questions nearest to each chunk.

        Args:
            vectors: unit vectors of chunks by the same embedder, shape (chunks, dimensions).
            k: questions per chunk; fewer where the bank is smaller, none where it is empty.

        Returns:
            Indices into `questions`, nearest first, and their cosines; both of shape (chunks, min(k,
            questions)).
        """
        count = min(k, len(self))
        indices = np.empty((len(vectors), count), np.intp)
        cosines = np.empty((len(vectors), count), np.float32)
        if not count:
            return indices, cosines
        for start in range(0, len(vectors), 1_000):  # a table of 1,000 x 5,000 cosines is 20 MB
            products = vectors[start : start + 1_000] @ self.vectors.T
            best = np.argsort(-products, axis=1, kind="stable")[:, :count]
            indices[start : start + 1_000] = best
            cosines[start : start + 1_000] = np.take_along_axis(products, best, axis=1)
        return indices, cosines


def add_question(ledger: Ledger, text: str, origin: str = QueryOrigin.REPORT, at: datetime | None = None) -> str:
    """Put a question into the bank, or count it once more, and return its id.

    Args:
        ledger: holds the bank.
        text: the question; its first 2,000 characters are stored.
        origin: ``report`` (stays for good, first in line) or ``log``.
        at: when it was asked or reported; default: now.
    """
    with ledger.write() as connection:
        return retrieval_log.count_query(connection, text, origin, at or now())
