"""Under a scheduler: a refresh that is late, a run that failed, and a DAG that the asset starts; all of them told to a real sink."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from local_stack import Local, running, trigger, until, wait_until_ended
from small_corpus import ATTACK, write_corpus
from test_review_dags import TOKEN, connections

from sinks import Sink

pytestmark = pytest.mark.slow

SECONDS = 900  # a refresh takes half a minute on a quiet machine
DAGS = "/api/v2/dags"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, models: Any, mail: Sink, hook: Sink) -> Iterator[Local]:
    root = tmp_path_factory.mktemp("watched-stack")
    write_corpus(root / "corpus")
    (root / "home").mkdir()
    (root / "home" / "models").symlink_to(models)
    one_shard = {"CORPUS_GUARD_SHARD_DOCUMENTS": "1000"}  # each task of a shard loads the models anew
    deadline = {"CORPUS_GUARD_REFRESH_DEADLINE_HOURS": "0.0005"}
    with running(root, connections(mail, hook) | one_shard | deadline) as one:
        yield one


def told(hook: Sink, pattern: str) -> list[str]:
    texts = [posted["text"] for _, posted in hook.messages]
    return [text for text in texts if re.search(pattern, text)]


def test_late_failed_and_waiting_are_told(local: Local, hook: Sink) -> None:
    with local.api() as api:
        for dag in ("quarantine_review", "corpus_refresh"):  # the second begins with its last scheduled run
            api.patch(f"{DAGS}/{dag}", json={"is_paused": False}).raise_for_status()
        trigger(api, f"{DAGS}/content_purge", reason="")

        late = until(lambda: told(hook, "corpus_refresh is late"), SECONDS)
        (run,) = (one["dag_run_id"] for one in api.get(f"{DAGS}/corpus_refresh/dagRuns").json()["dag_runs"])
        assert wait_until_ended(api, f"{DAGS}/corpus_refresh", run, SECONDS)["state"] == "success"
        waiting = until(lambda: told(hook, r"\d+ to review"), SECONDS)
        failed = until(lambda: told(hook, "content_purge failed"), SECONDS)
        events = api.get("/api/v2/assets/events").raise_for_status().json()["asset_events"]

    assert f"not done 0.0005 hours after it was queued; run {run}" in late[0]
    assert f"/dags/corpus_refresh/runs/{quote(run, safe='')}" in late[0]
    assert len(told(hook, "is late")) == 1, "once"
    assert len(failed) == 1
    assert "a task failed, the last one plan" in failed[0]
    extras = {event["name"]: event["extra"] for event in events if event["source_run_id"] == run}
    assert extras["corpus"]["run_id"] == extras["quarantine"]["run_id"] == f"corpus_refresh/{run}"
    assert re.match(r"Corpus Guard: \d+ to review: ", waiting[0])
    assert ATTACK not in "".join(posted["text"] for _, posted in hook.messages)
    logs = "".join(path.read_text(errors="replace") for path in (local.home / "logs").rglob("*.log"))
    assert TOKEN not in logs
