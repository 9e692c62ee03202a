"""The task that ends a refresh where a source could not be listed."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from corpus_guard.airflow import refresh, run_notes
from corpus_guard.errors import SourceUnavailable
from corpus_guard.pipeline import steps
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
