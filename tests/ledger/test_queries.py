"""Statements that SQLite and PostgreSQL word differently, or that name more ids than one statement may."""

from __future__ import annotations

import sqlalchemy as sa

from corpus_guard.ledger import Ledger, queries
from corpus_guard.ledger.queries import insert_missing, select_in_batches, upsert
from corpus_guard.ledger.states import RunKind, RunState
from corpus_guard.ledger.tables import results, runs
from material import START


def a_result(key: str) -> dict[str, object]:
    return {"key": key, "findings": [key]}


def test_rows_are_found_however_many_ids_there_are(ledger: Ledger) -> None:
    keys = [f"{number:04}" for number in range(2 * queries.IDS_PER_STATEMENT + 1)]
    with ledger.write() as connection:
        insert_missing(connection, results, [a_result(key) for key in [*keys, "other"]])

    with ledger.read() as connection:
        asked = [*keys, *keys[:3], "unknown"]
        rows = list(select_in_batches(connection, sa.select(results.c.key), results.c.key, asked))
        assert list(select_in_batches(connection, sa.select(results.c.key), results.c.key, [])) == []

    assert sorted(row.key for row in rows) == keys


def test_states_are_stored_as_plain_text(ledger: Ledger) -> None:
    row = {
        "run_id": "r",
        "kind": RunKind.REFRESH,
        "state": RunState.RUNNING,
        "sources": [],
        "policy_digest": "0" * 64,
        "started_at": START,
    }
    with ledger.write() as connection:
        insert_missing(connection, runs, [row])
        upsert(connection, runs, [{**row, "state": RunState.FAILED}], ["state"])

    [stored] = ledger.rows(sa.select(runs.c.kind, runs.c.state).where(runs.c.state == RunState.FAILED))
    assert [type(value) for value in stored] == [str, str]
    assert tuple(stored) == ("refresh", "failed")
