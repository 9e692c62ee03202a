"""The `guard` command in this process has the models of the workspace it is pointed at."""

from __future__ import annotations

import pytest

from corpus_guard.models import Models
from deploying import Refused, Typed


@pytest.fixture(autouse=True)
def models_of_the_workspace(workspace_models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every deployment that a command opens use the models of `deployment`, which are loaded already."""
    monkeypatch.setattr("corpus_guard.deployment.Models", lambda settings: workspace_models)


@pytest.fixture(autouse=True)
def wide_console_without_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave tables unfolded, and MLflow's runs in the home."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def refused(typed: Typed) -> Refused:
    """`guard` with arguments that it refuses: what it says, and nothing on standard output."""

    def call(*arguments: str) -> str:
        code, shown, said = typed(*arguments)
        assert (code, shown) == (2, "")
        return said

    return call
