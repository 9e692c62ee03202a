"""The retrieval log: questions and what was served for them, for the query bank and for forensics.

Rules
    * equal questions are one row: Unicode form, case, spacing and closing punctuation make no difference;
    * a question that was ever reported stays; one that was only asked, and every retrieval, is deleted after
      ``CORPUS_GUARD_RETRIEVAL_DAYS``. An event in the log says until when and how many: what the log does not
      cover any more is not taken for nothing;
    * with ``CORPUS_GUARD_RETRIEVAL_LOG=hashed``, the default, neither questions nor answers are stored: a question
      is its hash under a key of this deployment, and its sketch (`corpus_guard.corpus.sketches`). With ``on`` their
      texts are; with ``off`` nothing is written. Rows of another setting are kept, and deleted in time;
    * a record that comes from elsewhere has a key: sent twice, it is stored once.

Questions may hold personal data: the log lies in the ledger's database and nowhere else, and no message
quotes a question. Anyone who may ask questions can write to this log: it says what was asked, not who meant
it.
"""

from __future__ import annotations

import hmac
import os
import secrets
import time
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import sqlalchemy as sa

from corpus_guard.domain import digest, first_of_each, to_storable
from corpus_guard.errors import SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import insert_missing, select_in_batches
from corpus_guard.ledger.states import QueryOrigin, RetrievalOrigin
from corpus_guard.ledger.tables import queries, retrievals, retrieved_chunks
from corpus_guard.settings import Settings, is_open_to_others

MAX_QUERY_CHARS = 2_000
MAX_ANSWER_CHARS = 8_000
MAX_NAME_CHARS = 250  # of a session's or user's name, and of an id: Chroma's may be anybody's
MAX_LISTED_RECORDS = 1_000  # in each list of a retrieval
PRUNE_INTERVAL_SECONDS = 24 * 60 * 60.0  # between prunings by one process
PRUNED_EVENT = "retrievals_pruned"
NOT_KNOWN = "unknown"  # which filter checked a retrieval of another application


@dataclass(frozen=True, slots=True)
class LoggedChunk:
    """A text that a retrieval gave to the application."""

    chunk_id: str
    score: float | None = None  # similarity, as its origin gives it; None: not known
    shown: bool | None = None  # a person saw it, or the answer cites it; None: not known


@dataclass(frozen=True, slots=True)
class LoggedRetrieval:
    """A retrieval as it is written to the log."""

    query: str
    served: tuple[LoggedChunk, ...]  # nearest first; of a chunk that is named twice, the first counts
    at: datetime | None = None  # None: now
    session: str = ""  # name of the conversation or run; empty: not known
    user_id: str | None = None  # as the application names who asked; None: not known
    answer: str | None = None  # that was given; None: not known
    sketch: str | None = None  # of the question's embedding; None: it was not embedded
    checked_by: str = NOT_KNOWN
    filter_digest: str = ""
    filtered: tuple[Mapping[str, object], ...] = ()  # {chunk_id, score}
    withheld: tuple[Mapping[str, object], ...] = ()  # {chunk_id, collection}
    origin: str = RetrievalOrigin.GUARD
    record_key: str | None = None  # at its origin; None: every writing is a retrieval of its own


class _AskedQuestion(NamedTuple):
    """A question that was asked or reported."""

    key: str
    text: str
    at: datetime
    sketch: str | None = None


def question_key(folder: Path) -> bytes:
    """Return the key under which questions are hashed; it is made when first needed.

    Raises:
        SettingsError: others can read it.
    """
    path = folder / "questions.key"
    folder.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}")
    if not path.exists():
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        try:
            os.link(draft, path)  # whoever is first wins, with a whole file
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    if is_open_to_others(status := path.stat()):
        raise SettingsError(
            f"key {path} has mode {status.st_mode & 0o777:o}, so others can read it and test which questions were asked; "
            f"run chmod 600 {path}"
        )
    return bytes.fromhex(path.read_text(encoding="ascii"))


def key_in_use(settings: Settings) -> bytes | None:
    """Return the key under which the log hashes questions; None if it stores their texts, or nothing."""
    return question_key(settings.keys) if settings.retrieval_log == "hashed" else None


def query_id(text: str, key: bytes | None = None) -> str:
    """Return the identity of a question: a digest of its normalised text, or with `key` a keyed hash of it."""
    plain = digest("query/v1", [_normalised(text)])
    return (hmac.new(key, plain.encode(), "sha256").hexdigest() if key else plain)[:32]


def count_query(connection: sa.Connection, text: str, origin: str, at: datetime) -> str:
    """Count a question, in the transaction of `connection`, and return its id.

    Args:
        text: the question; its first 2,000 characters are stored.
        origin: ``log`` or ``report``.
        at: when it was asked or reported.
    """
    key = query_id(text)
    _count_queries(connection, origin, [_AskedQuestion(key, text, at)])
    return key


class RetrievalLog:
    """Writer of the retrieval log. Also deletes old rows, once a day."""

    def __init__(self, ledger: Ledger, days: int, key: bytes | None = None) -> None:
        """Write to `ledger`; keep rows for `days` days; with `key` store neither questions nor answers."""
        self._ledger = ledger
        self._days = days
        self._key = key
        self._pruned_at = -PRUNE_INTERVAL_SECONDS

    def add(self, records: Sequence[LoggedRetrieval]) -> list[int | None]:
        """Add retrievals in one transaction, and return the id of each; None for one that was there before.

        Raises:
            LedgerUnavailable: the ledger cannot be written.
        """
        at = now()
        records = [replace(record, at=record.at or at) for record in records]
        keyed = {record.record_key for record in records if record.record_key}
        # Two processes that look for a key at the same time would both miss it.
        with self._ledger.exclusive("retrievals") if keyed else nullcontext(), self._ledger.write() as connection:
            statement = sa.select(retrievals.c.record_key)
            rows = select_in_batches(connection, statement, retrievals.c.record_key, keyed)
            stored = {row.record_key for row in rows}
            fresh: dict[int, LoggedRetrieval] = {}
            for number, record in enumerate(records):
                if record.record_key is None or record.record_key not in stored:
                    fresh[number] = record
                    stored.add(record.record_key)
            inserted = dict(zip(fresh, self._insert(connection, list(fresh.values())), strict=True))
        if time.monotonic() - self._pruned_at >= PRUNE_INTERVAL_SECONDS:
            self._pruned_at = time.monotonic()
            prune(self._ledger, self._days, at)
        return [inserted.get(number) for number in range(len(records))]

    def keeps(self, at: datetime) -> bool:
        """Return whether a retrieval of this time is young enough to be kept."""
        return at >= now() - timedelta(days=self._days)

    def record_use(self, retrieval_id: int, shown: Sequence[str] | None = None, answer: str | None = None) -> None:
        """Record what became of a retrieval.

        Args:
            shown: ids of the chunks that a person saw or that the answer cites; the others were not. None: not known.
            answer: that was given; stored where questions are.
        """
        with self._ledger.write() as connection:
            if shown is not None:
                is_shown = retrieved_chunks.c.chunk_id.in_([_name(chunk_id) for chunk_id in shown])
                of_this = retrieved_chunks.c.retrieval_id == retrieval_id
                connection.execute(retrieved_chunks.update().where(of_this).values(shown=is_shown))
            if answer is not None and self._key is None:
                of_this = retrievals.c.retrieval_id == retrieval_id
                connection.execute(
                    retrievals.update().where(of_this).values(answer=to_storable(answer, MAX_ANSWER_CHARS))
                )

    def _insert(self, connection: sa.Connection, records: Sequence[LoggedRetrieval]) -> Sequence[int]:
        """Insert retrievals with their questions and chunks, and return their ids."""
        if not records:
            return []
        keys = [query_id(record.query, self._key) for record in records]
        questions = (
            _AskedQuestion(key, "" if self._key else record.query, record.at or now(), record.sketch)
            for key, record in zip(keys, records, strict=True)
        )
        _count_queries(connection, QueryOrigin.LOG, questions)
        served = [_distinct(record.served) for record in records]
        rows = [
            {
                "query_id": key,
                "at": record.at,
                "session": _name(record.session),
                "checked_by": record.checked_by,
                "filter_digest": record.filter_digest or None,
                "filtered": _bounded(record.filtered),
                "withheld": _bounded(record.withheld),
                "served": len(chunks),
                "origin": record.origin,
                "record_key": record.record_key,
                "user_id": _name(record.user_id) if record.user_id else None,
                "answer": None if record.answer is None or self._key else to_storable(record.answer, MAX_ANSWER_CHARS),
            }
            for key, record, chunks in zip(keys, records, served, strict=True)
        ]
        insert = retrievals.insert().returning(retrievals.c.retrieval_id, sort_by_parameter_order=True)
        ids = connection.scalars(insert, rows).all()
        chunk_rows = [
            {
                "chunk_id": chunk_id,
                "retrieval_id": retrieval_id,
                "rank": rank,
                "score": chunk.score,
                "shown": chunk.shown,
            }
            for retrieval_id, chunks in zip(ids, served, strict=True)
            for rank, (chunk_id, chunk) in enumerate(chunks.items(), 1)
        ]
        if chunk_rows:
            connection.execute(retrieved_chunks.insert(), chunk_rows)
        return ids


def prune(ledger: Ledger, days: int, at: datetime | None = None) -> tuple[int, int]:
    """Delete what is older than `days` days at `at` (default: now), log it, and return how many retrievals and questions went."""
    oldest = (at or now()) - timedelta(days=days)
    old = retrievals.c.at < oldest
    with ledger.write() as connection:
        if connection.scalar(sa.select(retrievals.c.retrieval_id).where(old).limit(1)) is not None:
            of_old = retrieved_chunks.c.retrieval_id.in_(sa.select(retrievals.c.retrieval_id).where(old))
            connection.execute(retrieved_chunks.delete().where(of_old))
        deleted_retrievals = connection.execute(retrievals.delete().where(old)).rowcount
        has_retrieval = sa.exists().where(retrievals.c.query_id == queries.c.query_id)
        deleted_queries = connection.execute(
            queries.delete().where(queries.c.origin == QueryOrigin.LOG, queries.c.last_seen_at < oldest, ~has_retrieval)
        ).rowcount
        if deleted_retrievals:
            append_event(connection, PRUNED_EVENT, oldest.isoformat(), "", retrievals=deleted_retrievals, days=days)
    return deleted_retrievals, deleted_queries


def _count_queries(connection: sa.Connection, origin: str, questions: Iterable[_AskedQuestion]) -> None:
    """Count questions; equal ones are one row, with the text of the first."""
    by_key = defaultdict[str, list[_AskedQuestion]](list)
    for question in questions:
        by_key[question.key].append(question)
    groups = sorted(by_key.items())  # in one order, so that PostgreSQL's row locks cannot meet
    new = [
        {
            "query_id": key,
            "text": to_storable(group[0].text, MAX_QUERY_CHARS),
            "origin": origin,
            "count": 0,
            "first_seen_at": min(question.at for question in group),
            "last_seen_at": max(question.at for question in group),
        }
        for key, group in groups
    ]
    # Counted in a second statement: when two people ask a new question at once, both count.
    insert_missing(connection, queries, new)
    last = sa.bindparam("last", type_=queries.c.last_seen_at.type)
    reported = {"origin": origin} if origin == QueryOrigin.REPORT else {}
    connection.execute(
        queries.update()
        .where(queries.c.query_id == sa.bindparam("key"))
        .values(
            count=queries.c.count + sa.bindparam("added"),
            last_seen_at=sa.case((queries.c.last_seen_at < last, last), else_=queries.c.last_seen_at),
            sketch=sa.func.coalesce(queries.c.sketch, sa.bindparam("sketch", type_=sa.String)),
            **reported,
        ),
        [
            {
                "key": key,
                "added": len(group),
                "last": max(question.at for question in group),
                "sketch": next((question.sketch for question in group if question.sketch), None),
            }
            for key, group in groups
        ],
    )


def _distinct(chunks: Sequence[LoggedChunk]) -> dict[str, LoggedChunk]:
    """Return the chunks by the id they are stored under, each once."""
    return first_of_each(chunks[:MAX_LISTED_RECORDS], lambda chunk: _name(chunk.chunk_id))


def _normalised(text: str) -> str:
    folded = unicodedata.normalize("NFKC", to_storable(text, MAX_QUERY_CHARS)).casefold()
    return " ".join(folded.split()).rstrip(" .?!")


def _bounded(records: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    return [
        {key: _name(value) if isinstance(value, str) else value for key, value in record.items()}
        for record in records[:MAX_LISTED_RECORDS]
    ]


def _name(text: str) -> str:
    return to_storable(text, MAX_NAME_CHARS)
