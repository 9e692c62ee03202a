"""Everything anybody decided or did about the quarantine, newest first: page by page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from corpus_guard.errors import Misuse
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents, versions
from corpus_guard.review import _cursor
from corpus_guard.review._marks import DONE

LARGEST_PAGE = 500


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing somebody decided or did."""

    id: str
    kind: str  # release, reject, escalate, undo, mute, confirm, lift
    version_id: str | None
    source: str  # of the document, or of the mute
    uri: str  # hostile text; empty for a mute that came up with no item
    code: str  # of a mute
    subject: str | None  # what it completes, undoes, confirms or lifts
    reviewer_id: str
    reviewer: str
    auth: str
    reason: str
    policy_digest: str
    is_first_of_two: bool
    cause: str  # person, or expired: the clock did it
    at: datetime
    applied_at: datetime | None
    undone_at: datetime | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Told:
    """A part of the history."""

    entries: tuple[Entry, ...]
    total: int  # that match, on all pages
    next: str | None  # give it as `after`; None on the last page


def history(
    ledger: Ledger,
    *,
    reviewer: str | None = None,
    source: str | None = None,
    kind: str | None = None,
    version_id: str | None = None,
    after: str | None = None,
    size: int = 100,
) -> Told:
    """A page of the history.

    Args:
        ledger: the ledger.
        reviewer: name or id, whole.
        source: of the documents, or of the mutes.
        kind: release, reject, escalate, undo, mute, confirm or lift.
        version_id: of one item.
        after: `Told.next` of the page before.
        size: entries at most, 1 to 500.

    Raises:
        Misuse: an argument is none of these.
    """
    if not 1 <= size <= LARGEST_PAGE:
        raise Misuse(f"a page has 1 to {LARGEST_PAGE} entries, found {size}")
    place = sa.func.coalesce(documents.c.source, DONE.c.source)
    conditions = []
    if reviewer:
        name = reviewer.replace("\x00", "")
        conditions.append(sa.or_(DONE.c.reviewer == name, DONE.c.reviewer_id == name))
    for column, value in ((place, source), (DONE.c.kind, kind), (DONE.c.version_id, version_id)):
        if value:
            conditions.append(column == value.replace("\x00", ""))
    joined = DONE.outerjoin(versions, versions.c.version_id == DONE.c.version_id).outerjoin(
        documents, documents.c.doc_id == versions.c.doc_id
    )
    statement = (
        sa.select(DONE, place.label("place"), sa.func.coalesce(documents.c.uri, "").label("uri"))
        .select_from(joined)
        .where(*conditions)
        .order_by(DONE.c.at.desc(), DONE.c.id)
        .limit(size + 1)
    )
    if after is not None:
        at, last = _place(after)
        statement = statement.where(sa.or_(DONE.c.at < at, sa.and_(DONE.c.at == at, DONE.c.id > last)))
    with ledger.read() as connection:
        rows = connection.execute(statement).all()
        total = connection.scalar(sa.select(sa.func.count()).select_from(joined).where(*conditions)) or 0
    shown = rows[:size]
    return Told(tuple(map(_entry, shown)), total, _token(shown[-1]) if len(rows) > size else None)


def _entry(row: Any) -> Entry:
    return Entry(
        id=row.id,
        kind=row.kind,
        version_id=row.version_id,
        source=row.place or "",
        uri=row.uri,
        code=row.code,
        subject=row.subject,
        reviewer_id=row.reviewer_id,
        reviewer=row.reviewer,
        auth=row.auth,
        reason=row.reason,
        policy_digest=row.policy_digest,
        is_first_of_two=bool(row.lacking),
        cause=row.cause,
        at=row.at,
        applied_at=row.applied_at,
        undone_at=row.undone_at,
    )


def _token(row: Any) -> str:
    return _cursor.token([row.at.isoformat(), row.id])


def _place(token: str) -> tuple[datetime, str]:
    wrong = Misuse("the page's cursor is not one of the history; begin with the first page")
    try:
        at, last = _cursor.read(token)
        when = datetime.fromisoformat(at)
    except (ValueError, TypeError) as error:
        raise wrong from error
    if when.tzinfo is None or not isinstance(last, str) or "\x00" in last:
        raise wrong
    return when, last
