"""Status of a deployment, read from the ledger alone."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources.declarations import source_location
from corpus_guard.intake.sources.sources_file import read_declarations
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.runs import interrupted_runs, run_state
from corpus_guard.ledger.states import PublicationState, RunKind, VersionState
from corpus_guard.ledger.tables import documents, heads, publications, runs, seals, versions, waits_for_decision
from corpus_guard.pipeline.configuration import recent_loosenings
from corpus_guard.proof.incidents import list_red_incidents
from corpus_guard.screening.runner import Screening
from corpus_guard.settings import Settings

RUNS_SHOWN: Final = 5
MAX_RUNS_SEARCHED: Final = 500  # for the last run of each source

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object; the functions below say what is in it."""


def read_status(ledger: Ledger, storage: Storage, screening: Screening, settings: Settings) -> JsonObject:
    """Return sources, last runs, policy, manifest, addresses, and the incidents that nobody has acknowledged.

    Loads no model and contacts no server.
    """
    seal = _last_seal(ledger)
    undeclared, sources_problem = _undeclared_or_problem(ledger, settings)
    return {
        "sources": _sources(ledger),
        "undeclared": undeclared,
        "sources_problem": sources_problem,
        "runs": _runs(ledger),
        "interrupted": [run.run_id for run in interrupted_runs(ledger)],
        "policy": f"{screening.policy.name}, digest {screening.digest[:16]}, {settings.policy_file}",
        "thresholds": {
            name: thresholds.model_dump(mode="json") for name, thresholds in sorted(screening.policy.sources.items())
        },
        "shadow": sorted(screening.policy.shadow),
        "muted": {source: sorted(codes) for source, codes in sorted(screening.mutes.items())},
        "loosened": [change.as_dict() for change in recent_loosenings(ledger)],
        "would_wait": _would_wait(ledger),
        "canaries": _canaries(ledger),
        "manifest": storage.location(seal.manifest) if seal else None,
        "manifest_sha256": seal.manifest_sha256 if seal else None,
        "head": _head(ledger),
        "incidents": [incident.as_dict() for incident in list_red_incidents(ledger)],
        "ledger": ledger.address,
        "storage": settings.storage,
        "store": _store(settings),
    }


def read_sources(ledger: Ledger, settings: Settings) -> list[JsonObject]:
    """Return every declared source with its counts and its last run. Contacts no source.

    Raises:
        SettingsError: sources.yaml is missing or invalid.
    """
    counts_by_source = {row["source"]: row for row in _sources(ledger)}
    last_seen = sa.select(documents.c.source, sa.func.max(documents.c.last_seen_at)).group_by(documents.c.source)
    refreshes: sa.Select[Any] = (
        sa.select(*runs.c["run_id", "sources", "state", "started_at", "awaited_until"])
        .where(runs.c.kind == RunKind.REFRESH.value)
        .order_by(runs.c.started_at.desc())
        .limit(MAX_RUNS_SEARCHED)
    )
    last_runs: dict[str, Row] = {}
    with ledger.read() as connection:
        seen_at = {row[0]: row[1] for row in connection.execute(last_seen)}
        for run in connection.execute(refreshes):
            for name in run.sources:
                last_runs.setdefault(name, run)
    sources = []
    for config in read_declarations(settings.sources_file):
        counts, last_run = counts_by_source.get(config.name, {}), last_runs.get(config.name)
        numbers = {name: counts.get(name, 0) for name in ("documents", "served", "waiting", "rejected", "chunks")}
        sources.append(
            {
                "name": config.name,
                "kind": config.kind,
                "owner": config.owner,
                "trust": config.trust.value,
                "url": source_location(config),
                **numbers,
                "last_run": last_run.run_id if last_run else None,
                "last_run_state": _state(ledger, last_run) if last_run else None,
                "last_run_at": last_run.started_at.isoformat() if last_run else None,
                "last_seen_at": seen_at[config.name].isoformat() if config.name in seen_at else None,
            }
        )
    return sources


def undeclared_sources(ledger: Ledger, settings: Settings) -> dict[str, int]:
    """Return the sources that are no longer in sources.yaml, with the number of their documents that are still served.

    Raises:
        SettingsError: sources.yaml is missing or invalid.
    """
    declared = {config.name for config in read_declarations(settings.sources_file)}
    statement = (
        sa.select(documents.c.source, sa.func.count())
        .where(documents.c.target_version.is_not(None))
        .group_by(documents.c.source)
        .order_by(documents.c.source)
    )
    return {row[0]: row[1] for row in ledger.rows(statement) if row[0] not in declared}


def _undeclared_or_problem(ledger: Ledger, settings: Settings) -> tuple[dict[str, int], str]:
    """Return the sources that are no longer declared; none, and what is wrong, where sources.yaml cannot be read.

    The rest of the status can be read without the file.
    """
    try:
        return undeclared_sources(ledger, settings), ""
    except SettingsError as error:
        return {}, str(error)


def _sources(ledger: Ledger) -> list[JsonObject]:
    living = documents.c.retired_at.is_(None)
    latest = sa.and_(versions.c.version_id == documents.c.latest_version, living)
    counted = (
        sa.select(
            documents.c.source,
            documents.c.trust,
            sa.func.count().filter(living).label("documents"),
            sa.func.count(documents.c.target_version).label("served"),
            sa.func.count().filter(latest, waits_for_decision()).label("waiting"),
            sa.func.count().filter(latest, versions.c.state == VersionState.REJECTED.value).label("rejected"),
        )
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .group_by(documents.c.source, documents.c.trust)
        .order_by(documents.c.source)
    )
    chunks = (
        sa.select(documents.c.source, sa.func.count())
        .join(documents, documents.c.doc_id == publications.c.doc_id)
        .where(publications.c.state == PublicationState.PUBLISHED.value)
        .group_by(documents.c.source)
    )
    with ledger.read() as connection:
        served = {row[0]: row[1] for row in connection.execute(chunks)}
        return [{**row._mapping, "chunks": served.get(row.source, 0)} for row in connection.execute(counted)]


def _runs(ledger: Ledger) -> list[JsonObject]:
    rows = ledger.rows(sa.select(runs).order_by(runs.c.started_at.desc()).limit(RUNS_SHOWN))
    return [
        {
            "run_id": row.run_id,
            "kind": row.kind,
            "state": _state(ledger, row),
            "started_at": row.started_at.isoformat(),
            "finished_at": row.finished_at.isoformat() if row.finished_at else None,
            "counts": row.counts,
        }
        for row in rows
    ]


def _state(ledger: Ledger, run: Row) -> str:
    return run_state(ledger, run.run_id, run.state, run.awaited_until)


def _would_wait(ledger: Ledger) -> dict[str, int]:
    """Return, by source, how many accepted latest versions would not have been accepted without shadowing."""
    statement = (
        sa.select(documents.c.source, sa.func.count())
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .where(
            documents.c.retired_at.is_(None),
            versions.c.state == VersionState.ACCEPTED.value,
            versions.c.shadow_verdict.is_not(None),
        )
        .group_by(documents.c.source)
        .order_by(documents.c.source)
    )
    return {row[0]: row[1] for row in ledger.rows(statement)}


def _canaries(ledger: Ledger) -> JsonObject | None:
    """Return the results of the canaries in the last finished refresh that planted any."""
    statement = (
        sa.select(runs.c.counts)
        .where(runs.c.kind == RunKind.REFRESH.value, runs.c.finished_at.is_not(None))
        .order_by(runs.c.started_at.desc())
        .limit(RUNS_SHOWN)
    )
    with ledger.read() as connection:
        results = (row.counts.get("canaries") for row in connection.execute(statement) if row.counts)
        return next((canaries for canaries in results if canaries), None)


def _last_seal(ledger: Ledger) -> Row | None:
    return ledger.first(sa.select(seals).order_by(seals.c.number.desc()).limit(1))


def _head(ledger: Ledger) -> JsonObject | None:
    """Return the newest signed head, unverified: `guard verify` checks it."""
    row = ledger.first(sa.select(heads).order_by(heads.c.number.desc()).limit(1))
    return {"events": row.size, "root": row.root, "signed_at": row.signed_at.isoformat()} if row else None


def _store(settings: Settings) -> str:
    if settings.store == "pgvector":
        place = f"pgvector, {sa.make_url(settings.pgvector).render_as_string(hide_password=True)}"
    else:
        place = f"Chroma, {settings.chroma_url or 'server of this home'}, folder {settings.home / 'chroma'}"
    return f"{place}, collections {settings.collection_prefix}-*"
