"""Which processes are the stack's, told by pid, start time and session: never one more, never one less."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from environment import PROJECT, Layout
from postgres import free_port
from processes import SOCKET_BYTES, Processes, port_taken, socket_path

PARENT = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"


@pytest.fixture
def processes(tmp_path: Path) -> Processes:
    layout = Layout(PROJECT, tmp_path)
    layout.stack.mkdir()
    return Processes(layout)


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A leader in a session of its own, as supervisord is, and its child."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as leader:
        assert leader.stdout
        child = psutil.Process(int(leader.stdout.readline()))
        yield leader, child
        leader.kill()
        if child.is_running():
            child.kill()


def test_an_orphan_is_found_by_its_session_and_stopped(
    processes: Processes, family: tuple[subprocess.Popen[str], psutil.Process]
) -> None:
    leader, child = family
    processes.record(leader.pid)
    content = json.loads(processes.record_file.read_text())
    content["processes"] = {}  # as if the child had been born after the last record
    processes.record_file.write_text(json.dumps(content))
    leader.kill()
    leader.wait()

    assert [one.pid for one in processes.left()] == [child.pid]
    assert processes.stop() == 1
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert not processes.record_file.exists()


def test_a_pid_with_another_start_time_is_not_ours(
    processes: Processes, family: tuple[subprocess.Popen[str], psutil.Process]
) -> None:
    leader, child = family
    processes.record(leader.pid)
    content = json.loads(processes.record_file.read_text())
    content["leader"][1] -= 100
    content["processes"] = {pid: began - 100 for pid, began in content["processes"].items()}
    processes.record_file.write_text(json.dumps(content))

    assert processes.left() == []
    assert processes.stop() == 0
    assert child.is_running()


def test_a_record_of_an_earlier_boot_says_nothing(
    processes: Processes, family: tuple[subprocess.Popen[str], psutil.Process]
) -> None:
    processes.record(family[0].pid)
    content = json.loads(processes.record_file.read_text())
    content["boot"] -= 3600
    processes.record_file.write_text(json.dumps(content))

    assert processes.left() == []


def test_stopping_nothing_is_no_error(processes: Processes) -> None:
    assert processes.stop() == 0


def test_a_taken_port_is_seen() -> None:
    port = free_port()
    assert not port_taken(port)

    with socket.socket() as other:
        other.bind(("127.0.0.1", port))  # bound and not listening: taken all the same
        assert port_taken(port)


def test_a_long_home_gets_a_short_private_socket_folder(tmp_path: Path) -> None:
    path = socket_path(Layout(PROJECT, tmp_path / ("x" * 120)))

    assert len(str(path)) <= SOCKET_BYTES
    assert path.parent.stat().st_mode & 0o077 == 0
    path.parent.rmdir()
