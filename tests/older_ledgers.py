"""Ledgers as an older release left them."""

from __future__ import annotations

from collections.abc import Callable

_UNDO_LATER_REVISIONS = (
    "ALTER TABLE runs DROP COLUMN awaited_until",
    "DROP INDEX ix_versions_waiting",
    "DROP INDEX ix_versions_waiting_since",
    "ALTER TABLE versions DROP COLUMN reopened_at",
    "ALTER TABLE findings DROP COLUMN counterstatement",
    "ALTER TABLE decisions DROP COLUMN purpose",
    "DROP TABLE retrieved_chunks",
    "DROP INDEX ix_retrievals_record_key",
    *(f"ALTER TABLE retrievals DROP COLUMN {name}" for name in ("served", "origin", "record_key", "user_id", "answer")),
    "ALTER TABLE retrievals ADD COLUMN served JSON DEFAULT '[]' NOT NULL",
    "ALTER TABLE queries DROP COLUMN sketch",
    *(
        f"DROP INDEX ix_{name}"
        for name in (
            "bands_version_id",
            "documents_target_version",
            "publications_pending",
            "publications_vectors",
            "versions_batch",
        )
    ),
    "UPDATE alembic_version SET version_num = '0010'",
)


def go_back_to_0010(execute: Callable[[str], object]) -> None:
    """Undo the migrations after revision 0010, which logged no digests of rows.

    Args:
        execute: runs one SQL statement.
    """
    for statement in _UNDO_LATER_REVISIONS:
        execute(statement)
