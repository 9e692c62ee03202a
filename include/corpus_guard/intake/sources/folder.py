"""A folder as a source: every file below it is a document. Local or any object store fsspec knows.

Rules:

- Hidden files and folders (a leading dot) are skipped, and so is what is neither file nor folder (pipes, devices).
- A link to a file is taken when its target lies inside the folder, judged again at fetch. A link to a folder is never
  followed: what lies inside the folder is found under its own name, what lies outside is not part of the source.
- A file above the limit is reported with its size and not read.
- Every file is read and hashed each time: no time or size of a file is taken for a proof that it is unchanged. `kind: objects`
  asks an object store for its ETags instead.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import fsspec
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources._glob import globbing
from corpus_guard.intake.sources.config import FolderConfig
from corpus_guard.intake.sources.source import (
    Fetched,
    FetchFailed,
    Item,
    Opening,
    as_utc,
    public_url,
    storable,
    too_large,
)

_PIECE = 2**20  # bytes


class FolderSource:
    """See the module's rules."""

    Config = FolderConfig

    def __init__(self, config: FolderConfig, opening: Opening) -> None:
        self.name = config.name
        self.owner = config.owner
        self.trust = config.trust
        self._url = config.url
        self._max_bytes = opening.max_bytes
        self._wanted = globbing(config)

    def list(self) -> Iterator[Item]:
        """Every file, folder by folder in the order of names; raises SourceUnavailable (see `Source`)."""
        fs, root = self._open()
        try:
            fs.invalidate_cache()
            exists = fs.isdir(root)
            if exists:
                yield from self._walk(fs, root)
        except Exception as error:
            # fsspec passes on whatever its back ends raise (botocore, aiohttp, OSError): all mean "no complete list".
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._url)} cannot be listed ({type(error).__name__}); "
                "check the storage, then run again"
            ) from error
        if not exists:
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._url)} is no folder that can be read; "
                "check url in sources.yaml and the credentials"
            )

    def fetch(self, items: Sequence[Item]) -> Iterator[Fetched | FetchFailed]:
        """The files' bytes, in the order asked for."""
        fs, root = self._open()
        inside = os.path.realpath(root) if isinstance(fs, LocalFileSystem) else ""
        for item in items:
            try:
                yield self._fetch_local(root, inside, item) if inside else self._fetch(fs, root, item)
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
            fs, root = url_to_fs(self._url)
        except Exception as error:
            raise SourceUnavailable(
                f"source {self.name}: {public_url(self._url)} cannot be opened ({type(error).__name__}); "
                "check url in sources.yaml, and that the package for its protocol is installed"
            ) from error
        return fs, root.rstrip("/")

    def _walk(self, fs: fsspec.AbstractFileSystem, root: str) -> Iterator[Item]:
        local = isinstance(fs, LocalFileSystem)
        pending = [root]
        while pending:
            folder = pending.pop()
            entries = sorted(fs.ls(folder, detail=True), key=lambda entry: str(entry["name"]))
            below = []
            for entry in entries:
                path = entry["name"].rstrip("/")
                name = path.rpartition("/")[2]
                if name.startswith(".") or not name or path == folder:
                    continue
                relative = path[len(root) :].lstrip("/")
                if entry["type"] == "directory":
                    below.append(path)  # never a link: those have a type of their own
                elif (
                    _is_file(entry, local=local) and self._wanted(relative) and not _leads_out(entry, root, local=local)
                ):
                    yield _item(relative, entry)
            pending.extend(reversed(below))

    def _fetch(self, fs: fsspec.AbstractFileSystem, root: str, item: Item) -> Fetched | FetchFailed:
        relative = json.loads(item.locator)
        if ".." in PurePosixPath(relative).parts:
            return _leads_outside(item)
        info = fs.info(f"{root}/{relative}")
        if info["type"] != "file":
            return _no_file(item)
        with fs.open(f"{root}/{relative}", "rb") as stream:
            return self._read(item, info.get("size"), stream.read)

    def _fetch_local(self, root: str, inside: str, item: Item) -> Fetched | FetchFailed:
        """The same without fsspec, at a third of its cost; what is judged is the file that was opened, whatever its path becomes."""
        relative = json.loads(item.locator)
        if ".." in PurePosixPath(relative).parts:
            return _leads_outside(item)
        path = f"{root}/{relative}"
        # A pipe or a device that took the file's place must not be waited for.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            if not _lies_below(descriptor, path, inside):
                return _leads_outside(item)
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                return _no_file(item)
            return self._read(item, found.st_size, lambda most: os.read(descriptor, most))
        finally:
            os.close(descriptor)

    def _read(self, item: Item, size: int | None, read: Callable[[int], bytes]) -> Fetched | FetchFailed:
        if size is not None and size > self._max_bytes:
            return too_large(item, size, self._max_bytes)
        # One byte more than is expected shows the end; asking for the limit would set aside the limit for each small file.
        content = read((self._max_bytes if size is None else size) + 1)
        while (left := self._max_bytes + 1 - len(content)) > 0 and (more := read(min(left, _PIECE))):
            content += more  # it has grown since, or was read short
        if len(content) > self._max_bytes:
            return too_large(item, None, self._max_bytes)
        return Fetched(item, content, media.by_name(item.uri))


def _leads_outside(item: Item) -> FetchFailed:
    return FetchFailed(item, "intake.outside", "the file is, or has become, a link that leads out of the source")


def _no_file(item: Item) -> FetchFailed:
    return FetchFailed(item, "intake.changed", "the place no longer holds a regular file")


def _lies_below(descriptor: int, path: str, inside: str) -> bool:
    try:
        opened = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - the kernel's own word for what was opened
    except OSError:  # no /proc: the path is resolved again
        opened = os.path.realpath(path)
    return opened.startswith(f"{inside.rstrip('/')}/")


def _is_file(entry: dict[str, Any], *, local: bool) -> bool:
    # A link on disk is listed with the type "other".
    return bool(entry["type"] == "file" or (local and entry.get("islink") and Path(entry["name"]).is_file()))


def _item(relative: str, entry: dict[str, Any]) -> Item:
    modified = entry.get("mtime", entry.get("LastModified", entry.get("last_modified", entry.get("updated"))))
    return Item(storable(relative), entry.get("size"), as_utc(modified), json.dumps(relative))


def _leads_out(entry: dict[str, Any], root: str, *, local: bool) -> bool:
    # Folders that are links are not walked into, so that only a link of its own can lead a file out.
    return local and bool(entry.get("islink")) and _outside(entry["name"], root)


def _outside(path: str, root: str) -> bool:
    return not Path(path).resolve().is_relative_to(Path(root).resolve())
