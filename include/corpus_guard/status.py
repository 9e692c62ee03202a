"""A deployment at a glance, from the ledger alone."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from corpus_guard.guard import Guard
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, heads, incidents, publications, runs, seals, versions
from corpus_guard.settings import Settings

RUNS = 5
RUNS_LOOKED_AT = 500  # for the last one of each source


def read_status(guard: Guard) -> dict[str, Any]:
    """Sources, last runs, policy, manifest and addresses; JSON-ready. Loads no model and asks no server."""
    last = _last_seal(guard.ledger)
    return {
        "sources": _sources(guard.ledger),
        "runs": _runs(guard.ledger),
        "policy": f"{guard.policy.name}, digest {guard.screening.digest[:16]}, {guard.settings.policy_file}",
        "thresholds": {name: one.model_dump(mode="json") for name, one in sorted(guard.policy.sources.items())},
        "shadow": sorted(guard.policy.shadow),
        "muted": {source: sorted(codes) for source, codes in sorted(guard.screening.mutes.items())},
        "would_wait": _would_wait(guard.ledger),
        "canaries": _canaries(guard.ledger),
        "manifest": guard.storage.location(last.manifest) if last else None,
        "manifest_sha256": last.manifest_sha256 if last else None,
        "head": _head(guard.ledger),
        "incidents": _open_incidents(guard.ledger),
        "ledger": guard.ledger.address,
        "storage": guard.settings.storage,
        "chroma": _chroma(guard.settings),
    }


def read_sources(guard: Guard) -> list[dict[str, Any]]:
    """Every declared source with what became of it; JSON-ready. Contacts no source.

    Raises:
        SettingsError: sources.yaml is missing or wrong.
    """
    from corpus_guard.intake.sources.config import read_declarations
    from corpus_guard.intake.sources.declaring import place

    counted = {row["source"]: row for row in _sources(guard.ledger)}
    seen = sa.select(documents.c.source, sa.func.max(documents.c.last_seen_at)).group_by(documents.c.source)
    done = (
        sa.select(runs.c.run_id, runs.c.sources, runs.c.state, runs.c.started_at)
        .where(runs.c.kind == "refresh")
        .order_by(runs.c.started_at.desc())
        .limit(RUNS_LOOKED_AT)
    )
    last: dict[str, Any] = {}
    with guard.ledger.read() as connection:
        seen_at = {row[0]: row[1] for row in connection.execute(seen)}
        for run in connection.execute(done):
            for name in run.sources:
                last.setdefault(name, run)
    found = []
    for config in read_declarations(guard.settings.sources_file):
        counts, ran = counted.get(config.name, {}), last.get(config.name)
        numbers = {name: counts.get(name, 0) for name in ("documents", "served", "waiting", "rejected", "chunks")}
        found.append(
            {
                "name": config.name,
                "kind": config.kind,
                "owner": config.owner,
                "trust": config.trust.value,
                "url": place(config),
                **numbers,
                "last_run": ran.run_id if ran else None,
                "last_run_state": ran.state if ran else None,
                "last_run_at": ran.started_at.isoformat() if ran else None,
                "last_seen_at": seen_at[config.name].isoformat() if config.name in seen_at else None,
            }
        )
    return found


def _sources(ledger: Ledger) -> list[dict[str, Any]]:
    living = documents.c.retired_at.is_(None)
    latest = sa.and_(versions.c.version_id == documents.c.latest_version, living)
    counted = (
        sa.select(
            documents.c.source,
            documents.c.trust,
            sa.func.count().filter(living).label("documents"),
            sa.func.count(documents.c.target_version).label("served"),
            sa.func.count().filter(latest, versions.c.state == "quarantined").label("waiting"),
            sa.func.count().filter(latest, versions.c.state == "rejected").label("rejected"),
        )
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .group_by(documents.c.source, documents.c.trust)
        .order_by(documents.c.source)
    )
    chunks = (
        sa.select(documents.c.source, sa.func.count())
        .join(documents, documents.c.doc_id == publications.c.doc_id)
        .where(publications.c.state == "published")
        .group_by(documents.c.source)
    )
    with ledger.read() as connection:
        served = {row[0]: row[1] for row in connection.execute(chunks)}
        return [{**row._mapping, "chunks": served.get(row.source, 0)} for row in connection.execute(counted)]


def _runs(ledger: Ledger) -> list[dict[str, Any]]:
    with ledger.read() as connection:
        rows = connection.execute(sa.select(runs).order_by(runs.c.started_at.desc()).limit(RUNS)).all()
    return [
        {
            "run_id": row.run_id,
            "kind": row.kind,
            "state": row.state,
            "started_at": row.started_at.isoformat(),
            "finished_at": row.finished_at.isoformat() if row.finished_at else None,
            "counts": row.counts,
        }
        for row in rows
    ]


def _would_wait(ledger: Ledger) -> dict[str, int]:
    """Source → latest versions that were accepted, and would not have been if nothing were shadowed."""
    statement = (
        sa.select(documents.c.source, sa.func.count())
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .where(documents.c.retired_at.is_(None), versions.c.state == "accepted", versions.c.shadow_verdict.is_not(None))
        .group_by(documents.c.source)
        .order_by(documents.c.source)
    )
    with ledger.read() as connection:
        return {row[0]: row[1] for row in connection.execute(statement)}


def _canaries(ledger: Ledger) -> Any:
    """What became of the canaries of the last refresh that was ended."""
    statement = (
        sa.select(runs.c.counts)
        .where(runs.c.kind == "refresh", runs.c.finished_at.is_not(None))
        .order_by(runs.c.started_at.desc())
        .limit(RUNS)
    )
    with ledger.read() as connection:
        found = (row.counts.get("canaries") for row in connection.execute(statement) if row.counts)
        return next((canaries for canaries in found if canaries), None)


def _last_seal(ledger: Ledger) -> Any:
    with ledger.read() as connection:
        return connection.execute(sa.select(seals).order_by(seals.c.number.desc()).limit(1)).first()


def _head(ledger: Ledger) -> dict[str, Any] | None:
    """The newest signed head; what it says is believed only by `guard verify`."""
    with ledger.read() as connection:
        row = connection.execute(sa.select(heads).order_by(heads.c.number.desc()).limit(1)).first()
    return {"events": row.size, "root": row.root, "signed_at": row.signed_at.isoformat()} if row else None


def _open_incidents(ledger: Ledger) -> list[str]:
    with ledger.read() as connection:
        statement = sa.select(incidents.c.incident_id).where(incidents.c.state == "open")
        return list(connection.scalars(statement.order_by(incidents.c.opened_at)))


def _chroma(settings: Settings) -> str:
    return f"{settings.chroma_url}, store {settings.home / 'chroma'}, collections {settings.collection_prefix}-*"
