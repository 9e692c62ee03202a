"""The retrieval log as arrays, and the answers in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard.forensics.watch.detectors import HISTORY_DAYS, LOOKBACK_DAYS
from corpus_guard.forensics.watch.window import UNKNOWN, RetrievalWindow, Seconds, cluster_questions
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, rows_by_id, values_by_id
from corpus_guard.ledger.tables import documents, publications, queries, retrievals, retrieved_chunks, versions

MAX_RETRIEVALS: Final = 3_000_000  # of a window; older ones are left out, and the watch says so
ROWS_PER_FETCH: Final = 20_000


@dataclass(frozen=True, slots=True)
class LogReading:
    """Part of the log that the watch has read."""

    window: RetrievalWindow
    origins: tuple[str, ...]  # of each retrieval
    retrievals: int
    left_out: int  # older retrievals, beyond `MAX_RETRIEVALS`
    without_sketch: int  # questions that belong to no cluster
    questions: int


@dataclass(frozen=True, slots=True)
class LoggedAnswer:
    """An answer that was given to a question."""

    query_id: str
    text: str  # hostile
    at: datetime
    asker: str
    retrieval_id: int


def read_window(ledger: Ledger, until: datetime) -> LogReading:
    """Return the retrievals of the weeks before `until`, with the documents they served."""
    start = until - timedelta(days=LOOKBACK_DAYS + HISTORY_DAYS)
    inside = (retrievals.c.at >= start, retrievals.c.at < until)
    with ledger.read() as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(retrievals).where(*inside)) or 0
        left_out = max(0, total - MAX_RETRIEVALS)
        asker, question, origins = _Index(), _Index(), []
        at, askers, questions, ids, unnamed = [], [], [], [], 0
        statement = (
            sa.select(*retrievals.c["retrieval_id", "at", "query_id", "session", "user_id", "origin"])
            .where(*inside)
            .order_by(retrievals.c.at, retrievals.c.retrieval_id)
            .offset(left_out)
        )
        for row in connection.execute(statement.execution_options(yield_per=ROWS_PER_FETCH)):
            ids.append(row.retrieval_id)
            at.append(row.at.timestamp())
            questions.append(question[row.query_id])
            askers.append(asker[name_asker(row)])
            origins.append(row.origin)
            unnamed += not (row.user_id or row.session)
        position = {retrieval_id: number for number, retrieval_id in enumerate(ids)}
        chunk = _Index()
        hit_retrieval, hit_chunk = [], []
        served = (
            sa.select(retrieved_chunks.c.retrieval_id, retrieved_chunks.c.chunk_id)
            .join(retrievals, retrievals.c.retrieval_id == retrieved_chunks.c.retrieval_id)
            .where(*inside)
        )
        for retrieval_id, chunk_id in connection.execute(served.execution_options(yield_per=ROWS_PER_FETCH)):
            if (number := position.get(retrieval_id)) is not None:
                hit_retrieval.append(number)
                hit_chunk.append(chunk[chunk_id])
        of_chunk = values_by_id(connection, sa.select(publications.c.chunk_id, publications.c.doc_id).distinct(), chunk)
        document = _Index()
        chunk_document = np.array(
            [document[of_chunk[name]] if name in of_chunk else UNKNOWN for name in chunk], np.int32
        ).reshape(-1)
        entered, changed, leaves = _arrivals(connection, document)
        sketches = values_by_id(connection, sa.select(queries.c.query_id, queries.c.sketch), question)
    order = np.argsort(hit_retrieval, kind="stable")
    clusters = cluster_questions([sketches.get(query_id) for query_id in question])
    window = RetrievalWindow(
        at=np.array(at, np.float64),
        asker=np.array(askers, np.int32),
        question=np.array(questions, np.int32),
        cluster=clusters,
        hit_retrieval=np.array(hit_retrieval, np.int32)[order],
        hit_chunk=np.array(hit_chunk, np.int32)[order],
        chunk_document=chunk_document,
        entered=entered,
        changed=changed,
        leaves=leaves,
        chunk_ids=list(chunk),
        documents=list(document),
        unnamed=unnamed,
    )
    return LogReading(window, tuple(origins), len(at), left_out, int((clusters == UNKNOWN).sum()), len(question))


def name_asker(row: Row) -> str:
    """Return who asked: the user, else the session, else the question, so that a repetition counts once."""
    if row.user_id:
        return f"user {row.user_id}"
    return f"session {row.session}" if row.session else f"question {row.query_id}"


def read_answers(ledger: Ledger, until: datetime) -> Iterator[tuple[str, list[LoggedAnswer]]]:
    """Yield (question, answers oldest first) for questions whose answers are logged, those asked most often first."""
    start = until - timedelta(days=LOOKBACK_DAYS + HISTORY_DAYS)
    statement = (
        sa.select(retrievals, queries.c.text)
        .join(queries, queries.c.query_id == retrievals.c.query_id)
        .where(
            retrievals.c.at >= start, retrievals.c.at < until, retrievals.c.answer.is_not(None), queries.c.text != ""
        )
        .order_by(retrievals.c.at, retrievals.c.retrieval_id)
        .execution_options(yield_per=ROWS_PER_FETCH)
    )
    answers: dict[str, list[LoggedAnswer]] = defaultdict(list)
    texts: dict[str, str] = {}
    with ledger.read() as connection:
        for row in connection.execute(statement):
            texts[row.query_id] = row.text
            answers[row.query_id].append(
                LoggedAnswer(row.query_id, row.answer, row.at, name_asker(row), row.retrieval_id)
            )
    for query_id, given in sorted(answers.items(), key=lambda entry: (-len(entry[1]), entry[0])):
        yield texts[query_id], given


class _Index(dict[str, int]):
    """Numbers of names, in the order in which they come."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number


def _arrivals(connection: sa.Connection, doc_ids: Iterable[str]) -> tuple[Seconds, Seconds, NDArray[np.bool_]]:
    """Return for each document when it, and when its served text, was first fetched, and whether nothing of it is served."""
    served = versions.alias("served")
    fetched_at = versions.c.stamp["fetched_at"].as_string()
    is_served_text = versions.c.text_sha256 == served.c.text_sha256
    statement = (
        sa.select(
            versions.c.doc_id,
            sa.func.min(fetched_at).label("fetched_at"),
            sa.func.min(sa.case((is_served_text, fetched_at))).label("changed_at"),
            documents.c.target_version,
        )
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .outerjoin(served, served.c.version_id == documents.c.target_version)
        .group_by(versions.c.doc_id, documents.c.target_version)
    )
    rows = rows_by_id(connection, statement, doc_ids)
    listed = [rows.get(doc_id) for doc_id in doc_ids]
    entered = [_seconds(row.fetched_at) if row else 0.0 for row in listed]
    changed = [_seconds(row.changed_at) if row else 0.0 for row in listed]
    leaves = [row is None or row.target_version is None for row in listed]
    return np.array(entered, np.float64), np.array(changed, np.float64), np.array(leaves, bool)


def _seconds(time: str | None) -> float:
    return datetime.fromisoformat(time).timestamp() if time else 0.0
