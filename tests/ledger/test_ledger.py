"""The ledger's promises, on SQLite and PostgreSQL, between real processes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import keeper
import pytest
import sqlalchemy as sa

from corpus_guard.errors import Inconsistent, LedgerUnavailable, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger import ledger as ledgers
from corpus_guard.ledger.event_log import GENESIS_LEAF, Event, append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.queries import insert_missing, upsert
from corpus_guard.ledger.tables import deployment, documents, events, results, runs, versions
from postgres import LocalPostgres, free_port

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def a_run(run_id: str, **fields: object) -> dict[str, object]:
    return {
        "run_id": run_id,
        "kind": "refresh",
        "state": "running",
        "sources": ["harbour"],
        "policy_digest": "0" * 64,
        "started_at": NOON,
        **fields,
    }


def address(ledger: Ledger) -> str:
    return ledger.url.render_as_string(hide_password=False)


def count(ledger: Ledger, table: sa.Table) -> int:
    return ledger.scalar(sa.select(sa.func.count()).select_from(table)) or 0


class TestDeploymentId:
    def test_it_is_made_with_the_ledger_and_stays(self, ledger: Ledger, tmp_path: Path) -> None:
        again, other = Ledger(address(ledger)), Ledger(f"sqlite:///{tmp_path / 'other.sqlite'}")

        assert len(bytes.fromhex(ledger.deployment_id)) == 16
        assert again.deployment_id == ledger.deployment_id != other.deployment_id
        again.close()
        other.close()

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE deployment SET deployment_id = '0'",
            "DELETE FROM deployment",
            "INSERT INTO deployment (deployment_id) VALUES ('0')",
        ],
    )
    def test_the_database_refuses_another(self, ledger: Ledger, statement: str) -> None:
        with pytest.raises(sa.exc.DatabaseError), ledger.write() as connection:
            connection.execute(sa.text(statement))

        assert count(ledger, deployment) == 1

    def test_a_ledger_without_one_is_refused(self, sqlite_ledger: Ledger) -> None:
        with sqlite_ledger.write() as connection:
            connection.execute(sa.text("DROP TRIGGER deployment_DELETE"))
            connection.execute(sa.text("DELETE FROM deployment"))

        with pytest.raises(Inconsistent, match=f"{sqlite_ledger.address}: expected one deployment id, got 0"):
            _ = sqlite_ledger.deployment_id


class TestTransactions:
    def test_a_block_that_raises_leaves_nothing(self, ledger: Ledger) -> None:
        with pytest.raises(ZeroDivisionError), ledger.write() as connection:
            append_event(connection, "kind", "subject", "run")
            1 / 0  # noqa: B018

        assert count(ledger, events) == 0

    def test_writers_in_two_processes_queue(self, ledger: Ledger) -> None:
        start = keeper.PROCESSES.Barrier(2)
        writers = [keeper.run(keeper.write_many, address(ledger), writer, 100, start) for writer in range(2)]

        assert [keeper.ended(writer) for writer in writers] == [0, 0]
        rows = ledger.rows(sa.select(events).order_by(events.c.seq))
        assert [row.seq for row in rows] == list(range(200))
        previous = GENESIS_LEAF
        for row in rows:
            assert Event.from_row(row, previous).leaf == row.leaf_sha256
            previous = row.leaf_sha256

    def test_sqlite_takes_the_write_lock_at_once(self, sqlite_ledger: Ledger, tmp_path: Path) -> None:
        with sqlite_ledger.write():
            other = sa.create_engine(f"sqlite:///{tmp_path / 'ledger.sqlite'}", connect_args={"timeout": 0})
            with other.connect() as connection, pytest.raises(sa.exc.OperationalError, match="database is locked"):
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            other.dispose()

    def test_a_locked_file_is_not_called_a_server_that_does_not_run(
        self, sqlite_ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("corpus_guard.ledger.ledger.BUSY_SECONDS", 0)
        impatient = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")

        with sqlite_ledger.write(), pytest.raises(LedgerUnavailable) as caught, impatient.write():
            pass

        impatient.close()
        assert "database is locked. Another process has had it locked" in str(caught.value)
        assert "CORPUS_GUARD_LEDGER_URL" not in str(caught.value)

    def test_sqlite_is_set_up_to_lose_nothing(self, sqlite_ledger: Ledger) -> None:
        with sqlite_ledger.read() as connection:
            found = {
                name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }

        assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 60_000}

    def test_a_reader_sees_one_moment(self, ledger: Ledger) -> None:
        with ledger.read() as connection:
            statement = sa.select(sa.func.count()).select_from(events)
            before = connection.scalar(statement)
            with ledger.write() as writing:
                append_event(writing, "kind", "subject", "run")
            assert connection.scalar(statement) == before

        assert count(ledger, events) == 1

    def test_foreign_keys_are_enforced(self, ledger: Ledger) -> None:
        orphan = {
            "version_id": "v",
            "doc_id": "nowhere",
            "content_sha256": "0",
            "text_sha256": "0",
            "stamp": {},
            "batch": "b",
            "state": "accepted",
            "verdict": "accept",
            "risk": 0.0,
            "policy_digest": "0",
            "skipped": [],
            "run_id": "r",
            "judged_at": NOON,
        }
        with pytest.raises(sa.exc.IntegrityError), ledger.write() as connection:
            connection.execute(versions.insert().values(orphan))

    def test_a_state_that_does_not_exist_is_refused(self, ledger: Ledger) -> None:
        with pytest.raises(sa.exc.IntegrityError), ledger.write() as connection:
            connection.execute(runs.insert().values(a_run("r", state="half-done")))


class TestInserting:
    def test_only_the_missing_are_inserted(self, ledger: Ledger) -> None:
        with ledger.write() as connection:
            insert_missing(connection, runs, [a_run("a"), a_run("b")])
            insert_missing(connection, runs, [a_run("a", kind="release"), a_run("c")])
            kinds = connection.execute(sa.select(runs.c.run_id, runs.c.kind).order_by(runs.c.run_id)).all()

        assert [tuple(row) for row in kinds] == [("a", "refresh"), ("b", "refresh"), ("c", "refresh")]

    def test_upsert_overwrites_the_named_columns_alone(self, ledger: Ledger) -> None:
        with ledger.write() as connection:
            upsert(connection, runs, [a_run("a")], ["state"])
            upsert(connection, runs, [a_run("a", state="failed", kind="release"), a_run("b")], ["state"])
            rows = connection.execute(sa.select(runs.c.run_id, runs.c.state, runs.c.kind).order_by(runs.c.run_id)).all()

        assert [tuple(row) for row in rows] == [("a", "failed", "refresh"), ("b", "running", "refresh")]

    def test_upsert_leaves_rows_that_do_not_meet_the_condition(self, ledger: Ledger) -> None:
        with ledger.write() as connection:
            upsert(connection, runs, [a_run("open"), a_run("done", state="sealed")], ["state"])
            changed = [a_run("open", state="failed"), a_run("done", state="failed")]
            upsert(connection, runs, changed, ["state"], only=runs.c.state != "sealed")
            states = dict(tuple(row) for row in connection.execute(sa.select(runs.c.run_id, runs.c.state)))

        assert states == {"open": "failed", "done": "sealed"}

    def test_more_rows_than_a_statement_can_bind(self, ledger: Ledger) -> None:
        many = [{"key": f"{number:064}", "findings": []} for number in range(40_000)]
        with ledger.write() as connection:
            insert_missing(connection, results, many)
            upsert(connection, results, [{**row, "findings": ["x"]} for row in many], ["findings"])

        found = ledger.scalars(sa.select(results.c.findings))
        assert found == [["x"]] * len(many)

    def test_nothing_to_insert(self, ledger: Ledger) -> None:
        with ledger.write() as connection:
            insert_missing(connection, runs, [])
            upsert(connection, runs, [], ["state"])


class TestEvents:
    def test_events_are_numbered_in_the_order_they_were_written(self, ledger: Ledger) -> None:
        for number in range(3):
            with ledger.write() as connection:
                append_event(connection, "kind", str(number), "run", answer=number, text="naïve <b>")

        rows = ledger.rows(sa.select(events).order_by(events.c.seq))
        assert [(row.subject, row.body) for row in rows] == [
            (str(number), {"answer": number, "text": "naïve <b>"}) for number in range(3)
        ]
        assert [row.seq for row in rows] == [0, 1, 2]

    def test_each_names_its_predecessor_and_nothing_of_a_line_can_change_unseen(self, ledger: Ledger) -> None:
        for number in range(3):
            with ledger.write() as connection:
                append_event(connection, "kind", str(number), "run", risk=0.25, rows=[{"a": 1.5}], text="\udce9")
        rows = ledger.rows(sa.select(events).order_by(events.c.seq))

        previous = GENESIS_LEAF
        for row in rows:
            event = Event.from_row(row, previous)
            assert event.leaf == row.leaf_sha256
            assert event.body == {"risk": "0.25", "rows": [{"a": "1.5"}], "text": "\\udce9"}
            for field in ("seq", "kind", "subject", "run_id", "body", "previous", "at"):
                other = {"seq": 9, "body": {}, "at": now()}.get(field, "f" * 64)
                assert replace(event, **{field: other}).leaf != row.leaf_sha256, field
            previous = event.leaf

    def test_one_that_belongs_to_a_transaction_that_failed_leaves_no_gap(self, ledger: Ledger) -> None:
        with pytest.raises(RuntimeError), ledger.write() as connection:
            append_event(connection, "kind", "lost", "run")
            raise RuntimeError
        with ledger.write() as connection:
            append_event(connection, "kind", "kept", "run")

        assert ledger.rows(sa.select(events.c.seq, events.c.subject)) == [(0, "kept")]

    @pytest.mark.parametrize(
        "statement",
        (
            "UPDATE events SET subject = 'other'",
            "DELETE FROM events",
            "INSERT OR REPLACE INTO events SELECT seq, at, kind, 'other', run_id, body, leaf_sha256 FROM events",
        ),
    )
    def test_the_database_refuses_to_change_one(self, ledger: Ledger, statement: str) -> None:
        with ledger.write() as connection:
            append_event(connection, "kind", "subject", "run")
        if "REPLACE" in statement and ledger.url.get_backend_name() != "sqlite":
            pytest.skip("PostgreSQL has no such statement")

        with pytest.raises(sa.exc.DatabaseError, match="append-only"), ledger.engine.begin() as connection:
            connection.execute(sa.text(statement))

    def test_the_library_only_appends_to_them(self) -> None:
        package = Path(ledgers.__file__).parents[1]
        changing = ("events.update(", "events.delete(", "DELETE FROM events", "UPDATE events", "events.drop(")

        for file in package.rglob("*.py"):
            text = file.read_text()
            assert not any(phrase in text for phrase in changing), file


class TestTimes:
    @pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5, minutes=45)), timezone(timedelta(hours=-8))])
    def test_a_time_comes_back_as_the_same_moment_in_utc(self, ledger: Ledger, zone: timezone) -> None:
        ledger.execute(runs.insert().values(a_run("r", started_at=NOON.astimezone(zone))))

        with ledger.read() as connection:
            row = connection.execute(sa.select(runs.c.started_at, runs.c.finished_at)).one()
            assert connection.scalar(sa.select(sa.func.max(runs.c.started_at))) == NOON
        assert row.started_at.isoformat() == NOON.isoformat()
        assert row.finished_at is None

    def test_a_server_with_another_time_zone_changes_nothing(self, postgresql_ledger: Ledger) -> None:
        ledger = Ledger(address(postgresql_ledger) + "?options=-ctimezone%3DAsia/Kathmandu")
        ledger.execute(runs.insert().values(a_run("r")))

        with ledger.read() as connection:
            assert connection.scalar(sa.text("SHOW timezone")) == "Asia/Kathmandu"
            found = connection.scalar(sa.select(runs.c.started_at))
        ledger.close()
        assert found is not None
        assert found.isoformat() == NOON.isoformat()

    def test_times_order_as_moments(self, ledger: Ledger) -> None:
        whole = NOON.replace(microsecond=0)
        moments = [whole, whole + timedelta(microseconds=1), whole + timedelta(seconds=1)]
        with ledger.write() as connection:
            for moment in reversed(moments):
                connection.execute(runs.insert().values(a_run(moment.isoformat(), started_at=moment)))
            found = connection.execute(sa.select(runs.c.started_at).order_by(runs.c.started_at)).scalars().all()
            later = connection.scalar(sa.select(sa.func.count()).where(runs.c.started_at > whole))

        assert found == moments
        assert later == 2

    def test_a_time_without_a_zone_is_refused(self, ledger: Ledger) -> None:
        with (
            pytest.raises(sa.exc.StatementError, match="expected a time with a time zone"),
            ledger.write() as connection,
        ):
            connection.execute(runs.insert().values(a_run("r", started_at=NOON.replace(tzinfo=None))))


class TestLock:
    def test_one_process_at_a_time(self, ledger: Ledger, tmp_path: Path) -> None:
        counter = tmp_path / "counter"
        counter.write_text("0")
        start = keeper.PROCESSES.Barrier(2)
        processes = [keeper.run(keeper.count_up, address(ledger), counter, 20, start) for _ in range(2)]

        assert [keeper.ended(process) for process in processes] == [0, 0]
        assert counter.read_text() == "40"

    def test_who_waits_too_long_is_told_what_is_held(self, ledger: Ledger) -> None:
        held = keeper.PROCESSES.Event()
        holder = keeper.run(keeper.hold, address(ledger), held)
        assert held.wait(60)

        with pytest.raises(LedgerUnavailable, match=r"lock 'publish' of the ledger at .* is held by another process"):
            _take(ledger, 0.2)

        with ledger.exclusive("another", wait=0.2):  # names do not stand in each other's way
            pass
        holder.kill()
        holder.join()

    def test_a_killed_holder_lets_go(self, ledger: Ledger) -> None:
        held = keeper.PROCESSES.Event()
        holder = keeper.run(keeper.hold, address(ledger), held)
        assert held.wait(60)

        holder.kill()
        holder.join()

        _take(ledger, 10)

    def test_it_is_given_back_when_the_block_raises(self, ledger: Ledger) -> None:
        with pytest.raises(ZeroDivisionError), ledger.exclusive("publish"):
            1 / 0  # noqa: B018

        _take(ledger, 0.2)

    def test_writing_under_it_is_possible(self, ledger: Ledger) -> None:
        with ledger.exclusive("publish"), ledger.write() as connection:
            append_event(connection, "kind", "subject", "run")

        assert count(ledger, events) == 1


class TestUnavailable:
    def test_a_database_nobody_serves_is_named_without_its_password(self) -> None:
        port = free_port()

        with pytest.raises(LedgerUnavailable) as raised:
            Ledger(f"postgresql+psycopg2://guard:not-to-be-shown@127.0.0.1:{port}/ledger")

        assert f"guard:***@127.0.0.1:{port}/ledger" in str(raised.value)
        assert "CORPUS_GUARD_LEDGER_URL" in str(raised.value)
        assert "not-to-be-shown" not in str(raised.value)

    def test_a_server_that_stops_is_named_and_works_again_when_it_is_back(self, tmp_path: Path) -> None:
        server = LocalPostgres(tmp_path / "data", free_port(), "not-to-be-shown", durable=False)
        with server:
            server.create_database("ledger")
            ledger = Ledger(server.url("ledger"))

        for opening in (ledger.read, ledger.write, lambda: ledger.exclusive("publish", 1)):
            with pytest.raises(LedgerUnavailable, match=f"127.0.0.1:{server.port}/ledger failed") as raised:
                opening().__enter__()
            assert "not-to-be-shown" not in str(raised.value)

        with server:
            assert count(ledger, events) == 0
            ledger.close()

    def test_a_server_that_stops_in_the_middle_leaves_nothing_written(self, tmp_path: Path) -> None:
        server = LocalPostgres(tmp_path / "data", free_port(), "secret", durable=False)
        server.start()
        server.create_database("ledger")
        ledger = Ledger(server.url("ledger"))
        with pytest.raises(LedgerUnavailable), ledger.write() as connection:
            append_event(connection, "kind", "subject", "run")
            server.stop()
            append_event(connection, "kind", "subject", "run")

        with server:
            assert count(ledger, events) == 0
            ledger.close()

    def test_a_file_that_is_no_database_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "ledger.sqlite").write_bytes(b"not a database, but long enough to be looked at" * 100)

        with pytest.raises(LedgerUnavailable, match=r"ledger\.sqlite failed: file is not a database"):
            Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    @pytest.mark.parametrize(
        "url",
        [
            "mysql://guard:secret@host/ledger",
            "postgres:/secret",
            "",
            "postgresql+psycopg2://guard:secret@host:port/ledger",
        ],
    )
    def test_another_kind_of_database_is_refused(self, url: str) -> None:
        with pytest.raises(SettingsError, match="CORPUS_GUARD_LEDGER_URL: expected sqlite") as raised:
            Ledger(url)

        assert "secret" not in str(raised.value)


def test_a_mistyped_folder_is_no_empty_ledger(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"CORPUS_GUARD_LEDGER_URL: there is no folder .*/a/b; correct the path"):
        Ledger(f"sqlite:///{tmp_path / 'a' / 'b' / 'ledger.sqlite'}")

    assert not (tmp_path / "a").exists()


def test_a_document_keeps_any_text_a_source_may_be_named(ledger: Ledger) -> None:
    uri = "notes/naïve <script>{{ conn.x }}</script> \u202egpj.exe 👩🏽‍🔬.md"
    row = {
        "doc_id": "d",
        "source": "harbour",
        "uri": uri,
        "trust": "open",
        "latest_version": "v",
        "latest_content_sha256": "0",
        "latest_fetched_at": NOON,
        "last_seen_at": NOON,
    }
    with ledger.write() as connection:
        connection.execute(documents.insert().values(row))
        assert connection.scalar(sa.select(documents.c.uri)) == uri


def _take(ledger: Ledger, wait: float) -> None:
    with ledger.exclusive("publish", wait=wait):
        pass
