"""The example of a source of one's own: installed as pip installs it, found by its entry point, refreshed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corpus_guard.errors import SettingsError
from corpus_guard.intake.sources import load_sources
from deploying import Workspace
from environment import PROJECT
from installed_packages import hide_other_packages

MAIL = """From: Ann <ann@example.org>
Subject: {title}
Content-Type: text/plain; charset=utf-8

The {title} of the east pier is read every morning and the value goes into the log book of the harbour office.
"""


@pytest.fixture(autouse=True)
def others_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide every package that no test installed: the README tells people to install the example."""
    hide_other_packages(
        monkeypatch, tmp_path_factory.getbasetemp(), "corpus_guard.intake.sources.sources_file.entry_points"
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package and its metadata; nothing is downloaded."""
    folder = tmp_path_factory.mktemp("own")
    copy = shutil.copytree(PROJECT / "docs" / "example-source", folder / "source")
    target = folder / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(copy)], check=True, capture_output=True)
    return target


@pytest.fixture
def found(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(installed))
    yield
    sys.modules.pop("corpus_guard_maildir", None)


def declare(deployment: Workspace, **more: str) -> None:
    deployment.sources(
        {
            "kind": "maildir",
            "name": "mail",
            "path": str(deployment.root / "mail"),
            "owner": "o",
            "trust": "open",
            **more,
        }
    )


def deliver(deployment: Workspace, name: str, folder: str = "new") -> None:
    for each in ("new", "cur"):
        (deployment.root / "mail" / each).mkdir(parents=True, exist_ok=True)
    (deployment.root / "mail" / folder / name).write_text(MAIL.replace("{title}", f"gauge {name}"))


@pytest.mark.usefixtures("found")
def test_the_example_is_refreshed_and_a_mail_that_was_read_is_no_new_one(make: Callable[..., Workspace]) -> None:
    deployment = make()
    for name in ("1.host", "2.host"):
        deliver(deployment, name)
    declare(deployment)
    assert deployment.refresh("r1")["accepted"] == 2
    mail = deployment.root / "mail"
    (mail / "new" / "1.host").rename(mail / "cur" / "1.host:2,S")
    again = deployment.refresh("r2")

    assert (again["unchanged"], again["documents"]) == (2, 2)


@pytest.mark.usefixtures("found")
def test_its_declaration_is_checked_by_its_own_model(deployment: Workspace) -> None:
    declare(deployment, pth="x")
    with pytest.raises(SettingsError, match=r"sources\.1\.maildir\.pth: unknown key.*path"):
        load_sources(deployment.settings.sources_file)


def test_without_the_package_the_kind_is_unknown_and_the_group_is_named(deployment: Workspace) -> None:
    declare(deployment)
    with pytest.raises(
        SettingsError, match=r"sources\.1\.kind: 'maildir' is none of folder, git, .*corpus_guard\.sources"
    ):
        load_sources(deployment.settings.sources_file)


def test_a_package_that_breaks_is_named_and_cannot_take_a_kind_of_the_guards(
    deployment: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "site" / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[corpus_guard.sources]\nmaildir = no_such_module:X\nfolder = no_such_module:X\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    declare(deployment)
    with pytest.raises(SettingsError, match=r"no_such_module:X \(ModuleNotFoundError"):
        load_sources(deployment.settings.sources_file)
    deployment.sources()
    assert [source.name for source in load_sources(deployment.settings.sources_file)] == ["pages"]
