"""Findings name the sentence of another document that contradicts theirs."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("findings", sa.Column("counterstatement", sa.JSON(), nullable=True))
