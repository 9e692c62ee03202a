"""A Git repository as a source: every file of a branch, tag or commit is a document.

- kind: git
  name: runbooks
  url: https://git.example.org/ops/runbooks.git   # or a path, or file://
  ref: main                                       # branch, tag or commit
  folder: docs
  include: ["**/*.md"]
  owner: ops@example.org
  trust: reviewed
  connection: my_git                              # login and password (a token) for https

Rules:

- A document's uri is its path in the repository; the stamp's revision is the commit it was first seen at; its validator is the blob's
  hash, so that what did not change is not even unpacked.
- Nothing is checked out. Paths are data, files are read by the hash of their blob; a path that a checkout would refuse (``..``,
  ``.git``) is named as a failure. Symbolic links and submodules are no documents. An LFS pointer is a failure, not a text.
- The `git` program does the work, not a Python implementation: it says an object's size before it unpacks it, and it runs in a
  process with limits on time, memory and the size of a file. It reads no configuration but what is given here, runs no
  hooks, asks no questions, follows no redirects and speaks file and https only, so that ``ext::`` URLs run nothing.
- The clone is bare, one commit deep, below the deployment's cache folder. It may be removed at any time.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources._git import File, Git, GitFailed
from corpus_guard.intake.sources._glob import globbing
from corpus_guard.intake.sources.declared import ConnectionName, Declared, Globs
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Opening, Outcome, public_url, too_large

_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,200}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_REFUSED = frozenset({"", ".", "..", ".git", "git~1"})


class GitConfig(Declared, Globs):
    """A repository at a branch, tag or commit."""

    kind: Literal["git"]
    url: Annotated[str, Field(min_length=1)]
    """https://, file://, or a path, relative to the YAML file's folder."""
    ref: str = "HEAD"
    """A branch, a tag, or the 40 (64) hex digits of a commit."""
    folder: str = ""
    """Only what lies below; uris keep the whole path, globs start here."""
    connection: ConnectionName | None = None
    insecure_http: bool = False
    """Whether http:// may be used: anybody on the way can then write the documents."""
    seconds: Annotated[float, Field(gt=0)] = 600.0
    """One call of git may take."""
    max_bytes: Annotated[int, Field(ge=2**20)] = 4 * 2**30
    """A clone may have."""
    max_files: Annotated[int, Field(ge=1)] = 500_000

    @field_validator("url")
    @classmethod
    def _address(cls, url: str) -> str:
        if url.startswith("-") or "::" in url:
            raise ValueError("expected https://, file:// or a path")
        parts = urlsplit(url)
        if "://" in url and (parts.scheme not in {"https", "http", "file"} or "@" in parts.netloc):
            raise ValueError("expected https:// or file:// without user and password; name a connection for these")
        return url

    @field_validator("ref")
    @classmethod
    def _name(cls, ref: str) -> str:
        if not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", ".")):
            raise ValueError("expected the name of a branch or tag, or a commit's full hash")
        return ref

    @field_validator("folder")
    @classmethod
    def _path(cls, folder: str) -> str:
        if _odd(folder.strip("/")) and folder:
            raise ValueError("expected a folder of the repository, such as docs/guide")
        return folder.strip("/")

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if self.url.startswith("http://") and not self.insecure_http:
            raise ValueError(
                "http:// lets anybody on the way write the documents; use https://, or set insecure_http: true"
            )
        return self

    def beside(self, folder: Path) -> Self:
        """With an absolute path."""
        if "://" in self.url:
            return self
        return self.model_copy(update={"url": (folder / Path(self.url).expanduser()).absolute().as_uri()})


class GitSource:
    """See the module's rules."""

    Config = GitConfig

    def __init__(self, config: GitConfig, opening: Opening) -> None:
        self.name = config.name
        self.owner = config.owner
        self.trust = config.trust
        self._config = config
        self._opening = opening
        self._wanted = globbing(config)

    def list(self) -> Iterator[Item]:
        """Every file of the commit that `ref` names now; raises SourceUnavailable (see `Source`)."""
        prefix = f"{self._config.folder}/" if self._config.folder else ""
        with self._clone() as git:
            try:
                commit = git.resolve(self._config.ref)
                git.take(commit, self._config.ref)
                for mode, blob, size, raw in self._bounded(git.files(commit, self._config.folder)):
                    path = _text(raw)
                    if mode in {"100644", "100755"} and self._wanted(path.removeprefix(prefix)):
                        locator = json.dumps({"blob": blob, "commit": commit})
                        yield Item(path, size, None, locator, validator=blob)
            except GitFailed as error:
                raise self._unavailable(error) from error

    def fetch(self, items: Sequence[Item]) -> Iterator[Outcome]:
        """The blobs, by one process."""
        located = [json.loads(item.locator) for item in items]
        with self._clone() as git:
            try:
                for commit in dict.fromkeys(where["commit"] for where in located):
                    git.take(commit, self._config.ref)
            except GitFailed as error:
                for item in items:
                    yield FetchFailed(
                        item, "intake.unreadable", f"the commit it was listed at cannot be had again: {error}"
                    )
                return
            wanted = [where["blob"] for item, where in zip(items, located, strict=True) if self._refusal(item) is None]
            blobs = git.blobs(wanted, self._opening.max_bytes)
            for item, where in zip(items, located, strict=True):
                refusal = self._refusal(item)
                yield refusal or self._outcome(item, where, next(blobs))

    def _bounded(self, files: Iterator[File]) -> Iterator[File]:
        count = -1
        for count, file in enumerate(files):
            if count >= self._config.max_files:
                raise GitFailed(f"has more than {self._config.max_files:,} files; narrow `folder` or raise max_files")
            yield file
        if count < 0:
            raise GitFailed("has no file below `folder`; an empty list would look like every document having gone")

    def _refusal(self, item: Item) -> FetchFailed | None:
        if item.size is not None and item.size > self._opening.max_bytes:
            return too_large(item, item.size, self._opening.max_bytes)
        if _odd(item.uri):
            return FetchFailed(item, "intake.outside", "its path leads out of a checkout, or into its .git folder")
        return None

    def _outcome(self, item: Item, where: dict[str, str], content: bytes | None) -> Outcome:
        if content is None:
            return FetchFailed(
                item, "intake.unreadable", "git has no such blob; remove the clone in the cache and run again"
            )
        if content.startswith(_LFS) and len(content) < 1_024:
            return FetchFailed(
                item,
                "intake.lfs_pointer",
                "the repository holds a pointer to Git LFS instead of the file; list its store as a source",
            )
        return Fetched(item, content, media.by_name(item.uri), validator=where["blob"], revision=where["commit"])

    @contextmanager
    def _clone(self) -> Iterator[Git]:
        """The cached clone, for one process at a time."""
        config = self._config
        login = self._opening.connections(config.connection) if config.connection else None
        with tempfile.TemporaryDirectory(prefix="corpus-guard-git-") as scratch:
            kept = (self._opening.cache or Path(scratch)) / "git"
            kept.mkdir(parents=True, exist_ok=True)
            folder = kept / hashlib.sha256(config.url.encode()).hexdigest()[:32]
            with folder.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    made = Git(folder, config.url, login, seconds=config.seconds, max_bytes=config.max_bytes)
                except GitFailed as error:
                    raise self._unavailable(error) from error
                yield made

    def _unavailable(self, error: Any) -> SourceUnavailable:
        return SourceUnavailable(
            f"source {self.name}: {public_url(self._config.url)} at {self._config.ref}: {error}. Check url, ref and connection"
        )


def _odd(path: str) -> bool:
    return any(part.lower() in _REFUSED for part in path.split("/"))


def _text(raw: bytes) -> str:
    """A path as text; names that are no UTF-8 stay distinct."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"{raw.decode('utf-8', 'backslashreplace')}~{hashlib.sha256(raw).hexdigest()[:16]}"
