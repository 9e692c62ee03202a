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

- A document's uri is its path in the repository; the stamp's revision is the commit it was first seen at; its
  validator is the blob's hash, so an unchanged file is not even unpacked.
- Nothing is checked out. Paths are data, files are read by the hash of their blob; a path that a checkout
  would refuse (``..``, ``.git``) is reported as a failure. Symbolic links and submodules are not documents, nor are
  pictures, sounds, videos and fonts, by their extensions. An LFS pointer is a failure, not a text.
- The `git` program does the work, not a Python implementation: it reports an object's size before it unpacks
  it, and it runs in a process with limits on time, memory and file size. It reads only the configuration
  given here, runs no hooks, asks no questions, follows no redirects and speaks only file and https, so
  ``ext::`` URLs run nothing.
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
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources._git_clone import GitClone, GitError, TreeEntry
from corpus_guard.intake.sources.config import ConnectionName, PathGlobs, SourceConfig
from corpus_guard.intake.sources.source import (
    ConfiguredSource,
    Fetched,
    FetchFailed,
    Outcome,
    SkipReason,
    SourceContext,
    SourceItem,
    oversize_failure,
    public_url,
    why_left_out,
)

_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,200}")
_LFS_HEADER = b"version https://git-lfs.github.com/spec/v1\n"
_REFUSED_NAMES = frozenset({"", ".", "..", ".git", "git~1"})
_FILE_MODES = frozenset({"100644", "100755"})
_OTHER_MODES = {"120000": SkipReason.LINK, "160000": SkipReason.SUBMODULE}


class GitConfig(SourceConfig, PathGlobs):
    """A repository at a branch, tag or commit."""

    kind: Literal["git"]
    url: Annotated[str, Field(min_length=1)]
    """https://, file://, or a path, relative to the YAML file's folder."""
    ref: str = "HEAD"
    """A branch, a tag, or the 40 (64) hex digits of a commit."""
    folder: str = ""
    """Take only what lies below; uris keep the whole path, globs start here."""
    connection: ConnectionName | None = None
    insecure_http: bool = False
    """Allow http://: anybody on the way can then write the documents."""
    seconds: Annotated[float, Field(gt=0)] = 600.0
    """Time limit of one call of git."""
    max_bytes: Annotated[int, Field(ge=2**20)] = 4 * 2**30
    """Size limit of a clone."""
    max_files: Annotated[int, Field(ge=1)] = 500_000

    @field_validator("url")
    @classmethod
    def _safe_url(cls, url: str) -> str:
        if url.startswith("-") or "::" in url:
            raise ValueError("expected https://, file:// or a path")
        parts = urlsplit(url)
        if "://" in url and (parts.scheme not in {"https", "http", "file"} or "@" in parts.netloc):
            raise ValueError("expected https:// or file:// without user and password; name a connection for these")
        return url

    @field_validator("ref")
    @classmethod
    def _safe_ref(cls, ref: str) -> str:
        if not _REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", ".")):
            raise ValueError("expected the name of a branch or tag, or a commit's full hash")
        return ref

    @field_validator("folder")
    @classmethod
    def _safe_folder(cls, folder: str) -> str:
        if folder and _leads_out(folder.strip("/")):
            raise ValueError("expected a folder of the repository, such as docs/guide")
        return folder.strip("/")

    @model_validator(mode="after")
    def _https_unless_allowed(self) -> Self:
        if self.url.startswith("http://") and not self.insecure_http:
            raise ValueError(
                "http:// lets anybody on the way write the documents; use https://, or set insecure_http: true"
            )
        return self

    def beside(self, folder: Path) -> Self:
        """Return a copy with an absolute path."""
        if "://" in self.url:
            return self
        return self.model_copy(update={"url": (folder / Path(self.url).expanduser()).absolute().as_uri()})


class GitSource(ConfiguredSource[GitConfig]):
    """Source over the files of one commit; see the module's rules."""

    Config = GitConfig

    def __init__(self, config: GitConfig, context: SourceContext) -> None:
        super().__init__(config, context)
        self._matches = config.matcher()

    def list(self) -> Iterator[SourceItem]:
        """Yield every file of the commit that `ref` names now; raise SourceUnavailable (see `Source`)."""
        prefix = f"{self._config.folder}/" if self._config.folder else ""
        self.skipped.clear()
        with self._open_clone() as clone:
            try:
                commit = clone.resolve(self._config.ref)
                clone.fetch_commit(commit, self._config.ref)
                for entry in self._check_count(clone.list_tree(commit, self._config.folder)):
                    path = _decode_path(entry.path)
                    if entry.mode not in _FILE_MODES:
                        self.skipped[_OTHER_MODES.get(entry.mode, SkipReason.NOT_A_FILE)] += 1
                    elif reason := why_left_out(path.removeprefix(prefix), self._matches):
                        self.skipped[reason] += 1
                    else:
                        locator = json.dumps({"blob": entry.blob, "commit": commit})
                        yield SourceItem(path, entry.size, None, locator, validator=entry.blob)
            except GitError as error:
                raise self._unavailable(error) from error

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield the blobs in the order of `items`, read by one process."""
        located = [json.loads(item.locator) for item in items]
        with self._open_clone() as clone:
            try:
                for commit in dict.fromkeys(locator["commit"] for locator in located):
                    clone.fetch_commit(commit, self._config.ref)
            except GitError as error:
                for item in items:
                    message = f"the commit it was listed at cannot be fetched again: {error}"
                    yield FetchFailed(item, "intake.unreadable", message)
                return
            refusals = [self._refusal(item) for item in items]
            blobs = clone.read_blobs(
                [locator["blob"] for locator, refusal in zip(located, refusals, strict=True) if refusal is None],
                self._context.max_bytes,
            )
            for item, locator, refusal in zip(items, located, refusals, strict=True):
                yield refusal or self._outcome(item, locator, next(blobs))

    def _check_count(self, entries: Iterator[TreeEntry]) -> Iterator[TreeEntry]:
        count = -1
        for count, entry in enumerate(entries):
            if count >= self._config.max_files:
                raise GitError(f"has more than {self._config.max_files:,} files; narrow `folder` or raise max_files")
            yield entry
        if count < 0:
            raise GitError("has no file below `folder`; an empty list would look as if every document had been deleted")

    def _refusal(self, item: SourceItem) -> FetchFailed | None:
        if item.size is not None and item.size > self._context.max_bytes:
            return oversize_failure(item, item.size, self._context.max_bytes)
        if _leads_out(item.uri):
            return FetchFailed(item, "intake.outside", "its path leads out of a checkout, or into its .git folder")
        return None

    def _outcome(self, item: SourceItem, locator: dict[str, str], content: bytes | None) -> Outcome:
        if content is None:
            return FetchFailed(
                item, "intake.unreadable", "git has no such blob; remove the clone in the cache and run again"
            )
        if content.startswith(_LFS_HEADER) and len(content) < 1_024:
            return FetchFailed(
                item,
                "intake.lfs_pointer",
                "the repository holds a pointer to Git LFS instead of the file; list the LFS store as a source",
            )
        media_type = media.guess_by_name(item.uri)
        return Fetched(item, content, media_type, validator=locator["blob"], revision=locator["commit"])

    @contextmanager
    def _open_clone(self) -> Iterator[GitClone]:
        """Open the cached clone, locked against other processes."""
        config = self._config
        login = self._context.connections(config.connection) if config.connection else None
        with tempfile.TemporaryDirectory(prefix="corpus-guard-git-") as scratch:
            clones = (self._context.cache or Path(scratch)) / "git"
            clones.mkdir(parents=True, exist_ok=True)
            folder = clones / hashlib.sha256(config.url.encode()).hexdigest()[:32]
            with folder.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                try:
                    clone = GitClone(folder, config.url, login, seconds=config.seconds, max_bytes=config.max_bytes)
                except GitError as error:
                    raise self._unavailable(error) from error
                yield clone

    def _unavailable(self, error: GitError) -> SourceUnavailable:
        return SourceUnavailable(
            f"source {self.name}: {public_url(self._config.url)} at {self._config.ref}: {error}. "
            "Check url, ref and connection"
        )


def _leads_out(path: str) -> bool:
    return any(part.lower() in _REFUSED_NAMES for part in path.split("/"))


def _decode_path(raw: bytes) -> str:
    """Return a path as text; names that are not UTF-8 stay distinct."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return f"{raw.decode('utf-8', 'backslashreplace')}~{hashlib.sha256(raw).hexdigest()[:16]}"
