"""Cases: what people work on when something bad was served, from the first report to the conclusion.

Rules
    * a case is a series of events in the signed log, and nothing else: what it held, who added it and why can be proved,
      and cannot be changed afterwards;
    * a member is named by its kind and its whole id, and must be in the ledger when it is added; nothing is copied;
    * a step of the plan runs only after a person approved exactly this step, by name and with a reason; what was approved
      is in the event, so that a later change of the corpus cannot change it;
    * a closed case takes no member, no approval and no result; reopening it needs a name and a reason.

Not done here: finding what belongs to a case (`corpus_guard.forensics.scope`), and doing anything about it
(`corpus_guard.forensics.plan`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Final

import sqlalchemy as sa

from corpus_guard.domain import JsonRecord, digest
from corpus_guard.errors import Misuse, Stale, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import Row
from corpus_guard.ledger.short_ids import find_id
from corpus_guard.ledger.tables import documents, events, incidents, purges, reports, traces, versions

MAX_TITLE: Final = 200  # characters
MAX_REASON: Final = 2_000  # characters


class CaseEvent(StrEnum):
    """Kinds of events that make up a case."""

    OPENED = "case_opened"
    ADDED = "case_added"
    APPROVED = "case_step_approved"
    DONE = "case_step_done"
    EXPORTED = "case_exported"
    CLOSED = "case_closed"
    REOPENED = "case_reopened"


class MemberKind(StrEnum):
    """Kind of thing that a case can hold."""

    INCIDENT = "incident"  # deviations that a verification found
    REPORT = "report"
    TRACE = "trace"
    VERSION = "version"  # of a document, served or in quarantine, with the decisions about it
    WITHDRAWAL = "withdrawal"
    PURGE = "purge"


class StepKind(StrEnum):
    """Steps of a plan, in the order in which they run."""

    WITHDRAW = "withdraw"
    PURGE = "purge"
    RE_EMBED = "re_embed"
    REOPEN = "reopen"
    ASK_AGAIN = "ask_again"
    NOTIFY = "notify"
    HARDEN = "harden"


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """A thing that a case holds."""

    kind: MemberKind
    id: str


@dataclass(frozen=True, slots=True)
class CaseStep(JsonRecord):
    """A step of a plan: what is done, and to what."""

    kind: StepKind
    subjects: tuple[str, ...]  # ids: versions, documents, traces, chunks, or a path of the policy
    values: Mapping[str, str] = field(default_factory=dict)  # of a stricter setting

    @property
    def step_id(self) -> str:
        """Id that follows from what the step does; another subject makes another step."""
        pairs = [f"{name}={value}" for name, value in sorted(self.values.items())]
        return digest("case-step/v1", [self.kind, *sorted(self.subjects), "", *pairs])[:32]

    def as_dict(self) -> dict[str, object]:
        """Return the step JSON-ready, with its id."""
        return {"step_id": self.step_id, **JsonRecord.as_dict(self)}

    def only(self, subjects: Iterable[str]) -> CaseStep:
        """Return the step for these of its subjects.

        Raises:
            Misuse: one of them is not a subject of this step, or there is none.
        """
        chosen = set(subjects)
        if stray := chosen - set(self.subjects):
            raise Misuse(f"{min(stray)[:64]!r} is not part of this step; nothing was approved")
        if not chosen:
            raise Misuse("nothing of this step was chosen; nothing was approved")
        return CaseStep(self.kind, tuple(sorted(chosen)), self.values)


@dataclass(frozen=True, slots=True)
class Approval:
    """A step that a person approved."""

    step: CaseStep
    at: datetime
    by: str
    reason: str
    result: Mapping[str, object] | None = None  # None: it has not run to its end
    done_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Case(JsonRecord):
    """A case as its events state it."""

    json_properties: ClassVar = ("state",)

    case_id: str
    title: str
    opened_at: datetime
    opened_by: str
    reason: str
    members: tuple[Member, ...]
    approvals: tuple[Approval, ...]  # in the order in which they were given
    conclusion: str = ""  # empty: the case is open
    closed_at: datetime | None = None
    closed_by: str = ""

    @property
    def is_open(self) -> bool:
        """True until somebody closes it."""
        return self.closed_at is None

    @property
    def state(self) -> str:
        """``open`` or ``closed``."""
        return "open" if self.is_open else "closed"

    def ids(self, kind: MemberKind) -> tuple[str, ...]:
        """Return the ids of the members of a kind."""
        return tuple(member.id for member in self.members if member.kind is kind)


def open_case(ledger: Ledger, title: str, members: Iterable[Member], *, by: str, reason: str, run_id: str = "") -> Case:
    """Open a case with its first members.

    Args:
        title: what it is about, in the words of whoever opens it; kept for good.

    Raises:
        Misuse: title, name or reason is missing, or there is no member.
    """
    title, by, reason = title.strip()[:MAX_TITLE], by.strip(), reason.strip()[:MAX_REASON]
    listed = sorted(set(members))
    if not (title and by and reason and listed):
        raise Misuse(
            'a case needs a title, a name, a reason and at least one member, such as --report or --trace; give --reason "..."'
        )
    case_id = digest("case/v1", [title, by, now().isoformat(), *(f"{each.kind}:{each.id}" for each in listed)])[:32]
    with ledger.write() as connection:
        append_event(
            connection, CaseEvent.OPENED, case_id, run_id, title=title, by=by, reason=reason, members=_logged(listed)
        )
    return find_case(ledger, case_id)


def add_to_case(ledger: Ledger, case_id: str, members: Iterable[Member], *, by: str, reason: str) -> Case:
    """Add members to an open case; those that it holds already are left out.

    Raises:
        Misuse: no name is given.
        Stale: the case is closed.
    """
    _require(by, "adding to a case", reason)
    with ledger.write() as connection:
        case = _load(connection, case_id)
        _require_open(case)
        new = sorted(set(members) - set(case.members))
        if new:
            _append(connection, CaseEvent.ADDED, case_id, by=by.strip(), reason=reason.strip(), members=_logged(new))
    return find_case(ledger, case_id)


def approve_step(ledger: Ledger, case_id: str, step: CaseStep, *, by: str, reason: str) -> Case:
    """Record that a person approved a step as it is; approving it again changes nothing.

    Raises:
        Misuse: no name or no reason is given.
        Stale: the case is closed.
    """
    _require(by, "an approval", reason)
    with ledger.write() as connection:
        case = _load(connection, case_id)
        _require_open(case)
        if all(approval.step.step_id != step.step_id for approval in case.approvals):
            _append(
                connection,
                CaseEvent.APPROVED,
                case_id,
                step=step.step_id,
                what=step.kind.value,
                subjects=sorted(step.subjects),
                values=dict(step.values),
                by=by.strip(),
                reason=reason.strip(),
            )
    return find_case(ledger, case_id)


def record_result(
    ledger: Ledger, case_id: str, step: CaseStep, result: Mapping[str, object], run_id: str, members: Iterable[Member]
) -> None:
    """Record that an approved step ran to its end, and add what came of it; recorded before, nothing changes."""
    with ledger.write() as connection:
        case = _load(connection, case_id)
        approved = [approval for approval in case.approvals if approval.step.step_id == step.step_id]
        if not approved or approved[0].done_at is not None:
            return
        new = sorted(set(members) - set(case.members))
        _append(
            connection,
            CaseEvent.DONE,
            case_id,
            run_id,
            step=step.step_id,
            what=step.kind.value,
            result=dict(result),
            members=_logged(new),
        )


def end_case(ledger: Ledger, case_id: str, *, by: str, conclusion: str) -> Case:
    """Close a case with what was concluded.

    Raises:
        Misuse: no name or no conclusion is given.
        Stale: it is closed, or an approved step has not run.
    """
    _require(by, "closing a case", conclusion)
    with ledger.write() as connection:
        case = _load(connection, case_id)
        _require_open(case)
        waiting = [approval.step.kind.value for approval in case.approvals if approval.done_at is None]
        if waiting:
            raise Stale(
                f"case {case_id[:8]}: approved and not done: {', '.join(waiting)}; `guard case run {case_id[:8]}` does it"
            )
        _append(connection, CaseEvent.CLOSED, case_id, by=by.strip(), conclusion=conclusion.strip()[:MAX_REASON])
    return find_case(ledger, case_id)


def reopen_case(ledger: Ledger, case_id: str, *, by: str, reason: str) -> Case:
    """Open a closed case again.

    Raises:
        Misuse: no name or no reason is given.
        Stale: it is open.
    """
    _require(by, "reopening a case", reason)
    with ledger.write() as connection:
        if _load(connection, case_id).is_open:
            raise Stale(f"case {case_id[:8]} is open; nothing was changed")
        _append(connection, CaseEvent.REOPENED, case_id, by=by.strip(), reason=reason.strip()[:MAX_REASON])
    return find_case(ledger, case_id)


def list_cases(ledger: Ledger) -> list[Case]:
    """Return all cases, the newest first."""
    rows = ledger.rows(_case_events())
    by_case: dict[str, list[Row]] = {}
    for row in rows:
        by_case.setdefault(row.subject, []).append(row)
    cases = [_build(history) for history in by_case.values() if history[0].kind == CaseEvent.OPENED]
    return sorted(cases, key=lambda case: (case.opened_at, case.case_id), reverse=True)


def cases_of(ledger: Ledger, member: Member) -> list[Case]:
    """Return the cases that hold a member, the newest first."""
    return [case for case in list_cases(ledger) if member in case.members]


def find_case(ledger: Ledger, prefix: str) -> Case:
    """Return the case whose id is `prefix` or begins with it.

    Raises:
        UnknownSubject, Misuse: as `find_id`.
    """
    opened = sa.select(events.c.subject).where(events.c.kind == CaseEvent.OPENED)
    with ledger.read() as connection:
        return _load(connection, find_id(connection, opened, prefix, "case", "see `guard case list`"))


def find_member(ledger: Ledger, kind: MemberKind, name: str) -> list[Member]:
    """Return the members that a name stands for: one, or for the name of a document its newest and its served version.

    Args:
        name: an id or the beginning of one; for a version also the id, the URI or the source/URI of its document.

    Raises:
        UnknownSubject: the ledger has nothing of this kind with such a name.
        Misuse: it has more than one.
    """
    ids, hint = _IDS[kind]
    with ledger.read() as connection:
        if kind is MemberKind.VERSION and (of_document := _versions_of_document(connection, name)):
            return [Member(kind, version_id) for version_id in of_document]
        return [Member(kind, find_id(connection, ids, name, kind.value, hint))]


_IDS: Final = {
    MemberKind.INCIDENT: (sa.select(incidents.c.incident_id), "see `guard incident list`"),
    MemberKind.REPORT: (sa.select(reports.c.report_id), "see `guard report list`"),
    MemberKind.TRACE: (sa.select(traces.c.trace_id), "see `guard trace list`"),
    MemberKind.VERSION: (sa.select(versions.c.version_id), "give the URI of a document, or the id of a version"),
    MemberKind.WITHDRAWAL: (
        sa.select(events.c.subject).where(events.c.kind == "withdrawn"),
        "`guard trace withdraw` says it",
    ),
    MemberKind.PURGE: (sa.select(purges.c.purge_id), "`guard purge` says it"),
}
"""Ids of each kind, and where they are shown."""


def _versions_of_document(connection: sa.Connection, name: str) -> list[str]:
    """Return the newest and the served version of the document with this name; none if no document has it."""
    is_document = sa.or_(
        documents.c.doc_id == name, documents.c.uri == name, documents.c.source + "/" + documents.c.uri == name
    )
    columns = documents.c["latest_version", "target_version"]
    rows = connection.execute(sa.select(*columns).where(is_document).limit(2)).all()
    if len(rows) > 1:
        raise Misuse(f"document {name[:200]!r} is in several sources; give SOURCE/URI or the document's id")
    return sorted({version_id for row in rows for version_id in row if version_id})


def _case_events() -> sa.Select[tuple[object, ...]]:
    return sa.select(events).where(events.c.kind.in_(list(CaseEvent))).order_by(events.c.seq)


def _load(connection: sa.Connection, case_id: str) -> Case:
    history = connection.execute(_case_events().where(events.c.subject == case_id)).all()
    if not history or history[0].kind != CaseEvent.OPENED:
        raise UnknownSubject(f"case {case_id[:64]!r} is not in the log; see `guard case list`")
    return _build(history)


def _build(history: Sequence[Row]) -> Case:
    """Return the case that these events make, the oldest first."""
    first = history[0]
    members: dict[Member, None] = {}
    approvals: dict[str, Approval] = {}
    closed: Row | None = None
    for row in history:
        members |= dict.fromkeys(_members(row.body.get("members", [])))
        if row.kind == CaseEvent.APPROVED:
            step = CaseStep(StepKind(row.body["what"]), tuple(row.body["subjects"]), dict(row.body["values"]))
            approvals[row.body["step"]] = Approval(step, row.at, row.body["by"], row.body["reason"])
        elif row.kind == CaseEvent.DONE and row.body["step"] in approvals:
            given = approvals[row.body["step"]]
            approvals[row.body["step"]] = Approval(
                given.step, given.at, given.by, given.reason, dict(row.body["result"]), row.at
            )
        elif row.kind in {CaseEvent.CLOSED, CaseEvent.REOPENED}:
            closed = row if row.kind == CaseEvent.CLOSED else None
    return Case(
        case_id=first.subject,
        title=first.body["title"],
        opened_at=first.at,
        opened_by=first.body["by"],
        reason=first.body["reason"],
        members=tuple(members),
        approvals=tuple(approvals.values()),
        conclusion=closed.body["conclusion"] if closed else "",
        closed_at=closed.at if closed else None,
        closed_by=closed.body["by"] if closed else "",
    )


def _members(logged: Iterable[Sequence[str]]) -> list[Member]:
    return [Member(MemberKind(kind), member_id) for kind, member_id in logged]


def _logged(members: Iterable[Member]) -> list[list[str]]:
    return [[member.kind.value, member.id] for member in members]


def _append(connection: sa.Connection, kind: CaseEvent, case_id: str, run_id: str = "", **body: object) -> None:
    append_event(connection, kind.value, case_id, run_id, **body)


def _require(by: str, what: str, reason: str) -> None:
    if not by.strip() or not reason.strip():
        raise Misuse(f'{what} needs a name and a reason; give --reason "..."')


def _require_open(case: Case) -> None:
    if not case.is_open:
        raise Stale(
            f"case {case.case_id[:8]} is closed; nothing was changed. `guard case reopen {case.case_id[:8]}` opens it again"
        )
