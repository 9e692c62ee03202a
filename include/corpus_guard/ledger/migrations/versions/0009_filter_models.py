"""Model that the retrieval filter judged by."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("retrievals", sa.Column("filter_digest", sa.String(length=64), nullable=True))
