"""The environment of the local stack is a function of folders, ports and secrets."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from environment import USERS, YIELDING, Layout, Ports, Secrets, StackError, environment, with_caller

HOME = Path("/srv/guard")
ROOT = Path("/opt/corpus-guard")


def made(**changes: int) -> dict[str, str]:
    return environment(ROOT, HOME, Ports(**changes), Secrets())


def test_a_moved_airflow_port_moves_every_address_tasks_call() -> None:
    env = made(airflow=9090)

    assert env["AIRFLOW__API__PORT"] == "9090"
    assert env["AIRFLOW__API__BASE_URL"] == "http://127.0.0.1:9090"
    assert env["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:9090/execution/"


def test_everything_stays_on_loopback_and_in_the_home() -> None:
    env = made()

    assert env["AIRFLOW__API__HOST"] == "127.0.0.1"
    for key, value in env.items():
        if "://" in value and not value.startswith("sqlite"):
            assert "127.0.0.1:" in value, key
        assert "0.0.0.0" not in value, key  # noqa: S104
    for key in ("AIRFLOW_HOME", "AIRFLOW__LOGGING__BASE_LOG_FOLDER", "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH"):
        assert Path(env[key]).is_relative_to(HOME), key


def test_nothing_phones_home_and_nothing_unpickles() -> None:
    env = made()

    assert env["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] == "False"
    assert env["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert env["GX_ANALYTICS_ENABLED"] == "false"
    assert env["ANONYMIZED_TELEMETRY"] == "False"
    assert env["DO_NOT_TRACK"] == "1"
    assert env["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"


def test_metadata_may_be_a_file_for_unit_tests() -> None:
    env = environment(ROOT, HOME, Ports(), Secrets(), metadata="sqlite")

    assert env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == "sqlite:////srv/guard/airflow/airflow.db"


def test_the_ledger_is_a_file_unless_asked_for() -> None:
    server = environment(ROOT, HOME, Ports(postgres=1234), Secrets(), ledger="postgres")

    assert "CORPUS_GUARD_LEDGER_URL" not in made()
    assert server["CORPUS_GUARD_LEDGER_URL"].endswith("@127.0.0.1:1234/ledger")


def test_every_user_has_one_role_and_only_one_is_admin() -> None:
    pairs = [pair.split(":") for pair in made()["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"].split(",")]

    assert dict(pairs) == USERS
    assert list(USERS.values()).count("admin") == 1


def test_the_caller_decides_matters_of_taste_and_nothing_else() -> None:
    caller = dict.fromkeys(YIELDING, "7") | {
        "AIRFLOW_HOME": "/elsewhere",
        "HTTP_PROXY": "http://proxy:1",
        "NO_PROXY": "a.b",
    }

    env = with_caller(made(), caller)

    assert all(env[key] == "7" for key in YIELDING)
    assert env["AIRFLOW_HOME"] == "/srv/guard/airflow"
    assert env["NO_PROXY"] == "a.b,127.0.0.1,localhost"
    assert env["no_proxy"] == "127.0.0.1,localhost"


@pytest.mark.parametrize("text", ["http", "0", "70000", "-1"])
def test_a_port_that_is_none_is_named(text: str) -> None:
    with pytest.raises(StackError, match="CORPUS_GUARD_CHROMA_PORT: expected a port"):
        Ports.read({"CORPUS_GUARD_CHROMA_PORT": text})


def test_a_home_keeps_its_ports_unless_the_caller_sets_one(tmp_path: Path) -> None:
    layout = Layout(ROOT, tmp_path)
    layout.stack.mkdir()
    layout.ports.write_text(json.dumps({"airflow": 1, "chroma": 2, "mlflow": 3, "postgres": 4}))

    assert Ports.read({"CORPUS_GUARD_MLFLOW_PORT": "5"}, layout.ports) == Ports(1, 2, 5, 4)


def test_two_equal_ports_are_refused() -> None:
    with pytest.raises(StackError, match="four different ones"):
        Ports.read({"CORPUS_GUARD_CHROMA_PORT": "8080"})


def test_secrets_are_made_once_are_long_enough_and_private(tmp_path: Path) -> None:
    layout = Layout(ROOT, tmp_path)

    first, second = Secrets.load(layout), Secrets.load(layout)

    assert first == second
    assert len(first.airflow_jwt.encode()) >= 64
    assert len(base64.urlsafe_b64decode(first.airflow_fernet)) == 32
    assert json.loads(layout.passwords.read_text()) == {user: getattr(first, user) for user in USERS}
    for path in (layout.secrets, layout.passwords):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_secrets_do_not_print_themselves() -> None:
    made = Secrets()

    assert not any(value in repr(made) for value in vars(made).values())


def test_a_damaged_secrets_file_is_not_replaced(tmp_path: Path) -> None:
    layout = Layout(ROOT, tmp_path)
    layout.stack.mkdir()
    layout.secrets.write_text("{")

    with pytest.raises(StackError, match="Restore the file"):
        Secrets.load(layout)

    assert layout.secrets.read_text() == "{"
