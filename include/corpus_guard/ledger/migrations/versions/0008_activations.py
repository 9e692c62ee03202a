"""Vote of the model's activations on an answer that was reported as wrong."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("traces", sa.Column("activations", sa.JSON(), nullable=True))
