"""/api/v1, reading: the items, evidence and figures of the pages, as JSON for a notebook or a SOAR."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi

from corpus_guard.domain import json_ready
from corpus_guard.review.decisions import MAX_ITEMS
from corpus_guard.review.evidence import load_evidence, preview_release
from corpus_guard.review.muting import list_mutes
from corpus_guard.review.queue import find_item, list_revisions, load_page
from corpus_guard.web.item import load_neighbours, raw_bytes
from corpus_guard.web.queue import QueueQueryParams
from corpus_guard.web.responses import ERRORS
from corpus_guard.web.shared_deployment import current_deployment

DESCRIPTION: Final = """Review the quarantine of Corpus Guard: the same actions as the pages in Airflow.

Sign in with an Airflow token (`POST /auth/token`) as `Authorization: Bearer …`. Reading requires read
access to the DAG `quarantine_release`; deciding requires its human-in-the-loop permission. Every request
that changes something is JSON and carries the header `X-Corpus-Guard` (any value).

A decision names each item with the `revision` that the reviewer saw. If an item changed since then, the
response is 409 and nothing is decided. Texts are hostile: they are data in JSON, escaped to ASCII, and must
not be rendered as HTML or Markdown."""
PAGE_SIZE: Final = 50  # items


router = APIRouter(tags=["read"], responses=ERRORS)


@router.get("/openapi.json", include_in_schema=False)
def openapi_description(request: Request) -> dict[str, object]:
    """Return the OpenAPI description, with the same access control as the API."""
    app = request.app
    routes = [route for route in app.routes if getattr(route, "include_in_schema", False)]
    root = request.scope.get("root_path", "")
    description: dict[str, object] = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=routes, servers=[{"url": root or "/"}]
    )
    return description


@router.get("/queue", summary="A page of waiting items")
def queue(request: Request, params: QueueQueryParams) -> dict[str, object]:
    """Return items with their findings and revisions. Pass `next` as `after` to get the next page."""
    deployment = current_deployment(request)
    page = load_page(deployment.ledger, params.filter, sort=params.sort, after=params.after or None, size=PAGE_SIZE)
    return {
        "items": [item.as_dict() for item in page.items],
        "total": page.total,
        "next": page.next,
        "facets": {name: dict(counts) for name, counts in page.facets.items()},
        "policy_digest": deployment.screening.digest,
    }


@router.get("/queue/revisions", summary="Ids and revisions of all matching items, for one decision on them")
def revisions(request: Request, params: QueueQueryParams) -> dict[str, object]:
    """Return them with the highest risk first.

    If more items match than one decision may cover, the response is 400.
    """
    deployment = current_deployment(request)
    items = list_revisions(deployment.ledger, params.filter, limit=MAX_ITEMS)
    return {"items": [asdict(item) for item in items]}


@router.get("/items/{version_id}", summary="One item with its evidence")
def item(request: Request, version_id: str) -> dict[str, object]:
    """Return findings, text, hidden text, stamp, versions, decisions, and what a release would publish."""
    deployment = current_deployment(request)
    evidence = load_evidence(deployment.ledger, deployment.storage, find_item(deployment.ledger, version_id))
    release = preview_release(deployment.ledger, deployment.store, deployment.policy, evidence.item)
    return {
        **evidence.as_dict(),
        "release": json_ready(release),
        "policy_digest": deployment.screening.digest,
    }


@router.get("/items/{version_id}/neighbours", summary="What trusted and reviewed documents say about the same subject")
def neighbours(request: Request, version_id: str) -> dict[str, object]:
    """Return the nearest served chunks. Loads the embedder: the first response takes seconds."""
    return {"neighbours": json_ready(load_neighbours(request, version_id))}


@router.get("/items/{version_id}/raw", summary="The bytes as they were fetched", response_class=Response)
def raw(request: Request, version_id: str) -> Response:
    """Return a file of any kind, hostile by assumption."""
    return raw_bytes(request, version_id)


@router.get("/mutes", summary="Rules that are muted for a source, were, or are proposed to be")
def mutes(request: Request) -> dict[str, object]:
    """Return them newest first."""
    return {"mutes": [mute.as_dict() for mute in list_mutes(current_deployment(request).ledger)]}
