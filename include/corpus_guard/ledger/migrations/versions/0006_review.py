"""Reviewers, and what else they do: approvals, undoing, escalations, mutes; keys that sort a queue."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from corpus_guard.ledger.triage import Triage

revision = "0006"
down_revision = "0005"

AT_ONCE = 2_000  # versions held at a time
UTC = sa.DateTime(timezone=True)

SQLITE_TRIGGER = """CREATE TRIGGER acts_{verb} BEFORE {verb} ON acts BEGIN
SELECT RAISE(ABORT, 'acts is append-only'); END"""
POSTGRESQL_TRIGGER = "CREATE TRIGGER acts_{verb} BEFORE {verb} ON acts EXECUTE FUNCTION corpus_guard_append_only()"


def upgrade() -> None:
    for column in (
        sa.Column("reviewer_id", sa.String(length=200), nullable=True),
        sa.Column("auth", sa.String(length=200), nullable=True),
        sa.Column("revision", sa.String(length=32), nullable=True),
        sa.Column("lacking", sa.Integer(), nullable=True),
        sa.Column("completes", sa.String(length=32), nullable=True),
        sa.Column("undone_at", UTC, nullable=True),
    ):
        op.add_column("decisions", column)
    op.add_column("findings", sa.Column("muted", sa.Boolean(), nullable=True))
    for column in (
        sa.Column("principal", sa.String(length=32), nullable=True),
        sa.Column("severity", sa.String(length=10), nullable=True),
        sa.Column("checks", sa.Text(), nullable=True),
        sa.Column("campaign", sa.String(length=32), nullable=False, server_default=sa.text("''")),
        sa.Column("waits_since", UTC, nullable=True),
    ):
        op.add_column("versions", column)
    _sort_what_is_there()
    op.create_index(op.f("ix_versions_principal"), "versions", ["principal"], unique=False)
    op.drop_index(op.f("ix_versions_state"), table_name="versions")
    sorted_by = ["state", "risk", "campaign", "version_id", "severity", "checks"]
    op.create_index("ix_versions_state", "versions", sorted_by, unique=False)
    op.create_index("ix_versions_waits_since", "versions", ["state", "waits_since", "version_id"], unique=False)
    op.create_index(op.f("ix_versions_run_id"), "versions", ["run_id"], unique=False)
    grouped = sa.text("campaign <> ''")
    op.create_index(
        "ix_versions_campaign",
        "versions",
        ["campaign", "state", "version_id"],
        unique=False,
        sqlite_where=grouped,
        postgresql_where=grouped,
    )
    op.create_index(
        "ix_documents_latest", "documents", ["latest_version", "retired_at", "source", "trust"], unique=False
    )
    op.create_table(
        "campaigns",
        sa.Column("band", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("campaign", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("band", name=op.f("pk_campaigns")),
    )
    op.create_table(
        "acts",
        sa.Column("act_id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=True),
        sa.Column("subject", sa.String(length=32), nullable=True),
        sa.Column("content_sha256", sa.String(length=64), nullable=True),
        sa.Column("source", sa.String(length=64), nullable=True),
        sa.Column("code", sa.String(length=80), nullable=True),
        sa.Column("cause", sa.String(length=10), nullable=False),
        sa.Column("reviewer_id", sa.String(length=200), nullable=False),
        sa.Column("reviewer", sa.String(length=200), nullable=False),
        sa.Column("auth", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("policy_digest", sa.String(length=64), nullable=False),
        sa.Column("revision", sa.String(length=32), nullable=True),
        sa.Column("done_at", UTC, nullable=False),
        sa.CheckConstraint("kind IN ('escalate', 'undo', 'mute', 'confirm', 'lift')", name=op.f("ck_acts_kind")),
        sa.CheckConstraint("cause IN ('person', 'expired')", name=op.f("ck_acts_cause")),
        sa.ForeignKeyConstraint(["version_id"], ["versions.version_id"], name=op.f("fk_acts_version_id")),
        sa.PrimaryKeyConstraint("act_id", name=op.f("pk_acts")),
    )
    for column in ("done_at", "kind", "subject", "version_id"):
        op.create_index(op.f(f"ix_acts_{column}"), "acts", [column], unique=False)
    postgresql = op.get_bind().dialect.name == "postgresql"
    for verb in ("UPDATE", "DELETE", *(("TRUNCATE",) if postgresql else ())):
        op.execute((POSTGRESQL_TRIGGER if postgresql else SQLITE_TRIGGER).format(verb=verb))


def _sort_what_is_there() -> None:
    connection = op.get_bind()
    versions = sa.table(
        "versions",
        *(sa.column(name) for name in ("version_id", "state", "principal", "severity", "checks", "campaign")),
        sa.column("stamp", sa.JSON()),
        sa.column("judged_at", UTC),
        sa.column("waits_since", UTC),
    )
    findings = sa.table("findings", *(sa.column(name) for name in ("version_id", "check_name", "severity")))
    last = ""
    while rows := connection.execute(
        sa.select(versions.c.version_id, versions.c.state, versions.c.stamp, versions.c.judged_at)
        .where(versions.c.version_id > last)
        .order_by(versions.c.version_id)
        .limit(AT_ONCE)
    ).all():
        last = rows[-1].version_id
        by_version: dict[str, list[tuple[str, str]]] = {row.version_id: [] for row in rows}
        for start in range(0, len(rows), 500):
            ids = [row.version_id for row in rows[start : start + 500]]
            for row in connection.execute(sa.select(findings).where(findings.c.version_id.in_(ids))):
                by_version[row.version_id].append((row.check_name, row.severity))
        waiting = [row for row in rows if row.state == "quarantined"]
        sorted_ = [(row, Triage.from_findings(row.stamp, by_version[row.version_id])) for row in rows]
        connection.execute(
            versions.update()
            .where(versions.c.version_id == sa.bindparam("id"))
            .values(
                principal=sa.bindparam("by"),
                severity=sa.bindparam("worst"),
                checks=sa.bindparam("seen"),
                campaign=sa.bindparam("group"),
            ),
            [
                {
                    "id": row.version_id,
                    "by": triage.principal,
                    "worst": triage.severity,
                    "seen": triage.checks,
                    "group": triage.campaign if row.state == "quarantined" else "",
                }
                for row, triage in sorted_
            ],
        )
        if waiting:
            connection.execute(
                versions.update()
                .where(versions.c.version_id == sa.bindparam("id"))
                .values(waits_since=sa.bindparam("since", type_=UTC)),
                [{"id": row.version_id, "since": row.judged_at} for row in waiting],
            )
