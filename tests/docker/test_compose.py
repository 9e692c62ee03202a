"""What can be said of the container files without an engine: they read, they pin, they publish on loopback only."""

from __future__ import annotations

import re
import runpy
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from environment import PROJECT, USERS

COMPOSE = PROJECT / "docker" / "compose.yaml"
MAKE_ENV = runpy.run_path(str(PROJECT / "docker" / "make_env.py"))


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text()))


def pinned(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (PROJECT / "requirements.txt").read_text(), re.MULTILINE)
    assert found, package
    return found[1]


def test_every_published_port_is_on_loopback(compose: dict[str, Any]) -> None:
    published = [port for service in compose["services"].values() for port in service.get("ports", [])]

    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_service_that_stays_has_a_healthcheck(compose: dict[str, Any]) -> None:
    without = {name for name, service in compose["services"].items() if "healthcheck" not in service}

    assert without == {"airflow-init"}


def test_no_secret_has_a_default_and_make_env_writes_every_one() -> None:
    asked = set(re.findall(r"\$\{([A-Z_]+):\?", COMPOSE.read_text()))

    assert asked == set(MAKE_ENV["content"]())
    assert len(MAKE_ENV["content"]()["AIRFLOW_JWT_SECRET"].encode()) >= 64


def test_the_env_file_is_private_and_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / ".env"

    assert MAKE_ENV["main"](target) == 0
    first = target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert MAKE_ENV["main"](target) == 1
    assert target.read_text() == first


def test_images_are_the_versions_of_the_lock(compose: dict[str, Any]) -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()

    assert f"FROM apache/airflow:{pinned('apache-airflow')}-python3.11\n" in dockerfile
    assert compose["services"]["chroma"]["image"] == f"chromadb/chroma:{pinned('chromadb')}"
    assert re.findall(r"^USER (\S+)", dockerfile, re.MULTILINE)[-1] == "airflow"


def test_containers_and_local_stack_have_the_same_users(compose: dict[str, Any]) -> None:
    users = compose["x-airflow"]["environment"]["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]

    assert dict(pair.split(":") for pair in users.split(",")) == USERS


def test_everything_the_image_copies_exists_and_passes_the_dockerignore() -> None:
    copied = re.findall(r"^COPY --chown=\S+ (.+) \S+$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    let_in = set(re.findall(r"^!(\S+)", (PROJECT / ".dockerignore").read_text(), re.MULTILINE))

    assert {word for line in copied for word in line.split()} == let_in
    assert all((PROJECT / word).exists() for word in let_in)


def test_the_compose_client_resolves_it(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the docker compose client is not installed")
    secrets = tmp_path / "env"
    MAKE_ENV["main"](secrets)

    resolved = subprocess.run(
        [docker, "compose", "--file", str(COMPOSE), "--env-file", str(secrets), "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert resolved.returncode == 0, resolved.stderr
