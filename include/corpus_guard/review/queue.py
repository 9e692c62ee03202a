"""The review queue: pages of waiting items, and single items.

Rules
    * a page costs at most five statements, however long the queue is: the page, its findings, its review
      records, the counts, the campaigns;
    * pages follow a cursor, not a page number: items decided meanwhile shift no other item to another page;
    * an item's `revision` changes whenever it is decided, undone, escalated, screened again, replaced or
      retired;
    * superseded and vanished versions do not wait;
    * versions that are served and were reopened wait beside those in quarantine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Literal

import sqlalchemy as sa

from corpus_guard.domain import Finding, JsonRecord, Severity, TrustLevel
from corpus_guard.errors import Misuse, require_one_of
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.paging import PageOrder
from corpus_guard.ledger.queries import Row, finding_from_row, select_in_batches
from corpus_guard.ledger.short_ids import find_id
from corpus_guard.ledger.states import VERSION_STATES, VersionState
from corpus_guard.ledger.tables import decisions, documents, findings, versions, waits_for_decision
from corpus_guard.review.records import ItemRevision, VersionReview, current_revisions, latest_versions, load_reviews

MAX_PAGE_SIZE: Final = 200  # items

Sort = Literal["risk", "age", "source"]
SORTS: Final[tuple[Sort, ...]] = ("risk", "age", "source")


@dataclass(frozen=True, slots=True)
class QueueItem(JsonRecord):
    """A version in the ledger, as the queue shows it."""

    version_id: str
    doc_id: str
    source: str
    uri: str
    trust: str
    state: str
    risk: float
    judged_at: datetime
    findings: tuple[Finding, ...]
    revision: str = ""  # a decision is bound to it; see `corpus_guard.review.records.ItemRevision`
    severity: str | None = None  # of the worst finding that is not muted
    # Shared by near-duplicates, or by items of one principal with findings of the same checks.
    campaign: str | None = None
    run_id: str = ""  # the run that screened it
    waits_since: datetime | None = None
    reopened_at: datetime | None = None  # served, and waiting since then; None: not reopened
    decisions: int = 0  # releases and rejections so far
    pending: str | None = None  # release or reject: decided, and not applied yet
    waits_for_second: bool = False  # released once; a second person must agree
    approved_by: str | None = None  # the person who gave the first of two approvals
    escalated: bool = False
    expired: bool = False  # waited longer than the policy allows

    @property
    def waits(self) -> bool:
        """True if a person can decide: it is in quarantine, or it is served and was reopened."""
        return self.state == VersionState.QUARANTINED or self.reopened_at is not None

    @property
    def worst(self) -> Severity | None:
        """Severity of the worst finding that is not muted."""
        return Severity(self.severity) if self.severity else None

    @property
    def worst_finding(self) -> Finding | None:
        """The worst finding that counts; among equals the first that points at words."""
        counting = [finding for finding in self.findings if not finding.muted]
        return max(counting, key=lambda finding: (finding.severity.rank, finding.span is not None), default=None)


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Criteria for items; None or an empty text does not filter."""

    source: str | None = None
    trust: str | None = None
    check: str | None = None  # a check with a finding that is not muted
    severity: str | None = None  # of the worst finding
    older_than: timedelta | None = None  # has waited at least this long
    run_id: str | None = None  # the run that screened it
    campaign: str | None = None
    state: str = VersionState.QUARANTINED  # with those that were reopened
    text: str = ""  # part of the document's URI, in any case
    undecided: bool = False  # leave out items with a decision that has not been applied yet

    def __post_init__(self) -> None:
        require_one_of("state", self.state, VERSION_STATES)
        if self.severity is not None:
            require_one_of("severity", self.severity, tuple(Severity))
        if self.trust is not None:
            require_one_of("trust", self.trust, tuple(TrustLevel))


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A page of the queue."""

    items: tuple[QueueItem, ...]
    total: int  # items that match the filter, on all pages
    next: str | None  # pass it as `after`; None on the last page
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """source, trust, check, severity, campaign → value → matching items; only campaigns on this page. Trust levels and severities
    stand from high to low, all else by number."""


def load_page(
    ledger: Ledger,
    criteria: QueueFilter | None = None,
    *,
    sort: Sort = "risk",
    after: str | None = None,
    size: int = 50,
) -> QueuePage:
    """Return a page of the queue.

    Args:
        criteria: which items; None: all that wait.
        sort: ``risk``: highest first; ``age``: longest waiting first; ``source``: by name, then risk.
        after: `QueuePage.next` of the previous page.

    Raises:
        Misuse: an argument is invalid.
    """
    criteria = criteria or QueueFilter()
    require_one_of("sort", sort, SORTS)
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise Misuse(f"page size: expected 1 to {MAX_PAGE_SIZE} items, got {size}")
    order = _page_order(sort, criteria)
    statement = _select_items(latest_versions()).where(*_conditions(criteria))
    if after is not None:
        statement = statement.where(order.behind(order.position(after)))
    with ledger.read() as connection:
        rows = connection.execute(statement.order_by(*order.columns).limit(size + 1)).all()
        page_rows = rows[:size]
        items = _build_items(connection, page_rows)
        facets = {**_count_facets(connection, criteria), "campaign": _count_campaigns(connection, criteria, page_rows)}
    total = sum(facets["source"].values())
    next_cursor = order.cursor(_position(page_rows[-1], sort)) if len(rows) > size else None
    return QueuePage(_group_by_campaign(items), total, next_cursor, facets)


def find_item(ledger: Ledger, prefix: str) -> QueueItem:
    """Return the version whose id is `prefix` or begins with it.

    Raises:
        UnknownSubject, Misuse: as `find_id`.
    """
    with ledger.read() as connection:
        version_id = find_id(
            connection, sa.select(versions.c.version_id), prefix, "item", "see `guard quarantine list`"
        )
        rows = connection.execute(_select_items().where(versions.c.version_id == version_id)).all()
        return _build_items(connection, rows)[0]


def find_next_item(
    ledger: Ledger, item: QueueItem, criteria: QueueFilter | None = None, *, sort: Sort = "risk"
) -> str | None:
    """Return the id of the undecided item behind `item` in a queue; behind the last comes the first.

    Args:
        criteria, sort: as in `load_page`.
    """
    criteria = replace(criteria or QueueFilter(), undecided=True)
    order = _page_order(sort, criteria)
    others = _select_items(latest_versions()).where(*_conditions(criteria), versions.c.version_id != item.version_id)
    behind = others.where(order.behind(_position(item, sort)))
    with ledger.read() as connection:
        for statement in (behind, others):
            row = connection.execute(statement.order_by(*order.columns).limit(1)).first()
            if row is not None:
                return str(row.version_id)
    return None


def list_revisions(ledger: Ledger, criteria: QueueFilter, *, limit: int = 1_000) -> list[ItemRevision]:
    """Return all matching items, highest risk first: the input of a bulk decision.

    Raises:
        Misuse: more than `limit` items match.
    """
    statement = _select_items(latest_versions()).where(*_conditions(criteria)).order_by(*_ORDERS["risk"].columns)
    with ledger.read() as connection:
        rows = connection.execute(statement.limit(limit + 1)).all()
        if len(rows) > limit:
            raise Misuse(f"more than {limit:,} items match; narrow the filter")
        return current_revisions(connection, rows)


def _select_items(joined: sa.Join | None = None) -> sa.Select[Any]:
    return sa.select(
        versions.c.version_id,
        versions.c.doc_id,
        documents.c.source,
        documents.c.uri,
        documents.c.trust,
        *versions.c["state", "risk", "judged_at", "severity", "campaign", "run_id", "waits_since", "reopened_at"],
        documents.c.latest_version,
        documents.c.retired_at,
    ).select_from(joined if joined is not None else versions.join(documents, documents.c.doc_id == versions.c.doc_id))


_SINCE = sa.func.coalesce(versions.c.waits_since, versions.c.judged_at)
_ORDERS: Final[Mapping[Sort, PageOrder]] = {
    "risk": PageOrder(
        "queue", "risk", ((versions.c.risk, True), (versions.c.campaign, True), (versions.c.version_id, True))
    ),
    "age": PageOrder("queue", "age", ((versions.c.waits_since, False), (versions.c.version_id, False))),
    "source": PageOrder(
        "queue", "source", ((documents.c.source, False), (versions.c.risk, True), (versions.c.version_id, False))
    ),
}
_BY_AGE_OF_DECIDED: Final = PageOrder("queue", "age", ((_SINCE, False), (versions.c.version_id, False)))
"""Items that are decided, or never waited."""


def _page_order(sort: Sort, criteria: QueueFilter) -> PageOrder:
    return _ORDERS[sort] if sort != "age" or criteria.state == VersionState.QUARANTINED else _BY_AGE_OF_DECIDED


def _conditions(criteria: QueueFilter) -> list[sa.ColumnElement[bool]]:
    is_waiting = criteria.state == VersionState.QUARANTINED
    conditions = [
        waits_for_decision() if is_waiting else versions.c.state == criteria.state,
        documents.c.retired_at.is_(None),
    ]
    for column, value in (
        # Not by the index on sources: without statistics SQLite scans the whole queue for each document of the
        # source (50,000 items: 222 s), while from the queue each document is one lookup.
        (sa.func.coalesce(documents.c.source, ""), criteria.source),
        (documents.c.trust, criteria.trust),
        (versions.c.severity, criteria.severity),
        (versions.c.run_id, criteria.run_id),
        (versions.c.campaign, criteria.campaign),
    ):
        if value:
            conditions.append(column == value.replace("\x00", ""))
    if criteria.check:
        conditions.append(versions.c.checks.contains(f",{criteria.check.replace(chr(0), '')},", autoescape=True))
    if criteria.older_than is not None:
        conditions.append(now() - criteria.older_than >= _SINCE)
    if criteria.text:
        conditions.append(documents.c.uri.icontains(criteria.text.replace("\x00", ""), autoescape=True))
    if criteria.undecided:
        open_decision = sa.exists().where(
            decisions.c.version_id == versions.c.version_id,
            decisions.c.applied_at.is_(None),
            decisions.c.undone_at.is_(None),
        )
        conditions.append(sa.not_(open_decision))
    return conditions


def _position(row: Row | QueueItem, sort: Sort) -> list[Any]:
    """Return the values that an item is sorted by."""
    return {
        "risk": [row.risk, row.campaign or "", row.version_id],
        "age": [row.waits_since or row.judged_at, row.version_id],
        "source": [row.source, row.risk, row.version_id],
    }[sort]


def _count_facets(connection: sa.Connection, criteria: QueueFilter) -> dict[str, dict[str, int]]:
    groups = (documents.c.source, documents.c.trust, versions.c.severity, versions.c.checks)
    statement = (
        sa.select(*groups, sa.func.count().label("items"))
        .select_from(latest_versions())
        .where(*_conditions(criteria))
        .group_by(*groups)
    )
    facets: dict[str, Counter[str]] = {name: Counter() for name in ("source", "trust", "severity", "check")}
    for row in connection.execute(statement):
        facets["source"][row.source] += row.items
        facets["trust"][row.trust] += row.items
        facets["severity"][row.severity or Severity.INFO.value] += row.items
        for check in filter(None, (row.checks or "").split(",")):
            facets["check"][check] += row.items
    ordered = {name: dict(counts.most_common()) for name, counts in facets.items()}
    for name, scale in (("severity", tuple(Severity)[::-1]), ("trust", tuple(TrustLevel))):
        ordered[name] = {word.value: ordered[name][word.value] for word in scale if word.value in ordered[name]}
    return ordered


def _count_campaigns(connection: sa.Connection, criteria: QueueFilter, rows: Sequence[Row]) -> dict[str, int]:
    """Return the number of matching items of each campaign on the page, largest campaign first."""
    names = sorted({row.campaign for row in rows if row.campaign})
    if not names:
        return {}
    size = sa.func.count()
    statement = (
        sa.select(versions.c.campaign, size)
        .select_from(latest_versions())
        .where(*_conditions(criteria), versions.c.campaign.in_(names), sa.text("versions.campaign <> ''"))
        .group_by(versions.c.campaign)
        .order_by(size.desc(), versions.c.campaign)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def _group_by_campaign(items: Sequence[QueueItem]) -> tuple[QueueItem, ...]:
    """Move the items of each campaign to the place of its first item."""
    first: dict[str, int] = {}
    for position, item in enumerate(items):
        first.setdefault(item.campaign or item.version_id, position)
    return tuple(sorted(items, key=lambda item: first[item.campaign or item.version_id]))


def _build_items(connection: sa.Connection, rows: Sequence[Row]) -> list[QueueItem]:
    version_ids = [row.version_id for row in rows]
    findings_by_version, reviews = load_findings(connection, version_ids), load_reviews(connection, version_ids)
    return [_build_item(row, findings_by_version[row.version_id], reviews[row.version_id]) for row in rows]


def _build_item(row: Row, item_findings: Sequence[Finding], review: VersionReview) -> QueueItem:
    first = review.first_approval
    columns = {name: value for name, value in row._mapping.items() if name not in ("latest_version", "retired_at")}
    columns["campaign"] = row.campaign or None
    return QueueItem(
        **columns,
        findings=tuple(item_findings),
        revision=review.revision(row),
        decisions=review.decision_count,
        pending=review.pending,
        waits_for_second=first is not None,
        approved_by=first.reviewer.name if first else None,
        escalated=review.escalated,
        expired=review.expired,
    )


def load_findings(connection: sa.Connection, version_ids: Sequence[str]) -> dict[str, list[Finding]]:
    """Return the findings of each version, in their order."""
    by_version: dict[str, list[Finding]] = {version_id: [] for version_id in version_ids}
    statement = sa.select(findings).order_by(findings.c.version_id, findings.c.ordinal)
    for row in select_in_batches(connection, statement, findings.c.version_id, version_ids):
        by_version[row.version_id].append(finding_from_row(row))
    return by_version
