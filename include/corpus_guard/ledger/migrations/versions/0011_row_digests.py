"""From here on the log holds digests of rows; those that are there are adopted."""

from alembic import op

from corpus_guard.ledger.adoption import adopt_rows

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    adopt_rows(op.get_bind())
