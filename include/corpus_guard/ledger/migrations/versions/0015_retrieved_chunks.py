"""Served texts of a retrieval are found by chunk; retrievals of other applications name user, answer and origin."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ROWS_AT_A_TIME = 1_000


def upgrade() -> None:
    op.create_table(
        "retrieved_chunks",
        sa.Column("chunk_id", sa.String(length=250), nullable=False),
        sa.Column("retrieval_id", SEQUENCE, autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("shown", sa.Boolean(), nullable=True),
        sa.ForeignKeyConstraint(
            ["retrieval_id"], ["retrievals.retrieval_id"], name=op.f("fk_retrieved_chunks_retrieval_id")
        ),
        sa.PrimaryKeyConstraint("chunk_id", "retrieval_id", name=op.f("pk_retrieved_chunks")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_retrieved_chunks_retrieval_id"), "retrieved_chunks", ["retrieval_id"], unique=False)
    op.add_column("queries", sa.Column("sketch", sa.String(length=32), nullable=True))
    op.execute("ALTER TABLE retrievals RENAME COLUMN served TO served_list")
    op.add_column("retrievals", sa.Column("served", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("retrievals", sa.Column("origin", sa.String(20), server_default=sa.text("'guard'"), nullable=False))
    op.add_column("retrievals", sa.Column("record_key", sa.String(length=32), nullable=True))
    op.add_column("retrievals", sa.Column("user_id", sa.String(length=250), nullable=True))
    op.add_column("retrievals", sa.Column("answer", sa.Text(), nullable=True))
    op.create_index(op.f("ix_retrievals_record_key"), "retrievals", ["record_key"], unique=True)
    _move_lists()
    op.drop_column("retrievals", "served_list")


def _move_lists() -> None:
    """Give each served chunk a row; of a chunk that a list names twice, the first counts."""
    connection = op.get_bind()
    page = sa.text(
        "SELECT retrieval_id, CAST(served_list AS TEXT) AS served FROM retrievals "
        "WHERE retrieval_id > :after ORDER BY retrieval_id LIMIT :rows"
    )
    insert = sa.text(
        "INSERT INTO retrieved_chunks (chunk_id, retrieval_id, rank, score) VALUES (:chunk_id, :retrieval_id, :rank, :score)"
    )
    count = sa.text("UPDATE retrievals SET served = :served WHERE retrieval_id = :retrieval_id")
    after = -1
    while rows := connection.execute(page, {"after": after, "rows": ROWS_AT_A_TIME}).all():
        after = rows[-1].retrieval_id
        moved, counts = [], []
        for row in rows:
            served: dict[str, dict[str, object]] = {}
            for rank, chunk in enumerate(json.loads(row.served), 1):
                served.setdefault(
                    str(chunk["chunk_id"]), {"rank": chunk.get("rank", rank), "score": chunk.get("similarity")}
                )
            moved += [{"retrieval_id": row.retrieval_id, "chunk_id": key, **value} for key, value in served.items()]
            counts.append({"retrieval_id": row.retrieval_id, "served": len(served)})
        if moved:
            connection.execute(insert, moved)
        connection.execute(count, counts)
