"""Item: one version with everything a reviewer decides on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from corpus_guard.corpus.server import is_answering
from corpus_guard.deployment import Deployment
from corpus_guard.domain import Finding, Span, Version
from corpus_guard.errors import Inconsistent, StoreUnavailable, UnknownSubject
from corpus_guard.ledger.tables import documents, versions
from corpus_guard.review import evidence as looking
from corpus_guard.review import queue as waiting
from corpus_guard.review.evidence import ItemEvidence, Neighbour
from corpus_guard.review.muting import mutable_codes
from corpus_guard.review.queue import QueueItem
from corpus_guard.web.shared_deployment import SharedDeployment
from corpus_guard.web.render import render_page
from corpus_guard.web.text_display import (MAX_TEXT_BYTES, DisplayText, diff_lines, display_text)

router = APIRouter()

QUOTE = 240  # characters of evidence beside its finding
QUOTE_BYTES = 1_200
HIDDEN_BYTES = 6_000  # of hidden text beside the text
RAW_BYTES = 64 * 1024  # read for the raw view
NEIGHBOURS = 5
NEIGHBOUR_BYTES = 2_500

View = Literal["marked", "hidden", "raw"]


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed since an earlier version."""

    version_id: str
    served: bool  # that one is served; else it is the version before
    lines: list[tuple[str, DisplayText]]
    whole: bool  # nothing is left out


@router.get("/items/{version_id}")
def one(request: Request, version_id: str, view: Annotated[View, Query()] = "marked") -> HTMLResponse:
    """One item."""
    guard = request.app.state.desk.guard()
    item = waiting.find_item(guard.ledger, version_id)
    try:
        found = looking.load_evidence(guard.ledger, guard.storage, item)
    except UnknownSubject as error:
        return render_page(request, "item.purged.html", item=item, told=str(error))
    shown, unreadable = _shown(guard, found, view)
    return render_page(
        request,
        "item.html",
        item=item,
        view=view,
        shown=shown,
        unreadable=unreadable,
        hidden=display_text(found.version.hidden, most=HIDDEN_BYTES) if found.version.hidden else None,
        stamp=found.version.stamp,
        skipped=found.skipped,
        quotes=[_quote(found.version, finding) for finding in item.findings],
        diff=_diff(guard, found),
        versions=found.versions[:20],
        principal=found.principal,
        siblings=found.siblings[:15],
        history=[_can_undo(entry) for entry in reversed(found.history)],
        release=looking.preview_release(guard.ledger, guard.store, guard.policy, item),
        mutable=mutable_codes(item.findings),
        gone=_gone(guard, item),
        next_item=_next(guard, item),
        policy_digest=guard.screening.digest,
    )


@router.get("/items/{version_id}/neighbours")
def neighbours(request: Request, version_id: str) -> HTMLResponse:
    """The nearest texts of trusted and reviewed sources: slow, so only where somebody asks."""
    shown = [
        (near, display_text(near.text, most=NEIGHBOUR_BYTES)) for near in neighbours_of(request.app.state.desk, version_id)
    ]
    return render_page(request, "item.neighbours.html", version_id=version_id, neighbours=shown)


@router.get("/items/{version_id}/raw")
def raw(request: Request, version_id: str) -> Response:
    """The bytes as they were fetched, as a file that no browser opens."""
    guard = request.app.state.desk.guard()
    item = waiting.find_item(guard.ledger, version_id)
    content = guard.blobs.get(_content(guard, item.version_id))
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{item.version_id}.bin"'},
    )


def neighbours_of(desk: SharedDeployment, version_id: str) -> list[Neighbour]:
    """What trusted and reviewed documents say about the same things.

    Raises:
        StoreUnavailable: Chroma does not answer.
        UnknownSubject: no such item, or its text was purged.
    """
    guard = desk.guard()
    found = looking.load_evidence(guard.ledger, guard.storage, waiting.find_item(guard.ledger, version_id))
    # A command would start a server of its own; this process lives for weeks and would keep the store from the real one.
    if not is_answering(guard.settings.chroma_url):
        raise StoreUnavailable(
            f"Chroma at {guard.settings.chroma_url} does not answer; the rest of the review does not need it"
        )
    with desk.one_at_a_time:  # the embedder is loaded by the first
        return looking.find_neighbours(guard.ledger, guard.store, guard.models, found, NEIGHBOURS)


def _shown(guard: Deployment, found: ItemEvidence, view: View) -> tuple[DisplayText, str]:
    if view == "hidden":
        return display_text(found.version.hidden), ""
    if view == "marked":
        return display_text(found.version.text, [finding.span for finding in found.item.findings]), ""
    try:
        content = guard.blobs.get(found.version.stamp.content_sha256)
    except Inconsistent as error:
        return display_text(""), str(error)
    # A character of UTF-8 may be cut at the end; it stands as a replacement character.
    return display_text(content[:RAW_BYTES].decode("utf-8", "replace"), most=MAX_TEXT_BYTES), ""


def _quote(version: Version, finding: Finding) -> DisplayText | None:
    if finding.span is None:
        return None
    quoted = version.text[finding.span.start : min(finding.span.end, finding.span.start + QUOTE)]
    return display_text(quoted, [Span(0, 0)], most=QUOTE_BYTES) if quoted else None


def _diff(guard: Deployment, found: ItemEvidence) -> Diff | None:
    """To the version that is served, or else to the one before."""
    if found.served is not None:
        return Diff(found.served.version_id, True, *diff_lines(found.served.text, found.version.text))
    ordered = [earlier.version_id for earlier in found.versions]
    own = ordered.index(found.item.version_id) if found.item.version_id in ordered else len(ordered)
    if own + 1 >= len(ordered):
        return None
    try:
        before = looking.load_evidence(guard.ledger, guard.storage, waiting.find_item(guard.ledger, ordered[own + 1]))
    except UnknownSubject:  # purged
        return None
    return Diff(ordered[own + 1], False, *diff_lines(before.version.text, found.version.text))


def _can_undo(entry: Any) -> dict[str, Any]:
    decided = entry["kind"] in ("release", "reject", "escalate")
    return {**entry, "can_undo": decided and not entry["applied_at"] and not entry["undone_at"]}


def _gone(guard: Deployment, item: QueueItem) -> str:
    """Why nothing can be decided about it any more; empty: it can."""
    statement = sa.select(documents.c.latest_version, documents.c.retired_at).where(documents.c.doc_id == item.doc_id)
    with guard.ledger.read() as connection:
        row = connection.execute(statement).one()
    if row.retired_at is not None:
        return "The document vanished from its source."
    if row.latest_version != item.version_id:
        return f"A newer version of the document is there: {row.latest_version[:12]}. Decide on that one."
    return ""


def _next(guard: Deployment, item: QueueItem) -> str | None:
    """What waits and is riskiest, besides this one."""
    found = waiting.load_page(guard.ledger, waiting.QueueFilter(undecided=True), size=2).items
    return next((other.version_id for other in found if other.version_id != item.version_id), None)


def _content(guard: Deployment, version_id: str) -> str:
    with guard.ledger.read() as connection:
        statement = sa.select(versions.c.content_sha256).where(versions.c.version_id == version_id)
        return str(connection.execute(statement).scalar_one())
