"""The ledger's contract holds on both kinds of database, in every run of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from corpus_guard.ledger import Ledger


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest) -> Ledger:
    """Return a ledger of its own, of either kind."""
    opened: Ledger = request.getfixturevalue(f"{request.param}_ledger")
    return opened


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    url: str = request.getfixturevalue("empty_postgresql")
    return url
