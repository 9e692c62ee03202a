"""Anchors at real folders and real repositories: a head stays as it was written."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import pytest

from corpus_guard.errors import SettingsError
from corpus_guard.proof.log.anchors import AnchorConflict, AnchorUnavailable, anchor, newest_anchor

NOTE = "harbour.example\n7\nroot\n\n— harbour.example c2ln\n"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "anchor.git"
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare", ".")
    return folder


@pytest.fixture(params=["path", "file", "memory", "git", "git+file"])
def url(request: pytest.FixtureRequest, tmp_path: Path, repository: Path) -> str:
    fsspec.filesystem("memory").store.clear()
    return {
        "path": str(tmp_path / "anchor"),
        "file": (tmp_path / "anchor").as_uri(),
        "memory": "memory://anchor",
        "git": f"git+{repository}",
        "git+file": f"git+{repository.as_uri()}",
    }[request.param]


def test_the_newest_head_is_that_of_the_largest_size(url: str) -> None:
    assert newest_anchor(url) is None
    for size in (7, 100, 20):
        anchor(url, NOTE.replace("7", str(size)), size)

    assert newest_anchor(url) == NOTE.replace("7", "100")


def test_the_same_head_again_is_no_error(url: str) -> None:
    anchor(url, NOTE, 7)
    anchor(url, NOTE, 7)

    assert newest_anchor(url) == NOTE


def test_another_head_of_one_size_raises_and_overwrites_nothing(url: str) -> None:
    anchor(url, NOTE, 7)

    with pytest.raises(AnchorConflict, match="two histories"):
        anchor(url, NOTE.replace("root", "fork"), 7)
    assert newest_anchor(url) == NOTE


def test_names_sort_as_sizes_do(tmp_path: Path) -> None:
    anchor(str(tmp_path), NOTE, 7)

    assert [file.name for file in (tmp_path / "heads").iterdir()] == ["00000000000000000007.note"]


def test_other_files_are_no_heads(tmp_path: Path) -> None:
    anchor(str(tmp_path), NOTE, 7)
    for name in ("99999999999999999999.txt", "x.note", "zz", "9.note"):
        (tmp_path / "heads" / name).write_text("no head")

    assert newest_anchor(str(tmp_path)) == NOTE


def test_a_repository_keeps_its_history_and_its_other_files(repository: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    git(work, "clone", "--quiet", str(repository), ".")
    (work / "README").write_text("Heads of the harbour's corpus.\n")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "-m", "Begin")
    git(work, "push", "--quiet", "origin", "HEAD")
    anchor(f"git+{repository}", NOTE, 7)
    anchor(f"git+{repository}", NOTE.replace("7", "8"), 8)
    git(work, "pull", "--quiet")

    assert git(work, "log", "--format=%s").splitlines() == ["Head of size 8", "Head of size 7", "Begin"]
    assert (work / "README").exists()
    assert (work / "heads" / "00000000000000000007.note").read_text() == NOTE


def test_heads_pushed_at_the_same_time_all_arrive(repository: Path, tmp_path: Path) -> None:
    anchor(f"git+{repository}", NOTE, 7)
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda size: anchor(f"git+{repository}", NOTE.replace("7", str(size)), size), (8, 9, 10)))

    git(tmp_path, "clone", "--quiet", str(repository), "clone")
    assert len(list((tmp_path / "clone" / "heads").iterdir())) == 4


def test_nothing_is_forced(repository: Path) -> None:
    """A repository that refuses is left as it is."""
    anchor(f"git+{repository}", NOTE, 7)
    before = git(repository, "rev-parse", "HEAD")
    hook = repository / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)

    with pytest.raises(AnchorUnavailable):
        anchor(f"git+{repository}", NOTE.replace("7", "8"), 8)
    assert git(repository, "rev-parse", "HEAD") == before


def test_a_link_in_a_repository_leads_nowhere(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("of this machine")
    work = tmp_path / "work"
    work.mkdir()
    git(work, "clone", "--quiet", str(repository), "clone")
    (work / "clone" / "heads").mkdir()
    (work / "clone" / "heads" / "00000000000000000007.note").symlink_to(tmp_path / "secret")
    git(work / "clone", "add", ".")
    git(work / "clone", "commit", "--quiet", "-m", "Link")
    git(work / "clone", "push", "--quiet", "origin", "HEAD")

    assert newest_anchor(f"git+{repository}") == str(tmp_path / "secret")
    with pytest.raises(AnchorConflict):
        anchor(f"git+{repository}", NOTE, 7)


def test_inside_a_hook_of_another_repository_it_works_on_the_anchor(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet", ".")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))

    anchor(f"git+{repository}", NOTE, 7)

    assert newest_anchor(f"git+{repository}") == NOTE
    assert not (other / ".git" / "index").exists()


@pytest.mark.parametrize("place", ["git+/nowhere/at/all.git", "git+file:///nowhere.git", "/proc/no/such/folder"])
def test_a_place_that_is_not_there_is_told(place: str) -> None:
    with pytest.raises(AnchorUnavailable, match="then run again"):
        anchor(place, NOTE, 7)


@pytest.mark.parametrize("place", ["git+/nowhere/at/all.git", "git+file:///nowhere.git"])
def test_an_unreachable_repository_is_not_an_empty_one(place: str) -> None:
    with pytest.raises(AnchorUnavailable):
        newest_anchor(place)


def test_a_url_is_never_a_command(tmp_path: Path) -> None:
    bait = tmp_path / "ran"

    for place in (f"git+ext::touch {bait}", f"git+--upload-pack=touch {bait}"):
        with pytest.raises(AnchorUnavailable):
            anchor(place, NOTE, 7)
    assert not bait.exists()
    with pytest.raises(SettingsError, match="fsspec"):
        anchor("nosuchkind://x", NOTE, 7)


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(AnchorUnavailable) as caught:
        anchor("git+file://user:hunter2@localhost/nowhere.git", NOTE, 7)
    assert "hunter2" not in str(caught.value)
