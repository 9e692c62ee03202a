"""The table of growth: real jobs on a small corpus, continued where it was stopped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.slow
def test_every_job_ends_well_and_a_second_run_does_none_again(tmp_path: Path, models_home: Path) -> None:
    environ = {
        **os.environ,
        "CORPUS_GUARD_MODELS_FOLDER": str(models_home / "models"),
        "PYTHONPATH": os.pathsep.join(map(str, (PROJECT, PROJECT / "include"))),
    }
    command = [sys.executable, "-m", "tests.bench.scale", str(tmp_path / "scale"), "100"]

    first, second = (
        subprocess.run(command, env=environ, capture_output=True, text=True, check=True, cwd=PROJECT) for _ in range(2)
    )

    jobs = [json.loads(line) for line in (tmp_path / "scale" / "jobs.jsonl").read_text().splitlines()]
    by_name = {job["job"]: job for job in jobs}
    assert [job["job"] for job in jobs] == list(JOBS)
    assert by_name[COLD]["accepted"] + by_name[COLD]["quarantined"] == 10
    assert by_name["nothing changed"]["unchanged"] == 10
    assert by_name["verify, every file"]["holds"]
    assert by_name["purge of one document"]["state"] == "closed"
    assert by_name["restore without the vector store"]["holds"]
    assert second.stdout == first.stdout
