"""Objects of a bucket as fsspec's files."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.fsspec import FsspecStore

if TYPE_CHECKING:
    from obstore.store import RetryConfig

RETRIES: Final[RetryConfig] = {"max_retries": 10, "retry_timeout": timedelta(seconds=60)}


class ObjectFileSystem(FsspecStore):
    """obstore's file system, with errors as a disk has them, and in which a new object may refuse to replace one.

    A request is repeated for a minute before it fails (`RETRIES`).
    """

    cachable = False  # the environment says where the bucket is, and fsspec would keep an earlier answer

    def keeps_versions(self, folder: str) -> bool:
        """Return True for a bucket that keeps what is overwritten or deleted; writes a probe below `folder` and deletes it."""
        path = f"{folder}/.probe-{uuid.uuid4().hex}"
        bucket, name = self._split_path(path)
        with _disk_errors(path):
            store = self._construct_store(bucket)
            version = store.put(name, b"")["version"]
            store.delete(name)
        return version not in {None, "null"}

    def _open(self, path: str, mode: str = "rb", *places: Any, **options: Any) -> Any:
        """Open an object; raises FileNotFoundError before a reader is made, which would complain when it is collected."""
        size = self.info(path)["size"] if mode == "rb" else None
        return super()._open(path, mode, *places, size=size, **options)

    async def _info(self, path: str, **options: Any) -> Any:
        with _disk_errors(path):
            return await super()._info(path, **options)

    async def _ls(self, path: str, *places: Any, **options: Any) -> Any:
        with _disk_errors(path):
            return await super()._ls(path, *places, **options)

    async def _cat_file(self, path: str, *places: Any, **options: Any) -> Any:
        with _disk_errors(path):
            return await super()._cat_file(path, *places, **options)

    async def _rm_file(self, path: str, **options: Any) -> None:
        with _disk_errors(path):
            await super()._rm_file(path, **options)

    async def _cp_file(self, path1: str, path2: str, **options: Any) -> None:
        with _disk_errors(path1):
            await super()._cp_file(path1, path2, **options)

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        """Write an object in one step, so that readers see all of it or nothing.

        Args:
            mode: ``create`` refuses to replace an object; obstore's own class overlooks it.

        Raises:
            FileExistsError: an object of that name stands, and `mode` is ``create``.
            OSError: the store does not answer, or refuses.
        """
        bucket, name = self._split_path(path)
        with _disk_errors(path):
            await self._construct_store(bucket).put_async(
                name, value, mode="create" if mode == "create" else "overwrite"
            )


@contextmanager
def _disk_errors(path: str) -> Iterator[None]:
    """Raise what a disk would: obstore's messages quote whole requests."""
    try:
        yield
    except AlreadyExistsError as error:
        raise FileExistsError(path) from error
    except BaseError as error:
        reason = f"the object store does not answer or refuses ({type(error).__name__})"
        raise OSError(errno.EIO, reason, path) from error
