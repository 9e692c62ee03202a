"""Real repositories, made by git, ordinary and hostile."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.sources import Connection, Fetched, FetchFailed, Outcome, SourceContext
from corpus_guard.intake.sources.git import GitConfig, GitSource
from corpus_guard.intake.sources.source import skipped_by

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "t"), ("EMAIL", "t@t"))
    },
}


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=ENV, input=stdin, capture_output=True, check=True)
    return done.stdout.decode(errors="replace").strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "docs" / "deep").mkdir(parents=True)
    (folder / "docs" / "a.md").write_text("# A\n")
    (folder / "docs" / "deep" / "b.md").write_text("# B\n")
    (folder / "docs" / "c.txt").write_text("c")
    (folder / "README.md").write_text("read me")
    git(folder, "init", "-q", "-b", "main")
    return commit(folder)


def commit(folder: Path) -> Path:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


def source(repository: Path | str, cache: Path, max_bytes: int = 100_000, **more: Any) -> GitSource:
    url = repository if isinstance(repository, str) else repository.as_uri()
    config = GitConfig(
        kind="git", name="runbooks", owner="o", trust=TrustLevel.OPEN, url=url, **{"ref": "main", **more}
    )
    return GitSource(config, SourceContext(max_bytes, cache=cache / "cache"))


def outcomes(source: GitSource) -> dict[str, Outcome]:
    return {one.item.uri: one for one in source.fetch([*source.list()])}


def test_every_file_of_the_commit_is_a_document_with_the_commit_as_its_revision(
    repository: Path, tmp_path: Path
) -> None:
    found = outcomes(source(repository, tmp_path, folder="docs", include=("**/*.md",)))

    assert {uri: one.content for uri, one in found.items()} == {"docs/a.md": b"# A\n", "docs/deep/b.md": b"# B\n"}  # type: ignore[union-attr]
    one = found["docs/a.md"]
    assert isinstance(one, Fetched)
    assert one.revision == git(repository, "rev-parse", "HEAD")
    assert one.validator == one.item.validator == git(repository, "rev-parse", "HEAD:docs/a.md")


def test_pictures_are_no_documents_and_are_counted(repository: Path, tmp_path: Path) -> None:
    (repository / "docs" / "plan.jpg").write_bytes(b"\xff\xd8\xff")
    listed = source(commit(repository), tmp_path, folder="docs", exclude=("*.txt",))

    assert [item.uri for item in listed.list()] == ["docs/a.md", "docs/deep/b.md"]
    assert skipped_by(listed) == {
        "left out by include and exclude": 1,
        "pictures, sounds, videos and fonts, by their names": 1,
    }


def test_a_new_commit_changes_the_validators_of_what_it_changed_alone(repository: Path, tmp_path: Path) -> None:
    before = {item.uri: item.validator for item in source(repository, tmp_path).list()}
    (repository / "docs" / "a.md").write_text("# A, changed\n")
    commit(repository)

    after = {item.uri: item.validator for item in source(repository, tmp_path).list()}

    assert [uri for uri in after if after[uri] != before[uri]] == ["docs/a.md"]


def test_tags_and_commits_are_found(repository: Path, tmp_path: Path) -> None:
    git(repository, "tag", "-a", "v1", "-m", "one")
    first = git(repository, "rev-parse", "HEAD")
    (repository / "docs" / "a.md").write_text("later")
    commit(repository)
    git(repository, "config", "uploadpack.allowAnySHA1InWant", "true")
    for ref in ("v1", first):
        one = outcomes(source(repository, tmp_path / ref, ref=ref))["docs/a.md"]
        assert isinstance(one, Fetched)
        assert (one.content, one.revision) == (b"# A\n", first)


def test_a_listed_commit_is_fetched_although_the_branch_moved_and_the_cache_is_lost(
    repository: Path, tmp_path: Path
) -> None:
    items = [*source(repository, tmp_path).list()]
    (repository / "docs" / "a.md").write_text("later")
    commit(repository)
    shutil.rmtree(tmp_path / "cache")

    found = {one.item.uri: one for one in source(repository, tmp_path).fetch(items)}

    assert found["docs/a.md"].content == b"# A\n"  # type: ignore[union-attr]


def test_links_submodules_pointers_and_odd_paths(repository: Path, tmp_path: Path) -> None:
    (repository / "link.md").symlink_to("/etc/passwd")
    (repository / "lfs.md").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    (repository / "large.md").write_text("x" * 200_000)
    commit(repository)
    blob = git(repository, "rev-parse", "HEAD:README.md")
    sub = f"160000 commit {git(repository, 'rev-parse', 'HEAD')}\tsubmodule\0"
    evil = "".join(f"100644 blob {blob}\t{name}\0" for name in ("evil.md", "new\nline.md", "{{ x }}.md"))
    inner = git(repository, "mktree", "-z", stdin=evil.encode())
    base = git(repository, "ls-tree", "-z", "HEAD")
    # mktree takes names that no checkout would: the tree is written as a hostile server would send it.
    tree = git(repository, "mktree", "-z", "--missing", stdin=(base + sub + f"040000 tree {inner}\t..\0").encode())
    made = git(repository, "commit-tree", tree, "-m", "evil")
    git(repository, "update-ref", "refs/heads/main", made)

    found = outcomes(source(repository, tmp_path))

    codes = {uri: one.code for uri, one in found.items() if isinstance(one, FetchFailed)}
    assert codes == {
        "lfs.md": "intake.lfs_pointer",
        "large.md": "parsing.too_large",
        "../evil.md": "intake.outside",
        "../new\nline.md": "intake.outside",
        "../{{ x }}.md": "intake.outside",
    }
    assert "link.md" not in found and "submodule" not in found
    assert isinstance(found["README.md"], Fetched)


def test_a_tree_that_multiplies_is_not_walked_to_its_end(repository: Path, tmp_path: Path) -> None:
    """A bomb: ten trees, each ten times in the next, are 10^10 files in 2 kB."""
    blob = git(repository, "rev-parse", "HEAD:README.md")
    tree = git(repository, "mktree", stdin="".join(f"100644 blob {blob}\tf{n}\n" for n in range(10)).encode())
    for _ in range(9):
        tree = git(repository, "mktree", stdin="".join(f"040000 tree {tree}\td{n}\n" for n in range(10)).encode())
    git(repository, "update-ref", "refs/heads/main", git(repository, "commit-tree", tree, "-m", "bomb"))
    with pytest.raises(SourceUnavailable, match="more than 5,000 files"):
        [*source(repository, tmp_path, max_files=5_000).list()]


def test_nothing_of_the_repository_or_its_surroundings_runs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "core.sshCommand", "uploadpack.packObjectsHook", "core.askPass", "credential.helper"):
        git(repository, "config", key, str(script))
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("post-checkout", "pre-receive", "reference-transaction", "post-update"):
        shutil.copy(script, hooks / hook)
    mine = tmp_path / "home"
    mine.mkdir()
    (mine / ".gitconfig").write_text(f"[core]\n fsmonitor = {script}\n[uploadpack]\n packObjectsHook = {script}\n")
    monkeypatch.setenv("HOME", str(mine))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(script))
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))

    assert isinstance(outcomes(source(repository, tmp_path))["README.md"], Fetched)
    assert not ran.exists()


@pytest.mark.parametrize(
    "said",
    [
        {"url": "ext::sh -c touch% /tmp/ran"},
        {"url": "--upload-pack=touch /tmp/ran"},
        {"url": "ssh://-oProxyCommand=x/y"},
        {"url": "https://me:token@git.example/x"},
        {"url": "http://git.example/x"},
        {"url": "/x", "ref": "--output=/tmp/ran"},
        {"url": "/x", "ref": "main..other"},
        {"url": "/x", "folder": "../up"},
    ],
)
def test_what_git_would_take_for_something_else_is_refused(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|http://") as caught:
        GitConfig(kind="git", name="runbooks", owner="o", trust=TrustLevel.OPEN, **said)
    assert "use https" in str(caught.value) or "expected" in str(caught.value)


def test_a_repository_that_is_not_there_or_has_no_such_branch_is_named(repository: Path, tmp_path: Path) -> None:
    wrong = ({"ref": "absent"}, {"folder": "no/such"})
    for made in (source(tmp_path / "nowhere", tmp_path), *(source(repository, tmp_path, **one) for one in wrong)):
        with pytest.raises(SourceUnavailable, match="source runbooks"):
            [*made.list()]


def test_a_clone_above_its_limit_is_refused(repository: Path, tmp_path: Path) -> None:
    (repository / "noise.bin").write_bytes(os.urandom(3 * 2**20))
    commit(repository)
    with pytest.raises(SourceUnavailable, match="git fetch"):
        [*limited(repository, tmp_path).list()]


def limited(repository: Path, tmp_path: Path) -> GitSource:
    config = GitConfig(
        kind="git",
        name="runbooks",
        owner="o",
        trust=TrustLevel.OPEN,
        url=repository.as_uri(),
        ref="main",
        max_bytes=2**20,
    )
    return GitSource(config, SourceContext(100_000, cache=tmp_path / "cache"))


def test_the_connections_login_goes_to_its_server_and_into_no_message_or_file(tmp_path: Path) -> None:
    asked: list[str | None] = []

    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers.get("Authorization"))
            self.send_response(401)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/x.git"
    config = GitConfig(
        kind="git",
        name="runbooks",
        owner="o",
        trust=TrustLevel.OPEN,
        url=url,
        ref="main",
        connection="my_git",
        insecure_http=True,
    )
    known = Connection("my_git", "http", login="reader", password="token-of-it")
    made = GitSource(config, SourceContext(cache=tmp_path / "cache", connections=lambda name: known))
    try:
        with pytest.raises(SourceUnavailable) as caught:
            [*made.list()]
    finally:
        server.shutdown()
        server.server_close()

    assert asked[0] == "Basic " + base64.b64encode(b"reader:token-of-it").decode()
    assert "token-of-it" not in f"{caught.value} {caught.value.__context__}"
    assert "token-of-it" not in "".join(
        file.read_text(errors="replace") for file in (tmp_path / "cache").rglob("*") if file.is_file()
    )
