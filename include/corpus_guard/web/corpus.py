"""Corpus view: incidents, served documents, their sources, the last runs as bars and as a table, and the last verification."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.errors import require_one_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.paging import PageOrder
from corpus_guard.ledger.runs import run_state
from corpus_guard.ledger.states import VERSION_STATES, PublicationState, RunKind
from corpus_guard.ledger.tables import documents, events, publications, runs, versions
from corpus_guard.pipeline.status import read_status
from corpus_guard.proof.incidents import list_incidents, list_red_incidents
from corpus_guard.web.plots import JUDGED, RefreshRun, run_plot
from corpus_guard.web.render import render_page
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()

PAGE_SIZE: Final = 50  # documents
DocumentSort = Literal["path", "risk", "newest"]
ORDERS: Final[Mapping[DocumentSort, PageOrder]] = {
    "path": PageOrder(
        "list of documents",
        "path",
        ((documents.c.source, False), (documents.c.uri, False), (documents.c.doc_id, False)),
    ),
    "risk": PageOrder("list of documents", "risk", ((versions.c.risk, True), (documents.c.doc_id, True))),
    "newest": PageOrder(
        "list of documents", "newest", ((documents.c.latest_fetched_at, True), (documents.c.doc_id, True))
    ),
}
MAX_INCIDENTS: Final = 10  # in the table
MAX_BARS: Final = 40  # refreshes that are drawn
MAX_NOTES: Final = 5  # about incidents, above everything else


@router.get("/corpus")
def corpus(
    request: Request,
    source: Annotated[str, Query(max_length=64)] = "",
    state: Annotated[str, Query(max_length=250)] = "",
    text: Annotated[str, Query(max_length=200)] = "",
    sort: DocumentSort = "path",
    after: Annotated[str, Query(max_length=4_000)] = "",
) -> HTMLResponse:
    """Show sources, collections, runs, manifest, incidents, and a page of documents."""
    deployment = current_deployment(request)
    ledger = deployment.ledger
    page = list_documents(ledger, source=source, state=state, text=text, sort=sort, after=after)
    incidents = list_incidents(ledger)
    return render_page(
        request,
        "corpus.html",
        status=read_status(ledger, deployment.storage, deployment.screening, deployment.settings),
        plot=run_plot(list_refreshes(ledger)),
        policy=deployment.policy,
        policy_digest=deployment.screening.digest,
        verified=last_verified_at(ledger),
        collections=list_collections(ledger),
        red=list_red_incidents(ledger),
        max_notes=MAX_NOTES,
        incidents=incidents[:MAX_INCIDENTS],
        documents=page[:PAGE_SIZE],
        next=_page_end(page[PAGE_SIZE - 1], ORDERS[sort]) if len(page) > PAGE_SIZE else "",
        states=VERSION_STATES,
        filters={"source": source, "state": state, "text": text, "sort": sort},
    )


def last_verified_at(ledger: Ledger) -> datetime | None:
    """Return when `integrity_nightly` last verified the whole corpus; the event log records it."""
    statement = sa.select(sa.func.max(events.c.at)).where(events.c.kind == "verified")
    with ledger.read() as connection:
        at: datetime | None = connection.scalar(statement)
        return at


def list_refreshes(ledger: Ledger) -> list[RefreshRun]:
    """Return the last refreshes, oldest first."""
    statement = (
        sa.select(*runs.c["run_id", "started_at", "state", "awaited_until", "counts"])
        .where(runs.c.kind == RunKind.REFRESH.value)
        .order_by(runs.c.started_at.desc(), runs.c.run_id)
        .limit(MAX_BARS)
    )
    rows = ledger.rows(statement)
    return [
        RefreshRun(
            row.started_at,
            run_state(ledger, row.run_id, row.state, row.awaited_until),
            {name: (row.counts or {}).get(name, 0) for name in JUDGED},
        )
        for row in reversed(rows)
    ]


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


def list_documents(
    ledger: Ledger, *, source: str, state: str, text: str, sort: DocumentSort, after: str
) -> list[dict[str, object]]:
    """Return living documents: one page, and one more if there is a next page.

    Args:
        sort: by source and path, by risk (highest first), or by fetch time (newest first).
        after: `_page_end` of the previous page; empty: the first page.

    Raises:
        Misuse: there is no such state, or `after` is not one that a page gave.
    """
    conditions: list[sa.ColumnElement[bool]] = [documents.c.retired_at.is_(None)]
    if source:
        conditions.append(documents.c.source == source)
    if state:
        require_one_of("state", state, VERSION_STATES)
        conditions.append(versions.c.state == state)
    if text:
        conditions.append(documents.c.uri.icontains(text, autoescape=True))
    order = ORDERS[sort]
    if after:
        conditions.append(order.behind(order.position(after)))
    statement = (
        sa.select(
            *documents.c["doc_id", "source", "uri", "trust", "latest_version", "latest_fetched_at", "target_version"],
            versions.c.state,
            versions.c.risk,
        )
        .join(versions, versions.c.version_id == documents.c.latest_version)
        .where(*conditions)
        .order_by(*order.columns)
        .limit(PAGE_SIZE + 1)
    )
    with ledger.read() as connection:
        return [dict(row) for row in connection.execute(statement).mappings()]


def _page_end(row: Mapping[str, Any], order: PageOrder) -> str:
    return order.cursor([row[column.name] for column, _ in order.keys])
