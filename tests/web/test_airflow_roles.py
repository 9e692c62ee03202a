"""Access by Airflow's own auth manager: what each role may do, and which credentials are refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from reviewing import Reviewing

from environment import PROJECT, Ports, Secrets, environment, with_caller

PLUGINS = PROJECT / "plugins"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a real Airflow app answered."""
    home = tmp_path_factory.mktemp("airflow-roles")
    (home / "airflow").mkdir()
    (home / "stack").mkdir()
    env = with_caller(environment(PROJECT, home, Ports(), Secrets(), metadata="sqlite"), os.environ)
    migrated = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], env=env, capture_output=True, text=True, check=False
    )
    assert migrated.returncode == 0, migrated.stderr[-3000:]
    reviewing = Reviewing(home)
    item = reviewing.wait()
    reviewing.close()
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("ask_airflow.py")), item.version_id, item.revision],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-4000:]
    answered: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return answered


@pytest.mark.parametrize(("role", "decides"), [("viewer", False), ("user", True), ("op", True), ("admin", True)])
def test_a_role_sees_and_decides_as_airflow_lets_it(told: dict[str, Any], role: str, decides: bool) -> None:
    assert told[role] == {
        "sees": 200,
        "sees_api": 200,
        "offered": decides,
        "previews": 200 if decides else 403,
    }, told["page_head"]


def test_a_paused_dag_is_named_and_whoever_may_edit_it_resumes_it(told: dict[str, Any]) -> None:
    assert told["paused"] == {
        "before": {"viewer": [True, False], "user": [True, True], "op": [True, True], "admin": [True, True]},
        "viewer": [403, 403],
        "user": [200, 404],
        "after": [False, False],
    }


def test_a_stranger_is_sent_to_the_sign_in_and_back(told: dict[str, Any]) -> None:
    assert 'href="/api/v2/auth/login?next=/corpus-guard/"' in told["stranger_reads"]


def test_strangers_see_nothing(told: dict[str, Any]) -> None:
    assert set(told["strangers"].values()) == {401}
    assert told["stranger_decides"] == 401


@pytest.mark.parametrize("credential", ["forged", "none_algorithm", "expired", "cross_site_cookie", "bare_cookie"])
def test_what_is_no_credential_decides_nothing(told: dict[str, Any], credential: str) -> None:
    assert told[credential] in {401, 403}


def test_a_decision_is_signed_with_the_airflow_identity_and_cannot_be_replayed(told: dict[str, Any]) -> None:
    status, body = told["decided"]

    assert status == 201
    (decision,) = body["decisions"]
    assert (decision["reviewer_id"], decision["reviewer"], decision["auth"]) == (
        "a-user",
        "a-user",
        "SimpleAuthManager",
    )
    assert told["replayed"] == 409


def test_a_token_that_was_logged_out_is_none(told: dict[str, Any]) -> None:
    assert told["logout"] in {200, 302, 303, 307}
    assert told["after_logout"] in {401, 403}


def test_an_outage_of_airflows_database_is_a_page_that_says_what_next(told: dict[str, Any]) -> None:
    outage = told["outage"]

    assert outage.pop("elsewhere") == 500  # Airflow's own pages stay as they are
    assert outage == {way: [503, True, True] for way in ("by cookie", "by token", "decision")}
    assert told["after_outage"] == 200


def test_one_file_is_a_plugin_and_it_imports_nothing_heavy() -> None:
    ignored = (PLUGINS / ".airflowignore").read_text()
    assert [path.name for path in PLUGINS.rglob("*.py")] == ["corpus_guard_plugin.py"]
    assert "!corpus_guard_plugin.py" in ignored.splitlines()
    code = (
        "import sys; sys.path.insert(0, 'plugins');"
        "from airflow.plugins_manager import AirflowPlugin; before = set(sys.modules);"
        "import corpus_guard_plugin; print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT)

    assert (
        ran.stdout.splitlines()[-1]
        == "['corpus_guard', 'corpus_guard.airflow', 'corpus_guard.airflow.plugin', 'corpus_guard_plugin']"
    )


def test_an_app_that_cannot_be_made_serves_nothing() -> None:
    import asyncio

    from corpus_guard.airflow.plugin import LazyApp

    def broken() -> Any:
        raise ImportError("airflow moved it")

    sent: list[Any] = []

    async def ask() -> None:
        await LazyApp(broken)({"type": "http"}, None, sent.append)

    with pytest.raises(ImportError):
        asyncio.run(ask())
    assert sent == []
