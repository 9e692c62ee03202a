"""Corpus view: incidents, served documents, their sources, the last runs, and the last verification."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import VERSION_STATES, PublicationState
from corpus_guard.ledger.tables import documents, events, publications, versions
from corpus_guard.pipeline.status import read_status
from corpus_guard.proof.incidents import list_incidents, list_red_incidents
from corpus_guard.web.render import render_page
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()

PAGE_SIZE: Final = 50  # documents
MAX_INCIDENTS: Final = 10  # in the table
MAX_NOTES: Final = 5  # about incidents, above everything else


@router.get("/corpus")
def corpus(
    request: Request,
    source: Annotated[str, Query(max_length=64)] = "",
    state: Annotated[str, Query(max_length=12)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    after: Annotated[str, Query(max_length=32)] = "",
) -> HTMLResponse:
    """Show sources, collections, runs, manifest, incidents, and a page of documents."""
    deployment = current_deployment(request)
    ledger = deployment.ledger
    page = list_documents(ledger, source=source, state=state, text=text, after=after)
    return render_page(
        request,
        "corpus.html",
        status=read_status(ledger, deployment.storage, deployment.screening, deployment.settings),
        policy=deployment.policy,
        policy_digest=deployment.screening.digest,
        verified=last_verified_at(ledger),
        collections=list_collections(ledger),
        red=list_red_incidents(ledger),
        max_notes=MAX_NOTES,
        incidents=list_incidents(ledger)[:MAX_INCIDENTS],
        documents=page[:PAGE_SIZE],
        next=page[PAGE_SIZE - 1]["doc_id"] if len(page) > PAGE_SIZE else "",
        states=VERSION_STATES,
        filters={"source": source, "state": state, "text": text},
    )


def last_verified_at(ledger: Ledger) -> datetime | None:
    """Return when `integrity_nightly` last verified the whole corpus; the event log records it."""
    statement = sa.select(sa.func.max(events.c.at)).where(events.c.kind == "verified")
    with ledger.read() as connection:
        at: datetime | None = connection.scalar(statement)
        return at


def list_collections(ledger: Ledger) -> list[dict[str, object]]:
    """Return each collection with its chunks and documents, as the ledger published them."""
    statement = (
        sa.select(
            publications.c.collection.label("name"),
            sa.func.count().label("chunks"),
            sa.func.count(publications.c.doc_id.distinct()).label("documents"),
            sa.func.max(publications.c.changed_at).label("changed_at"),
        )
        .where(publications.c.state == PublicationState.PUBLISHED.value)
        .group_by(publications.c.collection)
        .order_by(publications.c.collection)
    )
    with ledger.read() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def list_documents(ledger: Ledger, *, source: str, state: str, text: str, after: str) -> list[dict[str, object]]:
    """Return living documents ordered by id: one page, and one more if there is a next page."""
    conditions: list[sa.ColumnElement[bool]] = [documents.c.retired_at.is_(None)]
    if source:
        conditions.append(documents.c.source == source)
    if state:
        conditions.append(versions.c.state == state)
    if text:
        conditions.append(documents.c.uri.icontains(text, autoescape=True))
    if after:
        conditions.append(documents.c.doc_id > after)
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
        .where(*conditions)
        .order_by(documents.c.doc_id)
        .limit(PAGE_SIZE + 1)
    )
    with ledger.read() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]
