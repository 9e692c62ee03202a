"""Exposure: whom a text has reached, as far as the retrieval log tells.

Rules
    * *retrieved* is what a search gave to the application; *shown* is what the application says a person saw or its
      answer cites. Where nothing was said the count is `None`: not known is not zero;
    * every count is made by SQL over the whole log; only the lists are cut, and say so;
    * the log begins where pruning ended, or with its first entry: what lies before is not known;
    * anyone who may ask questions can write to the log: an exposure says what was asked, not who meant it.

Not done here: why the text is there (`corpus_guard.traceback`), and what to do about it.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Any, ClassVar, Final

import sqlalchemy as sa

from corpus_guard.corpus.retrieval_log import PRUNED_EVENT, query_id
from corpus_guard.domain import JsonRecord
from corpus_guard.errors import UnknownSubject
from corpus_guard.forensics.kinds import SubjectKind
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, Select, is_sqlite, select_in_batches, values_by_id
from corpus_guard.ledger.states import Label
from corpus_guard.ledger.tables import (
    chunks,
    documents,
    events,
    filings,
    publications,
    purges,
    queries,
    reports,
    retrievals,
    retrieved_chunks,
    suspects,
    traces,
    versions,
)
from corpus_guard.traceback.records import find_trace

LISTED = 20  # entries of a list, unless the caller wants more
MAX_LISTED = 10_000
MIN_PREFIX = 8  # characters of an id


@dataclass(frozen=True, slots=True)
class ExposureSubject:
    """A thing whose exposure is measured."""

    kind: SubjectKind
    key: str  # id, or a source's name
    label: str  # for people; may hold hostile text

    def chunk_ids(self) -> Select:
        """Return the statement that selects the ids of its chunks."""
        if self.kind is SubjectKind.CHUNK:  # it may be foreign: in the log, and never published
            return sa.select(sa.literal(self.key, sa.String).label("chunk_id"))
        if self.kind is SubjectKind.TRACE:
            accused = (suspects.c.trace_id == self.key, suspects.c.label == Label.POISONED)
            return sa.select(suspects.c.chunk_id).where(*accused)
        versioned = sa.select(chunks.c.chunk_id).join(versions, versions.c.version_id == chunks.c.version_id)
        condition: sa.ColumnElement[bool]
        match self.kind:
            case SubjectKind.DOCUMENT:
                condition = versions.c.doc_id == self.key
            case SubjectKind.SOURCE:
                condition = versions.c.doc_id.in_(sa.select(documents.c.doc_id).where(documents.c.source == self.key))
            case SubjectKind.RUN:
                condition = versions.c.run_id == self.key
            case SubjectKind.PRINCIPAL:
                condition = versions.c.principal == self.key
            case SubjectKind.PURGE:
                named = sa.cast(purges.c.versions, sa.Text).contains(versions.c.version_id)
                condition = sa.exists().where(purges.c.purge_id == self.key, named)
        return versioned.where(condition)


@dataclass(frozen=True, slots=True)
class Reach:
    """Reach of texts: distinct counts over retrievals."""

    retrievals: int
    questions: int
    sessions: int | None  # None: no retrieval names its session
    users: int | None  # None: no retrieval names its user
    first: datetime | None  # None: there was no retrieval
    last: datetime | None


@dataclass(frozen=True, slots=True)
class ExposedQuestion:
    """A question for which texts of the subject were retrieved."""

    query_id: str
    text: str | None  # hostile; None: the log keeps no texts
    retrievals: int
    shown: int | None  # of these, where a text of the subject was shown; None: not known
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class ExposedParty:
    """A session or a user that texts of the subject reached."""

    name: str  # hostile
    retrievals: int
    shown: int | None  # None: not known
    first: datetime
    last: datetime


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer that was given from texts of the subject."""

    text: str  # hostile
    times: int
    last: datetime


class ReportRoad(StrEnum):
    """Way from a report of a wrong answer to texts."""

    TRACED = "traced"  # a trace of it accuses one of them
    SERVED = "served"  # its reporter names one of them among what was served
    QUESTION = "question"  # it asks a question for which one of them was retrieved


@dataclass(frozen=True, slots=True)
class ExposedReport:
    """A report of a wrong answer that belongs to texts of the subject."""

    report_id: str
    query: str  # hostile
    output: str  # hostile
    state: str
    road: ReportRoad  # the surest one
    last_reported_at: datetime


@dataclass(frozen=True, slots=True)
class Exposure(JsonRecord):
    """Exposure of people to texts."""

    json_properties: ClassVar = ("predates_log",)

    subjects: tuple[ExposureSubject, ...]
    chunks: int  # distinct texts of the subject that the ledger or the log knows
    log_from: datetime | None  # the log is complete from here on; None: it is empty
    served_since: datetime | None  # when the oldest of them that was published was fetched; None: none was published
    retrieved: Reach
    shown: Reach | None  # None: nobody said of any of these retrievals what was shown
    shown_unknown: int  # retrievals of which nobody said it
    context_share: float | None  # mean share of a retrieval's texts that are the subject's; None: no retrieval
    days: tuple[tuple[date, int], ...]  # (UTC day, retrievals), oldest first; days without any are left out
    questions: tuple[ExposedQuestion, ...]  # most often retrieved first
    sessions: tuple[ExposedParty, ...]
    users: tuple[ExposedParty, ...]
    answers: tuple[GivenAnswer, ...] | None  # most frequent first; None: no answer is logged
    reports: tuple[ExposedReport, ...]  # surest road first
    reports_total: int

    @property
    def predates_log(self) -> bool:
        """True if the texts were served before the log begins: older retrievals are not known."""
        return self.served_since is not None and (self.log_from is None or self.served_since < self.log_from)


def find_subject(ledger: Ledger, name: str, kind: SubjectKind | None = None) -> ExposureSubject:
    """Return the subject that `name` names.

    Args:
        name: id of a chunk, trace, run, principal or purge (of a trace and a purge its beginning); id, URI or source/URI of
            a document; name of a source. Of several kinds, the first in the order of `SubjectKind` counts.
        kind: look for this kind only.

    Raises:
        UnknownSubject: there is no such thing, or a document's URI is in several sources.
    """
    with ledger.read() as connection:
        for candidate in [kind] if kind else list(SubjectKind):
            if candidate is not SubjectKind.TRACE:
                matches = connection.execute(_FINDERS[candidate](name).limit(2)).all()
                if len({row.key for row in matches}) > 1:
                    raise UnknownSubject(
                        f"{candidate} {name[:200]!r} is in several sources; give SOURCE/URI or the document's id"
                    )
                if matches:
                    return ExposureSubject(candidate, matches[0].key, str(matches[0].label))
    if kind in {None, SubjectKind.TRACE} and len(name) >= MIN_PREFIX and name.isalnum():
        try:
            trace = find_trace(ledger, name)
            return ExposureSubject(SubjectKind.TRACE, trace.trace_id, trace.trace_id[:8])
        except UnknownSubject:
            if kind:
                raise
    raise UnknownSubject(
        f"{kind or 'subject'} {name[:200]!r} is in neither the ledger nor the retrieval log; `guard search --json`, "
        "`guard trace list` and `guard status` show ids"
    )


def measure_exposure(
    ledger: Ledger, *subjects: ExposureSubject, listed: int = LISTED, key: bytes | None = None
) -> Exposure:
    """Return whom the texts of these subjects, taken together, have reached.

    Args:
        subjects: one or several; at least one.
        listed: entries of each list at most; counts are complete.
        key: under which the log hashes questions; None: it stores them. Without the right one, a report is not
            recognised by its question.
    """
    listed = min(max(listed, 0), MAX_LISTED)
    wanted = sa.union(*(subject.chunk_ids() for subject in subjects)).subquery("wanted")
    with ledger.read() as connection, _collected_hits(connection, wanted) as hits:
        total = connection.execute(_select_whole(hits)).one()
        questions, sessions, users = _list_reached(connection, hits, listed)
        was_shown = hits.c.shown == 1
        shown = None
        if total.shown_recorded:
            reached = (_count_groups(connection, column, was_shown) for column in _reached_columns(hits))
            shown = _reach(connection.execute(_select_span(hits).where(was_shown)).one(), *reached)
        report_rows, reports_total = _find_reports(connection, wanted, hits, listed, key)
        return Exposure(
            subjects=tuple(subjects),
            chunks=connection.scalar(sa.select(sa.func.count()).select_from(wanted)) or 0,
            log_from=log_begins(connection),
            served_since=_served_since(connection, wanted),
            retrieved=_reach(total, questions.total, sessions.total, users.total),
            shown=shown,
            shown_unknown=total.retrievals - total.shown_recorded,
            context_share=total.share,
            days=_days(connection, hits),
            questions=_questions(connection, questions.rows),
            sessions=_parties(sessions.rows),
            users=_parties(users.rows),
            answers=_answers(connection, hits, listed) if total.answered else None,
            reports=report_rows,
            reports_total=reports_total,
        )


def log_begins(connection: sa.Connection) -> datetime | None:
    """Return from when on the retrieval log is complete: the end of the last pruning, or else its first entry."""
    pruned = connection.scalars(
        sa.select(events.c.subject).where(events.c.kind == PRUNED_EVENT).order_by(events.c.seq.desc()).limit(1)
    ).first()
    first: datetime | None = connection.scalar(sa.select(sa.func.min(retrievals.c.at)))
    return datetime.fromisoformat(pruned) if pruned is not None else first


def _served_since(connection: sa.Connection, wanted: sa.Subquery) -> datetime | None:
    fetched: str | None = connection.scalar(
        sa.select(sa.func.min(versions.c.stamp["fetched_at"].as_string()))
        .join(publications, publications.c.version_id == versions.c.version_id)
        .where(publications.c.chunk_id.in_(sa.select(wanted.c.chunk_id)))
    )
    return datetime.fromisoformat(fetched) if fetched else None


@contextmanager
def _collected_hits(connection: sa.Connection, wanted: sa.Subquery) -> Iterator[sa.Table]:
    """Collect each retrieval of a wanted text once, for as long as the block runs.

    A temporary table: as a common table expression the retrievals are looked up again for every figure, which took 5.5 s
    of the processor for 432,000 of them instead of 2.
    """
    shown = sa.func.max(sa.cast(retrieved_chunks.c.shown, sa.Integer))
    own = (
        sa.select(retrieved_chunks.c.retrieval_id, sa.func.count().label("texts"), shown.label("shown"))
        .where(retrieved_chunks.c.chunk_id.in_(sa.select(wanted.c.chunk_id)))
        .group_by(retrieved_chunks.c.retrieval_id)
        .subquery("own_texts")
    )
    create = (
        sa.select(
            own,
            retrievals.c.query_id,
            retrievals.c.at,
            sa.case((retrievals.c.session != "", retrievals.c.session)).label("session"),
            sa.case((retrievals.c.user_id != "", retrievals.c.user_id)).label("user_id"),
            retrievals.c.served,
            retrievals.c.answer.is_not(None).label("is_answered"),
        )
        .join(retrievals, retrievals.c.retrieval_id == own.c.retrieval_id)
        .into(f"exposed_retrievals_{secrets.token_hex(8)}", temporary=True)
    )
    connection.execute(create)
    yield create.table
    create.table.drop(connection, checkfirst=False)  # after an error the rollback removes it


def _select_span(hits: sa.Table, *more: sa.ColumnElement[Any]) -> Select:
    """Select how many retrievals there are, the first and the last, and `more`."""
    span = (
        sa.func.count().label("retrievals"),
        sa.func.min(hits.c.at).label("first"),
        sa.func.max(hits.c.at).label("last"),
    )
    return sa.select(*span, *more).select_from(hits)


def _select_whole(hits: sa.Table) -> Select:
    """Select the span, the mean share of a retrieval's texts, and of how many is told what was shown and answered."""
    # The log may have lost the count of an older release: a retrieval has at least the wanted texts.
    size = sa.case((hits.c.served < hits.c.texts, hits.c.texts), else_=hits.c.served)
    return _select_span(
        hits,
        sa.func.avg(sa.cast(hits.c.texts, sa.Float) / size).label("share"),
        sa.func.count(hits.c.shown).label("shown_recorded"),
        sa.func.sum(sa.case((hits.c.is_answered, 1), else_=0)).label("answered"),
    )


def _reach(row: Row, questions: int, sessions: int, users: int) -> Reach:
    return Reach(row.retrievals, questions, sessions or None, users or None, row.first, row.last)


@dataclass(frozen=True, slots=True)
class _Reached:
    """Questions, sessions or users that texts reached."""

    total: int  # distinct names
    rows: Sequence[Row]  # name, times, shown, recorded, first, last; most often reached first


def _reached_columns(hits: sa.Table) -> tuple[sa.Column[Any], ...]:
    return hits.c.query_id, hits.c.session, hits.c.user_id


def _list_reached(connection: sa.Connection, hits: sa.Table, listed: int) -> Iterator[_Reached]:
    """Yield the questions, the sessions and the users."""
    for column in _reached_columns(hits):
        times = sa.func.count().label("times")
        statement = (
            sa.select(column.label("name"), times, sa.func.count().over().label("names"))
            .where(column.is_not(None))
            .group_by(column)
            .order_by(times.desc(), column)
            .limit(max(listed, 1))
        )
        most = connection.execute(statement).all()
        details = sa.select(
            column.label("name"),
            times,
            sa.func.sum(sa.func.coalesce(hits.c.shown, 0)).label("shown"),
            sa.func.count(hits.c.shown).label("recorded"),
            sa.func.min(hits.c.at).label("first"),
            sa.func.max(hits.c.at).label("last"),
        ).group_by(column)
        names = [row.name for row in most[:listed]]
        rows = {row.name: row for row in select_in_batches(connection, details, column, names)}
        yield _Reached(most[0].names if most else 0, [rows[name] for name in names])


def _count_groups(connection: sa.Connection, column: sa.Column[Any], *conditions: sa.ColumnElement[bool]) -> int:
    """Return the number of distinct names. Faster than ``count(DISTINCT …)``, which SQLite sorts."""
    names = sa.select(column).where(column.is_not(None), *conditions).group_by(column).subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(names)) or 0


def _questions(connection: sa.Connection, rows: Sequence[Row]) -> tuple[ExposedQuestion, ...]:
    texts = values_by_id(connection, sa.select(queries.c.query_id, queries.c.text), (row.name for row in rows))
    return tuple(
        ExposedQuestion(
            row.name, texts.get(row.name) or None, row.times, row.shown if row.recorded else None, row.first, row.last
        )
        for row in rows
    )


def _parties(rows: Sequence[Row]) -> tuple[ExposedParty, ...]:
    return tuple(
        ExposedParty(row.name, row.times, row.shown if row.recorded else None, row.first, row.last) for row in rows
    )


def _answers(connection: sa.Connection, hits: sa.Table, listed: int) -> tuple[GivenAnswer, ...]:
    times = sa.func.count().label("times")
    statement = (
        sa.select(retrievals.c.answer, times, sa.func.max(retrievals.c.at).label("last"))
        .join(hits, hits.c.retrieval_id == retrievals.c.retrieval_id)
        .where(hits.c.is_answered)
        .group_by(retrievals.c.answer)
        .order_by(times.desc(), retrievals.c.answer)
        .limit(listed)
    )
    return tuple(GivenAnswer(row.answer, row.times, row.last) for row in connection.execute(statement))


def _days(connection: sa.Connection, hits: sa.Table) -> tuple[tuple[date, int], ...]:
    day = sa.func.date(hits.c.at) if is_sqlite(connection) else sa.func.date(sa.func.timezone("UTC", hits.c.at))
    statement = sa.select(day.label("day"), sa.func.count().label("times")).group_by(day).order_by(day)
    return tuple((date.fromisoformat(str(row.day)), row.times) for row in connection.execute(statement))


def _find_reports(
    connection: sa.Connection, wanted: sa.Subquery, hits: sa.Table, listed: int, key: bytes | None
) -> tuple[tuple[ExposedReport, ...], int]:
    ids = sa.select(wanted.c.chunk_id)
    traced = (
        sa.select(traces.c.report_id)
        .join(suspects, suspects.c.trace_id == traces.c.trace_id)
        .where(suspects.c.chunk_id.in_(ids), suspects.c.label == Label.POISONED)
    )
    elements = sa.func.json_each(filings.c.served) if is_sqlite(connection) else None
    if elements is not None:
        named = elements.table_valued("value", joins_implicitly=True).c.value
    else:
        named = sa.func.json_array_elements_text(filings.c.served).table_valued("value", joins_implicitly=True).c.value
    served = sa.select(filings.c.report_id).where(named.in_(ids))
    reported = hits.c.query_id.in_(sa.select(reports.c.query_id))  # few; the retrievals may be many
    questioned = sa.select(reports.c.report_id).where(
        reports.c.query_id.in_(sa.select(hits.c.query_id).where(reported))
    )
    roads: dict[str, ReportRoad] = {}
    for road, statement in (
        (ReportRoad.TRACED, traced),
        (ReportRoad.SERVED, served),
        (ReportRoad.QUESTION, questioned),
    ):
        for report_id in connection.scalars(statement.distinct().order_by(sa.text("1"))):
            roads.setdefault(report_id, road)
    if key:
        every = connection.execute(sa.select(reports.c.report_id, reports.c.query).order_by(reports.c.report_id))
        by_question = defaultdict(list)
        for report in every:
            by_question[query_id(report.query, key)].append(report.report_id)
        statement = sa.select(hits.c.query_id).distinct()
        for hit in select_in_batches(connection, statement, hits.c.query_id, by_question):
            for report_id in by_question[hit.query_id]:
                roads.setdefault(report_id, ReportRoad.QUESTION)
    listed_ids = list(roads)[:listed]
    rows = {
        row.report_id: row for row in connection.execute(sa.select(reports).where(reports.c.report_id.in_(listed_ids)))
    }
    listed_reports = tuple(
        ExposedReport(row.report_id, row.query, row.output, row.state, roads[row.report_id], row.last_reported_at)
        for report_id in listed_ids
        if (row := rows.get(report_id)) is not None
    )
    return listed_reports, len(roads)


def _find_chunk(name: str) -> Select:
    in_ledger = sa.select(chunks.c.chunk_id.label("key")).where(chunks.c.chunk_id == name)
    in_log = sa.select(retrieved_chunks.c.chunk_id.label("key")).where(retrieved_chunks.c.chunk_id == name).limit(1)
    union = sa.union(in_ledger, sa.select(in_log.subquery().c.key)).subquery()
    return sa.select(union.c.key, union.c.key.label("label"))


def _find_document(name: str) -> Select:
    label = documents.c.source + "/" + documents.c.uri
    return sa.select(documents.c.doc_id.label("key"), label.label("label")).where(
        sa.or_(documents.c.doc_id == name, documents.c.uri == name, label == name)
    )


def _find_source(name: str) -> Select:
    return sa.select(documents.c.source.label("key"), documents.c.source.label("label")).where(
        documents.c.source == name
    )


def _find_run(name: str) -> Select:
    return sa.select(versions.c.run_id.label("key"), versions.c.run_id.label("label")).where(versions.c.run_id == name)


def _find_principal(name: str) -> Select:
    column = versions.c.principal
    return sa.select(column.label("key"), column.label("label")).where(column == name)


def _find_purge(name: str) -> Select:
    column = purges.c.purge_id
    is_named = column.startswith(name, autoescape=True) if len(name) >= MIN_PREFIX else sa.false()
    return sa.select(column.label("key"), ("purge " + sa.func.substr(column, 1, 8)).label("label")).where(is_named)


_FINDERS: Final = {
    SubjectKind.CHUNK: _find_chunk,
    SubjectKind.DOCUMENT: _find_document,
    SubjectKind.SOURCE: _find_source,
    SubjectKind.RUN: _find_run,
    SubjectKind.PRINCIPAL: _find_principal,
    SubjectKind.PURGE: _find_purge,
}
