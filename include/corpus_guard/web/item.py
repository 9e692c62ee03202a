"""Item view: one version with everything a reviewer needs to decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal

import sqlalchemy as sa
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import HTMLResponse

from corpus_guard.deployment import Deployment
from corpus_guard.domain import Finding, Span, Version
from corpus_guard.errors import Inconsistent, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, versions
from corpus_guard.review.evidence import (
    ItemEvidence,
    Neighbour,
    QuotedSentence,
    find_neighbours,
    load_contradictions,
    load_evidence,
    preview_release,
)
from corpus_guard.review.muting import mutable_codes
from corpus_guard.review.naming import name_documents
from corpus_guard.review.queue import QueueFilter, QueueItem, find_item, find_next_item, load_page
from corpus_guard.review.records import ReviewRow
from corpus_guard.review.reviewer import Reviewer
from corpus_guard.screening.decoded import decode_finding, locate_hidden
from corpus_guard.web.history import may_be_undone
from corpus_guard.web.queue import QueueQueryParams
from corpus_guard.web.render import render_page
from corpus_guard.web.shared_deployment import SharedDeployment, current_deployment, require_store
from corpus_guard.web.text_display import DiffLine, DisplayText, diff_lines, display_text

router = APIRouter()

MAX_QUOTE_CHARS: Final = 240  # of evidence beside its finding
MAX_QUOTE_BYTES: Final = 1_200
MAX_HIDDEN_BYTES: Final = 6_000  # of hidden text beside the text
MAX_RAW_BYTES: Final = 64 * 1024  # read for the view "As fetched"
MAX_NEIGHBOURS: Final = 5
MAX_NEIGHBOUR_BYTES: Final = 2_500
MAX_VERSIONS: Final = 20
MAX_SIBLINGS: Final = 15

View = Literal["marked", "hidden", "raw", "beside"]


@dataclass(frozen=True, slots=True)
class VersionDiff:
    """Changes since another version of the document."""

    version_id: str
    is_served: bool  # that version is served; otherwise it is the previous version
    lines: list[DiffLine]
    is_complete: bool  # False if lines are left out


@router.get("/items/{version_id}")
def show_item(
    request: Request, version_id: str, place: QueueQueryParams, view: Annotated[View, Query()] = "marked"
) -> HTMLResponse:
    """Show one item, and the way on from it in the queue from where it was opened."""
    deployment = current_deployment(request)
    ledger = deployment.ledger
    item = find_item(ledger, version_id)
    try:
        evidence = load_evidence(ledger, deployment.storage, item)
    except UnknownSubject as error:
        return render_page(request, "item.purged.html", item=item, detail=str(error), place=place.link)
    version = evidence.version
    hidden_spans = locate_hidden(deployment.screening, item.findings, version.hidden)
    text, problem = _text_of_view(deployment, evidence, view, hidden_spans)
    raw, raw_problem = _text_of_view(deployment, evidence, "raw") if view == "beside" else (None, "")
    return render_page(
        request,
        "item.html",
        item=item,
        view=view,
        text=text,
        problem=problem or raw_problem,
        raw=raw,
        hidden=display_text(version.hidden, hidden_spans, max_bytes=MAX_HIDDEN_BYTES) if version.hidden else None,
        stamp=version.stamp,
        skipped=evidence.skipped,
        order=sorted(range(len(item.findings)), key=lambda index: _weight(item.findings[index]), reverse=True),
        messages=name_documents(ledger, [finding.message for finding in item.findings]),
        quotes=[
            _quote(version.text, finding.span) or _quote(version.hidden, hidden_span)
            for finding, hidden_span in zip(item.findings, hidden_spans, strict=True)
        ],
        decoded=[_decoded(version, finding) for finding in item.findings],
        contradictions=[
            contradiction
            and (
                contradiction,
                _show_sentence(contradiction.own),
                contradiction.other and _show_sentence(contradiction.other),
            )
            for contradiction in load_contradictions(ledger, deployment.storage, version, item.findings)
        ],
        diff=_diff(deployment, evidence),
        versions=evidence.versions[:MAX_VERSIONS],
        principal=evidence.principal,
        siblings=evidence.siblings[:MAX_SIBLINGS],
        campaign_size=_count_campaign(ledger, item),
        history=[(record, _can_undo(record)) for record in reversed(evidence.history)],
        release=preview_release(ledger, deployment.store, deployment.policy, item),
        mutable=mutable_codes(item.findings),
        obstacle=_obstacle(ledger, item),
        own_approval=_has_approved(item, evidence.history, request.state.reviewer),
        next_item=find_next_item(ledger, item, place.filter, sort=place.sort),
        place=place.link,
        policy_digest=deployment.screening.digest,
    )


@router.get("/items/{version_id}/neighbours")
def show_neighbours(request: Request, version_id: str) -> HTMLResponse:
    """Show the nearest texts of trusted and reviewed sources.

    Slow: the item page loads it only on request.
    """
    neighbours = [
        (neighbour, display_text(neighbour.text, max_bytes=MAX_NEIGHBOUR_BYTES))
        for neighbour in load_neighbours(request, version_id)
    ]
    return render_page(request, "item.neighbours.html", version_id=version_id, neighbours=neighbours)


@router.get("/items/{version_id}/raw")
def raw_bytes(request: Request, version_id: str) -> Response:
    """Return the bytes as they were fetched, as a file that no browser opens."""
    deployment = current_deployment(request)
    item = find_item(deployment.ledger, version_id)
    statement = sa.select(versions.c.content_sha256).where(versions.c.version_id == item.version_id)
    with deployment.ledger.read() as connection:
        content_sha256 = connection.execute(statement).scalar_one()
    return Response(
        deployment.blobs.get(content_sha256),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{item.version_id}.bin"'},
    )


def load_neighbours(request: Request, version_id: str) -> list[Neighbour]:
    """Return what trusted and reviewed documents say about the subject of an item.

    Raises:
        StoreUnavailable: the vector store does not answer.
        UnknownSubject: no such item, or its text was purged.
    """
    shared: SharedDeployment = request.app.state.shared_deployment
    deployment = shared.get()
    ledger = deployment.ledger
    evidence = load_evidence(ledger, deployment.storage, find_item(ledger, version_id))
    require_store(deployment.settings)
    with shared.model_lock:  # the first request reads the weights
        return find_neighbours(ledger, deployment.store, deployment.models, evidence, MAX_NEIGHBOURS)


def _text_of_view(
    deployment: Deployment, evidence: ItemEvidence, view: View, hidden_spans: Sequence[Span | None] = ()
) -> tuple[DisplayText, str]:
    """Return the text of a view, and the reason if it cannot be read."""
    if view == "hidden":
        return display_text(evidence.version.hidden, hidden_spans), ""
    if view in {"marked", "beside"}:
        return display_text(evidence.version.text, [finding.span for finding in evidence.item.findings]), ""
    try:
        content = deployment.blobs.get(evidence.version.stamp.content_sha256)
    except Inconsistent as error:
        return display_text(""), str(error)
    # The cut may split a character of UTF-8; it becomes a replacement character.
    return display_text(content[:MAX_RAW_BYTES].decode("utf-8", "replace")), ""


def _decoded(version: Version, finding: Finding) -> list[tuple[tuple[str, ...], DisplayText]]:
    """Return what the evidence of a finding stands for: encodings, the outermost first, and the decoded text."""
    layers = decode_finding(finding, version.text, version.hidden)
    return [(layer.kinds, display_text(layer.text, max_bytes=MAX_QUOTE_BYTES)) for layer in layers]


def _quote(text: str, span: Span | None) -> DisplayText | None:
    if span is None:
        return None
    quote = text[span.start : min(span.end, span.start + MAX_QUOTE_CHARS)]
    return display_text(quote, [Span(0, 0)], max_bytes=MAX_QUOTE_BYTES) if quote else None


def _weight(finding: Finding) -> tuple[bool, int, bool, float]:
    """Return what comes first among the findings of an item: what counts, then the graver, then a contradiction, which says most."""
    return not finding.muted, finding.severity.rank, finding.counterstatement is not None, finding.score


def _show_sentence(sentence: QuotedSentence) -> DisplayText:
    return display_text(sentence.text, sentence.values, max_bytes=MAX_QUOTE_BYTES)


def _diff(deployment: Deployment, evidence: ItemEvidence) -> VersionDiff | None:
    """Return the changes since the served version, or since the previous one; None if there is neither."""
    text = evidence.version.text
    if evidence.served is not None:
        return VersionDiff(evidence.served.version_id, True, *diff_lines(evidence.served.text, text))
    version_ids = [version.version_id for version in evidence.versions]
    own = version_ids.index(evidence.item.version_id) if evidence.item.version_id in version_ids else len(version_ids)
    if own + 1 >= len(version_ids):
        return None
    previous_id = version_ids[own + 1]
    try:
        previous = load_evidence(deployment.ledger, deployment.storage, find_item(deployment.ledger, previous_id))
    except UnknownSubject:  # purged
        return None
    return VersionDiff(previous_id, False, *diff_lines(previous.version.text, text))


def _can_undo(record: ReviewRow) -> bool:
    return may_be_undone(record["kind"], record["applied_at"], record["undone_at"], record["purpose"])


def _has_approved(item: QueueItem, history: Sequence[ReviewRow], reviewer: Reviewer) -> bool:
    """Return whether the item waits for a second approval, and the first is this person's."""
    first = (record for record in history if record["lacking"] and record["version_id"] == item.version_id)
    own = any(record["reviewer_id"] == reviewer.id and not record["undone_at"] for record in first)
    return item.waits_for_second and own


def _count_campaign(ledger: Ledger, item: QueueItem) -> int:
    """Return how many items of its campaign wait; 0 if it belongs to none."""
    return load_page(ledger, QueueFilter(campaign=item.campaign), size=1).total if item.campaign else 0


def _obstacle(ledger: Ledger, item: QueueItem) -> str:
    """Return why nothing can be decided about the item any more; empty if something can."""
    statement = sa.select(documents.c.latest_version, documents.c.retired_at).where(documents.c.doc_id == item.doc_id)
    [row] = ledger.rows(statement)
    if row.retired_at is not None:
        return "The document vanished from its source."
    if row.latest_version != item.version_id:
        return f"There is a newer version of the document: {row.latest_version[:12]}. Decide on that one."
    return ""
