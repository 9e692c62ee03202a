"""Anchors: copies of signed heads in places that nobody who can rewrite the log can rewrite.

Rules
    * a head is stored under its size, ``heads/<20 digits>.note``, and is never overwritten: writing the same
      head again is fine, another head of the same size proves a second history and raises;
    * a git anchor only grows: commits are added and pushed, never forced;
    * what was written is read back before the call returns; for a repository, the push was accepted.

Not done here: protecting the anchor itself. Use a bucket with object lock, or a repository whose branch
refuses forced pushes.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from fsspec import AbstractFileSystem

from corpus_guard.batches import Storage
from corpus_guard.batches.filesystem import open_filesystem
from corpus_guard.errors import Inconsistent, Infrastructure, SettingsError

FOLDER: Final = "heads"
GIT_SECONDS: Final = 120  # one command; a head has 300 bytes
MAX_PUSHES: Final = 5  # others may push to the repository at the same time
_GIT_HOOK_VARIABLES = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
}
"""Environment variables that git sets inside hooks: with them, our commands would change the hook's repository."""
_FILE_NAME = re.compile(r"[0-9]{20}\.note", re.ASCII)


class AnchorConflict(Inconsistent):
    """An anchor holds another head of the same size."""


class AnchorUnavailable(Infrastructure):
    """An anchor is unreadable or not writable."""


def anchor(url: str, note: str, size: int) -> None:
    """Write a head to an anchor.

    Args:
        url: an fsspec URL, or ``git+`` and the URL of a repository.
        size: of the log, in leaves.

    Raises:
        AnchorConflict: the anchor holds another head of this size; nothing was changed.
        AnchorUnavailable: the anchor does not answer.
        SettingsError: the URL has an unknown scheme.
    """
    name = f"{FOLDER}/{size:020d}.note"
    if url.startswith("git+"):
        _push(url, name, note.encode())
    else:
        _write(url, name, note.encode())


def newest_anchor(url: str) -> str | None:
    """Return the note of the largest size in an anchor; None if it holds no head.

    Raises:
        AnchorUnavailable: the anchor does not answer.
        SettingsError: the URL has an unknown scheme.
    """
    if url.startswith("git+"):
        with tempfile.TemporaryDirectory(prefix="corpus-guard-anchor-") as folder:
            _clone(url, Path(folder))
            names = sorted(
                file.name for file in (Path(folder) / FOLDER).glob("*.note") if _FILE_NAME.fullmatch(file.name)
            )
            return (Path(folder) / FOLDER / names[-1]).read_bytes().decode(errors="replace") if names else None
    filesystem, root = _open_filesystem(url)
    with _translated_errors(url):
        filesystem.invalidate_cache()
        if not filesystem.exists(f"{root}/{FOLDER}"):
            return None
        listed = (path.rpartition("/")[2] for path in filesystem.ls(f"{root}/{FOLDER}", detail=False))
        names = sorted(name for name in listed if _FILE_NAME.fullmatch(name))
        if not names:
            return None
        return bytes(filesystem.cat_file(f"{root}/{FOLDER}/{names[-1]}")).decode(errors="replace")


def _write(url: str, name: str, content: bytes) -> None:
    filesystem, root = _open_filesystem(url)
    with _translated_errors(url):
        Storage(url).write(name, content, keep_existing=True)
        filesystem.invalidate_cache()
        stored = bytes(filesystem.cat_file(f"{root}/{name}"))
    _require_same(url, name, stored, content)


@contextlib.contextmanager
def _translated_errors(url: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each filesystem has exceptions of its own
        raise _unavailable(url, type(error).__name__) from error


def _push(url: str, name: str, content: bytes) -> None:
    for _ in range(MAX_PUSHES):
        with tempfile.TemporaryDirectory(prefix="corpus-guard-anchor-") as temporary:
            folder = Path(temporary)
            _clone(url, folder)
            file = folder / name
            if file.exists():
                _require_same(url, name, file.read_bytes(), content)
                return
            with _translated_errors(url):
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content)
            _git(url, folder, "add", "--", name)
            _git(url, folder, "commit", "--quiet", "--message", f"Head of size {int(file.stem)}")
            pushed = _git(url, folder, "push", "--quiet", "origin", "HEAD", check=False)
            if pushed.returncode == 0:
                return
            error_output = pushed.stderr
        if not re.search(r"rejected|fetch first|failed to update ref|cannot lock ref", error_output):
            break
    raise _unavailable(url, "the push was refused")


def _clone(url: str, folder: Path) -> None:
    address = url.removeprefix("git+")
    if "://" not in address and Path(address).exists():
        address = Path(address).absolute().as_uri()  # git ignores --depth for plain paths
    _git(url, folder, "clone", "--quiet", "--depth", "1", "--no-tags", "--", address, ".")


def _git(url: str, folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    # Nothing of this machine takes part: no hooks, no settings that rewrite line ends or sign commits.
    settings: Sequence[str] = (
        "user.name=Corpus Guard",
        "user.email=corpus-guard@localhost",
        "commit.gpgSign=false",
        "core.autocrlf=false",
        "core.hooksPath=/dev/null",
        "core.symlinks=false",  # a link in the repository is a small file here, and leads nowhere
    )
    environment = {
        **{name: value for name, value in os.environ.items() if name not in _GIT_HOOK_VARIABLES},
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # ext:: runs whatever the URL says
        "LC_ALL": "C",
    }
    options = [part for setting in settings for part in ("-c", setting)]
    try:
        completed = subprocess.run(
            ["git", *options, *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=GIT_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SettingsError(
            f"anchor {_without_password(url)} needs git, which is not installed: install it, or use a folder as anchor"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise _unavailable(url, f"no answer within {GIT_SECONDS} seconds") from error
    if check and completed.returncode:
        raise _unavailable(url, f"git {arguments[0]} exited with {completed.returncode}")
    return completed


def _open_filesystem(url: str) -> tuple[AbstractFileSystem, str]:
    try:
        return open_filesystem(url)
    except (ValueError, ImportError) as error:
        raise SettingsError(
            f"anchor {_without_password(url)}: unknown scheme; expected an fsspec URL or git+URL"
        ) from error


def _require_same(url: str, name: str, stored: bytes, expected: bytes) -> None:
    if stored != expected:
        raise AnchorConflict(
            f"anchor {_without_password(url)} holds another {name} than ours: two heads of one size are two "
            "histories. Nothing was overwritten; compare both with `guard verify`, and find out who signed "
            "the other"
        )


def _unavailable(url: str, reason: str) -> AnchorUnavailable:
    return AnchorUnavailable(
        f"anchor {_without_password(url)} cannot be used ({reason}); check that it exists and is writable, "
        "then run again"
    )


def _without_password(url: str) -> str:
    """Return the URL without user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
