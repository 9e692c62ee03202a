"""Versions that are served and wait for a decision all the same: later documents cast doubt on them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("versions", sa.Column("reopened_at", sa.DateTime(timezone=True), nullable=True))
    is_waiting = sa.text("state = 'quarantined' OR reopened_at IS NOT NULL")
    for name, columns in (
        ("ix_versions_waiting", ["risk", "campaign", "version_id", "severity", "checks", "state", "reopened_at"]),
        ("ix_versions_waiting_since", ["waits_since", "version_id"]),
    ):
        op.create_index(name, "versions", columns, sqlite_where=is_waiting, postgresql_where=is_waiting)
