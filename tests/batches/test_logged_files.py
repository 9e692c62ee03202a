"""Hashes of stored files in the event log."""

from __future__ import annotations

import sqlalchemy as sa

from corpus_guard.batches.logged_files import STORED_EVENT, find_removal, log_files, logged_hashes
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import events


def test_a_hash_is_logged_once_until_it_changes(ledger: Ledger) -> None:
    name, other = "batches/b1/versions.parquet", "batches/b1/vectors.parquet"
    runs: dict[str, dict[str, str] | dict[str, None]] = {
        "r1": {name: "1" * 64},
        "r2": {name: "1" * 64},
        "r3": {name: "1" * 64, other: "2" * 64},
        "r4": {name: None},
        "r5": {name: None},
    }
    for run_id, hashes in runs.items():
        with ledger.write() as connection:
            log_files(connection, run_id, hashes)
    with ledger.read() as connection:
        bodies = connection.execute(
            sa.select(events.c.run_id, events.c.body).where(events.c.kind == STORED_EVENT)
        ).all()
        removal = find_removal(connection, name)
        logged = logged_hashes(connection, "batches/b1")

    assert [(row.run_id, row.body["files"]) for row in bodies] == [
        ("r1", {name: "1" * 64}),
        ("r3", {other: "2" * 64}),
        ("r4", {name: None}),
    ]
    assert removal is not None and removal.run_id == "r4"
    assert logged == {name: None, other: "2" * 64}
