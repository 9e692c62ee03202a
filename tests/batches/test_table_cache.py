"""A table is decoded once while it fits, and what was read stays what is used."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from corpus_guard.batches import storage as batch_storage
from corpus_guard.batches.storage import Storage, parquet_bytes
from corpus_guard.batches.table_cache import TableCache

TABLE = pa.table({"version_id": ["a", "b", "c"], "text": ["x" * 1_000, "y", "z"]})


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the files that were decoded."""
    sizes: list[int] = []
    parse = batch_storage._parse_table

    def counted(content: bytes, columns: list[str] | None, filters: batch_storage.Filters | None) -> pa.Table:
        sizes.append(len(content))
        return parse(content, columns, filters)

    monkeypatch.setattr(batch_storage, "_parse_table", counted)
    return sizes


@pytest.fixture
def folder(tmp_path: Path) -> str:
    plain = Storage(str(tmp_path))
    plain.write_table("one/versions.parquet", TABLE)
    plain.write_table("two/versions.parquet", TABLE)
    return str(tmp_path)


def test_it_answers_as_the_storage_does_and_decodes_once(folder: str, decoded: list[int]) -> None:
    plain, cache = Storage(folder), TableCache(folder)
    questions = [
        (None, None),
        (None, [("version_id", "in", ["a", "c"])]),
        (["text"], [("version_id", "in", ["b"])]),
        (["text", "version_id"], None),
    ]
    for columns, filters in questions:
        asked = {"columns": columns, "filters": filters}
        expected = plain.read_table("one/versions.parquet", **asked)  # type: ignore[arg-type]
        assert cache.read_table("one/versions.parquet", **asked) == expected  # type: ignore[arg-type]
    assert len(decoded) == len(questions) + 1


def test_some_columns_alone_are_not_kept(folder: str, decoded: list[int]) -> None:
    cache = TableCache(folder)
    for _ in range(2):
        cache.read_table("one/versions.parquet", columns=["version_id"])
    assert len(decoded) == 2


def test_the_oldest_goes_when_there_is_no_room(folder: str, decoded: list[int]) -> None:
    cache = TableCache(folder, max_bytes=1)
    for name in ("one", "one", "two", "one"):
        cache.read_table(f"{name}/versions.parquet")
    assert len(decoded) == 3


def test_what_is_written_is_read_anew_and_what_somebody_else_wrote_is_not(folder: str) -> None:
    cache = TableCache(folder)
    cache.read_table("one/versions.parquet")
    Path(folder, "one/versions.parquet").write_bytes(b"edited")
    assert cache.read_table("one/versions.parquet") == TABLE

    cache.write("one/versions.parquet", parquet_bytes(TABLE.slice(1)))
    assert cache.read_table("one/versions.parquet") == TABLE.slice(1)
