from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Inconsistent, Misuse
from corpus_guard.intake.blobs import BlobStore


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_bytes_come_back_by_their_hash(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    for content in (b"", b"hello", bytes(range(256)) * 1_000):
        sha = store.put(content)
        assert sha == sha256_bytes(content)
        assert store.get(sha) == content
        assert store.path(sha) == f"{tmp_path}/sha256/{sha[:2]}/{sha}"


def test_putting_again_writes_nothing(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    path = Path(store.path(store.put(b"hello")))
    before = path.stat()
    store.put(b"hello")
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("damaged", [b"hel", b"hellp"], ids=["truncated", "flipped"])
def test_a_damaged_blob_is_noticed_and_written_anew(tmp_path: Path, damaged: bytes) -> None:
    store = BlobStore(str(tmp_path))
    sha = store.put(b"hello")
    Path(store.path(sha)).write_bytes(damaged)
    assert store.actual_sha256(sha) == sha256_bytes(damaged)
    store.put(b"hello")
    assert store.get(sha) == b"hello"
    assert store.actual_sha256("0" * 64) is None


def test_a_writer_that_dies_leaves_nothing_under_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = BlobStore(str(tmp_path))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        store.put(b"hello")
    assert files(tmp_path) == []


def test_a_changed_or_missing_blob_is_noticed(tmp_path: Path) -> None:
    store = BlobStore(str(tmp_path))
    sha = store.put(b"hello")
    Path(store.path(sha)).write_bytes(b"hallo")
    with pytest.raises(Inconsistent, match=sha):
        store.get(sha)
    Path(store.path(sha)).unlink()
    with pytest.raises(Inconsistent, match="missing"):
        store.get(sha)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "a" * 63, "a" * 64 + "\n", "sha256:" + "a" * 57])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misuse):
        BlobStore(str(tmp_path)).get(name)


def test_object_stores_hold_blobs_too() -> None:
    store = BlobStore("memory://blobs-test")
    try:
        sha = store.put(b"hello")
        assert store.put(b"hello") == sha
        assert store.get(sha) == b"hello"
        assert len(fsspec.filesystem("memory").find("/blobs-test")) == 1
    finally:
        fsspec.filesystem("memory").rm("/blobs-test", recursive=True)
