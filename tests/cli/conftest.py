"""The `guard` command in this process has the models of the workspace it is pointed at."""

from __future__ import annotations

import pytest

from corpus_guard.models import Models


@pytest.fixture(autouse=True)
def models_of_the_workspace(workspace_models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every deployment that a command opens use the models of `deployment`, which are loaded already."""
    monkeypatch.setattr("corpus_guard.deployment.Models", lambda settings: workspace_models)
