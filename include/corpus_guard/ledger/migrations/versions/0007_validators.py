"""Validators that sources send instead of bytes: ETags, blob hashes, watermarks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "validators",
        sa.Column("doc_id", sa.String(length=32), nullable=False),
        sa.Column("validator", sa.Text(), nullable=False),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("doc_id", name=op.f("pk_validators")),
    )
