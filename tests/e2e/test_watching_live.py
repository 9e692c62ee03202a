"""Under a scheduler: a refresh that is late, a run that failed, and a DAG that the asset starts; all of them told to a real sink."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from local_stack import Local, running, until
from small_corpus import ATTACK, write_corpus
from test_review_dags import TOKEN, connections

from sinks import Sink

pytestmark = pytest.mark.slow

SECONDS = 900  # two refreshes under one scheduler take a minute on a quiet machine


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, models: Any, mail: Sink, hook: Sink) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("watched-stack")
    write_corpus(root / "corpus")
    (root / "home").mkdir()
    (root / "home" / "models").symlink_to(models)
    deadline = {"CORPUS_GUARD_REFRESH_DEADLINE_HOURS": "0.0005"}
    with running(root, connections(mail, hook) | deadline) as one:
        yield one


def start(api: Any, dag: str, **conf: Any) -> str:
    api.patch(f"/api/v2/dags/{dag}", json={"is_paused": False}).raise_for_status()
    started = api.post(
        f"/api/v2/dags/{dag}/dagRuns", json={"logical_date": None, "conf": conf, "dag_run_id": f"by-hand-{dag}"}
    )
    return str(started.raise_for_status().json()["dag_run_id"])


def told(hook: Sink, pattern: str) -> list[str]:
    texts = [posted["text"] for _, posted in hook.messages]
    return [text for text in texts if re.search(pattern, text)]


def test_late_failed_and_waiting_are_told(local: Local, hook: Sink) -> None:
    with local.api() as api:
        api.patch("/api/v2/dags/quarantine_review", json={"is_paused": False}).raise_for_status()
        run = start(api, "corpus_refresh")
        start(api, "content_purge", reason="")

        # The scheduled run of a day is late, too.
        late = until(lambda: told(hook, "corpus_refresh is late.*by-hand"), SECONDS)
        until(lambda: api.get(f"/api/v2/dags/corpus_refresh/dagRuns/{run}").json()["state"] == "success", SECONDS)
        waiting = until(lambda: told(hook, r"\d+ to review"), SECONDS)
        failed = until(lambda: told(hook, "content_purge failed"), SECONDS)
        events = api.get("/api/v2/assets/events").raise_for_status().json()["asset_events"]

    assert re.search(r"not done 0\.0005 hours after it was queued; run by-hand-corpus_refresh", late[0])
    assert "/dags/corpus_refresh/runs/by-hand-corpus_refresh" in late[0]
    assert len(told(hook, "is late.*by-hand")) == 1, "once"
    assert len(failed) == 1
    assert "a task failed, the last one plan" in failed[0]
    extras = {event["name"]: event["extra"] for event in events if event["source_run_id"] == run}
    assert extras["corpus"]["run_id"] == extras["quarantine"]["run_id"] == f"corpus_refresh/{run}"
    assert re.match(r"Corpus Guard: \d+ to review: ", waiting[0])
    assert ATTACK not in "".join(posted["text"] for _, posted in hook.messages)
    logs = "".join(path.read_text(errors="replace") for path in (local.home / "logs").rglob("*.log"))
    assert TOKEN not in logs
