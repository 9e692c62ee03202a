"""Every service of compose.yaml started for real from its definition, in a network of its own (`composed.py`, `enclosure.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import enclosure
from deploying import GOOD
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
    # Another container reaches the ports; that nobody else does is the networks' work. PostgreSQL's address is the test's own.
    assert said["listening"] == {"5432": "127.0.0.1", "6379": "0.0.0.0", "8000": "0.0.0.0"}  # noqa: S104


EVERYTHING = {"postgres", "chroma", "mlflow", "airflow-init", "dag-processor", "api-server", "triggerer", "scheduler"}


@pytest.mark.slow
def test_with_local_executor_the_whole_of_it_runs_a_dag(tmp_path: Path) -> None:
    said = started(
        tmp_path, "dag-processor,triggerer,scheduler@quarantine_watch", CORPUS_GUARD_EXECUTOR="LocalExecutor"
    )

    assert set(said["healthy"]) == EVERYTHING
    assert said["run"]["state"] == "success"
    assert said["run"]["tasks"] == {"expire": "success", "alert": "success"}
    assert said["run"]["ledger"] == 2  # in PostgreSQL, whose address is in a secret alone
    assert said["run"]["celery"] == 0
    assert said["run"]["log"] == 200
    assert said["left"] == []


@pytest.mark.slow
@pytest.mark.hours  # ten minutes
def test_with_celery_workers_it_refreshes_a_corpus_that_a_backup_brings_back(tmp_path: Path, models_home: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    for title in ("pump", "mast", "keel"):
        (pages / f"{title}.md").write_text(GOOD.replace("{title}", title))
    source = {"kind": "folder", "name": "pages", "url": str(pages), "owner": "harbour", "trust": "reviewed"}
    (tmp_path / "sources.yaml").write_text(yaml.safe_dump({"sources": [source]}))
    more = {
        "CORPUS_GUARD_SOURCES_FILE": str(tmp_path / "sources.yaml"),
        "CORPUS_GUARD_MODELS_FOLDER": str(models_home / "models"),
    }

    said = started(
        tmp_path,
        "dag-processor,triggerer,scheduler,worker@corpus_refresh+drill",
        CORPUS_GUARD_EXECUTOR="CeleryExecutor",
        COMPOSED_MORE=json.dumps(more),
    )

    assert set(said["healthy"]) == EVERYTHING | {"redis", "worker"}
    assert said["run"]["state"] == "success", said["run"]
    assert set(said["run"]["tasks"].values()) == {"success"}
    assert said["run"]["celery"] >= 8  # tasks; what the workers wrote into the result backend
    assert "3 accepted" in said["run"]["note"]  # written with the login in the file of connections
    assert said["drill"]["deviations"] > 0  # the backup has no Chroma; what was in it is published again
    assert (said["drill"]["state"], said["drill"]["left"]) == ("healed", [])
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
