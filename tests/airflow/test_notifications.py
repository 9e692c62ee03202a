"""What a message says: nothing that steers a terminal, a mail or a page, whoever chose the names in it; telling fails nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from environment import PROJECT
from sinks import mail_sink, webhook_sink

HOSTILE = "run\r\nBcc: everybody@example.org \x1b[31m\u202e<script>alert(1)</script>{{ conn.x.password }}" + "x" * 5_000

TOLD = """
import json, sys
from types import SimpleNamespace as Of
from corpus_guard.airflow import notifications as notices
said = json.loads(sys.stdin.read())
notices.notify_failure({"dag": Of(dag_id="corpus_refresh"), "run_id": said["run"], "reason": said["reason"], "task_instance": None})
run = {"dag_id": "corpus_refresh", "dag_run_id": said["run"], "state": "running", "queued_at": "2026-03-01T02:00:00Z"}
notices.notify_late({"dag_run": run}, hours=4)
"""


def tell(env: dict[str, str], **said: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as callbacks run; Airflow reads its environment once."""
    return subprocess.run(
        [sys.executable, "-c", TOLD],
        input=json.dumps({"run": "by-hand", "reason": "task_failure", **said}),
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(PROJECT / "include"), **env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def env(tmp_path: Any) -> dict[str, str]:
    return {
        "AIRFLOW_HOME": str(tmp_path),
        "HOME": str(tmp_path),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__API__BASE_URL": "http://127.0.0.1:8080",
    }


def test_hostile_names_are_data(env: dict[str, str]) -> None:
    with mail_sink() as mail, webhook_sink() as hook:
        extra = {"from_email": "g@example.org", "to": "ada@example.org", "disable_tls": True, "disable_ssl": True}
        env |= {
            "AIRFLOW_CONN_CORPUS_GUARD_MAIL": json.dumps(
                {"conn_type": "smtp", "host": "127.0.0.1", "port": mail.port, "extra": extra}
            ),
            "AIRFLOW_CONN_CORPUS_GUARD_SLACK": json.dumps(
                {"conn_type": "http", "password": f"http://127.0.0.1:{hook.port}/hook"}
            ),
        }
        ran = tell(env, run=HOSTILE, reason="\u202eodd")

    assert ran.returncode == 0, ran.stderr
    assert [message["Subject"] for message in mail.messages] == [
        "Corpus Guard: corpus_refresh failed",
        "Corpus Guard: corpus_refresh is late",
    ]
    assert all(message["Bcc"] is None and message["To"] == "ada@example.org" for message in mail.messages)
    bodies = [message.get_body(("html",)).get_content() for message in mail.messages]
    for said in (*bodies, *(posted["text"] for _, posted in hook.messages)):
        for raw in ("\x1b", "\u202e", "<script>"):
            assert raw not in said
        assert "202E" in said
        assert "{{ conn.x.password }}" in said, "shown as it is, not rendered"
        assert len(said) < 50_000
    assert "not done 4 hours after it was queued" in bodies[1]
    assert "queued 2026-03-01 02:00 UTC" in bodies[1]


def test_nobody_to_tell_stands_in_the_log_and_fails_nothing(env: dict[str, str]) -> None:
    ran = tell(env)

    assert ran.returncode == 0, ran.stderr
    assert "nobody was notified: add the connection corpus_guard_mail or corpus_guard_slack" in ran.stdout + ran.stderr


def test_a_connection_that_names_nobody_fails_nothing(env: dict[str, str]) -> None:
    smtp = json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": 9})

    ran = tell({**env, "AIRFLOW_CONN_CORPUS_GUARD_MAIL": smtp})

    assert ran.returncode == 0, ran.stderr
    assert "its extra has no recipient" in ran.stdout + ran.stderr


def test_a_connection_that_is_incomplete_does_not_silence_the_other(env: dict[str, str]) -> None:
    with webhook_sink() as hook:
        env |= {
            "AIRFLOW_CONN_CORPUS_GUARD_MAIL": json.dumps({"conn_type": "smtp", "host": "127.0.0.1", "port": 9}),
            "AIRFLOW_CONN_CORPUS_GUARD_SLACK": json.dumps(
                {"conn_type": "http", "password": f"http://127.0.0.1:{hook.port}/hook"}
            ),
        }
        ran = tell(env, run="by-hand")

    assert ran.returncode == 0, ran.stderr
    assert len(hook.messages) == 2, "one of the failure, one of the delay"
    assert "its extra has no recipient" in ran.stdout + ran.stderr
