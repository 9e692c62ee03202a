"""Canaries of a refresh: a metric of every run that costs an unchanged one nothing, and never a document."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from corpus_guard.ledger.tables import documents, events, results, runs, versions
from corpus_guard.pipeline.status import read_status
from corpus_guard.screening import canaries
from corpus_guard.settings import PACKAGE
from deploying import Workspace

Make = Callable[..., Workspace]


BLIND = {"perplexity": {"enabled": False}}


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The seeds of the canaries that were screened."""
    seeds: list[str] = []
    planted = canaries.plant_canaries

    def plant(pack: Any, settings: Any, chunker: Any, seed: str) -> Any:
        seeds.append(seed)
        return planted(pack, settings, chunker, seed)

    monkeypatch.setattr(canaries, "plant_canaries", plant)
    return seeds


def test_every_run_that_screens_tells_how_the_canaries_fared(make: Make) -> None:
    deployment = make(policy_file=PACKAGE / "policy.yaml")
    deployment.page("a.md")

    sealed = deployment.refresh("r1")

    found = sealed["canaries"]
    assert found is not None
    assert (found["run_id"], found["missed"], found["false_alarms"]) == ("r1", [], [])
    assert found["caught"] == found["planted"] > 0
    assert found["seen_by"]["override"] == ["instructions.override", "instructions.speech_act"]
    (row,) = deployment.read(sa.select(runs.c.counts))
    assert row.counts["canaries"] == found
    with deployment.guard() as guard:
        assert read_status(guard.ledger, guard.storage, guard.screening, guard.settings)["canaries"] == found


def test_canaries_are_no_documents(deployment: Workspace) -> None:
    deployment.page("a.md")

    sealed = deployment.refresh("r1")

    assert (sealed["documents"], sealed["accepted"], sealed["served"]) == (1, 1, 1)
    assert [row.uri for row in deployment.read(sa.select(documents.c.uri))] == ["a.md"]
    assert len(deployment.read(sa.select(versions))) == 1
    assert deployment.read(sa.select(results)) == []
    kept = b"".join(path.read_bytes() for path in Path(deployment.settings.storage).rglob("*.json"))
    with deployment.guard() as guard:
        texts = [
            version.text
            for version in canaries.plant_canaries(canaries.load_canaries(), guard.settings, guard.chunker, "r1")
        ]
    assert not any(text.encode()[:60] in kept for text in texts)


def test_a_missed_canary_is_a_warning_an_event_and_in_the_status(
    deployment: Workspace, caplog: pytest.LogCaptureFixture
) -> None:
    deployment.page("a.md")
    blind = deployment.under(checks=BLIND)

    with caplog.at_level(logging.WARNING):
        sealed = blind.refresh("r1")

    assert sealed["canaries"] is not None
    assert sealed["canaries"]["missed"] == ["gibberish"]
    assert "canary gibberish was accepted: the current policy misses attacks of this kind" in caplog.text
    (event,) = deployment.read(sa.select(events).where(events.c.kind == "canary_missed"))
    assert (event.subject, event.run_id) == ("gibberish", "r1")
    with blind.guard() as guard:
        assert read_status(guard.ledger, guard.storage, guard.screening, guard.settings)["canaries"]["missed"] == [
            "gibberish"
        ]


def test_a_run_that_screened_nothing_screens_no_canary(
    deployment: Workspace, examined: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    deployment.page("a.md")
    blind = deployment.under(checks=BLIND)
    blind.refresh("r1")
    caplog.clear()

    again = blind.refresh("r2")

    assert examined == ["r1"]
    assert again["canaries"] is not None
    assert (again["canaries"]["run_id"], again["canaries"]["missed"]) == ("r1", ["gibberish"])
    assert "canary" not in caplog.text


def test_another_policy_is_tried_on_the_canaries_though_no_document_changed(make: Make, examined: list[str]) -> None:
    deployment = make(policy_file=PACKAGE / "policy.yaml")
    deployment.page("a.md")
    deployment.refresh("r1")

    sealed = deployment.under(checks=BLIND).refresh("r2")

    assert examined == ["r1", "r2"]
    assert sealed["canaries"] is not None
    assert sealed["canaries"]["missed"] == ["gibberish"]
    assert deployment.refresh("r3")["canaries"]["missed"] == []  # type: ignore[index]
    assert examined == ["r1", "r2"]


def test_each_run_that_screens_has_canaries_of_its_own(deployment: Workspace, examined: list[str]) -> None:
    for number in range(2):
        deployment.page(f"{number}.md")
        deployment.refresh(f"r{number}")

    assert examined == ["r0", "r1"]


def test_the_same_run_again_finds_its_own(deployment: Workspace, examined: list[str]) -> None:
    deployment.page("a.md")
    first = deployment.refresh("r1")["canaries"]

    assert deployment.refresh("r1")["canaries"] == first
    assert examined == ["r1"]


def test_nothing_to_screen_means_no_canaries(make: Make, examined: list[str]) -> None:
    assert make().refresh("r1")["canaries"] is None
    assert examined == []


def test_what_is_told_holds_no_text(deployment: Workspace) -> None:
    deployment.page("a.md")

    told = json.dumps(deployment.refresh("r1")["canaries"])

    assert "gnore" not in told
    assert "password" not in told
