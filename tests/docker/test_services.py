"""Every service of compose.yaml started for real from its definition, in a network of its own (`composed.py`, `enclosure.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import enclosure
from environment import PROJECT

pytestmark = pytest.mark.skipif(bool(enclosure.unavailable()), reason=enclosure.unavailable())
NAMES = ("postgres", "redis", "chroma", "mlflow", "api-server")


def started(folder: Path, services: str, **more: str) -> dict[str, Any]:
    hosts = [f"--host={name}" for name in NAMES]
    inside = [sys.executable, str(Path(__file__).with_name("composed.py")), str(folder), services]
    ran = subprocess.run(
        [sys.executable, enclosure.__file__, *hosts, "--", *inside],
        env={**os.environ, **more},
        capture_output=True,
        text=True,
        timeout=3_000,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-6000:]
    return dict(json.loads(ran.stdout.splitlines()[-1]))


def test_redis_chroma_and_postgresql_become_healthy_and_leave_nothing(tmp_path: Path) -> None:
    said = started(tmp_path, "redis,chroma,postgres")

    assert said["healthy"] == ["redis", "chroma", "postgres"]
    assert said["undeclared"] == {}
    assert said["left"] == []
    assert said["host"] == "127.0.0.1"


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["LocalExecutor", "CeleryExecutor"])
def test_the_whole_of_it_runs_a_dag(tmp_path: Path, executor: str) -> None:
    celery = executor == "CeleryExecutor"
    services = "dag-processor,triggerer,scheduler" + (",worker" if celery else "")

    said = started(tmp_path, f"{services}@quarantine_watch", CORPUS_GUARD_EXECUTOR=executor)

    everything = {
        "postgres",
        "chroma",
        "mlflow",
        "airflow-init",
        "dag-processor",
        "api-server",
        "triggerer",
        "scheduler",
    }
    assert set(said["healthy"]) == everything | ({"redis", "worker"} if celery else set())
    assert said["run"]["state"] == "success"
    assert said["run"]["tasks"] == {"expire": "success", "alert": "success"}
    # What the workers wrote into the result backend; unpausing a DAG starts the last interval's run besides.
    assert (said["run"]["celery"] >= 2) == celery
    assert said["run"]["log"] == 200
    assert said["left"] == []


def test_a_service_that_does_not_start_is_named_with_its_log(tmp_path: Path) -> None:
    hosts = [f"--host={name}" for name in NAMES]
    compose = (PROJECT / "docker" / "compose.yaml").read_text()
    copy = tmp_path / "copy"
    for name in ("docker", "tests/docker"):
        (copy / name).mkdir(parents=True)
    (copy / "docker" / "compose.yaml").write_text(compose.replace('--appendonly, "no"', '--appendonly, "perhaps"'))
    for name in ("docker/local", "docker/image", "docker/make_secrets.py", "Dockerfile", "include"):
        (copy / name).symlink_to(PROJECT / name)
    driver = copy / "tests" / "docker" / "composed.py"
    driver.write_text(Path(__file__).with_name("composed.py").read_text())

    ran = subprocess.run(
        [sys.executable, enclosure.__file__, *hosts, "--", sys.executable, str(driver), str(tmp_path), "redis"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.returncode == 1
    assert "redis: not healthy, exit code 1" in ran.stderr
    assert "argument must be 'yes' or 'no'" in ran.stderr
