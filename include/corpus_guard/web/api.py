"""/api/v1: reading. The same items, evidence and figures as the pages, as JSON, for a notebook or a SOAR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.openapi.utils import get_openapi

from corpus_guard.review import evidence as looking
from corpus_guard.review import queue as waiting
from corpus_guard.review.decisions import MOST
from corpus_guard.review.muting import mutes as all_mutes
from corpus_guard.web.answers import ERRORS
from corpus_guard.web.item import neighbours_of
from corpus_guard.web.item import raw as raw_bytes
from corpus_guard.web.queue import Wanted

DESCRIPTION: Final = """Review the quarantine of Corpus Guard: the same actions as the pages in Airflow.

Sign in with a token of Airflow (`POST /auth/token`) as `Authorization: Bearer …`. Reading needs read on the DAG `quarantine_release`,
deciding its human-in-the-loop permission. Whatever changes something is JSON and carries the header `X-Corpus-Guard` (any value).

A decision names each item with the `revision` under which it was seen; where one changed since, the answer is 409 and nothing was
decided. Texts are hostile: they are data in JSON, escaped to ASCII, and must not be rendered as HTML or Markdown."""
PAGE: Final = 50


router = APIRouter(tags=["read"], responses=ERRORS)


@router.get("/openapi.json", include_in_schema=False)
def description(request: Request) -> dict[str, Any]:
    """The OpenAPI description, behind the same door as what it describes."""
    app = request.app
    routes = [route for route in app.routes if getattr(route, "include_in_schema", False)]
    root = request.scope.get("root_path", "")
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=routes, servers=[{"url": root or "/"}]
    )
    return found


@router.get("/queue", summary="A page of what waits")
def queue(request: Request, asked: Wanted) -> dict[str, Any]:
    """Items with their findings and revisions; give `next` as `after` for the page after."""
    guard = request.app.state.desk.guard()
    found = waiting.page(guard.ledger, asked.filter, sort=asked.sort, after=asked.after or None, size=PAGE)
    return {
        "items": [item.as_dict() for item in found.items],
        "total": found.total,
        "next": found.next,
        "facets": {name: dict(counts) for name, counts in found.facets.items()},
        "policy_digest": guard.screening.digest,
    }


@router.get("/queue/revisions", summary="Ids and revisions of all that match, for one decision on them")
def revisions(request: Request, asked: Wanted) -> dict[str, Any]:
    """At most as many as one decision takes, the riskiest first; `total` says how many match."""
    guard = request.app.state.desk.guard()
    found = waiting.ids_of(guard.ledger, asked.filter, limit=MOST)
    return {"items": [{"version_id": version, "revision": revision} for version, revision in found]}


@router.get("/items/{version_id}", summary="One item with its evidence")
def item(request: Request, version_id: str) -> dict[str, Any]:
    """Findings, text, hidden text, stamp, versions, decisions, and what a release would publish."""
    guard = request.app.state.desk.guard()
    found = looking.evidence(guard.ledger, guard.storage, waiting.find(guard.ledger, version_id))
    release = looking.release_of(guard, found.item)
    return {
        **found.item.as_dict(),
        "text": found.version.text,
        "hidden": found.version.hidden,
        "stamp": found.version.stamp.as_dict(),
        "skipped": [{"check": skipped.check, "reason": skipped.reason} for skipped in found.skipped],
        "served_version": found.served_version,
        "versions": [plain(earlier) for earlier in found.versions],
        "principal": found.principal,
        "siblings": [plain(sibling) for sibling in found.siblings],
        "decisions": [{name: _json(value) for name, value in entry.items()} for entry in found.history],
        "release": plain(release),
        "policy_digest": guard.screening.digest,
    }


@router.get("/items/{version_id}/neighbours", summary="What trusted and reviewed documents say about the same things")
def neighbours(request: Request, version_id: str) -> dict[str, Any]:
    """The nearest served chunks. Loads the embedder: the first answer takes seconds."""
    return {"neighbours": [plain(near) for near in neighbours_of(request.app.state.desk, version_id)]}


@router.get("/items/{version_id}/raw", summary="The bytes as they were fetched", response_class=Response)
def raw(request: Request, version_id: str) -> Response:
    """A file of any kind, hostile by assumption."""
    return raw_bytes(request, version_id)


@router.get("/mutes", summary="Rules that are muted for a source, or proposed to be, or were")
def mutes(request: Request) -> dict[str, Any]:
    """Newest first."""
    return {"mutes": [mute.as_dict() for mute in all_mutes(request.app.state.desk.guard().ledger)]}


def plain(value: Any) -> dict[str, Any]:
    """A frozen value as JSON; times as ISO 8601."""
    return {name: _json(getattr(value, name)) for name in value.__slots__}


def _json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    return value.isoformat() if hasattr(value, "isoformat") else value
