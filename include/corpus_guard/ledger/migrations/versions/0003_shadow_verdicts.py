"""Verdict as it would have been if nothing were shadowed."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("versions", sa.Column("shadow_verdict", sa.String(length=10), nullable=True))
