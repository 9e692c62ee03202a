"""History view: all decisions and acts about the quarantine, newest first, and undo."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from corpus_guard.ledger.states import ReviewAction
from corpus_guard.review.history import ACTIONS, HistoryEntry, HistoryPage, load_history
from corpus_guard.web.render import render_page
from corpus_guard.web.responses import ERRORS, attachment, csv_lines, iterate_rows, json_lines
from corpus_guard.web.shared_deployment import current_deployment

router = APIRouter()
api = APIRouter(tags=["read"], responses=ERRORS)

PAGE_SIZE: Final = 50  # entries
EXPORT_PAGE_SIZE: Final = 500  # entries
UNDOABLE: Final = (ReviewAction.RELEASE, ReviewAction.REJECT, ReviewAction.ESCALATE)
COLUMNS: Final = (
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
    "purpose",
    "undoes",
    "at",
    "applied_at",
    "undone_at",
    "policy_digest",
)

Word = Annotated[str, Query(max_length=250)]


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Query parameters of the history page, the API and the exports."""

    reviewer: Word = ""
    source: Word = ""
    kind: Word = ""
    version_id: Word = ""
    after: Annotated[str, Query(max_length=2_000, description="`next` of the previous page.")] = ""

    def as_dict(self) -> dict[str, str]:
        """Return the parameters for links."""
        return {name: getattr(self, name) for name in self.__slots__}

    def load(self, request: Request, size: int, after: str = "") -> HistoryPage:
        """Return a page of the matching entries."""
        return load_history(
            current_deployment(request).ledger,
            reviewer=self.reviewer or None,
            source=self.source or None,
            kind=self.kind or None,
            version_id=self.version_id or None,
            after=after or self.after or None,
            size=size,
        )


HistoryQueryParams = Annotated[HistoryQuery, Depends()]


@router.get("/history")
def history(request: Request, params: HistoryQueryParams) -> HTMLResponse:
    """Show a page of the history."""
    page = params.load(request, PAGE_SIZE)
    return render_page(
        request,
        "history.html",
        entries=[(entry, can_undo(entry)) for entry in page.entries],
        total=page.total,
        next=page.next or "",
        page_size=PAGE_SIZE,
        filters=params.as_dict(),
        kinds=ACTIONS,
    )


@api.get("/decisions", summary="All decisions and acts, newest first")
def decisions(request: Request, params: HistoryQueryParams) -> dict[str, object]:
    """Return a page of them. Pass `next` as `after` to get the next page."""
    page = params.load(request, PAGE_SIZE)
    return {"decisions": [entry.as_dict() for entry in page.entries], "total": page.total, "next": page.next}


@api.get("/decisions.jsonl", summary="The history as JSON lines", response_class=StreamingResponse, tags=["export"])
def decisions_jsonl(request: Request, params: HistoryQueryParams) -> StreamingResponse:
    """Return one entry per line."""
    return attachment(json_lines(_export_rows(request, params)), "application/x-ndjson", "decisions.jsonl")


@api.get("/decisions.csv", summary="The history as CSV", response_class=StreamingResponse, tags=["export"])
def decisions_csv(request: Request, params: HistoryQueryParams) -> StreamingResponse:
    """Return one entry per row."""
    return attachment(csv_lines(COLUMNS, _export_rows(request, params)), "text/csv; charset=utf-8", "decisions.csv")


def can_undo(entry: HistoryEntry) -> bool:
    """Return whether the pages offer to undo an entry; the library has the last word."""
    return may_be_undone(entry.kind, entry.applied_at, entry.undone_at, entry.purpose)


def may_be_undone(kind: str, applied_at: datetime | None, undone_at: datetime | None, purpose: str) -> bool:
    """Return whether a person may undo such a decision, unless something newer stands in the way."""
    is_open = kind in UNDOABLE and not applied_at
    return not undone_at and (is_open or (kind == ReviewAction.REJECT and not purpose))


def _export_rows(request: Request, params: HistoryQuery) -> Iterator[dict[str, object]]:
    def load(after: str = "") -> HistoryPage:
        return params.load(request, EXPORT_PAGE_SIZE, after)

    return (entry.as_dict() for entry in iterate_rows(load(), load, lambda page: page.entries))
