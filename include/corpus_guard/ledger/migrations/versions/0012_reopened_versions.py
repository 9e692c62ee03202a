"""Versions that are served and wait for a decision all the same: later documents cast doubt on them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("versions", sa.Column("reopened_at", sa.DateTime(timezone=True), nullable=True))
    is_reopened = sa.text("reopened_at IS NOT NULL")
    op.create_index(
        "ix_versions_reopened",
        "versions",
        ["reopened_at"],
        sqlite_where=is_reopened,
        postgresql_where=is_reopened,
    )
