"""A deployment at a glance, from the ledger alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from corpus_guard.errors import SourceUnavailable
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.runs import at_work, begin_run
from corpus_guard.models import Models
from corpus_guard.pipeline import steps
from corpus_guard.pipeline.status import RUNS_SHOWN, read_sources, read_status
from corpus_guard.proof import sealing
from corpus_guard.proof.sealing import Seal
from corpus_guard.settings import Settings
from deploying import BAD, TICKETS, Workspace, deploy, prepared_models


@pytest.fixture
def make(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Workspace]:
    home = prepared_models(request.config.cache)
    return lambda url: deploy(tmp_path / "d", chroma_url=url, models_home=home, models=Models(Settings(home=home)))


def test_nothing_yet(make: Callable[[str], Workspace]) -> None:
    with make("http://127.0.0.1:1").guard() as guard:
        report = read_status(guard.ledger, guard.storage, guard.screening, guard.settings)

    assert (report["sources"], report["runs"], report["manifest"], report["manifest_sha256"]) == ([], [], None, None)
    assert report["policy"].startswith("default, digest ")


def test_what_is_served_waits_and_was_rejected(make: Callable[[str], Workspace], chroma_url: str) -> None:
    deployment = make(chroma_url)
    for name in ("a", "b"):
        deployment.page(f"{name}.md")
    deployment.page("bad.md", BAD)
    (deployment.pages / "empty.md").touch()
    deployment.rows({"id": "t", "text": "The pump of boat seven was repaired on Monday, and nothing leaks any more."})
    deployment.sources(TICKETS)
    sealed = deployment.refresh("r1")
    deployment.page("a.md", BAD + "Changed.")
    last = deployment.refresh("r2")

    offline = Workspace(deployment.root, deployment.settings.model_copy(update={"chroma_url": "http://192.0.2.1:9"}))
    with offline.guard() as guard:
        report = read_status(guard.ledger, guard.storage, guard.screening, guard.settings)
        assert not guard.store.is_open
        assert not {"embedder", "language_model", "language_model_weights"} & set(vars(guard.models))
        assert Path(report["manifest"]).read_bytes().count(b"\n") == last["served"]

    assert report["sources"] == [
        {"source": "pages", "trust": "open", "documents": 4, "served": 2, "waiting": 2, "rejected": 1, "chunks": 2},
        {
            "source": "tickets",
            "trust": "reviewed",
            "documents": 1,
            "served": 1,
            "waiting": 0,
            "rejected": 0,
            "chunks": 1,
        },
    ]
    assert [(run["run_id"], run["kind"], run["state"]) for run in report["runs"]] == [
        ("r2", "refresh", "sealed"), ("r1", "refresh", "sealed"),
    ]  # fmt: skip
    assert report["runs"][1]["counts"]["accepted"] == sealed["accepted"] == 3
    assert report["manifest_sha256"] == last["manifest_sha256"]
    assert json.loads(json.dumps(report)) == report


def test_only_the_last_runs_are_told(make: Callable[[str], Workspace]) -> None:
    deployment = make("http://127.0.0.1:1")
    for number in range(RUNS_SHOWN + 2):
        deployment.refresh(f"r{number}")

    with deployment.guard() as guard:
        assert [
            run["run_id"] for run in read_status(guard.ledger, guard.storage, guard.screening, guard.settings)["runs"]
        ] == [f"r{number}" for number in range(RUNS_SHOWN + 1, 1, -1)]


def test_a_run_that_was_killed_is_told_from_one_at_work(make: Callable[[str], Workspace]) -> None:
    deployment = make("http://127.0.0.1:1")

    def status() -> dict[str, Any]:
        return read_status(guard.ledger, guard.storage, guard.screening, guard.settings)

    def states() -> list[str]:
        return [run["state"] for run in status()["runs"]]

    def last_run() -> str:
        return str(read_sources(guard.ledger, guard.settings)[0]["last_run_state"])

    with deployment.guard() as guard:
        with at_work(guard.ledger, "killed"):
            begin_run(guard.ledger, "killed", "refresh", "", ["pages"])
            assert states() == ["running"]
            assert last_run() == "running"
        assert states() == ["interrupted"]
        assert last_run() == "interrupted"
        assert status()["interrupted"] == ["killed"]
        guard.refresh("r1")
        assert states() == ["sealed", "interrupted"]
        assert status()["interrupted"] == []


@pytest.mark.parametrize("work", ["refresh", "rescreen", "apply_decisions", "restore"])
def test_a_run_is_at_work_from_its_beginning_to_its_end(
    make: Callable[[str], Workspace], chroma_url: str, monkeypatch: pytest.MonkeyPatch, work: str
) -> None:
    seen: list[str] = []

    def look(ledger: Ledger, *arguments: object) -> Seal:
        seen.extend(run["state"] for run in read_status(ledger, guard.storage, guard.screening, guard.settings)["runs"])
        raise SourceUnavailable("enough was seen")

    deployment = make(chroma_url)
    with deployment.guard() as guard:
        monkeypatch.setattr(steps if work == "refresh" else sealing, "write_manifest", look)
        with suppress(SourceUnavailable):
            getattr(guard, work)("r1")
        after = read_status(guard.ledger, guard.storage, guard.screening, guard.settings)["runs"]
    assert (seen, after[0]["state"]) == (["running"], "interrupted")


def test_a_source_that_is_no_longer_declared_is_named_with_what_it_serves(
    make: Callable[[str], Workspace], chroma_url: str
) -> None:
    deployment = make(chroma_url)
    deployment.page("good.md")
    deployment.refresh("r1")
    deployment.settings.sources_file.write_text("sources: []")

    with deployment.guard() as guard:
        parts = (guard.ledger, guard.storage, guard.screening, guard.settings)
        assert read_status(*parts)["undeclared"] == {"pages": 1}
        deployment.settings.sources_file.unlink()
        report = read_status(*parts)
        assert report["undeclared"] == {}
        assert "no such file" in report["sources_problem"]


def test_a_password_of_the_ledger_is_not_shown(make: Callable[[str], Workspace], postgresql: object) -> None:
    deployment = make("http://127.0.0.1:1")
    url = postgresql.url()  # type: ignore[attr-defined]
    password = url.split("@")[0].rpartition(":")[2]
    secret = Workspace(deployment.root, deployment.settings.model_copy(update={"ledger_url": url}), deployment.models)

    with secret.guard() as guard:
        assert password not in json.dumps(read_status(guard.ledger, guard.storage, guard.screening, guard.settings))
