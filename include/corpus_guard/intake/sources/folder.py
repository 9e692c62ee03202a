"""A folder as a source: every file below it is a document. Local, or any object store fsspec knows.

Rules:

- Hidden files and folders (a leading dot) are skipped, and so are pictures, sounds, videos and fonts, by their
  extensions, and pipes, devices and the like. What is skipped is counted; a hidden folder counts once.
- A link to a file is taken when its target lies inside the folder, checked again at fetch; its size and time are
  the target's. A link to a folder is never followed: files inside the folder have their own names, files outside are
  not part of the source.
- A file above the limit is reported with its size and not read.
- Every file is read and hashed each time: no time or size of a file counts as proof that it is unchanged.
  `kind: objects` asks an object store for its ETags instead.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import fsspec
from fsspec.implementations.local import LocalFileSystem

from corpus_guard.batches.filesystem import open_filesystem
from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources.config import LocatedConfig, PathGlobs
from corpus_guard.intake.sources.source import (
    ConfiguredSource,
    Fetched,
    FetchFailed,
    SkipReason,
    SourceContext,
    SourceItem,
    as_utc,
    oversize_failure,
    public_url,
    utf8_path,
    why_left_out,
)

_READ_BYTES = 2**16  # the read that shows the end of a file allocates as much


class FolderConfig(LocatedConfig, PathGlobs):
    """A folder, on disk or in an object store; each file is a document."""

    kind: Literal["folder"]


class FolderSource(ConfiguredSource[FolderConfig]):
    """Source over the files below a folder; see the module's rules."""

    Config = FolderConfig

    def __init__(self, config: FolderConfig, context: SourceContext) -> None:
        super().__init__(config, context)
        self._matches = config.matcher()

    def list(self) -> Iterator[SourceItem]:
        """Yield every file, folder by folder in the order of names; raise SourceUnavailable (see `Source`)."""
        fs, root = self._open()
        self.skipped.clear()
        try:
            fs.invalidate_cache()
            exists = fs.isdir(root)
            if exists:
                yield from self._walk(fs, root)
        except Exception as error:
            # fsspec passes on whatever its back ends raise (botocore, aiohttp, OSError): all mean "no complete list".
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._config.url)} cannot be listed ({type(error).__name__}); "
                "check the storage, then run again"
            ) from error
        if not exists:
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._config.url)} is not a folder that can be read; "
                "check url in sources.yaml and the credentials"
            )

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Fetched | FetchFailed]:
        """Yield the files' bytes, in the order of `items`."""
        fs, root = self._open()
        real_root = os.path.realpath(root) if isinstance(fs, LocalFileSystem) else ""
        for item in items:
            try:
                yield self._fetch_local(root, real_root, item) if real_root else self._fetch(fs, root, item)
            except FileNotFoundError:
                yield FetchFailed(
                    item, "intake.gone", "the file was listed and is gone; the next run will see it as vanished"
                )
            except Exception as error:
                yield FetchFailed(
                    item,
                    "intake.unreadable",
                    f"the storage refused the file ({type(error).__name__}); check its permissions",
                )

    def _open(self) -> tuple[fsspec.AbstractFileSystem, str]:
        try:
            return open_filesystem(self._config.url)
        except Exception as error:
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._config.url)} cannot be opened ({type(error).__name__}); "
                "check url in sources.yaml, and that the package for its protocol is installed"
            ) from error

    def _walk(self, fs: fsspec.AbstractFileSystem, root: str) -> Iterator[SourceItem]:
        local = isinstance(fs, LocalFileSystem)
        pending = [root]
        while pending:
            folder = pending.pop()
            entries = sorted(fs.ls(folder, detail=True), key=lambda entry: str(entry["name"]))
            subfolders = []
            for entry in entries:
                path = entry["name"].rstrip("/")
                name = path.rpartition("/")[2]
                if not name or path == folder:
                    continue
                relative = path[len(root) :].lstrip("/")
                if name.startswith("."):
                    self.skipped[SkipReason.HIDDEN] += 1
                elif entry["type"] == "directory":
                    subfolders.append(path)  # never a link: those have a type of their own
                elif (reason := _why_no_document(entry, root, local=local)) or (
                    reason := why_left_out(relative, self._matches)
                ):
                    self.skipped[reason] += 1
                else:
                    yield _make_item(relative, entry, local=local)
            pending.extend(reversed(subfolders))

    def _fetch(self, fs: fsspec.AbstractFileSystem, root: str, item: SourceItem) -> Fetched | FetchFailed:
        relative = json.loads(item.locator)
        if ".." in PurePosixPath(relative).parts:
            return _outside_failure(item)
        info = fs.info(f"{root}/{relative}")
        if info["type"] != "file":
            return _changed_failure(item)
        with fs.open(f"{root}/{relative}", "rb") as stream:
            return self._read(item, info.get("size"), stream.read)

    def _fetch_local(self, root: str, real_root: str, item: SourceItem) -> Fetched | FetchFailed:
        """Fetch without fsspec, at a third of its cost; check the opened file, whatever its path becomes."""
        relative = json.loads(item.locator)
        if ".." in relative.split("/"):
            return _outside_failure(item)
        path = f"{root}/{relative}"
        # A pipe or a device that took the file's place must not be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if not _lies_below(descriptor, path, real_root):
                return _outside_failure(item)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return _changed_failure(item)
            return self._read(item, status.st_size, lambda size: os.read(descriptor, size))
        finally:
            os.close(descriptor)

    def _read(self, item: SourceItem, size: int | None, read: Callable[[int], bytes]) -> Fetched | FetchFailed:
        limit = self._context.max_bytes
        if size is not None and size > limit:
            return oversize_failure(item, size, limit)
        # One byte more than expected shows the end; asking for the limit would allocate the limit for each small file.
        content = read((limit if size is None else size) + 1)
        while (budget := limit + 1 - len(content)) > 0 and (more := read(min(budget, _READ_BYTES))):
            content += more  # the file has grown since, or the read was short
        if len(content) > limit:
            return oversize_failure(item, None, limit)
        return Fetched(item, content, media.guess_by_name(item.uri))


def _outside_failure(item: SourceItem) -> FetchFailed:
    return FetchFailed(item, "intake.outside", "the file is, or has become, a link that leads out of the source")


def _changed_failure(item: SourceItem) -> FetchFailed:
    return FetchFailed(item, "intake.changed", "the place no longer holds a regular file")


def _lies_below(descriptor: int, path: str, real_root: str) -> bool:
    try:
        opened = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - the kernel knows which file was opened
    except OSError:  # no /proc: resolve the path again
        opened = os.path.realpath(path)
    return opened.startswith(f"{real_root.rstrip('/')}/")


def _make_item(relative: str, entry: Mapping[str, Any], *, local: bool) -> SourceItem:
    if local and entry.get("islink"):  # the entry has the link's own time, which an edit of the file does not change
        with suppress(OSError):  # it is gone since; fetching it says so
            status = Path(entry["name"]).stat()
            return SourceItem(utf8_path(relative), status.st_size, as_utc(status.st_mtime), json.dumps(relative))
    modified = entry.get("mtime", entry.get("LastModified", entry.get("last_modified", entry.get("updated"))))
    return SourceItem(utf8_path(relative), entry.get("size"), as_utc(modified), json.dumps(relative))


def _why_no_document(entry: Mapping[str, Any], root: str, *, local: bool) -> SkipReason | None:
    if not local or not entry.get("islink"):
        return None if entry["type"] == "file" else SkipReason.NOT_A_FILE
    path = Path(entry["name"])  # a link on disk is listed with the type "other"
    if not path.exists():
        return SkipReason.BROKEN_LINK
    # Linked folders are not walked into, so only the entry's own link can lead out.
    if not path.resolve().is_relative_to(Path(root).resolve()):
        return SkipReason.LINK_OUT
    if path.is_dir():
        return SkipReason.FOLDER_LINK
    return None if path.is_file() else SkipReason.NOT_A_FILE
