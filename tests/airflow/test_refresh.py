"""Tasks of a refresh: the one that ends it where a source could not be listed, and the time between two tasks."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from corpus_guard.airflow import refresh, run_notes
from corpus_guard.deployment import Deployment
from corpus_guard.errors import SourceUnavailable
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import runs
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.status import read_status
from deploying import Workspace


def test_the_note_names_the_source_and_the_task_is_not_tried_again(
    deployment: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    deployment.page("a.md")
    deployment.sources({"name": "tickets", "kind": "folder", "url": "nowhere", "owner": "o", "trust": "open"})
    with pytest.raises(SourceUnavailable) as unavailable:
        deployment.refresh("r1")

    def seal(*_: object) -> None:
        raise unavailable.value

    monkeypatch.setattr(steps, "seal", seal)
    monkeypatch.setattr(refresh, "_open", deployment.guard)
    monkeypatch.setattr(refresh, "current_run_id", lambda: "r1")
    monkeypatch.setattr(run_notes, "write_note", notes.append)
    with pytest.raises(AirflowFailException, match="nowhere"):
        refresh.seal_refresh([], [])

    assert notes == ["could not be listed: tickets; the others: 1 accepted, 1 published, 1 served"]


def test_between_two_tasks_the_run_is_running(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment.page("a.md")
    monkeypatch.setattr(refresh, "_open", deployment.guard)
    monkeypatch.setattr(refresh, "current_run_id", lambda: "corpus_refresh/r1")

    refresh.discover_sources([])

    with deployment.guard() as guard:
        assert [run["state"] for run in _status(guard)["runs"]] == ["running"]
        guard.ledger.execute(runs.update().values(awaited_until=now()))
        assert _status(guard)["interrupted"] == ["corpus_refresh/r1"]


def _status(guard: Deployment) -> dict[str, Any]:
    return read_status(guard.ledger, guard.storage, guard.screening, guard.settings)
