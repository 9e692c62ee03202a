"""Objects of a bucket as fsspec's files."""

from __future__ import annotations

from typing import Any

from obstore.exceptions import AlreadyExistsError
from obstore.fsspec import FsspecStore


class ObjectFileSystem(FsspecStore):
    """obstore's file system, in which a new object can be refused where one stands."""

    def _open(self, path: str, mode: str = "rb", *places: Any, **options: Any) -> Any:
        """Open an object; raises FileNotFoundError before a reader is made, which would complain when it is collected."""
        size = self.info(path)["size"] if mode == "rb" else None
        return super()._open(path, mode, *places, size=size, **options)

    async def _pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        """Write an object in one step, so that readers see all of it or nothing.

        Args:
            path: bucket and name.
            value: the content.
            mode: ``create`` refuses to replace an object; obstore's own class overlooks it.

        Raises:
            FileExistsError: an object of that name stands, and `mode` is ``create``.
        """
        bucket, name = self._split_path(path)
        try:
            await self._construct_store(bucket).put_async(
                name, value, mode="create" if mode == "create" else "overwrite"
            )
        except AlreadyExistsError as error:
            raise FileExistsError(path) from error
