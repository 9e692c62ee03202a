"""Events become a hash-chained log with signed heads; incidents, purges and what they block."""

from datetime import UTC

import sqlalchemy as sa
from alembic import op

from corpus_guard.ledger.event_log import GENESIS_LEAF, Event, loggable

revision = "0004"
down_revision = "0003"

AT_ONCE = 5_000  # events held at a time

# Seat belts against mistakes; against whoever owns the database the chain and the signed heads are the evidence.
SQLITE_TRIGGER = """CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN
SELECT RAISE(ABORT, '{table} is append-only'); END"""
POSTGRESQL_FUNCTION = """CREATE FUNCTION corpus_guard_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"""
POSTGRESQL_TRIGGER = (
    "CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} EXECUTE FUNCTION corpus_guard_append_only()"
)


def upgrade() -> None:
    op.add_column("seals", sa.Column("root", sa.String(length=64), nullable=True))
    _chain_events()
    op.create_table(
        "heads",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("root", sa.String(length=64), nullable=False),
        sa.Column("nodes", sa.JSON(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("signed_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_heads")),
    )
    op.create_table(
        "incidents",
        sa.Column("incident_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("deviations", sa.Text(), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("closed_by", sa.String(length=200), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('open', 'healed', 'accepted', 'closed')", name=op.f("ck_incidents_state")),
        sa.PrimaryKeyConstraint("incident_id", name=op.f("pk_incidents")),
    )
    op.create_index(op.f("ix_incidents_state"), "incidents", ["state"], unique=False)
    op.create_table(
        "blocked",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("purge_id", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("blocked_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('content', 'text')", name=op.f("ck_blocked_kind")),
        sa.PrimaryKeyConstraint("sha256", "kind", name=op.f("pk_blocked")),
    )
    op.create_index(op.f("ix_blocked_purge_id"), "blocked", ["purge_id"], unique=False)
    op.create_table(
        "purges",
        sa.Column("purge_id", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("subject", sa.JSON(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.Column("requested_by", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("evidence", sa.JSON(), nullable=True),
        sa.CheckConstraint("state IN ('removed', 'closed')", name=op.f("ck_purges_state")),
        sa.PrimaryKeyConstraint("purge_id", name=op.f("pk_purges")),
    )
    op.create_index(op.f("ix_purges_state"), "purges", ["state"], unique=False)
    _append_only("events", "heads")


def _chain_events() -> None:
    connection = op.get_bind()
    op.drop_index(op.f("ix_events_kind"), table_name="events")
    op.rename_table("events", "events_before")
    if connection.dialect.name == "postgresql":
        op.execute("ALTER TABLE events_before RENAME CONSTRAINT pk_events TO pk_events_before")
    op.create_table(
        "events",
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("run_id", sa.String(length=250), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("leaf_sha256", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index(op.f("ix_events_kind"), "events", ["kind"], unique=False)
    columns = ("seq", "at", "kind", "subject", "run_id", "body")
    kinds = (sa.BigInteger(), sa.DateTime(timezone=True), sa.String(), sa.Text(), sa.String(), sa.JSON())
    before = sa.table("events_before", *(sa.column(*pair) for pair in zip(columns, kinds, strict=True)))
    after = sa.table(
        "events",
        *(sa.column(*pair) for pair in zip(columns, kinds, strict=True)),
        sa.column("leaf_sha256", sa.String()),
    )
    previous, count, last = GENESIS_LEAF, 0, -1
    while rows := connection.execute(
        sa.select(before).where(before.c.seq > last).order_by(before.c.seq).limit(AT_ONCE)
    ).all():
        chained = []
        for row in rows:
            at = row.at.replace(tzinfo=UTC) if row.at.tzinfo is None else row.at.astimezone(UTC)
            event = Event(count, at, row.kind, loggable(row.subject), row.run_id, loggable(row.body), previous)
            chained.append(
                {
                    "seq": event.seq,
                    "at": at,
                    "kind": event.kind,
                    "subject": event.subject,
                    "run_id": event.run_id,
                    "body": event.body,
                    "leaf_sha256": event.leaf,
                }
            )
            previous, count, last = event.leaf, count + 1, row.seq
        connection.execute(after.insert(), chained)
    op.drop_table("events_before")


def _append_only(*tables: str) -> None:
    postgresql = op.get_bind().dialect.name == "postgresql"
    if postgresql:
        op.execute(POSTGRESQL_FUNCTION)
    for table in tables:
        for verb in ("UPDATE", "DELETE", *(("TRUNCATE",) if postgresql else ())):
            op.execute((POSTGRESQL_TRIGGER if postgresql else SQLITE_TRIGGER).format(table=table, verb=verb))
