"""Questions that were asked or reported, and what was served for them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "queries",
        sa.Column("query_id", sa.String(length=32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("origin", sa.String(length=10), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("first_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("origin IN ('log', 'report')", name=op.f("ck_queries_origin")),
        sa.PrimaryKeyConstraint("query_id", name=op.f("pk_queries")),
    )
    op.create_index(op.f("ix_queries_last_seen_at"), "queries", ["last_seen_at"], unique=False)
    op.create_table(
        "retrievals",
        sa.Column("retrieval_id", SEQUENCE, autoincrement=True, nullable=False),
        sa.Column("query_id", sa.String(length=32), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("session", sa.String(length=250), nullable=False),
        sa.Column("checked_by", sa.String(length=20), nullable=False),
        sa.Column("served", sa.JSON(), nullable=False),
        sa.Column("filtered", sa.JSON(), nullable=False),
        sa.Column("withheld", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["query_id"], ["queries.query_id"], name=op.f("fk_retrievals_query_id")),
        sa.PrimaryKeyConstraint("retrieval_id", name=op.f("pk_retrievals")),
    )
    op.create_index(op.f("ix_retrievals_at"), "retrievals", ["at"], unique=False)
    op.create_index(op.f("ix_retrievals_query_id"), "retrievals", ["query_id"], unique=False)
