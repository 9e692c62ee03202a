"""Comparison of every table with the digests that the log holds of its rows, and of rows with each other.

Rules
    * each group of rows has the digest that the newest event about it names (`corpus_guard.ledger.row_digests`);
      rows that no event names are a deviation, and so are rows that an event names and nobody finds;
    * each of our own writes met the rows as the write before had left them: what somebody changed stays a
      deviation after we wrote over it;
    * of a document that was accepted last and not retired, something is published or about to be;
    * a question has the id of its text; no document was seen in the future.

Rows and events are read in one transaction, and are written in one: they agree at every moment, also while
others write. Where events are missing, rows are not compared: what they should be is not known, and the
verification has failed already.

Not done here: the columns that `corpus_guard.ledger.row_digests.UNLOGGED` names, each with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

import sqlalchemy as sa

from corpus_guard.corpus.retrieval_log import query_id
from corpus_guard.domain import Progress
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.row_digests import (
    ABSENT,
    DIGESTED_TABLES,
    ROWS_PER_FETCH,
    LoggedGroup,
    group_column,
    logged_digests,
    stored_digests,
)
from corpus_guard.ledger.states import LIVE_STATES, SERVABLE_STATES
from corpus_guard.ledger.tables import chunks, documents, publications, queries, versions
from corpus_guard.proof.alignment import align
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.verify.findings import RESTORE, DeviationCollector

MAX_CLOCK_DIFFERENCE: Final = timedelta(days=1)
"""A time further in the future was not written by a machine whose clock was merely wrong."""
_MISSING_EVENTS: Final = frozenset(
    {DeviationKind.EVENT_MISSING, DeviationKind.LOG_TRUNCATED, DeviationKind.ROLLED_BACK}
)


def check_rows(ledger: Ledger, collector: DeviationCollector, progress: Progress) -> None:
    """Compare every table with the log; deviations go to `collector`.

    What `collector` holds already about a version, a document or a decision is not reported again.
    """
    if any(deviation.kind in _MISSING_EVENTS for deviation in collector.deviations):
        return
    reported = {
        name
        for deviation in collector.deviations
        if deviation.kind is DeviationKind.LEDGER_CHANGED
        for name in (deviation.subject, deviation.doc_id)
    }
    for table in DIGESTED_TABLES.values():
        progress(table.name, 0, None)
        with collector.catching_unreadable(table.name), ledger.read() as connection:
            for key, problem, expected, actual in _differences(connection, table):
                if key not in reported:
                    _report(collector, table, key, problem, expected, actual)
    for subject, check in (("documents", _check_served), ("documents", _check_seen), ("queries", _check_questions)):
        with collector.catching_unreadable(subject), ledger.read() as connection:
            check(connection, reported, collector)


def _differences(connection: sa.Connection, table: sa.Table) -> Iterator[tuple[str, str, str, str]]:
    """Yield (key, problem, expected digest, digest found) of the groups that differ."""
    logged = ((group.key, group) for group in logged_digests(connection, table))
    for key, logged_group, digest in align(logged, stored_digests(connection, table)):
        if difference := _difference(logged_group, digest or ABSENT):
            yield key, *difference


def _difference(logged_group: LoggedGroup | None, digest: str) -> tuple[str, str, str] | None:
    if logged_group is None:
        return "no event tells of what is there", ABSENT, digest
    if digest != logged_group.digest:
        problem = "what is there was changed" if digest and logged_group.digest else "no event tells of what is there"
        return problem if digest else "what was logged is missing", logged_group.digest, digest
    if logged_group.broken_at is not None:
        return (
            f"it was changed from outside before event {logged_group.broken_at}",
            logged_group.expected,
            logged_group.met,
        )
    return None


def _report(collector: DeviationCollector, table: sa.Table, key: str, problem: str, expected: str, actual: str) -> None:
    collector.add(
        DeviationKind.LEDGER_CHANGED,
        key,
        f"table {table.name}, {group_column(table).name} {key[:64]}: {problem}; {RESTORE}",
        expected=expected,
        actual=actual,
        doc_id=key if group_column(table).name == "doc_id" else "",
    )


def _check_served(connection: sa.Connection, reported: set[str], collector: DeviationCollector) -> None:
    has_chunks = sa.exists().where(chunks.c.version_id == versions.c.version_id)
    is_live = sa.exists().where(
        publications.c.version_id == versions.c.version_id, publications.c.state.in_(LIVE_STATES)
    )
    statement = (
        sa.select(documents.c.doc_id, versions.c.version_id)
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .where(versions.c.state.in_(SERVABLE_STATES), documents.c.retired_at.is_(None), has_chunks, sa.not_(is_live))
    )
    for doc_id, version_id in connection.execute(statement.execution_options(yield_per=ROWS_PER_FETCH)):
        if doc_id not in reported and version_id not in reported:
            collector.add(
                DeviationKind.LEDGER_CHANGED,
                doc_id,
                f"document {doc_id}: its newest version {version_id} is accepted, and nothing of it is published or "
                f"about to be; {RESTORE}",
                expected="published",
                actual="nothing",
                doc_id=doc_id,
            )


def _check_seen(connection: sa.Connection, reported: set[str], collector: DeviationCollector) -> None:
    statement = sa.select(documents.c.doc_id).where(documents.c.last_seen_at > now() + MAX_CLOCK_DIFFERENCE)
    for doc_id in connection.execute(statement).scalars():
        collector.add(
            DeviationKind.LEDGER_CHANGED,
            doc_id,
            f"document {doc_id}: its last_seen_at lies in the future, so it would stay served after it vanished from its source. A "
            "clock was wrong, or the database was changed from outside: set the clock right and run `guard refresh`",
            doc_id=doc_id,
        )


def _check_questions(connection: sa.Connection, reported: set[str], collector: DeviationCollector) -> None:
    statement = sa.select(queries.c.query_id, queries.c.text).execution_options(yield_per=ROWS_PER_FETCH)
    for key, text in connection.execute(statement):
        if text and query_id(text) != key:  # an id without its text is a keyed hash
            collector.add(
                DeviationKind.LEDGER_CHANGED, key, f"question {str(key)[:64]}: its text is another; {RESTORE}"
            )
