"""Queue view: waiting items, highest risk first, items of one campaign together; and the queue as a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from corpus_guard.ledger.states import VERSION_STATES
from corpus_guard.review.decisions import MAX_ITEMS
from corpus_guard.review.queue import QueueFilter, QueueItem, QueuePage, Sort, load_page
from corpus_guard.web.render import query, render_page
from corpus_guard.web.responses import ERRORS, attachment, csv_lines, iterate_rows, json_lines
from corpus_guard.web.shared_deployment import current_deployment
from corpus_guard.web.snippets import load_snippets

router = APIRouter()
files = APIRouter(tags=["export"], responses=ERRORS)

PAGE_SIZE: Final = 50  # items
MAX_CAMPAIGNS: Final = 6  # named above the list
AGES: Final = {"": "any time", "4": "4 hours", "24": "1 day", "72": "3 days", "168": "1 week", "720": "30 days"}
"""Choices of the age filter: hours → label."""
SORT_LABELS: Final[Mapping[Sort, str]] = {"risk": "risk", "age": "longest waiting", "source": "source"}
ITEMS_PER_QUERY: Final = 200  # of a file
CSV_COLUMNS: Final = (
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

Word = Annotated[str, Query(max_length=250)]


@dataclass(frozen=True, slots=True)
class QueueQuery:
    """Query parameters of the queue page, the API and the exports."""

    source: Word = ""
    trust: Word = ""
    check: Word = ""
    severity: Word = ""
    older_than: Annotated[str, Query(pattern=r"^\d{0,5}$", description="Minimum waiting time in hours.")] = ""
    run_id: Word = ""
    campaign: Word = ""
    state: Word = "quarantined"
    text: Annotated[str, Query(max_length=200, description="Part of the document's path.")] = ""
    undecided: Annotated[bool, Query(description="Leave out items with a decision that is not applied yet.")] = False
    sort: Sort = "risk"
    after: Annotated[str, Query(max_length=2_000, description="`next` of the previous page.")] = ""

    @property
    def filter(self) -> QueueFilter:
        """The filter for the library.

        Raises:
            Misuse: an unknown state or severity.
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
    def is_filtered(self) -> bool:
        """True if any filter other than the state is set."""
        filters = (self.source, self.trust, self.check, self.severity, self.older_than, self.run_id, self.campaign)
        return any((*filters, self.text, self.undecided))

    @property
    def link(self) -> str:
        """The end of an address that leads back to this place of the queue: what differs from the default."""
        changed = {name: value for name, value in self.as_dict().items() if value != _DEFAULTS[name]}
        return f"?{query(changed)}" if changed else ""

    def as_dict(self) -> dict[str, object]:
        """Return the parameters for links."""
        values: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "undecided": "true" if self.undecided else ""}


_DEFAULTS: Final = QueueQuery().as_dict()
QueueQueryParams = Annotated[QueueQuery, Depends()]


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """Items of one campaign on a page."""

    campaign: str | None
    count: int  # matching items of the campaign, on all pages
    members: tuple[QueueItem, ...]


@router.get("/")
def queue(request: Request, params: QueueQueryParams) -> HTMLResponse:
    """Show a page of the queue."""
    deployment = current_deployment(request)
    page = load_page(deployment.ledger, params.filter, sort=params.sort, after=params.after or None, size=PAGE_SIZE)
    groups = list(group_items(page.items, page.facets.get("campaign", {})))
    return render_page(
        request,
        "queue.html",
        groups=groups,
        snippets=load_snippets(deployment.ledger, deployment.storage, page.items),
        campaigns=[group for group in groups if group.campaign and group.count > 1][:MAX_CAMPAIGNS],
        total=page.total,
        items_on_page=len(page.items),
        next=page.next or "",
        facets=page.facets,
        filters=params.as_dict(),
        place=params.link,
        is_filtered=params.is_filtered,
        states=VERSION_STATES,
        ages=list(AGES.items()),
        age_label=AGES.get(params.older_than, f"{params.older_than} hours"),
        sorts=list(SORT_LABELS.items()),
        page_size=PAGE_SIZE,
        max_items=MAX_ITEMS,
        policy_digest=deployment.screening.digest,
    )


@files.get("/queue.jsonl", summary="All matching items as JSON lines", response_class=StreamingResponse)
def queue_jsonl(request: Request, params: QueueQueryParams) -> StreamingResponse:
    """Return one item per line."""
    rows = (item.as_dict() for item in _matching_items(request, params))
    return attachment(json_lines(rows), "application/x-ndjson", "quarantine.jsonl")


@files.get("/queue.csv", summary="All matching items as CSV", response_class=StreamingResponse)
def queue_csv(request: Request, params: QueueQueryParams) -> StreamingResponse:
    """Return one item per row, with the codes of its findings."""
    rows = (
        {**item.as_dict(), "codes": " ".join(dict.fromkeys(finding.code for finding in item.findings))}
        for item in _matching_items(request, params)
    )
    return attachment(csv_lines(CSV_COLUMNS, rows), "text/csv; charset=utf-8", "quarantine.csv")


def group_items(items: Sequence[QueueItem], campaigns: Mapping[str, int]) -> Iterator[ItemGroup]:
    """Group the items of each campaign, at the place of its first item."""
    by_campaign: dict[str, list[QueueItem]] = {}
    for item in items:
        by_campaign.setdefault(item.campaign or item.version_id, []).append(item)
    for members in by_campaign.values():
        campaign = members[0].campaign
        yield ItemGroup(campaign, max(campaigns.get(campaign or "", 1), len(members)), tuple(members))


def _matching_items(request: Request, params: QueueQueryParams) -> Iterator[QueueItem]:
    ledger, criteria = current_deployment(request).ledger, params.filter

    def load(after: str | None = None) -> QueuePage:
        return load_page(ledger, criteria, sort=params.sort, after=after, size=ITEMS_PER_QUERY)

    return iterate_rows(load(), load, lambda page: page.items)
