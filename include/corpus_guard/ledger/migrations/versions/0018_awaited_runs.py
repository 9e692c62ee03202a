"""A run says until when its next process is awaited."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("runs", sa.Column("awaited_until", sa.DateTime(timezone=True), nullable=True))
