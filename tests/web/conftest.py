from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from reviewing import Reviewing


@pytest.fixture
def reviewing(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Reviewing]:
    """A quarantine of its own."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(migrated_sqlite, home / "ledger.sqlite")
    one = Reviewing(home)
    yield one
    one.close()
