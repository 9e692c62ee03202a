"""The deployment that requests share is opened again when what decides on documents changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.cli.expectations import TEMPLATE
from corpus_guard.deployment import Deployment
from corpus_guard.errors import SettingsError
from corpus_guard.settings import Settings
from corpus_guard.web.shared_deployment import SharedDeployment


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own" / "expectations"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def opened() -> list[Deployment]:
    return []


@pytest.fixture
def shared(tmp_path: Path, own: Path, opened: list[Deployment]) -> SharedDeployment:
    def open_deployment() -> Deployment:
        opened.append(Deployment(Settings(home=tmp_path / "home", extensions_folder=own.parent)))
        return opened[-1]

    return SharedDeployment(open_deployment)


def test_a_suite_of_ones_own_that_changes_is_read_again(shared: SharedDeployment, own: Path) -> None:
    first = shared.get()
    assert shared.get() is first

    (own / "short.yaml").write_text(TEMPLATE.format(name="short"))

    assert shared.get().screening.digest != first.screening.digest


def test_a_deployment_that_cannot_be_used_is_closed(
    shared: SharedDeployment, own: Path, opened: list[Deployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Deployment] = []
    monkeypatch.setattr(Deployment, "__exit__", lambda self, *_: closed.append(self))
    (own / "short.yaml").write_text("nonsense: [")

    with pytest.raises(SettingsError):
        shared.get()

    assert closed == opened
    assert len(opened) == 1
