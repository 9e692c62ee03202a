"""Corpus: what is served, from which sources, since which run, and whether it was verified."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.deployment import Deployment
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, events, publications, versions
from corpus_guard.proof import incidents
from corpus_guard.pipeline.status import read_status
from corpus_guard.web.render import render_page

router = APIRouter()

AT_ONCE = 50  # documents a page
STATES = ("accepted", "quarantined", "released", "rejected")


@router.get("/corpus")
def corpus(
    request: Request,
    source: Annotated[str, Query(max_length=64)] = "",
    state: Annotated[str, Query(max_length=12)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str, Query(max_length=32)] = "",
) -> HTMLResponse:
    """Sources, collections, runs, manifest, incidents, and the documents, a page at a time."""
    guard = request.app.state.desk.guard()
    found = documents_of(guard.ledger, source=source, state=state, text=text, after=after)
    return render_page(
        request,
        "corpus.html",
        status=read_status(guard.ledger, guard.storage, guard.screening, guard.settings),
        policy=guard.policy,
        policy_digest=guard.screening.digest,
        verified=verified_at(guard.ledger),
        collections=collections_of(guard),
        incidents=incidents.list_incidents(guard.ledger)[:10],
        documents=found[:AT_ONCE],
        next=found[AT_ONCE - 1]["doc_id"] if len(found) > AT_ONCE else "",
        states=STATES,
        asked={"source": source, "state": state, "text": text},
    )


def verified_at(ledger: Ledger) -> datetime | None:
    """When `integrity_nightly` last found that everything is what was sealed; the log has it as an event."""
    statement = sa.select(sa.func.max(events.c.at)).where(events.c.kind == "verified")
    with ledger.read() as connection:
        found: datetime | None = connection.scalar(statement)
        return found


def collections_of(guard: Deployment) -> list[dict[str, Any]]:
    """Each collection with its chunks and documents, as the ledger published them."""
    statement = (
        sa.select(
            publications.c.collection.label("name"),
            sa.func.count().label("chunks"),
            sa.func.count(publications.c.doc_id.distinct()).label("documents"),
            sa.func.max(publications.c.changed_at).label("changed_at"),
        )
        .where(publications.c.state == "published")
        .group_by(publications.c.collection)
        .order_by(publications.c.collection)
    )
    with guard.ledger.read() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def documents_of(ledger: Ledger, *, source: str, state: str, text: str, after: str) -> list[dict[str, Any]]:
    """Living documents by id, one more than a page."""
    wanted: list[sa.ColumnElement[bool]] = [documents.c.retired_at.is_(None)]
    if source:
        wanted.append(documents.c.source == source)
    if state:
        wanted.append(versions.c.state == state)
    if text:
        wanted.append(documents.c.uri.icontains(text, autoescape=True))
    if after:
        wanted.append(documents.c.doc_id > after)
    statement = (
        sa.select(
            documents.c.doc_id,
            documents.c.source,
            documents.c.uri,
            documents.c.trust,
            documents.c.latest_version,
            documents.c.latest_fetched_at,
            documents.c.target_version,
            versions.c.state,
            versions.c.risk,
        )
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .where(*wanted)
        .order_by(documents.c.doc_id)
        .limit(AT_ONCE + 1)
    )
    with ledger.read() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]
