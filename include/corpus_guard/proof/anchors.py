"""Anchors: copies of signed heads at places that whoever rewrites the log cannot rewrite.

Rules
    * a head lies under its size, ``heads/<20 digits>.note``, and is never overwritten: the same head again is no error, another one under
      the same size is proof of a second history and raises;
    * a git anchor only grows: commits are added and pushed, nothing is ever forced;
    * what was written is read back before the call returns; at a repository, the push was accepted.

What is not done here: a place protects only against those who cannot change it. Use a bucket with object lock, or a repository whose
branch refuses forced pushes.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from corpus_guard.batches import Storage
from corpus_guard.errors import Inconsistent, Infrastructure, SettingsError

FOLDER = "heads"
GIT_SECONDS = 120  # one command; a head is 300 bytes
ATTEMPTS = 5  # at a repository that others push to at the same time
_ELSEWHERE = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_NAMESPACE"}
"""What git sets inside hooks: with these, our commands would work on the repository of the hook."""
_NAME = re.compile(r"[0-9]{20}\.note", re.ASCII)


class AnchorConflict(Inconsistent):
    """An anchor holds another head of the same size."""


class AnchorUnavailable(Infrastructure):
    """An anchor cannot be read or written."""


def anchor(url: str, note: str, size: int) -> None:
    """Leave a head at a place.

    Args:
        url: any fsspec URL, or ``git+`` and the URL of a repository.
        note: the signed head.
        size: of the log, in leaves.

    Raises:
        AnchorConflict: another head of this size lies there; nothing was changed.
        AnchorUnavailable: the place does not answer.
        SettingsError: no place can have this URL.
    """
    name = f"{FOLDER}/{size:020d}.note"
    if url.startswith("git+"):
        _push(url, name, note.encode())
    else:
        _put(url, name, note.encode())


def newest_anchor(url: str) -> str | None:
    """The note of the largest size at a place; None where there is none.

    Raises:
        AnchorUnavailable: the place does not answer.
        SettingsError: no place can have this URL.
    """
    if url.startswith("git+"):
        with tempfile.TemporaryDirectory(prefix="corpus-guard-anchor-") as folder:
            _clone(url, Path(folder))
            names = sorted(file.name for file in (Path(folder) / FOLDER).glob("*.note") if _NAME.fullmatch(file.name))
            return (Path(folder) / FOLDER / names[-1]).read_bytes().decode(errors="replace") if names else None
    place, root = _place(url)
    with _answering(url):
        place.invalidate_cache()
        if not place.exists(f"{root}/{FOLDER}"):
            return None
        names = sorted(path.rpartition("/")[2] for path in place.ls(f"{root}/{FOLDER}", detail=False))
        newest = [name for name in names if _NAME.fullmatch(name)]
        return bytes(place.cat_file(f"{root}/{FOLDER}/{newest[-1]}")).decode(errors="replace") if newest else None


def _put(url: str, name: str, content: bytes) -> None:
    place, root = _place(url)
    with _answering(url):
        if isinstance(place, LocalFileSystem):
            Storage(url).write(name, content, keep_first=True)  # whole or not at all, and on disk
        else:
            place.makedirs(f"{root}/{FOLDER}", exist_ok=True)
            with contextlib.suppress(FileExistsError):
                place.pipe_file(f"{root}/{name}", content, mode="create")  # one step where the place has one
        place.invalidate_cache()
        found = bytes(place.cat_file(f"{root}/{name}"))
    _same(url, name, found, content)


@contextlib.contextmanager
def _answering(url: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # each kind of place has exceptions of its own
        raise _unavailable(url, type(error).__name__) from error


def _push(url: str, name: str, content: bytes) -> None:
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="corpus-guard-anchor-") as temporary:
            folder = Path(temporary)
            _clone(url, folder)
            file = folder / name
            if file.exists():
                _same(url, name, file.read_bytes(), content)
                return
            with _answering(url):
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(content)
            _git(url, folder, "add", "--", name)
            _git(url, folder, "commit", "--quiet", "--message", f"Head of size {int(file.stem)}")
            pushed = _git(url, folder, "push", "--quiet", "origin", "HEAD", check=False)
            if pushed.returncode == 0:
                return
            refused = pushed.stderr
        if not re.search(r"rejected|fetch first|failed to update ref|cannot lock ref", refused):
            break
    raise _unavailable(url, "the push was refused")


def _clone(url: str, folder: Path) -> None:
    address = url.removeprefix("git+")
    if "://" not in address and Path(address).exists():
        address = Path(address).absolute().as_uri()  # git ignores --depth for plain paths
    _git(url, folder, "clone", "--quiet", "--depth", "1", "--no-tags", "--", address, ".")


def _git(url: str, folder: Path, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    # Content and hooks are nobody's but ours: no template, no settings of this machine's that rewrite line ends or sign commits.
    settings: Sequence[str] = (
        "user.name=Corpus Guard",
        "user.email=corpus-guard@localhost",
        "commit.gpgSign=false",
        "core.autocrlf=false",
        "core.hooksPath=/dev/null",
        "core.symlinks=false",  # a link in the repository is a small file here, and leads nowhere
    )
    environment = {
        **{name: value for name, value in os.environ.items() if name not in _ELSEWHERE},
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",  # ext:: runs whatever the URL says
        "LC_ALL": "C",
    }
    options = [part for setting in settings for part in ("-c", setting)]
    try:
        done = subprocess.run(
            ["git", *options, *arguments],
            cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=GIT_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise SettingsError(
            f"anchor {_shown(url)} needs git, and there is none: install it, or anchor at a folder"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise _unavailable(url, f"no answer within {GIT_SECONDS} seconds") from error
    if check and done.returncode:
        raise _unavailable(url, f"git {arguments[0]} ended with {done.returncode}")
    return done


def _place(url: str) -> tuple[Any, str]:
    try:
        place, root = url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise SettingsError(
            f"anchor {_shown(url)}: no such kind of place; expected an fsspec URL or git+URL"
        ) from error
    return place, root.rstrip("/")


def _same(url: str, name: str, found: bytes, expected: bytes) -> None:
    if found != expected:
        raise AnchorConflict(
            f"anchor {_shown(url)} holds another {name} than ours: two heads of one size are two histories. Nothing was "
            "overwritten; compare both with guard verify, and find out who signed the other"
        )


def _unavailable(url: str, why: str) -> AnchorUnavailable:
    return AnchorUnavailable(
        f"anchor {_shown(url)} cannot be used ({why}); see that it is there and may be written, then run again"
    )


def _shown(url: str) -> str:
    """The URL without what may be a password."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
