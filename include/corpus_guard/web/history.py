"""History: everything anybody decided or did about the quarantine, newest first, and the undoing of what has not taken effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from corpus_guard.review.history import HistoryEntry, HistoryPage, load_history
from corpus_guard.web.responses import (ERRORS, attachment, iterate_rows, json_lines, csv_lines)
from corpus_guard.web.render import render_page

router = APIRouter()
api = APIRouter(tags=["read"], responses=ERRORS)

SIZE = 50  # entries a page
FILE_SIZE = 500
KINDS = ("release", "reject", "escalate", "undo", "mute", "confirm", "lift")
COLUMNS = (
    "id",
    "kind",
    "version_id",
    "source",
    "uri",
    "code",
    "reviewer",
    "reviewer_id",
    "auth",
    "reason",
    "is_first_of_two",
    "cause",
    "at",
    "applied_at",
    "undone_at",
    "policy_digest",
)

Word = Annotated[str, Query(max_length=250)]


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """What the address of a page asks for."""

    reviewer: Word = ""
    source: Word = ""
    kind: Annotated[str, Query(max_length=10)] = ""
    version_id: Word = ""
    after: Annotated[str, Query(max_length=2_000, description="`next` of the page before.")] = ""

    def as_dict(self) -> dict[str, str]:
        """For links."""
        return {name: getattr(self, name) for name in self.__slots__}

    def told(self, request: Request, size: int, after: str = "") -> HistoryPage:
        """A page of the history."""
        return load_history(
            request.app.state.desk.guard().ledger,
            reviewer=self.reviewer or None,
            source=self.source or None,
            kind=self.kind or None,
            version_id=self.version_id or None,
            after=after or self.after or None,
            size=size,
        )


HistoryQueryParams = Annotated[HistoryQuery, Depends()]


@router.get("/history")
def listed(request: Request, asked: HistoryQueryParams) -> HTMLResponse:
    """A page of the history."""
    told = asked.told(request, SIZE)
    return render_page(
        request,
        "history.html",
        entries=[(entry, can_undo(entry)) for entry in told.entries],
        total=told.total,
        next=told.next or "",
        asked=asked.as_dict(),
        kinds=KINDS,
    )


@api.get("/decisions", summary="Everything anybody decided or did, newest first")
def decisions(request: Request, asked: HistoryQueryParams) -> dict[str, Any]:
    """Give `next` as `after` for the page after."""
    told = asked.told(request, SIZE)
    return {"decisions": [entry.as_dict() for entry in told.entries], "total": told.total, "next": told.next}


@api.get("/decisions.jsonl", summary="The history as JSON lines", response_class=StreamingResponse, tags=["export"])
def decision_lines(request: Request, asked: HistoryQueryParams) -> StreamingResponse:
    """One entry a line."""
    return attachment(json_lines(_rows(request, asked)), "application/x-ndjson", "decisions.jsonl")


@api.get("/decisions.csv", summary="The history as CSV", response_class=StreamingResponse, tags=["export"])
def decision_table(request: Request, asked: HistoryQueryParams) -> StreamingResponse:
    """One entry a row."""
    return attachment(csv_lines(COLUMNS, _rows(request, asked)), "text/csv; charset=utf-8", "decisions.csv")


def can_undo(entry: HistoryEntry) -> bool:
    """Whether the pages offer it; the library decides."""
    return entry.kind in ("release", "reject", "escalate") and not entry.applied_at and not entry.undone_at


def _rows(request: Request, asked: HistoryQuery) -> Iterator[dict[str, Any]]:
    def part(after: str = "") -> HistoryPage:
        return asked.told(request, FILE_SIZE, after)

    return iterate_rows(part(), part, lambda one: one.entries)
