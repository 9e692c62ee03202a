"""What can be said of the container files without an engine: they fit the specification, they pin, they hold no secret and open no door."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from environment import PROJECT, USERS

COMPOSE = PROJECT / "docker" / "compose.yaml"
# The schema of the Compose Specification (Apache-2.0), as check-jsonschema 0.39.0 carries it; its licence lies beside it.
SCHEMA = Path(__file__).parent / "compose-spec" / "compose-spec.json"
MAKE_SECRETS = runpy.run_path(str(PROJECT / "docker" / "make_secrets.py"))
OF_OTHERS = {"postgres", "redis"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(COMPOSE.read_text()))


def pinned(package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (PROJECT / "requirements.txt").read_text(), re.MULTILINE)
    assert found, package
    return found[1]


def problems(document: dict[str, Any]) -> list[str]:
    schema = json.loads(SCHEMA.read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    return [error.json_path for error in validator.iter_errors(document)]


def test_it_fits_the_compose_specification(compose: dict[str, Any]) -> None:
    assert problems(compose) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("restart", 3), ("depends_on", {"chroma": {"condition": "soon"}}), ("healthcheck", {"tests": "x"})],
)
def test_the_schema_refuses_what_is_wrong(compose: dict[str, Any], key: str, value: object) -> None:
    broken = {**compose, "services": {**compose["services"], "mlflow": {**compose["services"]["mlflow"], key: value}}}

    assert problems(broken)


def test_its_worker_listens_to_every_queue_that_a_task_may_be_sent_to(compose: dict[str, Any]) -> None:
    words = compose["services"]["worker"]["command"]
    values = yaml.safe_load((PROJECT / "docker" / "kubernetes" / "values.yaml").read_text())["workers"]["celery"]

    assert set(words[words.index("--queues") + 1].split(",")) == {
        workers["queue"] for workers in (values, *values["sets"])
    }


def test_only_airflow_and_mlflow_are_published_and_on_loopback(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in compose["services"].items() if "ports" in service}

    assert set(published) == {"api-server", "mlflow"}
    assert all(port.startswith("127.0.0.1:") for ports in published.values() for port in ports)


def test_chroma_and_the_databases_are_on_internal_networks_alone(compose: dict[str, Any]) -> None:
    internal = {name for name, network in compose["networks"].items() if (network or {}).get("internal")}

    assert internal == {"state", "vectors"}
    for name in ("postgres", "redis", "chroma"):
        assert set(compose["services"][name]["networks"]) <= internal, name
    assert all(
        service.get("networks") for service in compose["services"].values()
    )  # none falls into the default network


def test_every_service_that_stays_has_a_health_check_limits_and_a_restart_policy(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["deploy"]["resources"]["limits"].keys() >= {"cpus", "memory"}, name
        assert "no-new-privileges:true" in service["security_opt"], name
        stays = name != "airflow-init"
        assert ("healthcheck" in service) == stays, name
        assert service["restart"] == ("unless-stopped" if stays else "no"), name


def test_our_image_runs_without_rights_on_a_file_system_it_cannot_write(compose: dict[str, Any]) -> None:
    ours = {name: service for name, service in compose["services"].items() if name not in OF_OTHERS}

    assert len(ours) == 8
    for name, service in ours.items():
        assert service["image"] == "corpus-guard", name
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["user"] == "${CORPUS_GUARD_UID:-50000}:0", name


def test_workers_and_redis_start_only_when_asked_for(compose: dict[str, Any]) -> None:
    behind = {name for name, service in compose["services"].items() if "workers" in service.get("profiles", [])}

    assert behind == {"redis", "worker"}
    for name, service in compose["services"].items():
        assert name in behind or not behind & set(service.get("depends_on", {})), name


def test_no_secret_is_in_the_file_and_make_secrets_writes_every_one(compose: dict[str, Any]) -> None:
    made = MAKE_SECRETS["content"]()

    assert {name: secret["file"] for name, secret in compose["secrets"].items()} == {
        name: f"secrets/{name}" for name in made
    }
    for name, service in compose["services"].items():
        read = set(re.findall(r"/run/secrets/([\w.]+)", json.dumps(service)))
        if service.get("environment", {}).get("CORPUS_GUARD_SECRETS_DIR"):
            read.add("corpus_guard_ledger_url")
        assert read == set(service.get("secrets", [])), name
        for key in service.get("environment", {}):
            holds = re.search(r"PASSWORD|SECRET|KEY|CONN|URL|BACKEND", key)
            told = str(service["environment"][key])
            assert not (holds and "@" in told), key


def test_the_secrets_fit_each_other_and_airflow(compose: dict[str, Any]) -> None:
    made = MAKE_SECRETS["content"]()

    assert len(made["airflow_jwt_secret"].encode()) >= 64
    assert json.loads(made["airflow_passwords.json"]).keys() == USERS.keys()
    for name in ("airflow_database_url", "corpus_guard_ledger_url", "celery_result_backend"):
        assert f":{made['postgres_password']}@postgres" in made[name]
    assert made["redis.conf"].split()[1] in made["celery_broker_url"]
    assert json.loads(made["airflow_passwords.json"])["guard"] in made["airflow_connections.json"]
    assert not any(value.endswith("\n") for value in made.values())  # Airflow takes what `cat` prints as it is


def test_the_secrets_are_private_and_never_replaced(tmp_path: Path) -> None:
    assert MAKE_SECRETS["main"](tmp_path) == 0
    files = {path: path.read_bytes() for path in (tmp_path / "secrets").iterdir()}

    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {path.stat().st_uid for path in files} == {int((tmp_path / ".env").read_text().partition("=")[2])}
    assert MAKE_SECRETS["main"](tmp_path) == 1
    assert {path: path.read_bytes() for path in (tmp_path / "secrets").iterdir()} == files


def test_secrets_are_ignored_by_git_and_by_the_build() -> None:
    said = subprocess.run(
        ["git", "check-ignore", "docker/secrets/redis.conf", "docker/.env"],
        cwd=PROJECT,
        capture_output=True,
        check=False,
    )

    assert len(said.stdout.splitlines()) == 2
    assert (PROJECT / ".dockerignore").read_text().splitlines()[1] == "*"


def test_containers_and_local_stack_have_the_same_users(compose: dict[str, Any]) -> None:
    users = compose["x-airflow"]["environment"]["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"]

    assert dict(pair.split(":") for pair in users.split(",")) == USERS


def test_the_compose_client_resolves_it() -> None:
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the docker compose client is not installed")

    resolved = subprocess.run(
        [docker, "compose", "--file", str(COMPOSE), "--profile", "workers", "config", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert resolved.returncode == 0, resolved.stderr
