"""A real PostgreSQL on a free port: the one the local stack runs, and the ledger's tests borrow."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import psycopg2  # type: ignore[import-untyped]
import pytest

import postgres
from postgres import LocalPostgres, PostgresError, free_port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPostgres]:
    with LocalPostgres(tmp_path_factory.mktemp("pg") / "data", free_port(), "right", durable=False) as running:
        yield running


def connect(server: LocalPostgres, database: str) -> psycopg2.extensions.connection:
    return psycopg2.connect(server.url(database).replace("+psycopg2", ""), connect_timeout=5)


def test_a_database_is_created_once_and_answers(server: LocalPostgres) -> None:
    server.create_database("ledger")
    server.create_database("ledger")

    connection = connect(server, "ledger")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_database(), current_setting('TimeZone')")
        assert cursor.fetchone() == ("ledger", "UTC")
    connection.close()


def test_a_database_name_is_quoted(server: LocalPostgres) -> None:
    odd = 'x"; DROP DATABASE ledger; --'
    server.create_database("ledger")
    server.create_database(odd)

    connection = connect(server, "postgres")
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT datname FROM pg_database")
        assert {"ledger", odd} <= {name for (name,) in cursor.fetchall()}
    connection.close()


def test_a_wrong_password_is_refused_and_the_error_says_what_to_do(server: LocalPostgres) -> None:
    stranger = LocalPostgres(server.data_dir, server.port, "wrong")

    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        connect(stranger, "postgres")
    with pytest.raises(PostgresError, match="restore the secrets file"):
        stranger.ready()


def test_no_password_is_refused(server: LocalPostgres) -> None:
    with pytest.raises(psycopg2.OperationalError, match="no password supplied"):
        psycopg2.connect(host="127.0.0.1", port=server.port, user="postgres", dbname="postgres", passfile="/dev/null")


def test_it_listens_on_loopback_only(server: LocalPostgres) -> None:
    assert server.process is not None
    listening = [one.laddr for one in psutil.Process(server.process.pid).net_connections() if one.status == "LISTEN"]

    assert [(one.ip, one.port) for one in listening] == [("127.0.0.1", server.port)]


def test_stop_leaves_no_process_and_a_second_start_finds_the_data(tmp_path: Path) -> None:
    server = LocalPostgres(tmp_path / "data", free_port(), "right", durable=False)
    server.start()
    server.create_database("kept")
    idle = connect(server, "kept")  # an open client must not hold up the stop
    assert server.process is not None
    leader = psutil.Process(server.process.pid)
    family = [leader, *leader.children(recursive=True)]

    server.stop()

    _, alive = psutil.wait_procs(family, timeout=5)
    assert not alive
    idle.close()
    with server:
        connect(server, "kept").close()


def test_a_port_served_for_another_folder_is_not_taken_for_ours(server: LocalPostgres, tmp_path: Path) -> None:
    second = LocalPostgres(tmp_path / "data", server.port, "right", durable=False)  # same port, same password

    with pytest.raises(PostgresError, match="expected the server of"):
        second.start()

    assert second.process is None


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path) -> None:
    server = LocalPostgres(tmp_path / "data", free_port(), "right", durable=False)
    server.initialise()
    (server.data_dir / "postgresql.conf").write_text("no_such_setting = on\n")

    with pytest.raises(PostgresError, match="no_such_setting"):
        server.start()

    assert server.process is None


def test_as_root_without_user_namespaces_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(postgres, "NAMESPACE", ("false",))

    with pytest.raises(PostgresError, match="Run as an ordinary user"):
        postgres.unprivileged()


def test_an_ordinary_user_needs_no_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert postgres.unprivileged() == []


def test_a_data_folder_of_another_version_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "PG_VERSION").write_text("9\n")

    with pytest.raises(PostgresError, match="PostgreSQL 9: no binaries"):
        LocalPostgres(tmp_path, 1, "x").command()


def test_no_password_reaches_a_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    run = subprocess.run

    def spy(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        seen.append([str(word) for word in command])
        return run(command, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(subprocess, "run", spy)
    server = LocalPostgres(tmp_path / "data", 1, "do-not-show", durable=False)
    server.initialise()

    assert seen
    assert not any("do-not-show" in word for command in [*seen, server.command()] for word in command)
