"""Incident view: what was sealed, what was there, since when it can have been there, and who explained it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import sqlalchemy as sa
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from corpus_guard.errors import GuardError
from corpus_guard.forensics.cases import Member, MemberKind, cases_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.tables import chunks, documents, versions
from corpus_guard.proof.deviations import Deviation
from corpus_guard.proof.incidents import find_incident, incident_window, load_deviations
from corpus_guard.web.chunk_texts import load_chunk_texts
from corpus_guard.web.render import render_page
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()

MAX_DEVIATIONS: Final = 40


@router.get("/incidents/{incident_id}")
def show_incident(request: Request, incident_id: str) -> HTMLResponse:
    """Show one incident with its deviations and, until a person has acknowledged it, the form for that."""
    deployment = current_deployment(request)
    ledger, storage = deployment.ledger, deployment.storage
    incident = find_incident(ledger, incident_id)
    deviations: list[Deviation] = []
    problem = ""
    try:
        deviations = load_deviations(storage, incident)
    except (GuardError, ValueError, LookupError) as error:
        problem = f"{storage.location(incident.deviations)} is missing or damaged ({type(error).__name__})"
    shown = deviations[:MAX_DEVIATIONS]
    chunk_ids = {deviation.subject for deviation in shown}
    return render_page(
        request,
        "incident.html",
        incident=incident,
        window=incident_window(ledger, incident),
        deviations=shown,
        total=len(deviations),
        places=_places(ledger, chunk_ids),
        texts=load_chunk_texts(ledger, storage, chunk_ids),
        problem=problem,
        cases=cases_of(ledger, Member(MemberKind.INCIDENT, incident.incident_id)),
    )


def _places(ledger: Ledger, chunk_ids: Collection[str]) -> dict[str, Row]:
    """Return chunk id, version, source and URI of the chunks that the ledger knows, by chunk id."""
    statement = (
        sa.select(chunks.c.chunk_id, chunks.c.version_id, documents.c.source, documents.c.uri)
        .join(versions, versions.c.version_id == chunks.c.version_id)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .where(chunks.c.chunk_id.in_(list(chunk_ids)))
    )
    return {row.chunk_id: row for row in ledger.rows(statement)}
