"""Questions that people ask, or would ask: a poisoned text would have to be retrieved for one of them.

FilterRAG's features need a question, and at ingestion nobody has asked one. The bank supplies the questions
most worth checking: first those that were reported, then the most frequent, then the latest; after them those
made from the headings of trusted documents (`corpus_guard.corpus.heading_questions`), which are marked. It
works empty and gets better as the retrieval log fills.

What it does not do: keep strangers out. Anyone who may ask questions can put questions into it; it is
bounded, and reported questions cannot be crowded out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.batches import Storage
from corpus_guard.batches.storage import parquet_bytes
from corpus_guard.batches.tables import vectors_from_table, vectors_to_table
from corpus_guard.corpus import heading_questions, retrieval_log
from corpus_guard.corpus.heading_questions import TrustedVersion
from corpus_guard.domain import digest, first_of_each, sha256_text
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import QueryOrigin
from corpus_guard.ledger.tables import queries
from corpus_guard.models import Models, TextEmbedder

MAX_QUESTIONS: Final = 5_000  # questions: 7 MB of vectors, and 0.3 ms to compare a chunk with all of them
MAX_GENERATED: Final = 1_000  # of them made from headings
FOLDER: Final = "query-bank"
ERASED_QUESTION: Final = "(erased)"
_SURVEY: Final = re.compile(r"runs/[^/]+/survey(?:-[0-9a-f]{16,})?\.json")  # one for each shard; of older runs one


@dataclass(frozen=True)
class QueryBank:
    """Questions and their vectors, as they were at one moment."""

    questions: tuple[str, ...]  # most worth checking first
    vectors: NDArray[np.float32]  # shape (questions, dimensions), rows of length 1
    asked_count: int  # questions that people asked or reported; those after them were made from headings

    @classmethod
    def from_questions(
        cls, questions: Sequence[str], embedder: TextEmbedder, generated: Sequence[str] = ()
    ) -> QueryBank:
        """Return a bank of these questions, equal ones once; for evaluations, without a ledger."""
        asked_questions = _distinct(questions)
        distinct = _distinct([*asked_questions, *generated])
        vectors = embedder.embed(distinct) if distinct else np.empty((0, 0), np.float32)
        return cls(tuple(distinct), vectors, len(asked_questions))

    @classmethod
    def load(
        cls,
        ledger: Ledger,
        storage: Storage,
        models: Models,
        max_questions: int = MAX_QUESTIONS,
        arriving: Iterable[TrustedVersion] = (),
    ) -> QueryBank:
        """Return the bank of a deployment.

        Vectors are stored by the hash of their question: only new questions are embedded, and a bank that did
        not change loads no model.

        Args:
            arriving: trusted versions that a run brings.
        """
        statement = (
            sa.select(queries.c.text)
            .where(queries.c.text != "")  # the log may keep hashes alone
            .order_by(
                sa.case((queries.c.origin == QueryOrigin.REPORT, 0), else_=1),
                queries.c.count.desc(),
                queries.c.last_seen_at.desc(),
                queries.c.query_id,
            )
            .limit(max_questions)
        )
        asked_questions = _distinct(ledger.scalars(statement))
        made = heading_questions.load_heading_questions(ledger, storage, arriving)[:MAX_GENERATED]
        questions = tuple(_distinct([*asked_questions, *made]))[:max_questions]
        return cls(questions, _load_vectors(storage, models, questions), len(asked_questions))

    def __len__(self) -> int:
        """Return the number of questions."""
        return len(self.questions)


def erase_questions(ledger: Ledger, storage: Storage, version_ids: Collection[str]) -> None:
    """Erase the questions made from versions that are purged: their texts, their vectors, and what surveys repeat.

    Call it while the texts are there: an old survey may hold a question that the bank has forgotten.
    """
    stored = heading_questions.stored_questions(storage)
    made = heading_questions.questions_of(ledger, storage, version_ids)
    questions = {
        question
        for by_version in (stored, made)
        for version_id in version_ids
        for question in by_version.get(version_id, ())
    }
    if stored.keys() & set(version_ids):
        remaining = {version_id: stored[version_id] for version_id in stored.keys() - set(version_ids)}
        heading_questions.write_questions(storage, remaining)
    if questions:
        names = sorted(storage.names())
        _erase_vectors(storage, [name for name in names if name.startswith(f"{FOLDER}/vectors-")], questions)
        _erase_from_surveys(storage, [name for name in names if _SURVEY.fullmatch(name)], questions)


def _erase_vectors(storage: Storage, names: Iterable[str], questions: Collection[str]) -> None:
    erased = {_key(question) for question in questions}
    for name in names:
        table = storage.read_table(name)
        keep = [key not in erased for key in table["chunk_id"].to_pylist()]
        if not all(keep):
            storage.write(name, parquet_bytes(table.filter(pa.array(keep, pa.bool_()))))


def _erase_from_surveys(storage: Storage, names: Iterable[str], questions: Collection[str]) -> None:
    for name in names:
        content = erased = storage.read(name)
        for question in questions:
            erased = erased.replace(orjson.dumps(question), orjson.dumps(ERASED_QUESTION))
        if erased != content:
            storage.write(name, erased)


def _load_vectors(storage: Storage, models: Models, questions: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of questions; embed those that are new, and store the vectors of these questions only."""
    if not questions:
        return np.empty((0, 0), np.float32)
    name = f"{FOLDER}/vectors-{digest('query-bank/v2', [str(models.embedder_weights)])[:32]}.parquet"
    stored = vectors_from_table(storage.read_table(name)) if storage.exists(name) and storage.has_table(name) else {}
    by_key = {_key(question): question for question in questions}
    missing = {key: question for key, question in by_key.items() if key not in stored}
    if missing:
        stored |= zip(missing, models.embedder.embed(list(missing.values())), strict=True)
    vectors = np.stack([stored[key] for key in by_key])
    if missing:
        storage.write(name, parquet_bytes(vectors_to_table(list(by_key), vectors, str(models.embedder_weights))))
    return vectors


def _key(question: str) -> str:
    return sha256_text(question)[:32]


def _distinct(questions: Iterable[str]) -> list[str]:
    """Return questions that differ in more than case, spacing and closing punctuation."""
    return list(first_of_each(questions, retrieval_log.query_id).values())
