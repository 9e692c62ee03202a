"""/api/v1: the queue as a file, JSON lines or CSV. That of the decisions is in `history`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from corpus_guard.review import queue as waiting
from corpus_guard.web.answers import ERRORS, attachment, every_row, lines, table
from corpus_guard.web.queue import Wanted

router = APIRouter(tags=["export"], responses=ERRORS)

AT_ONCE: Final = 200
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


@router.get("/queue.jsonl", summary="What matches, as JSON lines", response_class=StreamingResponse)
def queue_lines(request: Request, asked: Wanted) -> StreamingResponse:
    """One item a line."""
    return attachment(lines(_items(request, asked)), "application/x-ndjson", "quarantine.jsonl")


@router.get("/queue.csv", summary="What matches, as CSV", response_class=StreamingResponse)
def queue_table(request: Request, asked: Wanted) -> StreamingResponse:
    """One item a row, with the codes of its findings."""
    rows = (
        {**item, "codes": " ".join(dict.fromkeys(one["code"] for one in item["findings"]))}
        for item in _items(request, asked)
    )
    return attachment(table(COLUMNS, rows), "text/csv; charset=utf-8", "quarantine.csv")


def _items(request: Request, asked: Wanted) -> Iterator[dict[str, Any]]:
    guard = request.app.state.desk.guard()
    wanted = asked.filter

    def part(after: str | None = None) -> waiting.Page:
        return waiting.page(guard.ledger, wanted, sort=asked.sort, after=after, size=AT_ONCE)

    return every_row(part(), part, lambda one: one.items)
