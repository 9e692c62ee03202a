"""On PostgreSQL the index of served chunks holds `shown`, so that an exposure reads the index alone."""

from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":  # SQLite keeps the whole row in that index
        op.execute(
            "ALTER TABLE retrieved_chunks DROP CONSTRAINT pk_retrieved_chunks, "
            "ADD CONSTRAINT pk_retrieved_chunks PRIMARY KEY (chunk_id, retrieval_id) INCLUDE (shown)"
        )
