"""What the ledger holds of each document's latest version, for `corpus_guard.screening.calibration`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from corpus_guard.domain import Finding, Severity, TrustLevel
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import decisions, documents, findings, standing, versions
from corpus_guard.screening.calibration import Outcome, Recorded
from corpus_guard.screening.runner import DECIDED_ALREADY, Mutes

AT_ONCE = 5_000  # rows held

_DECIDED = {"release": Outcome.RELEASED, "reject": Outcome.REJECTED}
_JUDGED = {
    "accepted": Outcome.ACCEPTED,
    "released": Outcome.RELEASED,
    "quarantined": Outcome.WAITING,
    "rejected": Outcome.REFUSED,
}


def recorded(ledger: Ledger, source: str | None = None, mutes: Mutes = MappingProxyType({})) -> Iterator[Recorded]:
    """The latest version of every document that has not vanished, with its findings (messages and spans left out).

    Args:
        ledger: the ledger.
        source: only this one.
        mutes: source → codes that two people muted: what was found before they did is told as muted too.
    """
    statement = (
        sa.select(
            versions.c.version_id,
            versions.c.state,
            versions.c.skipped,
            documents.c.source,
            documents.c.trust,
            findings.c.check_name,
            findings.c.code,
            findings.c.severity,
            findings.c.score,
            findings.c.muted,
        )
        .select_from(
            documents.join(versions, versions.c.version_id == documents.c.latest_version).outerjoin(
                findings, findings.c.version_id == versions.c.version_id
            )
        )
        .where(documents.c.retired_at.is_(None))
        .order_by(documents.c.source, versions.c.version_id, findings.c.ordinal)
    )
    if source is not None:
        statement = statement.where(documents.c.source == source)
    last = sa.select(decisions.c.version_id, decisions.c.verdict).where(standing()).order_by(decisions.c.decided_at)
    with ledger.read() as connection:
        decided = {row.version_id: row.verdict for row in connection.execute(last)}
        rows = connection.execute(statement.execution_options(yield_per=AT_ONCE))
        for version_id, group in groupby(rows, key=lambda row: row.version_id):
            yield _recorded(list(group), decided.get(version_id), mutes)


def _muted(row: Any, mutes: Mutes) -> bool:
    return bool(row.muted) or row.code in mutes.get(row.source, ())


def _recorded(rows: list[Any], decision: str | None, muted: Mutes) -> Recorded:
    first = rows[0]
    return Recorded(
        source=first.source,
        trust=TrustLevel(first.trust),
        findings=tuple(
            Finding(row.check_name, row.code, Severity(row.severity), row.score, "", muted=_muted(row, muted))
            for row in rows
            if row.code
        ),
        outcome=_DECIDED[decision] if decision else _JUDGED[first.state],
        unseen=any(reason == DECIDED_ALREADY for _, reason in first.skipped),
    )
