"""History: everything anybody decided or did about the quarantine, newest first, and the undoing of what has not taken effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from corpus_guard.review.history import Entry, Told, history
from corpus_guard.web.answers import ERRORS, attachment, every_row, lines, table
from corpus_guard.web.render import page

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
class Asked:
    """What the address of a page asks for."""

    reviewer: Word = ""
    source: Word = ""
    kind: Annotated[str, Query(max_length=10)] = ""
    version_id: Word = ""
    after: Annotated[str, Query(max_length=2_000, description="`next` of the page before.")] = ""

    def as_dict(self) -> dict[str, str]:
        """For links."""
        return {name: getattr(self, name) for name in self.__slots__}

    def told(self, request: Request, size: int, after: str = "") -> Told:
        """A page of the history."""
        return history(
            request.app.state.desk.guard().ledger,
            reviewer=self.reviewer or None,
            source=self.source or None,
            kind=self.kind or None,
            version_id=self.version_id or None,
            after=after or self.after or None,
            size=size,
        )


Wanted = Annotated[Asked, Depends()]


@router.get("/history")
def listed(request: Request, asked: Wanted) -> HTMLResponse:
    """A page of the history."""
    told = asked.told(request, SIZE)
    return page(
        request,
        "history.html",
        entries=[(entry, can_undo(entry)) for entry in told.entries],
        total=told.total,
        next=told.next or "",
        asked=asked.as_dict(),
        kinds=KINDS,
    )


@api.get("/decisions", summary="Everything anybody decided or did, newest first")
def decisions(request: Request, asked: Wanted) -> dict[str, Any]:
    """Give `next` as `after` for the page after."""
    told = asked.told(request, SIZE)
    return {"decisions": [entry.as_dict() for entry in told.entries], "total": told.total, "next": told.next}


@api.get("/decisions.jsonl", summary="The history as JSON lines", response_class=StreamingResponse, tags=["export"])
def decision_lines(request: Request, asked: Wanted) -> StreamingResponse:
    """One entry a line."""
    return attachment(lines(_rows(request, asked)), "application/x-ndjson", "decisions.jsonl")


@api.get("/decisions.csv", summary="The history as CSV", response_class=StreamingResponse, tags=["export"])
def decision_table(request: Request, asked: Wanted) -> StreamingResponse:
    """One entry a row."""
    return attachment(table(COLUMNS, _rows(request, asked)), "text/csv; charset=utf-8", "decisions.csv")


def can_undo(entry: Entry) -> bool:
    """Whether the pages offer it; the library decides."""
    return entry.kind in ("release", "reject", "escalate") and not entry.applied_at and not entry.undone_at


def _rows(request: Request, asked: Asked) -> Iterator[dict[str, Any]]:
    def part(after: str = "") -> Told:
        return asked.told(request, FILE_SIZE, after)

    return every_row(part(), part, lambda one: one.entries)
