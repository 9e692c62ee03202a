"""What waits in quarantine, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import versions_from_table
from corpus_guard.domain import Finding, Severity, Skipped, Span, Version
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import decisions, documents, findings, versions

SHORTEST_PREFIX = 6


@dataclass(frozen=True, slots=True)
class Item:
    """A version in the ledger, as the queue shows it."""

    version_id: str
    doc_id: str
    source: str
    uri: str
    trust: str
    state: str
    risk: float
    judged_at: datetime
    findings: tuple[Finding, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "version_id": self.version_id,
            "doc_id": self.doc_id,
            "source": self.source,
            "uri": self.uri,
            "trust": self.trust,
            "state": self.state,
            "risk": self.risk,
            "judged_at": self.judged_at.isoformat(),
            "findings": [finding.as_dict() for finding in self.findings],
        }


@dataclass(frozen=True, slots=True)
class Evidence:
    """One item with everything a reviewer decides on."""

    item: Item
    version: Version
    skipped: tuple[Skipped, ...]
    served_version: str | None  # what is served of the same document meanwhile
    history: tuple[Mapping[str, Any], ...]  # decisions on this document's versions, oldest first


def waiting(
    ledger: Ledger, *, source: str | None = None, state: str = "quarantined", limit: int = 100
) -> tuple[list[Item], int]:
    """Items in `state`, the riskiest first, and how many there are in all. Superseded and vanished ones do not wait."""
    condition = [
        versions.c.state == state,
        versions.c.version_id == documents.c.latest_version,
        documents.c.retired_at.is_(None),
    ]
    if source:
        condition.append(documents.c.source == source)
    joined = versions.join(documents, documents.c.doc_id == versions.c.doc_id)
    with ledger.read() as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(joined).where(*condition)) or 0
        rows = connection.execute(
            _items().where(*condition).order_by(versions.c.risk.desc(), versions.c.version_id).limit(limit)
        ).all()
        return _with_findings(connection, rows), total


def find(ledger: Ledger, name: str) -> Item:
    """One version by its id or the beginning of it.

    Raises:
        UnknownSubject: there is none.
        Misuse: there are several.
    """
    if len(name) < SHORTEST_PREFIX:
        raise Misuse(
            f"item {name!r}: give at least {SHORTEST_PREFIX} characters of its id; see `guard quarantine list`"
        )
    prefix = versions.c.version_id.startswith(name.lower(), autoescape=True)
    with ledger.read() as connection:
        rows = connection.execute(_items().where(prefix).limit(2)).all()
        if not rows:
            raise UnknownSubject(f"item {name!r} is not in the ledger; see `guard quarantine list`")
        if len(rows) > 1:
            raise Misuse(f"item {name!r} could be {rows[0].version_id} or {rows[1].version_id}; give more of its id")
        return _with_findings(connection, rows)[0]


def evidence(ledger: Ledger, storage: Storage, item: Item) -> Evidence:
    """Everything a reviewer decides on.

    Raises:
        UnknownSubject: its text was purged.
    """
    with ledger.read() as connection:
        row = connection.execute(
            sa.select(versions.c.batch, versions.c.skipped, documents.c.target_version)
            .join(documents, documents.c.doc_id == versions.c.doc_id)
            .where(versions.c.version_id == item.version_id)
        ).one()
        history = connection.execute(
            sa.select(decisions)
            .join(versions, versions.c.version_id == decisions.c.version_id)
            .where(versions.c.doc_id == item.doc_id)
            .order_by(decisions.c.decided_at)
        ).mappings()
        past = tuple(dict(one) for one in history)
    found = versions_from_table(storage.read_table(row.batch, filters=[("version_id", "=", item.version_id)]))
    if not found:
        raise UnknownSubject(
            f"item {item.version_id} was purged: its text is gone, `guard purge` and the event log keep who asked for it and why"
        )
    return Evidence(
        item=item,
        version=found[0],
        skipped=tuple(Skipped(*skipped) for skipped in row.skipped),
        served_version=row.target_version,
        history=past,
    )


def _items() -> sa.Select[Any]:
    return sa.select(
        versions.c.version_id,
        versions.c.doc_id,
        documents.c.source,
        documents.c.uri,
        documents.c.trust,
        versions.c.state,
        versions.c.risk,
        versions.c.judged_at,
    ).join(documents, documents.c.doc_id == versions.c.doc_id)


def _with_findings(connection: sa.Connection, rows: Sequence[Any]) -> list[Item]:
    by_version: dict[str, list[Finding]] = {row.version_id: [] for row in rows}
    statement = (
        sa.select(findings)
        .where(findings.c.version_id.in_(list(by_version)))
        .order_by(findings.c.version_id, findings.c.ordinal)
    )
    for row in connection.execute(statement):
        span = Span(row.span_start, row.span_end) if row.span_start is not None else None
        finding = Finding(
            row.check_name, row.code, Severity(row.severity), row.score, row.message, span, tuple(row.tags)
        )
        by_version[row.version_id].append(finding)
    return [Item(**row._mapping, findings=tuple(by_version[row.version_id])) for row in rows]
