"""No column decides unseen: whoever edits the ledger's file is named, whichever column it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from corpus_guard.domain import no_progress
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.row_digests import UNLOGGED, group_column
from corpus_guard.ledger.tables import documents, events, metadata, publications, results
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.proof.verify.rows import check_rows
from every_row import GROUPS, TABLES, another_value, edited, fill, value_of

PROVED_OTHERWISE = frozenset({"documents.last_seen_at", "queries.query_id", "queries.text"})
"""Columns that are not digested and are nevertheless checked with the rows."""
CHECKED_WITH_THE_LOG = frozenset(
    f"{name}.{column.name}" for name in ("events", "heads") for column in metadata.tables[name].c
) - {"heads.signed_at"}  # `test_every_column_of_the_log_is_named`, in tests/proof/verify/test_verification.py
EXCUSED = frozenset(
    {
        "heads.signed_at",
        "deployment.deployment_id",
        "runs.awaited_until",
        "queries.origin",
        "queries.count",
        "queries.first_seen_at",
        "queries.last_seen_at",
        "queries.sketch",
        *(f"{name}.{column.name}" for name in ("retrievals", "retrieved_chunks") for column in metadata.tables[name].c),
    }
)
"""Columns that decide nothing that is served; `UNLOGGED` gives the reasons."""


@pytest.fixture(scope="module")
def filled_file(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Path:
    file = tmp_path_factory.mktemp("filled") / "ledger.sqlite"
    shutil.copy(migrated_sqlite, file)
    ledger = Ledger(f"sqlite:///{file}")
    fill(ledger)
    ledger.close()
    return file


@pytest.fixture
def file(filled_file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(filled_file, tmp_path / "ledger.sqlite"))


def messages(file: Path) -> list[str]:
    ledger = Ledger(f"sqlite:///{file}")
    collector = DeviationCollector()
    check_rows(ledger, collector, no_progress)
    ledger.close()
    assert {deviation.kind for deviation in collector.deviations} <= {DeviationKind.LEDGER_CHANGED}
    return [deviation.message for deviation in collector.deviations]


def named_columns(file: Path, tampered: dict[str, str]) -> set[str]:
    """Which of these columns are named; `tampered` gives the beginning of each one's message."""
    found = messages(file)
    return {column for column, start in tampered.items() if any(message.startswith(start) for message in found)}


def test_a_filled_ledger_holds(file: Path) -> None:
    assert messages(file) == []


def test_every_column_of_every_table_is_vouched_for_or_excused_by_name(file: Path) -> None:
    """Column `n` of a table is changed in row `n` alone, so that each has to be named by itself."""
    tampered = {}
    with edited(file) as database:
        for table in TABLES:
            group = group_column(table)
            for number, column in enumerate(table.c):
                assert number < GROUPS
                name = f"{table.name}.{column.name}"
                key = value_of(group, number)
                rows = f"{group.name} = ?"
                changed = database.execute(
                    f'UPDATE {table.name} SET "{column.name}" = ? WHERE {rows}', (another_value(column, number), key)
                )
                assert changed.rowcount == 1, name
                tampered[name] = f"table {table.name}, {group.name} {key}:"
    tampered["documents.last_seen_at"] = f"document {value_of(documents.c.doc_id, position('documents.last_seen_at'))}:"
    for column in ("text", "query_id"):
        number = position(f"queries.{column}")
        queries = metadata.tables["queries"].c
        key = value_of(queries.query_id, number) if column == "text" else another_value(queries.query_id, number)
        tampered[f"queries.{column}"] = f"question {key}:"

    named = named_columns(file, tampered)

    assert set(tampered) - named == EXCUSED & set(tampered)
    everything = {f"{table.name}.{column.name}" for table in metadata.sorted_tables for column in table.c}
    assert everything - named - CHECKED_WITH_THE_LOG == EXCUSED


def position(name: str) -> int:
    table, _, column = name.partition(".")
    return list(metadata.tables[table].c.keys()).index(column)


def test_what_is_not_logged_exists_and_says_why() -> None:
    columns = {f"{table.name}.{column.name}" for table in metadata.sorted_tables for column in table.c}

    assert set(UNLOGGED) <= columns | set(metadata.tables)
    assert all(len(reason) > 20 for reason in UNLOGGED.values())
    unlogged = {name for name in columns if name in UNLOGGED or name.partition(".")[0] in UNLOGGED}
    assert unlogged == EXCUSED | PROVED_OTHERWISE | CHECKED_WITH_THE_LOG


@pytest.mark.parametrize(
    "table", [table for table in TABLES if table.name not in UNLOGGED], ids=lambda table: table.name
)
def test_a_row_taken_away_and_a_row_put_in_are_named(file: Path, table: sa.Table) -> None:
    group = group_column(table)
    gone, new = value_of(group, 1), another_value(group, 2)
    values = {column.name: f'"{column.name}"' for column in table.c} | {group.name: ":new"}
    key, *_ = table.primary_key
    if group not in set(table.primary_key):
        values[key.name] = "'somebody'" if isinstance(key.type, sa.String) else "77000"
    with edited(file) as database:
        database.execute(f"DELETE FROM {table.name} WHERE {group.name} = ?", (gone,))
        names = ", ".join(f'"{name}"' for name in values)
        database.execute(
            f"INSERT INTO {table.name} ({names}) SELECT {', '.join(values.values())} FROM {table.name} "
            f"WHERE {group.name} = :old",
            {"new": new, "old": value_of(group, 2)},
        )

    start = f"table {table.name}, {group.name}"
    found = [message for message in messages(file) if message.startswith(start)]

    assert len(found) == 2
    assert any(message.startswith(f"{start} {gone}: what was logged is missing") for message in found)
    assert any(message.startswith(f"{start} {new}: no event tells of what is there") for message in found)


@pytest.fixture
def written(ledger: Ledger) -> Iterator[Ledger]:
    """On both kinds of database."""
    fill(ledger)
    yield ledger


def problems(ledger: Ledger) -> list[str]:
    collector = DeviationCollector()
    check_rows(ledger, collector, no_progress)
    return [deviation.message.partition(";")[0] for deviation in collector.deviations]


def first(table: sa.Table) -> sa.ColumnElement[bool]:
    group = group_column(table)
    return group.in_([value_of(group, 1)])


def test_what_our_own_code_writes_holds_on_both_databases(written: Ledger) -> None:
    latest = documents.c.latest_content_sha256
    with written.write() as connection:
        connection.execute(documents.update().where(latest == value_of(latest, 3)).values(uri="elsewhere"))
        connection.execute(
            documents.update().where(documents.c.doc_id == sa.bindparam("doc")).values(uri=sa.bindparam("place")),
            [{"doc": value_of(documents.c.doc_id, number), "place": f"place {number}"} for number in (4, 5)],
        )
        connection.execute(results.delete().where(results.c.key.in_([value_of(results.c.key, 6)])))
        connection.execute(results.delete().where(results.c.key.startswith(value_of(results.c.key, 7))))

    assert problems(written) == []


def test_what_was_changed_from_outside_stays_named_after_we_wrote_over_it(written: Ledger) -> None:
    """A refresh comes before the nightly verification: it must not vouch for what somebody else did."""
    with written.engine.begin() as connection:  # past `Ledger.write`, as an SQL client
        connection.execute(documents.update().where(first(documents)).values(uri="elsewhere"))
    written.execute(documents.update().where(first(documents)).values(uri="ours again"))

    [problem] = problems(written)
    key = value_of(documents.c.doc_id, 1)
    assert problem.startswith(f"table documents, doc_id {key}: it was changed from outside before event ")


def test_a_row_put_in_that_we_wrote_over_stays_named(written: Ledger) -> None:
    row = {"key": "planted", "findings": []}
    with written.engine.begin() as connection:
        connection.execute(results.insert(), row)
    written.execute(results.update().where(results.c.key == "planted").values(findings=[1]))

    [problem] = problems(written)
    assert problem.startswith("table results, key planted: it was changed from outside before event ")


def test_what_does_not_change_is_not_logged(written: Ledger) -> None:
    """An unchanged document costs no event, though each refresh notes that it was seen."""
    count = sa.select(sa.func.count()).select_from(events)
    seen = documents.c.last_seen_at
    with written.write() as connection:
        before = connection.scalar(count)
        connection.execute(documents.update().values(last_seen_at=value_of(seen, 40), source=documents.c.source))
    assert written.scalar(count) == before


@pytest.mark.parametrize("as_parameters", [False, True])
def test_a_column_that_is_not_logged_hides_no_change_beside_it(written: Ledger, *, as_parameters: bool) -> None:
    count = sa.select(sa.func.count()).select_from(events)
    values = {"last_seen_at": value_of(documents.c.last_seen_at, 40), "uri": "elsewhere"}
    with written.write() as connection:
        before = connection.scalar(count) or 0
        update = documents.update().where(first(documents))
        if as_parameters:
            connection.execute(update, values)
        else:
            connection.execute(update.values(values))
    assert written.scalar(count) == before + 1
    assert problems(written) == []


def test_a_transaction_that_fails_logs_nothing(written: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), written.write() as connection:
        connection.execute(documents.update().values(uri="elsewhere"))
        raise ZeroDivisionError

    assert problems(written) == []


@pytest.mark.filterwarnings("ignore:Column 'results.key'")
def test_a_row_that_names_no_group_is_refused(sqlite_ledger: Ledger) -> None:
    with pytest.raises(TypeError, match="must give key as a value"), sqlite_ledger.write() as connection:
        connection.execute(results.insert().values(findings=[]))


def test_an_accepted_document_of_which_nothing_is_published_is_named(sqlite_ledger: Ledger) -> None:
    """By our own code, gone wrong: every row is as it was logged."""
    fill(sqlite_ledger)
    with sqlite_ledger.write() as connection:
        connection.execute(documents.update().where(first(documents)).values(retired_at=None))
        connection.execute(publications.update().where(first(publications)).values(state="retired"))

    [problem] = problems(sqlite_ledger)
    assert problem.startswith(f"document {value_of(documents.c.doc_id, 1)}: its newest version")


def test_rows_that_cannot_be_read_are_named(file: Path) -> None:
    with edited(file) as database:
        database.execute("UPDATE versions SET stamp = 'no json', judged_at = 'no time'")
        database.execute("UPDATE findings SET span_start = x'ff00', score = 'much', muted = 'perhaps'")

    found = messages(file)

    assert any(message.startswith("table versions, ") for message in found)
    assert any(message.startswith("table findings, ") for message in found)


def test_writers_at_the_same_time_leave_one_account(written: Ledger) -> None:
    """Each reads the rows before it changes them, and another may commit in between."""

    def write(number: int) -> None:
        for turn in range(6):
            with written.write() as connection:
                in_both = documents.c.doc_id.in_([value_of(documents.c.doc_id, row) for row in (1, 2)])
                connection.execute(documents.update().where(in_both).values(uri=f"{number} {turn}"))
                connection.execute(results.insert(), {"key": f"{number} {turn}", "findings": []})

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(write, range(3)))

    assert problems(written) == []
