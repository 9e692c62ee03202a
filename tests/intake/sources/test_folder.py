from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.sources import Fetched, FetchFailed, Source, SourceContext, SourceItem, open_source
from corpus_guard.intake.sources.folder import FolderConfig
from corpus_guard.intake.sources.source import skipped_by


def folder(root: Path | str, max_bytes: int = 10_000, **more: object) -> Source:
    config = FolderConfig(kind="folder", name="docs", url=str(root), owner="o", trust=TrustLevel.OPEN, **more)  # type: ignore[arg-type]
    return open_source(config, SourceContext(max_bytes))


def uris(source: Source) -> list[str]:
    return [item.uri for item in source.list()]


def outcomes(source: Source) -> dict[str, Fetched | FetchFailed]:
    return {outcome.item.uri: outcome for outcome in source.fetch([*source.list()])}


def test_every_file_is_listed_once_in_order_without_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "b" / "c").mkdir(parents=True)
    for name in ("z.txt", "b/y.md", "b/c/x.html", "a.txt"):
        (tmp_path / name).write_text("text")
    source = folder(tmp_path)
    items = [*source.list()]
    assert [item.uri for item in items] == ["a.txt", "z.txt", "b/y.md", "b/c/x.html"]
    assert all(item.size == 4 and item.modified_at is not None and item.modified_at.tzinfo for item in items)
    fetched = outcomes(source)
    assert all(isinstance(one, Fetched) and one.content == b"text" for one in fetched.values())
    assert fetched["b/y.md"].media_type == "text/markdown"  # type: ignore[union-attr]


def test_hidden_files_and_folders_are_skipped(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config.txt").write_text("x")
    (tmp_path / ".secret.txt").write_text("x")
    (tmp_path / "seen.txt").write_text("x")
    assert uris(folder(tmp_path)) == ["seen.txt"]


def test_include_and_exclude_are_globs_over_the_whole_path(tmp_path: Path) -> None:
    for name in ("a.md", "x/b.md", "x/y/c.md", "x/d.txt", "drafts/e.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert uris(folder(tmp_path, include=("*.md",))) == ["a.md"]
    assert set(uris(folder(tmp_path, include=("**/*.md",)))) == {"a.md", "x/b.md", "x/y/c.md", "drafts/e.md"}
    assert uris(folder(tmp_path, include=("**/y/*.md",))) == ["x/y/c.md"]
    assert "drafts/e.md" not in uris(folder(tmp_path, exclude=("drafts/**",)))


def test_links_that_lead_out_are_not_part_of_the_source(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (root / "own.txt").write_text("own")
    (root / "link.txt").symlink_to(outside / "secret.txt")
    (root / "inside.txt").symlink_to(root / "own.txt")
    (root / "folder").symlink_to(outside)
    (root / "loop").symlink_to(root)
    assert uris(folder(root)) == ["inside.txt", "own.txt"]


def test_a_link_has_the_size_and_the_time_of_the_file_that_is_read(tmp_path: Path) -> None:
    target, link = tmp_path / "own.txt", tmp_path / "inside.txt"
    target.write_text("before")
    link.symlink_to(target)
    (before,) = (item for item in folder(tmp_path).list() if item.uri == link.name)
    os.utime(link, (1, 1), follow_symlinks=False)
    target.write_text("after the edit")
    os.utime(target, (2_000_000_000, 2_000_000_000))

    (after,) = (item for item in folder(tmp_path).list() if item.uri == link.name)

    assert before.modified_at != after.modified_at == datetime.fromtimestamp(2_000_000_000, UTC)
    assert (before.size, after.size) == (len("before"), len("after the edit"))


def test_what_is_skipped_is_counted_and_told(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    for name in (".git/a.txt", ".git/b.txt", ".env", "own.md", "notes.bak", "chart.PNG", "bell.mp3", "png"):
        (root / name).write_text("text")
    os.mkfifo(root / "pipe.md")
    (root / "out.md").symlink_to(tmp_path / "secret.txt")
    (root / "nowhere.md").symlink_to(root / "gone.md")
    (root / "again").symlink_to(root / ".git")
    source = folder(root, exclude=("*.bak",))

    for _ in range(2):  # counted anew by each listing
        assert uris(source) == ["own.md", "png"]
        assert skipped_by(source) == {
            "hidden (a name that begins with a dot)": 2,
            "links that lead out of the source": 1,
            "links to folders": 1,
            "links that lead nowhere": 1,
            "pipes, sockets and devices": 1,
            "left out by include and exclude": 1,
            "pictures, sounds, videos and fonts, by their names": 2,
        }


def test_a_file_swapped_for_a_link_after_listing_is_not_followed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (root / "a.txt").write_text("a")
    source = folder(root)
    items = [*source.list()]
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(tmp_path / "secret.txt")
    (outcome,) = source.fetch(items)
    assert isinstance(outcome, FetchFailed)
    assert outcome.code == "intake.outside"


def test_a_locator_cannot_climb_out(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "x").write_text("secret")
    (outcome,) = folder(tmp_path / "root").fetch([SourceItem("../x", 1, None, '"../x"')])
    assert isinstance(outcome, FetchFailed)


def test_a_locator_cannot_climb_out_of_an_object_store_either() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/climb/docs/a.txt", b"a")
    memory.pipe("/climb/secret.txt", b"secret")
    try:
        (outcome,) = folder("memory://climb/docs").fetch([SourceItem("x", 1, None, '"../secret.txt"')])
        assert isinstance(outcome, FetchFailed)
        assert outcome.code == "intake.outside"
    finally:
        memory.rm("/climb", recursive=True)


def test_pipes_are_neither_listed_nor_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert uris(folder(tmp_path)) == []
    (outcome,) = folder(tmp_path).fetch([SourceItem("pipe.txt", 0, None, '"pipe.txt"')])
    assert isinstance(outcome, FetchFailed)


def test_names_are_data(tmp_path: Path) -> None:
    names = ["new\nline.txt", "esc\x1b[31m.txt", "x..x..txt", "quote'\".txt", "ctrl\x01.txt"]
    for name in names:
        (tmp_path / name).write_text(name)
    fetched = outcomes(folder(tmp_path))
    assert sorted(fetched) == sorted(names)
    assert all(one.content == uri.encode() for uri, one in fetched.items())  # type: ignore[union-attr]


def test_names_that_are_no_utf8_stay_apart_and_can_be_stored(tmp_path: Path) -> None:
    for raw in (b"caf\xe9.txt", rb"caf\xe9.txt", b"caf\xe8.txt"):
        with open(os.fsencode(tmp_path) + b"/" + raw, "wb") as stream:  # noqa: PTH123 - the name is bytes
            stream.write(raw)
    fetched = outcomes(folder(tmp_path))
    assert len(fetched) == 3
    assert all(uri.encode() for uri in fetched)
    assert {one.content for one in fetched.values()} == {b"caf\xe9.txt", rb"caf\xe9.txt", b"caf\xe8.txt"}  # type: ignore[union-attr]


def test_a_huge_file_is_reported_and_the_others_come(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with (tmp_path / "huge.txt").open("wb") as stream:
        stream.truncate(100 * 2**20)
    (tmp_path / "z.txt").write_text("z")
    fetched = outcomes(folder(tmp_path))
    huge = fetched["huge.txt"]
    assert isinstance(huge, FetchFailed)
    assert (huge.code, "104,857,600" in huge.message, "10,000" in huge.message) == ("parsing.too_large", True, True)
    assert isinstance(fetched["a.txt"], Fetched)
    assert isinstance(fetched["z.txt"], Fetched)


def test_the_limit_is_exact_and_holds_for_a_file_that_grows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x" * 100)
    (tmp_path / "b.txt").write_bytes(b"x" * 101)
    fetched = outcomes(folder(tmp_path, max_bytes=100))
    assert isinstance(fetched["a.txt"], Fetched)
    assert isinstance(fetched["b.txt"], FetchFailed)


def test_a_file_that_vanished_is_one_failure(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    source = folder(tmp_path)
    items = [*source.list()]
    (tmp_path / "a.txt").unlink()
    first, second = source.fetch(items)
    assert isinstance(first, FetchFailed)
    assert first.code == "intake.gone"
    assert isinstance(second, Fetched)


def test_a_missing_folder_is_unavailable_not_empty(tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="missing"):
        uris(folder(tmp_path / "missing"))


def test_an_unknown_protocol_is_unavailable_and_its_password_is_not_told() -> None:
    with pytest.raises(SourceUnavailable) as caught:
        uris(folder("nosuch://user:hunter2@host/path"))
    assert "nosuch://host/path" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_object_stores_work_like_disks() -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.pipe("/bucket/docs/a.txt", b"a")
    memory.pipe("/bucket/docs/sub/b.md", b"b")
    try:
        fetched = outcomes(folder("memory://bucket/docs"))
        assert {uri: one.content for uri, one in fetched.items()} == {"a.txt": b"a", "sub/b.md": b"b"}  # type: ignore[union-attr]
    finally:
        memory.rm("/bucket", recursive=True)


def test_a_place_that_climbs_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.md").write_text("a")
    climbing = SourceItem("a.md", 1, None, json.dumps("below/../a.md"))

    (outcome,) = folder(tmp_path).fetch([climbing])

    assert isinstance(outcome, FetchFailed)
    assert outcome.code == "intake.outside"
