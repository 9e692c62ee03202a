"""Packages that a test installs, and no others: people may have installed the examples that the documentation offers."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoints, distributions
from pathlib import Path

import pytest


def hide_other_packages(monkeypatch: pytest.MonkeyPatch, ours: Path, reader: str) -> None:
    """Let `reader`, the dotted name of an ``entry_points``, see only packages below the folder `ours`."""

    def of_this_test(*, group: str) -> EntryPoints:
        folders = [folder for folder in sys.path if Path(folder).is_relative_to(ours)]
        points = (point for package in distributions(path=folders) for point in package.entry_points)
        return EntryPoints(points).select(group=group)

    monkeypatch.setattr(reader, of_this_test)
