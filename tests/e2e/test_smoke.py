"""A run through Airflow of each DAG that no other quick test of this folder runs.

What the DAGs do is tested below them, in the rooms of the library, and in whole proofs (`make test-all`). Here: that Airflow finds the
tasks, hands them what they need, and ends as it should.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path

import pytest
from deployment import MakeDeployment, Workspace

from corpus_guard.corpus.retrieval_log import LoggedChunk, LoggedRetrieval, RetrievalLog
from corpus_guard.ledger.tables import events, publications, reports, traces
from environment import PROJECT

DAY = "2026-03-02"
ELSEWHERE = {
    "corpus_refresh": "conftest.py",
    "integrity_nightly": "test_integrity_dag.py",
    "quarantine_release": "test_release_dag.py",
    "quarantine_review": "test_review_dags.py",
    "quarantine_watch": "test_review_dags.py",
}
"""DAG → the file that runs it for quick tests."""
HERE = ("content_purge", "detector_training", "feedback_import", "retrieval_watch", "traceback_nightly")


@pytest.fixture(scope="module")
def workspace(deploy: MakeDeployment, snapshot: Path) -> Workspace:
    return deploy("smoke", snapshot)


def test_every_dag_has_a_quick_run() -> None:
    assert {path.stem for path in (PROJECT / "dags").glob("*.py")} == {*ELSEWHERE, *HERE}
    for dag, file in ELSEWHERE.items():
        assert re.search(rf'"{dag}"|\.run\(\)', Path(__file__).with_name(file).read_text()), dag


def test_a_night_without_reports_traces_nothing(workspace: Workspace) -> None:
    run = workspace.run("traceback_nightly", MLFLOW_TRACKING_URI="")

    assert run.succeeded, run.log[-3000:]
    assert workspace.ask(traces.select()) == []


def test_feedback_since_a_day_becomes_reports(workspace: Workspace) -> None:
    rows = [
        {"query": "Who keeps the log?", "output": "Nobody.", "reported_at": f"{DAY}T10:00:00Z"},
        {"query": "When is low water?", "output": "Never.", "reported_at": "2026-03-01T10:00:00Z"},
    ]
    feedback = workspace.root / "feedback.jsonl"
    feedback.write_text("".join(json.dumps(row) + "\n" for row in rows))

    since = json.dumps({"since": DAY})
    run = workspace.run("feedback_import", f"{DAY}T02:00:00", "--conf", since, CORPUS_GUARD_FEEDBACK=str(feedback))

    assert run.succeeded, run.log[-3000:]
    assert {row.query for row in workspace.ask(reports.select())} == {"Who keeps the log?"}


def test_a_text_that_was_never_published_raises_an_alert(workspace: Workspace) -> None:
    with workspace.guard() as guard:
        served = LoggedRetrieval("Who?", (LoggedChunk("planted"),), at=datetime.fromisoformat(f"{DAY}T00:30:00+00:00"))
        RetrievalLog(guard.ledger, days=3_000).add([served])

    run = workspace.run("retrieval_watch", f"{DAY}T02:00:00")

    assert run.succeeded, run.log[-3000:]
    assert [row.subject for row in workspace.ask(events.select().where(events.c.kind == "retrieval_alert"))] == [
        "planted"
    ]


def test_without_questions_no_detector_is_trained(workspace: Workspace) -> None:
    run = workspace.run("detector_training", MLFLOW_TRACKING_URI="")

    assert run.succeeded, run.log[-3000:]
    assert "task_id=approve_" not in run.log, "the short circuits skip what follows"


def test_a_purge_is_planned_and_waits_for_a_person(workspace: Workspace) -> None:
    served = workspace.count(publications, publications.c.state == "published")
    selection = json.dumps({"documents": ["batteries.md"], "reason": "sold"})

    workspace.run_until_asked("approve_purge", "content_purge", "--conf", selection)

    assert workspace.count(publications, publications.c.state == "published") == served, (
        "nothing goes before somebody approves"
    )


def test_a_misspelt_parameter_fails_the_run_before_anything_is_done(workspace: Workspace) -> None:
    run = workspace.run("content_purge", "--conf", json.dumps({"documnets": ["batteries.md"], "reason": "sold"}))

    assert not run.succeeded
    assert "content_purge has no parameter 'documnets'. Did you mean documents?" in run.log
    assert "would be purged" not in run.log
