"""`guard clean` as people and scripts meet it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from corpus_guard.cli.main import app
from deploying import Workspace


def typed(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["clean", *arguments], catch_exceptions=False)


@pytest.fixture
def storage(deployment: Workspace, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The storage folder of a refreshed deployment whose files are 40 days old."""
    deployment.page("tide gauge.md")
    deployment.refresh("r1")
    deployment.enter(monkeypatch)
    folder = Path(deployment.settings.storage)
    then = time.time() - 40 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (then, then))
    return folder


def test_it_shows_first_then_removes_then_finds_nothing(storage: Path) -> None:
    files = set(storage.rglob("*.json"))
    planned = typed("--dry-run")
    assert planned.exit_code == 0
    assert "To be removed" in planned.stdout
    assert "files of finished runs" in planned.stdout
    assert set(storage.rglob("*.json")) == files

    removed = json.loads(typed("--json").stdout)
    assert removed["removed"]["files of finished runs"]["files"] >= 2
    assert removed["days"] == 30
    assert not list((storage / "runs").rglob("*.json"))
    assert "No unneeded file is older than 30 days" in typed().stdout


def test_it_says_why_nothing_is_removed(storage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORPUS_GUARD_CLEAN_DAYS", "0")
    assert "Every file stays: CORPUS_GUARD_CLEAN_DAYS is 0" in typed().stdout


def test_a_changed_file_is_named_and_is_an_error(storage: Path) -> None:
    record = next(path for path in (storage / "canaries").iterdir() if not path.name.startswith("last-"))
    then = record.stat().st_mtime
    record.write_bytes(record.read_bytes() + b" ")
    os.utime(record, (then, then))

    result = typed()

    assert result.exit_code == 1
    assert f"not removed: canaries/{record.name} is not as it was logged" in result.stderr
    assert record.exists()
