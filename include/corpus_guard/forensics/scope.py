"""Scope of a case: the accused versions, their documents and chunks, and everything that happened to them.

Rules
    * accused is a text that a trace with the outcome *traced* names, a version that somebody added, and what a withdrawal
      or a purge of the case took out, each with every version of equal content: they leave together;
    * what people cleared of its report (refused, restored) is not accused by that report's traces;
    * a deviation accuses nobody: what was sealed is the honest text, and somebody changed it in the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from corpus_guard.forensics.cases import Case, MemberKind
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, record_from_row, select_in_batches
from corpus_guard.ledger.states import Label, TraceOutcome
from corpus_guard.ledger.tables import chunks, documents, events, purges, suspects, traces, versions
from corpus_guard.ledger.triage import principal_name
from corpus_guard.removal.purge_targets import versions_with_equal_content
from corpus_guard.traceback.cleared import cleared_versions


@dataclass(frozen=True, slots=True)
class AccusedVersion:
    """A version that the case accuses."""

    version_id: str
    doc_id: str
    source: str
    uri: str  # hostile text
    trust: str
    owner: str
    author: str  # as the document declares it, else its owner; hostile text
    principal: str  # digest of source and author
    state: str
    risk: float  # 0..1
    policy_digest: str
    run_id: str
    fetched_at: str  # ISO 8601
    content_sha256: str
    text_sha256: str
    batch: str  # storage name of the Parquet file with its text
    is_served: bool

    @property
    def place(self) -> str:
        """Source and URI; hostile text."""
        return f"{self.source}/{self.uri}"


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything that a case names, by id."""

    accused: tuple[AccusedVersion, ...]  # by fetch time
    chunks: tuple[str, ...]  # of the accused versions
    reports: tuple[str, ...]
    traces: tuple[str, ...]
    incidents: tuple[str, ...]
    withdrawals: tuple[str, ...]
    purges: tuple[str, ...]

    @property
    def versions(self) -> tuple[str, ...]:
        """Ids of the accused versions."""
        return tuple(version.version_id for version in self.accused)

    @property
    def documents(self) -> tuple[str, ...]:
        """Ids of their documents."""
        return tuple(sorted({version.doc_id for version in self.accused}))

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of their sources."""
        return tuple(sorted({version.source for version in self.accused}))


def scope_of(ledger: Ledger, case: Case) -> Scope:
    """Return what a case is about, as the ledger has it now."""
    with ledger.read() as connection:
        reports_of = set(case.ids(MemberKind.REPORT))
        rows = list(select_in_batches(connection, _TRACES, traces.c.trace_id, case.ids(MemberKind.TRACE)))
        rows += select_in_batches(connection, _TRACES, traces.c.report_id, reports_of)
        accusing = {row.trace_id: row for row in rows}
        version_ids = set(case.ids(MemberKind.VERSION))
        version_ids |= _versions_of_traces(connection, accusing)
        version_ids |= _versions_of_withdrawals(connection, case.ids(MemberKind.WITHDRAWAL))
        for row in select_in_batches(
            connection, sa.select(purges.c.versions), purges.c.purge_id, case.ids(MemberKind.PURGE)
        ):
            version_ids |= set(row.versions)
        whole = versions_with_equal_content(connection, version_ids)
        accused = _accused(connection, whole)
        of_versions = sa.select(chunks.c.chunk_id)
        chunk_ids = sorted(
            row.chunk_id for row in select_in_batches(connection, of_versions, chunks.c.version_id, whole)
        )
    return Scope(
        accused=tuple(accused),
        chunks=tuple(chunk_ids),
        reports=tuple(sorted(reports_of | {row.report_id for row in accusing.values()})),
        traces=tuple(sorted(accusing)),
        incidents=case.ids(MemberKind.INCIDENT),
        withdrawals=case.ids(MemberKind.WITHDRAWAL),
        purges=case.ids(MemberKind.PURGE),
    )


_TRACES = sa.select(traces.c.trace_id, traces.c.report_id, traces.c.outcome)


def _versions_of_traces(connection: sa.Connection, accusing: dict[str, Row]) -> set[str]:
    traced = [trace_id for trace_id, row in accusing.items() if row.outcome == TraceOutcome.TRACED]
    statement = sa.select(suspects.c.trace_id, suspects.c.version_id).where(
        suspects.c.label == Label.POISONED, suspects.c.version_id != ""
    )
    cleared = cleared_versions(connection)
    return {
        row.version_id
        for row in select_in_batches(connection, statement, suspects.c.trace_id, traced)
        if (accusing[row.trace_id].report_id, row.version_id) not in cleared
    }


def _versions_of_withdrawals(connection: sa.Connection, withdrawal_ids: Iterable[str]) -> set[str]:
    wanted = set(withdrawal_ids)
    if not wanted:
        return set()
    statement = sa.select(events.c.subject, events.c.body).where(events.c.kind == "withdrawn")
    return {
        version_id
        for row in connection.execute(statement)
        if row.subject in wanted
        for version_id in row.body["versions"]
    }


def _accused(connection: sa.Connection, version_ids: Iterable[str]) -> list[AccusedVersion]:
    statement = sa.select(
        versions, documents.c.source, documents.c.uri, documents.c.trust, documents.c.target_version
    ).join(documents, documents.c.doc_id == versions.c.doc_id)
    rows = select_in_batches(connection, statement, versions.c.version_id, version_ids)
    return sorted(map(_accused_version, rows), key=lambda version: (version.fetched_at, version.version_id))


def _accused_version(row: Row) -> AccusedVersion:
    return record_from_row(
        AccusedVersion,
        row,
        owner=str(row.stamp["owner"]),
        author=principal_name(row.stamp),
        principal=row.principal or "",
        fetched_at=str(row.stamp["fetched_at"]),
        is_served=row.target_version == row.version_id,
    )
