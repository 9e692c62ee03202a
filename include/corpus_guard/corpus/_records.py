"""The rows of the ledger that a judged version becomes. Part of `corpus_guard.corpus.publishing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.domain import Judgement, Version, sha256_text
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import Utc, chunks, documents, findings, versions
from corpus_guard.ledger.triage import Triage

TOLD = ("doc_id", "content_sha256", "text_sha256", "verdict", "risk", "policy_digest", "state", "shadow_verdict")
"""What the event of a judgement says of a version."""
TRIAGE = ("principal", "severity", "checks", "campaign", "waits_since")
"""What the queue goes by."""


def write_documents(ledger: Ledger, connection: sa.Connection, judged: Sequence[tuple[Version, Judgement]]) -> None:
    """Documents seen for the first time, and what is newest of those that are known."""
    rows = [
        {
            "doc_id": version.doc_id,
            "source": version.stamp.source,
            "uri": version.stamp.uri,
            "trust": version.stamp.trust.value,
            "latest_version": version.version_id,
            "latest_content_sha256": version.stamp.content_sha256,
            "latest_fetched_at": version.stamp.fetched_at,
            "target_version": None,
            "target_fetched_at": None,
            "last_seen_at": version.stamp.fetched_at,
            "missing_since": None,
            "retired_at": None,
        }
        for version, _ in judged
    ]
    ledger.insert_missing(connection, documents, rows)
    # Two runs may have fetched different bytes; the later fetch is the later truth, whoever records last.
    connection.execute(
        documents.update()
        .where(
            documents.c.doc_id == sa.bindparam("doc"),
            documents.c.latest_fetched_at <= sa.bindparam("fetched", type_=Utc),
        )
        .values(
            trust=sa.bindparam("level"),
            latest_version=sa.bindparam("version"),
            latest_content_sha256=sa.bindparam("content"),
            latest_fetched_at=sa.bindparam("fetched"),
        ),
        [
            {
                "doc": row["doc_id"],
                "fetched": row["latest_fetched_at"],
                "level": row["trust"],
                "version": row["latest_version"],
                "content": row["latest_content_sha256"],
            }
            for row in rows
        ],
    )
    # It is there again, whatever its verdict: what vanished does not wait in the quarantine's queue.
    connection.execute(
        documents.update()
        .where(documents.c.doc_id == sa.bindparam("doc"), documents.c.retired_at <= sa.bindparam("fetched", type_=Utc))
        .values(retired_at=None, missing_since=None),
        [{"doc": row["doc_id"], "fetched": row["latest_fetched_at"]} for row in rows],
    )


def write_versions(
    ledger: Ledger,
    connection: sa.Connection,
    run_id: str,
    batch: str,
    judged: Sequence[tuple[Version, Judgement]],
    states: Mapping[str, str],
    *,
    event: str,
) -> None:
    """Versions with their judgements, findings and chunks, and one `event` each."""
    if not judged:
        return
    when = now()
    ids = [version.version_id for version, _ in judged]
    waiting = _waiting_before(connection, ids)
    rows = [
        {
            "version_id": version.version_id,
            "doc_id": version.doc_id,
            "content_sha256": version.stamp.content_sha256,
            "text_sha256": version.text_sha256,
            "stamp": version.stamp.as_dict(),
            "batch": batch,
            "state": states[version.version_id],
            "verdict": judgement.verdict.value,
            "risk": judgement.risk,
            "policy_digest": judgement.policy_digest,
            "skipped": [[skipped.check, skipped.reason] for skipped in judgement.skipped],
            "run_id": run_id,
            "judged_at": when,
            "shadow_verdict": judgement.shadow_verdict,
            **_triage(version, judgement, states[version.version_id], waiting.get(version.version_id), when),
        }
        for version, judgement in judged
    ]
    judgement_columns = ("verdict", "risk", "policy_digest", "skipped", "shadow_verdict")
    overwrite = ["text_sha256", "stamp", "batch", "state", "run_id", "judged_at", *judgement_columns, *TRIAGE]
    ledger.upsert(connection, versions, rows, overwrite)
    connection.execute(findings.delete().where(findings.c.version_id.in_(ids)))
    ledger.insert_missing(connection, findings, [row for _, judgement in judged for row in _findings(judgement)])
    ledger.insert_missing(connection, chunks, [row for version, _ in judged for row in _chunks(version)])
    for row in rows:
        body = {name: row[name] for name in TOLD}
        ledger.event(connection, event, str(row["version_id"]), run_id, **body)


def _waiting_before(connection: sa.Connection, ids: Sequence[str]) -> dict[str, Any]:
    """Those that wait or waited: judging anew neither hides how long, nor takes them out of their campaign."""
    columns = sa.select(versions.c.version_id, versions.c.state, versions.c.waits_since, versions.c.campaign)
    rows = (
        row
        for part in split(ids, 500)
        for row in connection.execute(
            columns.where(versions.c.version_id.in_(part), versions.c.waits_since.is_not(None))
        ).all()
    )
    return {row.version_id: row for row in rows}


def _triage(version: Version, judgement: Judgement, state: str, before: Any, when: datetime) -> dict[str, Any]:
    counts = [(finding.check, finding.severity.value) for finding in judgement.findings if not finding.muted]
    triage = Triage.of(version.stamp.as_dict(), counts)
    waits, waited = state == "quarantined", before is not None and before.state == "quarantined"
    since = before.waits_since if before and state != "accepted" else None
    return {
        "principal": triage.principal,
        "severity": triage.severity,
        "checks": triage.checks,
        "campaign": (before.campaign if waited else triage.campaign) if waits else "",
        "waits_since": (since if waited else when) if waits else since,
    }


def _findings(judgement: Judgement) -> list[dict[str, Any]]:
    return [
        {
            "version_id": judgement.version_id,
            "ordinal": ordinal,
            "check_name": finding.check,
            "code": finding.code,
            "severity": finding.severity.value,
            "score": finding.score,
            "message": finding.message,
            "span_start": finding.span.start if finding.span else None,
            "span_end": finding.span.end if finding.span else None,
            "tags": list(finding.tags),
            "muted": finding.muted or None,
        }
        for ordinal, finding in enumerate(judgement.findings)
    ]


def _chunks(version: Version) -> list[dict[str, Any]]:
    return [
        {
            "chunk_id": chunk.chunk_id,
            "version_id": version.version_id,
            "ordinal": chunk.ordinal,
            "span_start": chunk.start,
            "span_end": chunk.end,
            "tokens": chunk.tokens,
            "text_sha256": sha256_text(chunk.text),
        }
        for chunk in version.chunks
    ]
