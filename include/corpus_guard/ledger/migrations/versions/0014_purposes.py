"""Decisions say what they were made for: withdrawals, restores, purges and enhancements are no reviews."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column(
        "decisions",
        sa.Column(
            "purpose",
            sa.String(10),
            sa.CheckConstraint("purpose IN ('withdraw', 'restore', 'purge', 'enhance')", name="purpose"),
            nullable=True,
        ),
    )
