"""Queue: what waits, the riskiest first, groups of one campaign together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse

from corpus_guard.ledger.states import VERSION_STATES
from corpus_guard.review import queue as waiting
from corpus_guard.review.decisions import MAX_ITEMS
from corpus_guard.review.queue import QueueFilter, QueueItem, Sort
from corpus_guard.web.render import render_page

router = APIRouter()

SIZE = 50  # items a page
CAMPAIGNS = 6  # named above the list
AGES = {"": "any time", "4": "4 hours", "24": "a day", "72": "3 days", "168": "a week", "720": "30 days"}
"""Hours → what they are called."""
ORDERS: Mapping[Sort, str] = {"risk": "risk", "age": "longest waiting", "source": "source"}

Word = Annotated[str, Query(max_length=250)]


@dataclass(frozen=True, slots=True)
class QueueQuery:
    """What the address of a page asks for; the same names for the page, the API and the exports."""

    source: Word = ""
    trust: Word = ""
    check: Word = ""
    severity: Word = ""
    older_than: Annotated[str, Query(pattern=r"^\d{0,5}$", description="Hours it waits at least.")] = ""
    run_id: Word = ""
    campaign: Word = ""
    state: Annotated[str, Query(max_length=20)] = "quarantined"
    text: Annotated[str, Query(max_length=200, description="Part of the document's place.")] = ""
    undecided: Annotated[bool, Query(description="Leave out what is decided and not applied yet.")] = False
    sort: Sort = "risk"
    after: Annotated[str, Query(max_length=2_000, description="`next` of the page before.")] = ""

    @property
    def filter(self) -> QueueFilter:
        """For the library.

        Raises:
            Misuse: a state or a severity that there is not.
        """
        return QueueFilter(
            source=self.source or None,
            trust=self.trust or None,
            check=self.check or None,
            severity=self.severity or None,
            older_than=timedelta(hours=int(self.older_than)) if self.older_than else None,
            run_id=self.run_id or None,
            campaign=self.campaign or None,
            state=self.state,
            text=self.text,
            undecided=self.undecided,
        )

    @property
    def narrows(self) -> bool:
        """Whether anything but the state is asked for."""
        words = (self.source, self.trust, self.check, self.severity, self.older_than, self.run_id, self.campaign)
        return any((*words, self.text, self.undecided))

    def as_dict(self) -> dict[str, Any]:
        """For links; the usual is left out."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "undecided": "true" if self.undecided else ""}


QueueQueryParams = Annotated[QueueQuery, Depends()]


@dataclass(frozen=True, slots=True)
class Group:
    """Items that stand together."""

    campaign: str | None
    count: int  # of the whole campaign, as far as it matches
    members: tuple[QueueItem, ...]


@router.get("/")
def queue(request: Request, asked: QueueQueryParams) -> HTMLResponse:
    """A page of the queue."""
    guard = request.app.state.desk.guard()
    found = waiting.load_page(guard.ledger, asked.filter, sort=asked.sort, after=asked.after or None, size=SIZE)
    return render_page(
        request,
        "queue.html",
        groups=list(groups(found.items, found.facets.get("campaign", {}))),
        alike=[(name, count) for name, count in found.facets.get("campaign", {}).items() if count > 1][:CAMPAIGNS],
        total=found.total,
        shown=len(found.items),
        next=found.next or "",
        facets=found.facets,
        asked=asked.as_dict(),
        filtered=asked.narrows,
        states=VERSION_STATES,
        ages=list(AGES.items()),
        sorts=list(ORDERS.items()),
        size=SIZE,
        most=MAX_ITEMS,
        policy_digest=guard.screening.digest,
    )


def groups(items: Sequence[QueueItem], campaigns: Mapping[str, int]) -> Iterator[Group]:
    """Items as the page shows them: those of one campaign together, where the first of them stands."""
    by_key: dict[str, list[QueueItem]] = {}
    for item in items:
        by_key.setdefault(item.campaign or item.version_id, []).append(item)
    for members in by_key.values():
        campaign = members[0].campaign
        yield Group(campaign, max(campaigns.get(campaign or "", 1), len(members)), tuple(members))
