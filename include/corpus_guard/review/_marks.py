"""What people have done about versions so far, read in one statement. Part of `corpus_guard.review.queue` and `.decisions`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa

from corpus_guard.batches.tables import split
from corpus_guard.domain import digest
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import acts, decisions, documents, standing, versions
from corpus_guard.review.reviewer import Reviewer

AT_ONCE = 500  # ids a statement

DONE = sa.union_all(
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
        sa.literal("person").label("cause"),
        sa.literal("").label("source"),
        sa.literal("").label("code"),
        decisions.c.decided_at.label("at"),
        decisions.c.applied_at,
        decisions.c.undone_at,
    ),
    sa.select(
        acts.c.act_id,
        acts.c.version_id,
        acts.c.kind,
        acts.c.reviewer_id,
        acts.c.reviewer,
        acts.c.auth,
        acts.c.reason,
        acts.c.policy_digest,
        sa.literal(0),
        acts.c.subject,
        acts.c.cause,
        sa.func.coalesce(acts.c.source, ""),
        sa.func.coalesce(acts.c.code, ""),
        acts.c.done_at,
        sa.null(),
        sa.null(),
    ),
).subquery("done")
"""Everything anybody decided or did, one row each."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing somebody did about a version."""

    id: str
    kind: Literal["release", "reject", "escalate", "undo", "mute", "confirm", "lift"]
    by: Reviewer
    lacking: int
    subject: str | None
    cause: str
    at: datetime
    applied: bool
    undone: bool

    @classmethod
    def of_row(cls, row: Any) -> Mark:
        """From a row of DONE."""
        by = Reviewer(*((value or "unknown")[:200] for value in (row.reviewer_id, row.reviewer, row.auth)))
        applied, undone = row.applied_at is not None, row.undone_at is not None
        return cls(row.id, row.kind, by, row.lacking, row.subject, row.cause, row.at, applied, undone)


@dataclass(slots=True)
class Marks:
    """Of one version, in the order of time."""

    done: list[Mark] = field(default_factory=list)

    @property
    def live(self) -> list[Mark]:
        """Decisions that are neither undone nor applied."""
        return [one for one in self.done if one.kind in ("release", "reject") and not (one.undone or one.applied)]

    @property
    def pending(self) -> str | None:
        """The decision that is to take effect, or lacks its second approval; None where nobody decided."""
        return self.live[-1].kind if self.live else None

    @property
    def first_approval(self) -> Mark | None:
        """The release that waits for a second person."""
        return self.live[-1] if self.live and self.live[-1].lacking else None

    @property
    def decided(self) -> int:
        """How often it was decided."""
        return sum(one.kind in ("release", "reject") for one in self.done)

    @property
    def escalated(self) -> bool:
        """Whether somebody, or time, asked for somebody else."""
        gone = {one.subject for one in self.done if one.kind == "undo"}
        return any(one.kind == "escalate" and one.id not in gone for one in self.done)

    @property
    def expired(self) -> bool:
        """Whether it waited longer than the policy allows."""
        return any(one.cause == "expired" for one in self.done)

    def revision(self, row: Any) -> str:
        """Changes with everything that a decision may rest on; `row` has the version's and its document's columns."""
        parts = [row.version_id, row.state, row.judged_at.isoformat(), row.latest_version, str(row.retired_at)]
        parts += [f"{one.id}/{one.applied}/{one.undone}" for one in self.done]
        return digest("revision/v1", parts)[:32]


def latest() -> sa.Join:
    """Versions that are the newest of their document: what is superseded does not wait."""
    return versions.join(documents, documents.c.latest_version == versions.c.version_id)


def is_decided() -> sa.ColumnElement[bool]:
    """Whether a decision on the version waits to take effect and needs nobody more; half an approval does."""
    return sa.exists().where(
        decisions.c.version_id == versions.c.version_id, decisions.c.applied_at.is_(None), standing()
    )


def marks_of(connection: sa.Connection, ids: Sequence[str]) -> dict[str, Marks]:
    """Marks of each version, empty where nobody did anything."""
    found = {version: Marks() for version in ids}
    for part in split(ids, AT_ONCE):
        for row in connection.execute(
            sa.select(DONE).where(DONE.c.version_id.in_(part)).order_by(DONE.c.at, DONE.c.id)
        ):
            found[row.version_id].done.append(Mark.of_row(row))
    return found


def rows_of(connection: sa.Connection, ids: Iterable[str], *, lock: bool = False) -> dict[str, Any]:
    """What a decision looks at, by version id; with `lock` nobody else decides about them, or applies, in this transaction."""
    statement = sa.select(
        versions.c.version_id,
        versions.c.state,
        versions.c.content_sha256,
        versions.c.judged_at,
        versions.c.severity,
        documents.c.source,
        documents.c.trust,
        documents.c.latest_version,
        documents.c.retired_at,
    ).join(documents, documents.c.doc_id == versions.c.doc_id)
    if lock:
        statement = statement.with_for_update(of=versions)
    found = {}
    for part in split(sorted(ids), AT_ONCE):  # in one order, or two reviewers could wait for each other
        rows = connection.execute(statement.where(versions.c.version_id.in_(part)).order_by(versions.c.version_id))
        found.update({row.version_id: row for row in rows})
    return found


def act(
    ledger: Ledger,
    connection: sa.Connection,
    kind: str,
    by: Reviewer,
    reason: str,
    policy_digest: str,
    when: datetime,
    *,
    cause: str = "person",
    **about: str | None,
) -> str:
    """Append what somebody did besides releasing and rejecting, and tell the log; returns its id."""
    parts = [kind, by.id, by.auth, when.isoformat(), *(f"{name}={value}" for name, value in sorted(about.items()))]
    row: dict[str, Any] = {
        "act_id": digest("act/v1", parts)[:32],
        "kind": kind,
        "cause": cause,
        "reviewer_id": by.id,
        "reviewer": by.name,
        "auth": by.auth,
        "reason": reason,
        "policy_digest": policy_digest,
        **about,
    }
    connection.execute(acts.insert().values(**row, done_at=when))
    # An event has a subject of its own: what an act undoes, confirms or lifts is told as `about`.
    told = {
        "about" if name == "subject" else name: value
        for name, value in row.items()
        if value is not None and name != "kind"
    }
    subject = about.get("version_id") or about.get("subject") or row["act_id"]
    ledger.event(connection, f"review_{kind}", subject, "", **told)
    return str(row["act_id"])
