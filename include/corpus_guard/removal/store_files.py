"""The files of the vector store, where they lie on this machine: searched by a purge, and rewritten without what was deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class SearchableFile:
    """A file, and how it is opened."""

    location: str
    open: Callable[[], BinaryIO]


class StoreFiles(Protocol):
    """Files of a vector store on this machine."""

    @property
    def location(self) -> str:
        """Folder of the files."""

    def files(self) -> Iterator[SearchableFile]:
        """Yield every file that may hold a text or a vector of the collections."""

    def rewrite(self, run_id: str, collections: Sequence[str]) -> None:
        """Write the collections' files again, without what was deleted.

        Raises:
            Inconsistent: the collections could not be filled again; nothing was changed.
            StoreUnavailable: the server does not answer, or its files are locked.
        """

    def finish_rewriting(self) -> None:
        """Take out what a call of `rewrite` that was killed has deleted but left on disk; nothing, if there was none.

        Raises:
            StoreUnavailable: the server's files are locked.
        """

    def is_rewritten(self, location: str) -> bool:
        """Return whether `rewrite` makes this file again, so that what it holds may be gone afterwards."""


def files_on_disk(paths: Iterator[Path]) -> Iterator[SearchableFile]:
    """Yield those of the paths that are files, in their order."""
    # `is_file` looks at the file, not at the name: a journal exists for milliseconds.
    return (SearchableFile(str(path), partial(_open_binary, path)) for path in sorted(paths) if path.is_file())


def _open_binary(path: Path) -> BinaryIO:
    return path.open("rb")
