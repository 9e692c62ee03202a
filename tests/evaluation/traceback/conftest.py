from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.settings import Settings


@pytest.fixture
def settings(tmp_path: Path, models_home: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of an empty home with models, which log to a file of their own."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = tmp_path / "home"
    home.mkdir()
    (home / "models").symlink_to(models_home / "models")
    return Settings(home=home)
