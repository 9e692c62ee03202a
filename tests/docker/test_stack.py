"""``stack.py`` as a person runs it: real PostgreSQL, real Chroma, a home of its own on free ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from environment import PROJECT, Ports
from postgres import free_port
from stack import Stack

NAMES = ("AIRFLOW", "CHROMA", "MLFLOW", "POSTGRES")


class Local:
    """One home and the commands on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.ports = {name: free_port() for name in NAMES}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        told = {f"CORPUS_GUARD_{name}_PORT": str(port) for name, port in self.ports.items()}
        return subprocess.run(
            [sys.executable, str(PROJECT / "docker" / "local" / "stack.py"), *words],
            env={**os.environ, **told, "CORPUS_GUARD_HOME": str(self.home), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def pids(self) -> dict[str, int]:
        programs: dict[str, Any] = json.loads(self.run("status", "--json").stdout)["programs"]
        return {name: one["pid"] for name, one in programs.items() if one["state"] == "RUNNING"}

    def processes(self) -> list[psutil.Process]:
        """supervisord and everything below it."""
        leader = psutil.Process(int((self.home / "stack" / "supervisord.pid").read_text()))
        return [leader, *leader.children(recursive=True)]

    def nothing_remains(self, before: list[psutil.Process]) -> None:
        assert [one for one in before if one.is_running() and one.status() != psutil.STATUS_ZOMBIE] == []
        for port in self.ports.values():
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    one = Local(tmp_path / "home")
    yield one
    one.run("down")


def test_a_taken_port_is_named_with_the_variable_that_moves_it(local: Local) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", local.ports["CHROMA"]))
        other.listen()

        said = local.run("up", "--only", "postgres,chroma")

    assert said.returncode == 1
    assert str(local.ports["CHROMA"]) in said.stdout
    assert "CORPUS_GUARD_CHROMA_PORT" in said.stdout
    assert local.pids() == {}


def test_each_home_gets_a_port_of_its_own_for_chroma_and_no_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.delenv(f"CORPUS_GUARD_{name}_PORT", raising=False)

    def home(name: str) -> Stack:
        monkeypatch.setenv("CORPUS_GUARD_HOME", str(tmp_path / name))
        made = Stack()
        made.layout.stack.mkdir(parents=True, exist_ok=True)
        made.choose_ports()
        return made

    first, second = home("first"), home("second")
    assert len({first.ports.chroma, second.ports.chroma, Ports().chroma}) == 3
    assert len({first.ports.postgres, second.ports.postgres, Ports().postgres}) == 3
    with socket.socket() as other:
        other.bind(("127.0.0.1", first.ports.postgres))
        other.listen()
        moved = home("first").ports

    assert moved == replace(first.ports, postgres=moved.postgres)
    assert moved.postgres != first.ports.postgres
    assert Stack().ports == moved  # written down


def test_an_unknown_service_is_refused(local: Local) -> None:
    said = local.run("up", "--only", "chrome")

    assert said.returncode == 1
    assert "got chrome" in said.stdout


def test_status_of_nothing_is_3_and_down_is_no_error(local: Local) -> None:
    assert local.run("status").returncode == 3
    assert local.run("down").returncode == 0


@pytest.mark.slow
def test_up_twice_then_down_leaves_nothing(local: Local) -> None:
    said = local.run("up", "--only", "postgres,chroma")
    assert said.returncode == 0, said.stdout + said.stderr
    first = local.pids()
    assert set(first) == {"postgres", "chroma"}
    with urllib.request.urlopen(f"http://127.0.0.1:{local.ports['CHROMA']}/api/v2/heartbeat", timeout=5) as answer:
        assert answer.status == 200
    before = local.processes()

    assert local.run("up", "--only", "postgres,chroma").returncode == 0
    assert local.pids() == first
    down = local.run("down")

    assert down.returncode == 0
    assert "outlived" not in down.stdout
    local.nothing_remains(before)


@pytest.mark.slow
def test_down_finds_what_a_killed_supervisor_left(local: Local) -> None:
    assert local.run("up", "--only", "postgres,chroma").returncode == 0
    before = local.processes()
    before[0].send_signal(signal.SIGKILL)
    before[0].wait(10)
    assert any(one.is_running() for one in before[1:])

    assert local.run("down").returncode == 0

    local.nothing_remains(before)


@pytest.mark.slow
def test_a_program_that_cannot_start_shows_its_log_and_takes_the_rest_down(local: Local) -> None:
    (local.home / "chroma").mkdir(parents=True)
    (local.home / "chroma" / "chroma.sqlite3").write_text("not a database")

    said = local.run("up", "--only", "postgres,chroma")

    assert said.returncode == 1
    assert "✗ chroma: " in said.stdout
    assert f"The end of {local.home}/logs/chroma.log" in said.stdout
    assert local.pids() == {}
    local.nothing_remains([])


@pytest.mark.slow
def test_the_whole_stack_comes_up_healthy_and_goes(local: Local) -> None:
    said = local.run("up")
    assert said.returncode == 0, said.stdout + said.stderr
    assert local.run("status").returncode == 0
    airflow = f"http://127.0.0.1:{local.ports['AIRFLOW']}"
    with urllib.request.urlopen(f"{airflow}/api/v2/monitor/health", timeout=5) as answer:
        health = json.load(answer)
    assert {part: one["status"] for part, one in health.items()} == dict.fromkeys(
        ("metadatabase", "scheduler", "triggerer", "dag_processor"), "healthy"
    )
    before = local.processes()
    listening = {one.laddr.ip for each in before for one in each.net_connections() if one.status == "LISTEN"}
    assert listening == {"127.0.0.1"}

    assert local.run("down").returncode == 0

    local.nothing_remains(before)
