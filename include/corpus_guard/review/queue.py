"""What waits in quarantine: pages of it, and single items.

Rules
    * a page costs at most five statements, whatever the queue's length: the page, its findings, what people did, the counts, the
      campaigns;
    * pages follow a key, not a number: what is decided meanwhile moves nobody to another page;
    * an item's `revision` changes whenever it is decided, undone, escalated, judged anew, replaced or retired;
    * superseded and vanished versions do not wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from corpus_guard.domain import Finding, Severity, Span
from corpus_guard.errors import Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import VERSION_STATES, decisions, documents, findings, versions
from corpus_guard.review import _cursor
from corpus_guard.review._marks import AT_ONCE, Marks, latest, marks_of

SHORTEST_PREFIX = 6
LARGEST_PAGE = 200

Sort = Literal["risk", "age", "source"]
SORTS: tuple[Sort, ...] = ("risk", "age", "source")


@dataclass(frozen=True, slots=True)
class Item:
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
    revision: str = ""  # what a decision is bound to; see `corpus_guard.review.decisions.Chosen`
    severity: str | None = None  # of its worst finding that counts
    campaign: str | None = (
        None  # items that belong together: near-duplicates, or of one principal and seen by the same checks
    )
    run_id: str = ""  # that judged it
    waits_since: datetime | None = None
    decisions: int = 0  # how often anybody decided on it
    pending: str | None = None  # release or reject: decided, and not applied yet
    waits_for_second: bool = False  # it was released once, and a second person must agree
    approved_by: str | None = None  # who released it first, where it waits for a second
    escalated: bool = False
    expired: bool = False  # waited longer than the policy allows

    @property
    def worst(self) -> Severity | None:
        """Severity of its worst finding that counts."""
        return Severity(self.severity) if self.severity else None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        values = {name: getattr(self, name) for name in self.__slots__}
        for name in ("judged_at", "waits_since"):
            values[name] = values[name].isoformat() if values[name] else None
        return {**values, "findings": [finding.as_dict() for finding in self.findings]}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which items; what is None or empty does not filter."""

    source: str | None = None
    trust: str | None = None
    check: str | None = None  # that has a finding which counts
    severity: str | None = None  # of the worst finding
    older_than: timedelta | None = None  # waits at least this long
    run_id: str | None = None  # that judged it
    campaign: str | None = None
    state: str = "quarantined"
    text: str = ""  # in the document's URI, whatever its case
    undecided: bool = False  # leave out what is decided and not applied yet

    def __post_init__(self) -> None:
        if self.state not in VERSION_STATES:
            raise Misuse(f"state {self.state[:64]}: expected one of {', '.join(VERSION_STATES)}")
        if self.severity is not None and self.severity not in list(Severity):
            raise Misuse(f"severity {self.severity[:64]}: expected one of {', '.join(Severity)}")


@dataclass(frozen=True, slots=True)
class Page:
    """A part of the queue."""

    items: tuple[Item, ...]
    total: int  # that match the filter, on all pages
    next: str | None  # give it as `after`; None on the last page
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """source, trust, check, severity, campaign → value → items that match the filter. Of campaigns, those on the page."""


def page(
    ledger: Ledger, chosen: Filter | None = None, *, sort: Sort = "risk", after: str | None = None, size: int = 50
) -> Page:
    """A page of the queue.

    Args:
        ledger: the ledger.
        chosen: which items; none: all that wait.
        sort: ``risk``: the riskiest first; ``age``: what waits longest first; ``source``: by name, then risk.
        after: `Page.next` of the page before.
        size: items at most, 1 to 200.

    Raises:
        Misuse: an argument is none of these.
    """
    chosen = chosen or Filter()
    if sort not in SORTS:
        raise Misuse(f"sort {sort!r}: expected one of {', '.join(SORTS)}")
    if not 1 <= size <= LARGEST_PAGE:
        raise Misuse(f"a page has 1 to {LARGEST_PAGE} items, found {size}")
    keys = _KEYS[sort if sort != "age" or chosen.state == "quarantined" else "judged"]
    statement = _items(latest()).where(*_conditions(chosen))
    if after is not None:
        statement = statement.where(_beyond(keys, _place(after, sort)))
    order = [column.desc() if down else column.asc() for column, down in keys]
    with ledger.read() as connection:
        rows = connection.execute(statement.order_by(*order).limit(size + 1)).all()
        shown = rows[:size]
        items = _complete(connection, shown)
        facets = {**_facets(connection, chosen), "campaign": _campaigns(connection, chosen, shown)}
    total = sum(facets["source"].values())
    following = _token(shown[-1], sort) if len(rows) > size else None
    return Page(_gathered(items), total, following, facets)


def waiting(
    ledger: Ledger, *, source: str | None = None, state: str = "quarantined", limit: int = 100
) -> tuple[list[Item], int]:
    """Items in `state`, the riskiest first, and how many there are in all."""
    chosen = Filter(source=source, state=state)
    with ledger.read() as connection:
        total = connection.scalar(sa.select(sa.func.count()).select_from(latest()).where(*_conditions(chosen))) or 0
        order = [column.desc() if down else column.asc() for column, down in _KEYS["risk"]]
        rows = connection.execute(_items(latest()).where(*_conditions(chosen)).order_by(*order).limit(limit)).all()
        return _complete(connection, rows), total


def find(ledger: Ledger, name: str) -> Item:
    """One version by its id or the beginning of it.

    Raises:
        UnknownSubject: there is none.
        Misuse: there are several.
    """
    if len(name) < SHORTEST_PREFIX:
        raise Misuse(
            f"item {name!r}: give at least {SHORTEST_PREFIX} characters of its id; see `guard quarantine list`"
        )
    prefix = versions.c.version_id.startswith(name.lower().replace("\x00", ""), autoescape=True)
    with ledger.read() as connection:
        rows = connection.execute(_items().where(prefix).limit(2)).all()
        if not rows:
            raise UnknownSubject(f"item {name[:64]!r} is not in the ledger; see `guard quarantine list`")
        if len(rows) > 1:
            raise Misuse(f"item {name!r} could be {rows[0].version_id} or {rows[1].version_id}; give more of its id")
        return _complete(connection, rows)[0]


def ids_of(ledger: Ledger, chosen: Filter, *, limit: int = 1_000) -> list[tuple[str, str]]:
    """(version id, revision) of what matches, the riskiest first: what a bulk decision takes.

    Raises:
        Misuse: more than `limit` match.
    """
    with ledger.read() as connection:
        order = [column.desc() if down else column.asc() for column, down in _KEYS["risk"]]
        rows = connection.execute(_items(latest()).where(*_conditions(chosen)).order_by(*order).limit(limit + 1)).all()
        if len(rows) > limit:
            raise Misuse(f"more than {limit:,} items match; narrow the filter")
        marks = marks_of(connection, [row.version_id for row in rows])
    return [(row.version_id, marks[row.version_id].revision(row)) for row in rows]


def _joined() -> sa.Join:
    return versions.join(documents, documents.c.doc_id == versions.c.doc_id)


def _items(joined: sa.Join | None = None) -> sa.Select[Any]:
    return sa.select(
        versions.c.version_id,
        versions.c.doc_id,
        documents.c.source,
        documents.c.uri,
        documents.c.trust,
        versions.c.state,
        versions.c.risk,
        versions.c.judged_at,
        versions.c.severity,
        versions.c.campaign,
        versions.c.run_id,
        versions.c.waits_since,
        documents.c.latest_version,
        documents.c.retired_at,
    ).select_from(joined if joined is not None else _joined())


_SINCE = sa.func.coalesce(versions.c.waits_since, versions.c.judged_at)
_KEYS: Mapping[str, Sequence[tuple[sa.ColumnElement[Any], bool]]] = {  # column, descending
    "risk": ((versions.c.risk, True), (versions.c.campaign, True), (versions.c.version_id, True)),
    "age": ((versions.c.waits_since, False), (versions.c.version_id, False)),
    "judged": ((_SINCE, False), (versions.c.version_id, False)),  # what is decided, or never waited
    "source": ((documents.c.source, False), (versions.c.risk, True), (versions.c.version_id, False)),
}


def _conditions(chosen: Filter) -> list[sa.ColumnElement[bool]]:
    conditions = [
        versions.c.state == chosen.state,
        documents.c.retired_at.is_(None),
    ]
    for column, value in (
        # Not by the index on sources: without statistics SQLite goes through the whole queue for each document of the source then
        # (50,000 items: 222 s), while from the queue each document is one look.
        (sa.func.coalesce(documents.c.source, ""), chosen.source),
        (documents.c.trust, chosen.trust),
        (versions.c.severity, chosen.severity),
        (versions.c.run_id, chosen.run_id),
        (versions.c.campaign, chosen.campaign),
    ):
        if value:
            conditions.append(column == value.replace("\x00", ""))
    if chosen.check:
        conditions.append(versions.c.checks.contains(f",{chosen.check.replace(chr(0), '')},", autoescape=True))
    if chosen.older_than is not None:
        conditions.append(now() - chosen.older_than >= _SINCE)
    if chosen.text:
        conditions.append(documents.c.uri.icontains(chosen.text.replace("\x00", ""), autoescape=True))
    if chosen.undecided:
        undecided = sa.exists().where(
            decisions.c.version_id == versions.c.version_id,
            decisions.c.applied_at.is_(None),
            decisions.c.undone_at.is_(None),
        )
        conditions.append(sa.not_(undecided))
    return conditions


def _beyond(keys: Sequence[tuple[sa.ColumnElement[Any], bool]], values: Sequence[Any]) -> sa.ColumnElement[bool]:
    """Rows that come after `values` in the order of `keys`: equal in the first few, and further in the next."""
    columns, known = sa.tuple_(*(column for column, _ in keys)), sa.tuple_(*values)
    if len({down for _, down in keys}) == 1:  # one comparison, which an index can answer
        return columns < known if keys[0][1] else columns > known
    ways = []
    for position, ((column, down), value) in enumerate(zip(keys, values, strict=True)):
        same = [known == given for (known, _), given in zip(keys[:position], values, strict=False)]
        ways.append(sa.and_(*same, column < value if down else column > value))
    return sa.or_(*ways)


def _token(row: Any, sort: Sort) -> str:
    values = {
        "risk": [row.risk, row.campaign, row.version_id],
        "age": [(row.waits_since or row.judged_at).isoformat(), row.version_id],
        "source": [row.source, row.risk, row.version_id],
    }[sort]
    return _cursor.token([sort, *values])


def _place(token: str, sort: Sort) -> list[Any]:
    kinds = {"risk": (float, str, str), "age": (str, str), "source": (str, float, str)}[sort]
    wrong = Misuse("the page's cursor is not one of this queue and order; begin with the first page")
    try:
        of, *values = _cursor.read(token)
        values = [float(value) if kind is float else value for value, kind in zip(values, kinds, strict=True)]
        if sort == "age":
            values[0] = datetime.fromisoformat(values[0])
    except (ValueError, TypeError) as error:
        raise wrong from error
    read = (datetime, str) if sort == "age" else kinds
    known = all(isinstance(value, kind) and "\x00" not in str(value) for value, kind in zip(values, read, strict=True))
    if of != sort or not known or (sort == "age" and values[0].tzinfo is None):
        raise wrong
    return values


def _facets(connection: sa.Connection, chosen: Filter) -> dict[str, dict[str, int]]:
    groups = (documents.c.source, documents.c.trust, versions.c.severity, versions.c.checks)
    statement = (
        sa.select(*groups, sa.func.count().label("items"))
        .select_from(latest())
        .where(*_conditions(chosen))
        .group_by(*groups)
    )
    counted: dict[str, Counter[str]] = {name: Counter() for name in ("source", "trust", "severity", "check")}
    for row in connection.execute(statement):
        counted["source"][row.source] += row.items
        counted["trust"][row.trust] += row.items
        counted["severity"][row.severity or Severity.INFO.value] += row.items
        for check in filter(None, (row.checks or "").split(",")):
            counted["check"][check] += row.items
    return {name: dict(found.most_common()) for name, found in counted.items()}


def _campaigns(connection: sa.Connection, chosen: Filter, rows: Sequence[Any]) -> dict[str, int]:
    """How many items those campaigns have that are on the page, the largest first."""
    size = sa.func.count()
    there = sorted({row.campaign for row in rows if row.campaign})
    statement = (
        sa.select(versions.c.campaign, size)
        .select_from(latest())
        .where(*_conditions(chosen), versions.c.campaign.in_(there), sa.text("versions.campaign <> ''"))
        .group_by(versions.c.campaign)
        .order_by(size.desc(), versions.c.campaign)
    )
    return {row[0]: row[1] for row in connection.execute(statement)} if there else {}


def _gathered(items: Sequence[Item]) -> tuple[Item, ...]:
    """Items of one campaign together, where the first of them stands."""
    first: dict[str, int] = {}
    for position, item in enumerate(items):
        first.setdefault(item.campaign or item.version_id, position)
    return tuple(sorted(items, key=lambda item: first[item.campaign or item.version_id]))


def _complete(connection: sa.Connection, rows: Sequence[Any]) -> list[Item]:
    ids = [row.version_id for row in rows]
    found, marks = _findings(connection, ids), marks_of(connection, ids)
    return [_item(row, found[row.version_id], marks[row.version_id]) for row in rows]


def _item(row: Any, found: Sequence[Finding], marks: Marks) -> Item:
    first = marks.first_approval
    columns = {name: value for name, value in row._mapping.items() if name not in ("latest_version", "retired_at")}
    columns["campaign"] = row.campaign or None
    return Item(
        **columns,
        findings=tuple(found),
        revision=marks.revision(row),
        decisions=marks.decided,
        pending=marks.pending,
        waits_for_second=first is not None,
        approved_by=first.by.name if first else None,
        escalated=marks.escalated,
        expired=marks.expired,
    )


def _findings(connection: sa.Connection, ids: Sequence[str]) -> dict[str, list[Finding]]:
    by_version: dict[str, list[Finding]] = {version: [] for version in ids}
    for start in range(0, len(ids), AT_ONCE):
        statement = (
            sa.select(findings)
            .where(findings.c.version_id.in_(ids[start : start + AT_ONCE]))
            .order_by(findings.c.version_id, findings.c.ordinal)
        )
        for row in connection.execute(statement):
            by_version[row.version_id].append(_finding(row))
    return by_version


def _finding(row: Any) -> Finding:
    span = Span(row.span_start, row.span_end) if row.span_start is not None else None
    severity, muted = Severity(row.severity), bool(row.muted)
    return Finding(row.check_name, row.code, severity, row.score, row.message, span, tuple(row.tags), muted)
