"""Findings and decisions as they lie in a ledger, and names that mean harm."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.corpus import publishing
from corpus_guard.domain import Finding, Severity, Verdict, Version
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import decisions, versions
from corpus_guard.screening.tags import TAG_KEYS, tag_ids
from material import a_finding, a_version, at, judged

SECRET = "the combination of the safe is 7-31-9"
HOSTILE = "javascript:alert(1)//\u202e\x1b[31m\n<script>{{ x }}.md"
NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)

Validate = Callable[[Any], None]


def remember(ledger: Ledger, uri: str, *found: Finding, verdict: Verdict = Verdict.QUARANTINE, **stamp: Any) -> Version:
    """A version with findings, as a refresh leaves it in the ledger; its text and its title are secret."""
    version = a_version(uri, (f"{SECRET} in {uri!r}",), declared={"title": SECRET}, **stamp)
    with ledger.write() as connection:
        publishing.record(
            connection,
            "run-1",
            "batches/none/versions.parquet",
            [(version, judged(version, verdict, findings=found, risk=0.87654321))],
            collection=lambda trust: f"test-{trust}",
            vectors="",
            model="",
        )
    return version


def decide(ledger: Ledger, version: Version, verdict: str, *, minute: float = 60, applied: bool = True) -> None:
    """A decision as `review.decisions` leaves it in the ledger."""
    when = at(minute)
    row = {
        "decision_id": f"{verdict}{minute}{version.version_id}"[:32],
        "version_id": version.version_id,
        "content_sha256": version.stamp.content_sha256,
        "verdict": verdict,
        "reviewer": "ada\u202e",
        "reason": "looked at it",
        "policy_digest": "1" * 64,
        "decided_at": when,
        "applied_at": when if applied else None,
    }
    state = {"release": "released", "reject": "rejected"}[verdict]
    with ledger.write() as connection:
        connection.execute(decisions.insert().values(row))
        if applied:
            connection.execute(versions.update().where(versions.c.version_id == version.version_id).values(state=state))


def judged_at(ledger: Ledger, version: Version, when: datetime) -> None:
    ledger.execute(sa.update(versions).where(versions.c.version_id == version.version_id).values(judged_at=when))


EVERY = tuple(
    a_finding(f"instructions.{severity.value}", severity=severity, tags=tag_ids(sorted(TAG_KEYS)), score=0.91234567)
    for severity in Severity
)
