"""A migrated ledger is the one the tables describe, however many processes migrate it and whoever dies on the way."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import keeper
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from corpus_guard.errors import SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger import ledger as ledgers
from corpus_guard.ledger.event_log import GENESIS_LEAF, Event
from corpus_guard.ledger.tables import SCHEMA_REVISION, events, metadata, queries, retrievals, retrieved_chunks
from material import START
from older_ledgers import go_back_to_0010


def test_alembic_finds_nothing_to_change(ledger: Ledger) -> None:
    with ledger.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})

        assert compare_metadata(context, metadata) == []


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_migrated_database_is_the_described_one(kind: str, request: pytest.FixtureRequest) -> None:
    """Alembic does not compare constraints by their text; this compares all that the database says of itself."""
    migrated: Ledger = request.getfixturevalue(f"{kind}_ledger")
    if kind == "sqlite":
        engine = sa.create_engine("sqlite://")
    else:
        name = f"{migrated.url.database}_described"
        request.getfixturevalue("postgresql").create_database(name)
        engine = sa.create_engine(migrated.url.set(database=name))
    metadata.create_all(engine)

    found, expected = _described(migrated.engine), _described(engine)
    engine.dispose()

    found.pop("alembic_version")
    assert found == expected


def test_the_newest_migration_is_the_one_the_tables_are_at(ledger: Ledger) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(ledgers.__file__).parent / "migrations"))

    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA_REVISION]
    assert ledger._revision() == SCHEMA_REVISION


def test_a_ledger_of_the_first_release_is_migrated_and_keeps_its_rows(ledger_url: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(ledgers.__file__).parent / "migrations"))
    engine = sa.create_engine(ledger_url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.execute(sa.text("INSERT INTO results (key, findings) VALUES ('k', '[]')"))
        told = "INSERT INTO events (seq, at, kind, subject, run_id, body) VALUES (:seq, :at, 'judged', 'v', 'r', :body)"
        for seq in (3, 7):  # a transaction that failed left a gap
            connection.execute(sa.text(told), {"seq": seq, "at": "2026-03-01 12:00:00", "body": '{"risk": 0.25}'})
        assert not sa.inspect(connection).has_table("queries")
    engine.dispose()

    opened = Ledger(ledger_url)

    with opened.read() as connection:
        assert connection.scalar(sa.text("SELECT key FROM results")) == "k"
        first, second, *adopted = connection.execute(sa.select(events).order_by(events.c.seq)).all()
        assert (first.seq, second.seq, first.body) == (0, 1, {"risk": "0.25"})
        assert first.leaf_sha256 == Event.from_row(first, GENESIS_LEAF).leaf
        assert second.leaf_sha256 == Event.from_row(second, first.leaf_sha256).leaf
        assert [(event.kind, event.subject, list(event.body["groups"])) for event in adopted] == [
            ("adopted", "results", ["k"])
        ]
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert opened._revision() == SCHEMA_REVISION
    opened.close()


def test_what_old_retrievals_served_is_moved_into_rows(ledger: Ledger) -> None:
    url = ledger.url.render_as_string(hide_password=False)
    served = [[{"chunk_id": "a", "rank": 1, "similarity": 0.5}, {"chunk_id": "b", "rank": 2}, {"chunk_id": "a"}], []]
    question = {
        "query_id": "q",
        "text": "Q?",
        "origin": "log",
        "count": 2,
        "first_seen_at": START,
        "last_seen_at": START,
    }
    with ledger.engine.begin() as connection:
        go_back_to_0010(lambda statement: connection.execute(sa.text(statement)))
        connection.execute(queries.insert().values(**question))
        for entries in served:
            connection.execute(
                sa.text(
                    "INSERT INTO retrievals (query_id, at, session, checked_by, served, filtered, withheld) "
                    "VALUES ('q', '2026-03-01 12:00:00', 's', 'off', :served, '[]', '[]')"
                ),
                {"served": json.dumps(entries)},
            )
    ledger.close()

    opened = Ledger(url)

    with opened.read() as connection:
        rows = connection.execute(sa.select(retrieved_chunks).order_by(retrieved_chunks.c.rank)).all()
        counts = connection.scalars(sa.select(retrievals.c.served).order_by(retrievals.c.retrieval_id)).all()
    assert [(row.chunk_id, row.rank, row.score, row.shown) for row in rows] == [
        ("a", 1, 0.5, None),
        ("b", 2, None, None),
    ]
    assert counts == [2, 0]
    opened.close()


def test_processes_that_migrate_at_once_all_succeed(ledger_url: str) -> None:
    start = keeper.PROCESSES.Barrier(4)
    processes = [keeper.run(keeper.open_at_once, ledger_url, start) for _ in range(4)]

    assert [keeper.ended(process) for process in processes] == [0] * 4


@pytest.mark.parametrize("statement", [1, 2, 9, 20])
def test_a_process_killed_while_it_migrates_leaves_a_ledger_that_can_be_opened(ledger_url: str, statement: int) -> None:
    assert keeper.ended(keeper.run(keeper.die_while_migrating, ledger_url, statement)) == -9

    opened = Ledger(ledger_url)

    with opened.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    opened.close()


def test_a_ledger_of_a_newer_release_is_refused(ledger: Ledger) -> None:
    with ledger.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(SettingsError, match=f"is at schema 9999, this release knows schemas up to {SCHEMA_REVISION}"):
        Ledger(ledger.url.render_as_string(hide_password=False))


def _described(engine: sa.Engine) -> dict[str, Any]:
    inspector = sa.inspect(engine)
    return {
        table: {
            "columns": {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in inspector.get_columns(table)
            },
            "key": inspector.get_pk_constraint(table),
            "foreign": sorted(map(_plain, inspector.get_foreign_keys(table))),
            "indexes": sorted(map(_plain, inspector.get_indexes(table))),
            "checks": sorted(map(_plain, inspector.get_check_constraints(table))),
        }
        for table in inspector.get_table_names()
    }


def _plain(constraint: Any) -> str:
    return re.sub(r"\s+", " ", repr(sorted((key, _worded(value)) for key, value in constraint.items())))


def _worded(value: Any) -> str:
    return repr({name: str(one) for name, one in value.items()}) if isinstance(value, dict) else str(value)
