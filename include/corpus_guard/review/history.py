"""All decisions and acts about the quarantine, newest first, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa

from corpus_guard.domain import JsonRecord
from corpus_guard.errors import Misuse, require_one_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.paging import PageOrder
from corpus_guard.ledger.queries import Row, record_from_row
from corpus_guard.ledger.short_ids import find_id
from corpus_guard.ledger.states import Purpose, ReviewAction
from corpus_guard.ledger.tables import documents, versions
from corpus_guard.review.records import REVIEW_RECORDS

MAX_PAGE_SIZE: Final = 500  # entries
ACTIONS: Final = (*ReviewAction, *Purpose)
"""Values of `HistoryEntry.action`."""
ORDER: Final = PageOrder("history", "newest", ((REVIEW_RECORDS.c.at, True), (REVIEW_RECORDS.c.id, False)))


@dataclass(frozen=True, slots=True)
class HistoryEntry(JsonRecord):
    """One decision or act."""

    id: str
    kind: str  # release, reject, escalate, undo, mute, confirm, lift
    version_id: str | None
    source: str  # of the document, or of the mute
    uri: str  # hostile text; empty for a mute without an item
    code: str  # of a mute
    subject: str | None  # id of what it completes, undoes, confirms or lifts
    reviewer_id: str
    reviewer: str
    auth: str
    reason: str
    policy_digest: str
    is_first_of_two: bool
    cause: str  # person, or expired: the time to decide was over
    at: datetime
    applied_at: datetime | None
    undone_at: datetime | None
    purpose: str  # withdraw, restore, purge, enhance; empty: a review of the quarantine
    undoes: str  # the action that was undone; empty: it undoes nothing

    @property
    def action(self) -> str:
        """Action, in one word."""
        return self.purpose or self.kind


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of the history."""

    entries: tuple[HistoryEntry, ...]
    total: int  # entries that match, on all pages
    next: str | None  # pass it as `after`; None on the last page


def load_history(
    ledger: Ledger,
    *,
    reviewer: str | None = None,
    source: str | None = None,
    kind: str | None = None,
    version_id: str | None = None,
    after: str | None = None,
    size: int = 100,
) -> HistoryPage:
    """Return a page of the history.

    Args:
        kind: one of `ACTIONS`.
        after: `HistoryPage.next` of the previous page.

    Raises:
        Misuse: an argument is invalid.
    """
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise Misuse(f"page size: expected 1 to {MAX_PAGE_SIZE} entries, got {size}")
    if kind:
        require_one_of("kind", kind, ACTIONS)
    columns = REVIEW_RECORDS.c
    source_column = sa.func.coalesce(documents.c.source, columns.source)
    conditions = []
    if reviewer:
        name = reviewer.replace("\x00", "")
        conditions.append(sa.or_(columns.reviewer == name, columns.reviewer_id == name))
    action = sa.func.coalesce(sa.func.nullif(columns.purpose, ""), columns.kind)
    for column, value in ((source_column, source), (action, kind), (columns.version_id, version_id)):
        if value:
            conditions.append(column == value.replace("\x00", ""))
    joined = REVIEW_RECORDS.outerjoin(versions, versions.c.version_id == columns.version_id).outerjoin(
        documents, documents.c.doc_id == versions.c.doc_id
    )
    statement = (
        sa.select(
            REVIEW_RECORDS,
            source_column.label("document_or_mute_source"),
            sa.func.coalesce(documents.c.uri, "").label("uri"),
        )
        .select_from(joined)
        .where(*conditions)
        .order_by(*ORDER.columns)
        .limit(size + 1)
    )
    if after is not None:
        statement = statement.where(ORDER.behind(ORDER.position(after)))
    with ledger.read() as connection:
        rows = connection.execute(statement).all()
        total = connection.scalar(sa.select(sa.func.count()).select_from(joined).where(*conditions)) or 0
    page_rows = rows[:size]
    next_cursor = ORDER.cursor([page_rows[-1].at, page_rows[-1].id]) if len(rows) > size else None
    return HistoryPage(tuple(map(_build_entry, page_rows)), total, next_cursor)


def find_entry_id(ledger: Ledger, prefix: str) -> str:
    """Return the id of the decision, act or mute whose id is `prefix` or begins with it.

    Raises:
        UnknownSubject, Misuse: as `find_id`.
    """
    with ledger.read() as connection:
        return find_id(connection, sa.select(REVIEW_RECORDS.c.id), prefix, "decision", "see `guard quarantine history`")


def _build_entry(row: Row) -> HistoryEntry:
    source = row.document_or_mute_source or ""
    return record_from_row(HistoryEntry, row, source=source, is_first_of_two=bool(row.lacking))
