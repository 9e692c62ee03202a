"""A collection that is large enough to have an index on disk: deleting it leaves the folder behind (chroma #7662)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from purging import purge_document

from corpus_guard.deployment import Deployment
from corpus_guard.errors import Inconsistent
from corpus_guard.models import Models
from corpus_guard.removal import chroma_files
from corpus_guard.settings import Settings
from material import Shelf, a_version, vector_of
from postgres import free_port

SECRET = "The ferryman Osric Blaylock keeps the key of the boat house under the third plank: xyzzy."


@pytest.fixture
def guard(tmp_path: Path, ledger_url: str, hashed_models: Models) -> Iterator[Deployment]:
    """Serves the secret and 2,500 other chunks, on both kinds of ledger."""
    url = f"http://127.0.0.1:{free_port()}"
    settings = Settings(home=tmp_path, ledger_url=ledger_url, chroma_url=url, collection_prefix="large")
    with Deployment(settings) as opened:
        opened.models = hashed_models
        shelf = Shelf(opened.ledger, opened.storage, opened.store)
        shelf.serve(a_version("keys.md", (SECRET,)))
        shelf.serve(
            a_version("log.md", tuple(f"Entry {number} of the log book of the pier. " for number in range(2_500)))
        )
        yield opened


def holding(folder: Path, *needles: bytes) -> list[str]:
    contents = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return sorted(path.name for path, content in contents.items() if any(needle in content for needle in needles))


@pytest.mark.slow
def test_the_index_of_a_deleted_collection_goes_and_the_rest_is_served(guard: Deployment) -> None:
    folder, needles = guard.settings.home / "chroma", (SECRET.encode(), vector_of(SECRET).astype("<f4").tobytes())
    assert holding(folder, *needles) == ["chroma.sqlite3", "data_level0.bin"]
    before = {path.name for path in folder.iterdir() if path.is_dir()}

    done = purge_document(guard, "keys.md")

    assert done["state"] == "closed"
    assert holding(folder, *needles) == []
    assert not before & {path.name for path in folder.iterdir()}
    (name,) = guard.store.names()
    assert guard.store.count(name) == 2_500
    wanted = "Entry 1234 of the log book of the pier. "
    assert guard.store.query([name], vector_of(wanted), 1)[0].record.text == wanted


def test_pieces_of_words_leave_the_full_text_table(guard: Deployment) -> None:
    """They are kept apart from the texts, three letters each, and outlive a deleted record."""
    (name,) = guard.store.names()
    (record,) = (record for record in guard.store.scan(name) if record.text == SECRET)
    guard.store.delete(name, [record.chunk_id])
    assert left_of_words(guard, b"xyz") > 0

    chroma_files.compact(guard.settings.home / "chroma")

    assert left_of_words(guard, b"xyz") == 0


def left_of_words(guard: Deployment, piece: bytes) -> int:
    """Blocks of the table that spell it."""
    with contextlib.closing(sqlite3.connect(guard.settings.home / "chroma" / "chroma.sqlite3")) as connection:
        blocks = connection.execute("SELECT block FROM embedding_fulltext_search_data")
        return sum(piece in block for (block,) in blocks)


@pytest.mark.slow
def test_an_index_that_was_left_behind_is_found(guard: Deployment) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Inconsistent, match=r"data_level0\.bin"):
        patch.setattr(chroma_files, "_is_uuid", lambda name: False)
        purge_document(guard, "keys.md")

    assert [one["state"] for one in guard.purger.resume("p2")] == ["closed"]


@pytest.mark.slow
def test_packing_leaves_what_is_nobodys_business(guard: Deployment) -> None:
    folder = guard.settings.home / "chroma"
    (folder / "notes of the operator").mkdir()

    chroma_files.compact(folder)

    assert (folder / "notes of the operator").is_dir()
    assert guard.store.count(guard.store.names()[0]) == 2_501
    with contextlib.closing(sqlite3.connect(folder / "chroma.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)
