"""Look-ups by file, version and place in the outbox have indexes, and SQLite knows which of two is the better one."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

# Without figures SQLite takes any index for a choice of ten rows. `state` would then come before a list of chunks or
# documents, and each batch of a run would read every published chunk. The figures are round ones, not those of `ANALYZE`:
# a plan must not depend on how much the ledger held when somebody counted.
ROWS_BY_INDEX = {
    "documents": {
        "sqlite_autoindex_documents_1": "1000000 1",
        "ix_documents_source": "1000000 100000",
        "ix_documents_target_version": "1000000 1",
    },
    "publications": {
        "sqlite_autoindex_publications_1": "1000000 2 1",
        "ix_publications_doc_id": "1000000 10",
        "ix_publications_version_id": "1000000 10",
        "ix_publications_vectors": "1000000 1000",
        "ix_publications_changed_at": "1000000 1000",
        "ix_publications_state": "1000000 100000",
        "ix_publications_collection_state": "1000000 300000 100000",
    },
    "versions": {
        "sqlite_autoindex_versions_1": "1000000 1",
        "ix_versions_doc_id": "1000000 2",
        "ix_versions_batch": "1000000 200",
        "ix_versions_run_id": "1000000 10000",
        "ix_versions_state": "1000000 100000",
        "ix_versions_waits_since": "1000000 100000",
    },
}
"""Table → index → rows of the table, and rows for each value of its first column, of its first two, and so on."""


def upgrade() -> None:
    op.create_index(op.f("ix_bands_version_id"), "bands", ["version_id"], unique=False)
    op.create_index(op.f("ix_documents_target_version"), "documents", ["target_version"], unique=False)
    op.create_index(op.f("ix_publications_vectors"), "publications", ["vectors"], unique=False)
    op.create_index(op.f("ix_versions_batch"), "versions", ["batch"], unique=False)
    is_pending = sa.text("state = 'pending'")
    op.create_index(
        "ix_publications_pending",
        "publications",
        ["vectors", "version_id", "chunk_id", "collection"],
        unique=False,
        sqlite_where=is_pending,
        postgresql_where=is_pending,
    )
    if op.get_bind().dialect.name == "sqlite":
        _tell_sqlite()


def _tell_sqlite() -> None:
    op.execute("ANALYZE ix_documents_source")  # makes the table of figures
    op.execute("DELETE FROM sqlite_stat1")
    insert = sa.text("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES (:table, :index, :rows)")
    for table, indexes in ROWS_BY_INDEX.items():
        figures = [{"table": table, "index": index, "rows": rows} for index, rows in indexes.items()]
        op.get_bind().execute(insert, figures)
    op.execute("ANALYZE sqlite_schema")  # reads them
