"""Decisions of people, and what else they do about the quarantine. Part of `corpus_guard.ledger.tables`."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, ForeignKey, Integer, String, Table, Text

from corpus_guard.ledger._schema import Utc, metadata, one_of

ACTS = ("escalate", "undo", "mute", "confirm", "lift")
CAUSES = ("person", "expired")

decisions = Table(
    "decisions",  # rows are added, and only their `…_at` columns are ever written again
    metadata,
    Column("decision_id", String(32), primary_key=True),
    Column("version_id", String(32), ForeignKey("versions.version_id"), nullable=False, index=True),
    Column("content_sha256", String(64), nullable=False),  # what was decided on; other bytes reopen the question
    Column("verdict", String(10), nullable=False),
    Column("reviewer", String(200), nullable=False),  # name
    Column("reason", Text, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("decided_at", Utc, nullable=False),
    Column("applied_at", Utc, index=True),
    Column("reviewer_id", String(200)),  # none: an older release kept the name alone
    Column("auth", String(200)),  # the auth manager's class name, or "cli"
    Column("revision", String(32)),  # of the item as they saw it
    Column("lacking", Integer),  # approvals that are missing still: 1 for the first of two; none or 0: it stands alone
    Column("completes", String(32)),  # the first approval that this one is the second of
    Column("undone_at", Utc),
    one_of("verdict", ("release", "reject")),
)

acts = Table(
    "acts",  # append-only: what people do about the quarantine besides releasing and rejecting
    metadata,
    Column("act_id", String(32), primary_key=True),
    Column("kind", String(10), nullable=False, index=True),
    Column("version_id", String(32), ForeignKey("versions.version_id"), index=True),
    Column("subject", String(32), index=True),  # the decision that is undone, the mute that is confirmed or lifted
    Column("content_sha256", String(64)),
    Column("source", String(64)),  # of a mute
    Column("code", String(80)),  # of a mute
    Column("cause", String(10), nullable=False),  # expired: nobody decided in time
    Column("reviewer_id", String(200), nullable=False),
    Column("reviewer", String(200), nullable=False),
    Column("auth", String(200), nullable=False),
    Column("reason", Text, nullable=False),
    Column("policy_digest", String(64), nullable=False),
    Column("revision", String(32)),
    Column("done_at", Utc, nullable=False, index=True),
    one_of("kind", ACTS),
    one_of("cause", CAUSES),
)

campaigns = Table(
    "campaigns",  # near-duplicates that wait share bands, and so a campaign
    metadata,
    Column("band", BigInteger, primary_key=True, autoincrement=False),
    Column("campaign", String(32), nullable=False),
)


def standing() -> sa.ColumnElement[bool]:
    """Decisions that count: not undone, and not the first approval of two."""
    return sa.and_(decisions.c.undone_at.is_(None), sa.func.coalesce(decisions.c.lacking, 0) == 0)
