"""The table of growth: real jobs on a small corpus, continued where it was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from bench.scale import COLD, JOBS, table_lines
from corpus_guard.settings import PROJECT


def a_job(chunks: int, job: str, **figures: float) -> dict[str, object]:
    return {"chunks": chunks, "job": job, "wall": 2.0, "memory": 2**20, "disk": 2**21, **figures}


def test_the_exponent_is_that_of_the_largest_sizes_and_a_missed_one_is_named() -> None:
    jobs = [
        *(a_job(size, COLD, served=size, cpu=float(size)) for size in (10, 100, 1_000)),
        *(a_job(size, "search", cpu=1.0, each_ms=size**2) for size in (100, 1_000)),
    ]

    lines = {line.split(" | ")[0].strip("| "): line for line in table_lines(jobs)}

    assert lines["job"] == "| job | 10 served chunks | 100 served chunks | 1,000 served chunks | exponent |"
    assert lines[COLD].endswith("| 1.00 |")
    assert (
        lines["search"]
        == "| search | not run | 10,000.0 ms, 1 MiB, disk 2 MiB | 1,000,000.0 ms, 1 MiB, disk 2 MiB | 2.00, **missed** |"
    )
    assert lines["seal"] == "| seal | not run | not run | not run | — |"


def test_a_verification_that_did_not_hold_is_named() -> None:
    jobs = [a_job(10, COLD, served=10, cpu=1.0), {**a_job(10, "verify, every file", cpu=1.0), "holds": False}]

    lines = {line.split(" | ")[0].strip("| "): line for line in table_lines(jobs)}

    assert (
        lines["verify, every file"]
        == "| verify, every file | **did not hold**, 2.0 s, CPU 1.0 s, 1 MiB, disk 2 MiB | — |"
    )


def command_for(folder: Path, models_home: Path) -> tuple[list[str], dict[str, str]]:
    environ = {
        **os.environ,
        "CORPUS_GUARD_MODELS_FOLDER": str(models_home / "models"),
        "PYTHONPATH": os.pathsep.join(map(str, (PROJECT, PROJECT / "include"))),
    }
    return [sys.executable, "-m", "tests.bench.scale", str(folder), "100"], environ


def jobs_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "jobs.jsonl").read_text().splitlines()]


@pytest.mark.slow
def test_a_refresh_that_is_stopped_goes_on_and_counts_both_parts(tmp_path: Path, models_home: Path) -> None:
    command, environ = command_for(tmp_path, models_home)
    process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=PROJECT)
    while not (tmp_path / "100" / "ledger.sqlite").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)

    assert process.wait(60) != 0
    (stopped,) = jobs_in(tmp_path)
    assert (stopped["job"], stopped["stopped"], stopped["parts"]) == (COLD, True, 1)

    subprocess.run(command, env=environ, capture_output=True, check=True, cwd=PROJECT)

    _, ended, *others = jobs_in(tmp_path)
    assert (ended["job"], ended["accepted"] + ended["quarantined"], ended["parts"]) == (COLD, 10, 2)
    assert "stopped" not in ended
    assert ended["cpu"] > stopped["cpu"]
    assert [job["job"] for job in others] == list(JOBS)[1:]


@pytest.mark.slow
def test_every_job_ends_well_and_a_second_run_does_none_again(tmp_path: Path, models_home: Path) -> None:
    command, environ = command_for(tmp_path / "scale", models_home)

    first, second = (
        subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd=PROJECT) for _ in range(2)
    )

    jobs = jobs_in(tmp_path / "scale")
    by_name = {job["job"]: job for job in jobs}
    assert [job["job"] for job in jobs] == list(JOBS)
    assert by_name[COLD]["accepted"] + by_name[COLD]["quarantined"] == 10
    assert by_name["nothing changed"]["unchanged"] == 10
    assert by_name["verify, every file"]["holds"]
    assert by_name["purge of one document"]["state"] == "closed"
    assert by_name["restore without the vector store"]["holds"]
    assert second.stdout == first.stdout
