"""What a command sees inside: no network but loopback, no process but its own, and a root file system it cannot write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import enclosure

pytestmark = pytest.mark.skipif(bool(enclosure.unavailable()), reason=enclosure.unavailable())


def inside(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, enclosure.__file__, *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_there_is_loopback_and_nothing_else() -> None:
    said = inside(
        "--host=chroma", "--", "sh", "-c", "cat /proc/net/dev; getent hosts chroma; ls -d /proc/[0-9]* | wc -l"
    )

    interfaces = [line.split(":")[0].strip() for line in said.stdout.splitlines() if ":" in line]
    assert interfaces == ["lo"]
    assert "127.0.0.1" in said.stdout
    assert int(said.stdout.split()[-1]) < 6


def test_the_exit_code_is_the_commands_and_what_it_left_behind_is_killed() -> None:
    said = inside("--", "sh", "-c", "sleep 4242 & exit 7")

    assert said.returncode == 7
    assert "4242" not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="another root file system needs root")
def test_in_another_root_only_what_was_bound_can_be_written(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, 4321, 0)
    status = "grep -E '^(Cap(Eff|Bnd)|NoNewPrivs)' /proc/self/status"
    script = f"id -u; {status}; echo 1 > /mnt/x; echo 2 > /var/x; echo 3 > /tmp/x; env; ls /tmp"

    # The machine's own root: inside it cannot be written, and outside nothing of it changes.
    said = inside(
        "--root=/", "--uid=4321", f"--bind={state}:/mnt", "--env=PATH=/usr/bin:/bin", "--", "sh", "-c", script
    )

    assert said.stdout.startswith("4321\n"), said.stderr
    assert said.stdout.count("0000000000000000") == 2
    assert "NoNewPrivs:\t1" in said.stdout
    assert "PYTEST_CURRENT_TEST" not in said.stdout
    assert said.stdout.splitlines()[-1] == "x"  # a /tmp of its own
    assert (state / "x").read_text() == "1\n"
    assert "/var/x" in said.stderr
    assert "Read-only file system" in said.stderr or "Permission denied" in said.stderr
    assert not Path("/var/x").exists()
