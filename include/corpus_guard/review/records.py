"""Records of what people did about versions: decisions and acts, joined and read in one statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

import sqlalchemy as sa

from corpus_guard.domain import digest
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.queries import Row, rows_by_id, select_in_batches
from corpus_guard.ledger.states import DECISIVE_ACTIONS, ActCause, ReviewAction
from corpus_guard.ledger.tables import acts, decision_stands, decisions, documents, versions
from corpus_guard.review.identities import ReviewAct
from corpus_guard.review.reviewer import Reviewer

_UNDONE_DECISION = (
    sa.select(sa.func.coalesce(sa.func.nullif(decisions.c.purpose, ""), decisions.c.verdict))
    .where(decisions.c.decision_id == acts.c.subject)
    .scalar_subquery()
)
REVIEW_RECORDS = sa.union_all(
    sa.select(
        decisions.c.decision_id.label("id"),
        decisions.c.version_id,
        decisions.c.verdict.label("kind"),
        sa.func.coalesce(decisions.c.reviewer_id, decisions.c.reviewer).label("reviewer_id"),
        decisions.c.reviewer,
        sa.func.coalesce(decisions.c.auth, "").label("auth"),
        decisions.c.reason,
        decisions.c.policy_digest,
        sa.func.coalesce(decisions.c.lacking, 0).label("lacking"),
        decisions.c.completes.label("subject"),
        sa.literal(ActCause.PERSON.value).label("cause"),
        sa.literal("").label("source"),
        sa.literal("").label("code"),
        decisions.c.decided_at.label("at"),
        decisions.c.applied_at,
        decisions.c.undone_at,
        sa.func.coalesce(decisions.c.purpose, "").label("purpose"),
        sa.literal("").label("undoes"),
    ),
    sa.select(
        *acts.c["act_id", "version_id", "kind", "reviewer_id", "reviewer", "auth", "reason", "policy_digest"],
        sa.literal(0),
        acts.c.subject,
        acts.c.cause,
        sa.func.coalesce(acts.c.source, ""),
        sa.func.coalesce(acts.c.code, ""),
        acts.c.done_at,
        sa.null(),
        sa.null(),
        sa.literal(""),
        sa.case(
            (acts.c.kind == ReviewAction.UNDO, sa.func.coalesce(_UNDONE_DECISION, ReviewAction.ESCALATE)), else_=""
        ),
    ),
).subquery("review_records")
"""One row for each decision and each act. The columns are those of `ReviewRow`."""


class ReviewRow(TypedDict):
    """A row of REVIEW_RECORDS as a dictionary."""

    id: str
    version_id: str | None
    kind: str  # a ReviewAction
    reviewer_id: str
    reviewer: str
    auth: str
    reason: str
    policy_digest: str
    lacking: int  # approvals still missing: 1 for the first of two
    subject: str | None  # id of what it completes, undoes, confirms or lifts
    cause: str  # an ActCause
    source: str  # of a mute
    code: str  # of a mute
    at: datetime
    applied_at: datetime | None
    undone_at: datetime | None
    purpose: str  # a Purpose; empty: a review of the quarantine
    undoes: str  # a ReviewAction or a Purpose; empty: it undoes nothing


@dataclass(frozen=True, slots=True)
class ReviewRecord:
    """One decision or act about a version."""

    id: str
    kind: ReviewAction
    reviewer: Reviewer
    lacking: int  # approvals still missing
    subject: str | None  # id of what it completes or undoes
    cause: ActCause
    at: datetime
    applied: bool
    undone: bool
    purpose: str = ""  # a Purpose; empty: a review of the quarantine

    @classmethod
    def from_row(cls, row: Row) -> ReviewRecord:
        """Build a record from a row of REVIEW_RECORDS."""
        reviewer_id, name, auth = ((value or "unknown")[:200] for value in (row.reviewer_id, row.reviewer, row.auth))
        return cls(
            id=row.id,
            kind=ReviewAction(row.kind),
            reviewer=Reviewer(reviewer_id, name, auth),
            lacking=row.lacking,
            subject=row.subject,
            cause=ActCause(row.cause),
            at=row.at,
            applied=row.applied_at is not None,
            undone=row.undone_at is not None,
            purpose=row.purpose,
        )


@dataclass(slots=True)
class VersionReview:
    """All records of one version, oldest first."""

    records: list[ReviewRecord] = field(default_factory=list)

    @property
    def last_open_decision(self) -> ReviewRecord | None:
        """Latest release or rejection that is neither undone nor applied."""
        open_decisions = (
            record
            for record in reversed(self.records)
            if record.kind in DECISIVE_ACTIONS and not record.undone and not record.applied
        )
        return next(open_decisions, None)

    @property
    def pending(self) -> ReviewAction | None:
        """The decision that will take effect, or that lacks its second approval."""
        return self.last_open_decision.kind if self.last_open_decision else None

    @property
    def first_approval(self) -> ReviewRecord | None:
        """The release that waits for a second person."""
        decision = self.last_open_decision
        return decision if decision and decision.lacking else None

    @property
    def decision_count(self) -> int:
        """Number of releases and rejections, including undone ones."""
        return sum(record.kind in DECISIVE_ACTIONS for record in self.records)

    @property
    def escalated(self) -> bool:
        """True if an escalation, by a person or by time, has not been undone."""
        undone_ids = {record.subject for record in self.records if record.kind is ReviewAction.UNDO}
        return any(record.kind is ReviewAction.ESCALATE and record.id not in undone_ids for record in self.records)

    @property
    def expired(self) -> bool:
        """True if the version waited longer than the policy allows."""
        return any(record.kind is ReviewAction.ESCALATE and record.cause is ActCause.EXPIRED for record in self.records)

    def revision(self, row: Row) -> str:
        """Return a digest that changes with everything a decision may rest on.

        Args:
            row: the version's and its document's columns.
        """
        parts = [row.version_id, row.state, row.judged_at.isoformat(), row.latest_version, str(row.retired_at)]
        parts += [row.reopened_at.isoformat()] if row.reopened_at else []
        parts += [f"{record.id}/{record.applied}/{record.undone}" for record in self.records]
        return digest("revision/v1", parts)[:32]


def latest_versions() -> sa.Join:
    """Join documents with their newest versions. Superseded versions do not wait for review."""
    return versions.join(documents, documents.c.latest_version == versions.c.version_id)


def has_complete_decision() -> sa.ColumnElement[bool]:
    """Select versions with a complete decision that has not taken effect.

    The first approval of two is not complete.
    """
    return sa.exists().where(
        decisions.c.version_id == versions.c.version_id, decisions.c.applied_at.is_(None), decision_stands()
    )


def load_reviews(connection: sa.Connection, version_ids: Sequence[str]) -> dict[str, VersionReview]:
    """Return the review of each version; empty for versions that nobody acted on."""
    reviews = {version_id: VersionReview() for version_id in version_ids}
    statement = sa.select(REVIEW_RECORDS).order_by(REVIEW_RECORDS.c.at, REVIEW_RECORDS.c.id)
    for row in select_in_batches(connection, statement, REVIEW_RECORDS.c.version_id, version_ids):
        reviews[row.version_id].records.append(ReviewRecord.from_row(row))
    return reviews


def load_versions(connection: sa.Connection, version_ids: Iterable[str], *, lock: bool = False) -> dict[str, Row]:
    """Return the columns that a decision depends on, by version id.

    Args:
        version_ids: the versions; unknown ids are left out of the result.
        lock: keep others from deciding on these versions, or applying decisions, until the transaction ends.
    """
    statement = sa.select(
        *versions.c[
            "version_id", "doc_id", "state", "reopened_at", "content_sha256", "text_sha256", "judged_at", "severity"
        ],
        *documents.c["source", "trust", "latest_version", "retired_at"],
    ).join(documents, documents.c.doc_id == versions.c.doc_id)
    if lock:
        statement = statement.with_for_update(of=versions, key_share=True)
    # In one order: no deadlock of two reviewers.
    return rows_by_id(connection, statement.order_by(versions.c.version_id), version_ids)


@dataclass(frozen=True, slots=True)
class ItemRevision:
    """An item in the revision that the reviewer saw."""

    version_id: str
    revision: str


def current_revisions(connection: sa.Connection, rows: Collection[Row]) -> list[ItemRevision]:
    """Return versions as a person who looks now would decide on them.

    Args:
        rows: as `load_versions` returns them.
    """
    reviews = load_reviews(connection, [row.version_id for row in rows])
    return [ItemRevision(row.version_id, reviews[row.version_id].revision(row)) for row in rows]


def escalated_for_time() -> sa.ColumnElement[bool]:
    """Return the condition for versions that were escalated because nobody decided in time."""
    return sa.exists().where(
        acts.c.version_id == versions.c.version_id,
        acts.c.kind == ReviewAction.ESCALATE.value,
        acts.c.cause == ActCause.EXPIRED.value,
    )


def record_act(
    connection: sa.Connection,
    kind: ReviewAction,
    act: ReviewAct,
    when: datetime,
    *,
    cause: ActCause = ActCause.PERSON,
    **columns: str | None,
) -> str:
    """Insert an act (anything except a release or a rejection) and its event. Return the act's id.

    Args:
        cause: a person, or the time to decide is over.
        columns: further columns of the table `acts`.
    """
    reviewer = act.reviewer
    details = (f"{name}={value}" for name, value in sorted(columns.items()))
    parts = [kind, reviewer.id, reviewer.auth, when.isoformat(), *details]
    row: dict[str, str | None] = {
        "act_id": digest("act/v1", parts)[:32],
        "kind": kind.value,
        "cause": cause.value,
        "reviewer_id": reviewer.id,
        "reviewer": reviewer.name,
        "auth": reviewer.auth,
        "reason": act.reason,
        "policy_digest": act.policy_digest,
        **columns,
    }
    connection.execute(acts.insert().values(**row, done_at=when))
    # An event has a subject of its own: there, the id that an act undoes, confirms or lifts is called `about`.
    event_body = {
        "about" if name == "subject" else name: value
        for name, value in row.items()
        if value is not None and name != "kind"
    }
    act_id = str(row["act_id"])
    subject = columns.get("version_id") or columns.get("subject") or act_id
    signature = reviewer.sign(act_id, kind, subject)
    append_event(connection, f"review_{kind}", subject, "", **event_body, **signature)
    return act_id
