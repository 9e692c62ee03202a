"""Sealed corpora to tamper with, over a Chroma whose files a test may edit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus_guard.corpus.server import running_server
from corpus_guard.settings import Settings
from tampering import Corpus

NOBODY = "http://127.0.0.1:1"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def chroma_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the store."""
    return tmp_path_factory.mktemp("chroma")


@pytest.fixture(scope="module")
def server(chroma_home: Path) -> Iterator[str]:
    """Yield the address of the store."""
    with running_server(Settings(home=chroma_home, chroma_url=NOBODY)) as url:
        yield url


@pytest.fixture
def corpus(tmp_path: Path, migrated_sqlite: Path, chroma_home: Path, server: str) -> Iterator[Corpus]:
    """Yield a corpus with collections of its own in the store of the module."""
    made = Corpus.sealed(tmp_path / "home", migrated_sqlite, chroma_home, server, f"corpus{next(_numbers)}")
    yield made
    made.shelf.ledger.close()


@pytest.fixture
def own(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Corpus]:
    """Yield a corpus with a server of its own, which is stopped."""
    home = tmp_path / "own"
    with running_server(Settings(home=home, chroma_url=NOBODY)) as url:
        made = Corpus.sealed(home, migrated_sqlite, home, url, "own")
    made.settings = made.settings.model_copy(update={"chroma_url": NOBODY})
    yield made
    made.shelf.ledger.close()


@pytest.fixture
def copy(original: Corpus, tmp_path: Path) -> Iterator[Corpus]:
    """Yield a copy of the files of `original`, which each module makes itself."""
    made = original.copied(tmp_path / "home")
    yield made
    made.shelf.ledger.close()
