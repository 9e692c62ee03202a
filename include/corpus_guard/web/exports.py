"""/api/v1: the queue as a file, JSON lines or CSV. The files of decisions are in `history`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from corpus_guard.review.queue import QueueItem, QueuePage, load_page
from corpus_guard.web.queue import QueueQueryParams
from corpus_guard.web.responses import ERRORS, attachment, csv_lines, iterate_rows, json_lines
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter(tags=["export"], responses=ERRORS)

ITEMS_PER_QUERY: Final = 200
COLUMNS: Final = (
    "version_id",
    "source",
    "uri",
    "trust",
    "state",
    "risk",
    "severity",
    "codes",
    "campaign",
    "run_id",
    "judged_at",
    "waits_since",
    "pending",
    "decisions",
)


@router.get("/queue.jsonl", summary="All matching items as JSON lines", response_class=StreamingResponse)
def queue_jsonl(request: Request, params: QueueQueryParams) -> StreamingResponse:
    """Return one item per line."""
    rows = (item.as_dict() for item in _matching_items(request, params))
    return attachment(json_lines(rows), "application/x-ndjson", "quarantine.jsonl")


@router.get("/queue.csv", summary="All matching items as CSV", response_class=StreamingResponse)
def queue_csv(request: Request, params: QueueQueryParams) -> StreamingResponse:
    """Return one item per row, with the codes of its findings."""
    rows = (
        {**item.as_dict(), "codes": " ".join(dict.fromkeys(finding.code for finding in item.findings))}
        for item in _matching_items(request, params)
    )
    return attachment(csv_lines(COLUMNS, rows), "text/csv; charset=utf-8", "quarantine.csv")


def _matching_items(request: Request, params: QueueQueryParams) -> Iterator[QueueItem]:
    ledger, criteria = current_deployment(request).ledger, params.filter

    def load(after: str | None = None) -> QueuePage:
        return load_page(ledger, criteria, sort=params.sort, after=after, size=ITEMS_PER_QUERY)

    return iterate_rows(load(), load, lambda page: page.items)
