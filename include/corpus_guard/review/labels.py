"""Decisions as labels: a release says that the alarm was false, a rejection that it was correct.

`guard calibrate` counts them by document (`corpus_guard.screening.history`), the health view by check;
training uses them one by one. An undone decision, or a first approval of two, is no label. Of several
decisions on one version the last counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final, Literal

import sqlalchemy as sa

from corpus_guard.domain import JsonRecord, Severity
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row, record_from_row
from corpus_guard.ledger.states import ReviewAction
from corpus_guard.ledger.tables import decision_stands, decisions, documents, findings, versions

ROWS_PER_FETCH: Final = 2_000


@dataclass(frozen=True, slots=True)
class ReviewLabel(JsonRecord):
    """A person's decision on a version, and the findings that the checks had."""

    version_id: str
    content_sha256: str
    source: str
    trust: str
    label: Literal["honest", "attack"]
    risk: float
    checks: tuple[str, ...]  # checks with a finding above severity info; muted findings are left out
    codes: tuple[str, ...]  # codes of these findings
    waited_seconds: float | None  # seconds until the decision; None if unknown
    decided_at: datetime
    policy_digest: str

    def as_dict(self) -> dict[str, object]:
        """Return a JSON-ready form without any text or name of a person."""
        return {**JsonRecord.as_dict(self), "risk": round(self.risk, 4)}


def load_labels(ledger: Ledger, *, source: str | None = None, since: datetime | None = None) -> Iterator[ReviewLabel]:
    """Yield labels, ordered by version id and streamed from the ledger."""
    newest = (
        sa.func.row_number()
        .over(partition_by=decisions.c.version_id, order_by=(decisions.c.decided_at.desc(), decisions.c.decision_id))
        .label("nth")
    )
    reviews = sa.and_(decision_stands(), decisions.c.purpose.is_(None))
    last = sa.select(decisions, newest).where(reviews).subquery()
    relevant = sa.and_(
        findings.c.version_id == versions.c.version_id,
        sa.func.coalesce(findings.c.muted, sa.false()) == sa.false(),
        findings.c.severity != Severity.INFO.value,
    )
    statement: sa.Select[Any] = (
        sa.select(
            *versions.c["version_id", "content_sha256", "risk", "waits_since"],
            documents.c.source,
            documents.c.trust,
            last.c.verdict,
            last.c.decided_at,
            last.c.policy_digest,
            findings.c.check_name,
            findings.c.code,
        )
        .join(versions, versions.c.version_id == last.c.version_id)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .outerjoin(findings, relevant)
        .where(last.c.nth == 1)
        .order_by(versions.c.version_id, findings.c.ordinal)
        .execution_options(yield_per=ROWS_PER_FETCH)
    )
    if source is not None:
        statement = statement.where(documents.c.source == source)
    if since is not None:
        statement = statement.where(last.c.decided_at >= since)
    with ledger.read() as connection:
        for _, group in groupby(connection.execute(statement), key=lambda row: row.version_id):
            yield _build_label(list(group))


def _build_label(rows: Sequence[Row]) -> ReviewLabel:
    first = rows[0]
    waited = (first.decided_at - first.waits_since).total_seconds() if first.waits_since else None
    return record_from_row(
        ReviewLabel,
        first,
        label="honest" if first.verdict == ReviewAction.RELEASE else "attack",
        checks=tuple(dict.fromkeys(row.check_name for row in rows if row.check_name)),
        codes=tuple(dict.fromkeys(row.code for row in rows if row.code)),
        waited_seconds=waited if waited is not None and waited >= 0 else None,
    )
