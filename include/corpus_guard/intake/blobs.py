"""The raw bytes of every fetched version, stored by their SHA-256.

A name that came with a document is never part of a path here. A blob gets its name only when it is complete:
it is written under another name and moved. Blobs are checked against their hash when read, so a changed one
is never used.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from contextlib import suppress
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from corpus_guard.batches.filesystem import open_filesystem
from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import Inconsistent, Misuse

_SHA256 = re.compile(r"[0-9a-f]{64}")


class BlobStore:
    """Content-addressed bytes below `url` (any fsspec URL; the folder is created at the first write)."""

    def __init__(self, url: str) -> None:
        self._fs, self._root = open_filesystem(url)

    def path(self, sha: str) -> str:
        """Return the path of the blob `sha` (64 hex digits) in the store's file system.

        Raises:
            Misuse: `sha` is not a SHA-256 in lower-case hex.
        """
        if not _SHA256.fullmatch(sha):
            raise Misuse(f"expected the SHA-256 of a blob, 64 lower-case hex digits; got {len(sha)} characters")
        return f"{self._root}/sha256/{sha[:2]}/{sha}"

    def put(self, content: bytes) -> str:
        """Store `content` and return its SHA-256. Storing the same bytes again writes nothing.

        A file of the right name with other bytes (a full disk, a tampered store) is written again.
        """
        sha = sha256_bytes(content)
        path = self.path(sha)
        if self.actual_sha256(sha) == sha:
            return sha
        if not isinstance(self._fs, LocalFileSystem):
            self._fs.pipe_file(path, content)
            return sha
        folder = path.rpartition("/")[0]
        self._fs.makedirs(folder, exist_ok=True)
        draft = f"{folder}/.{sha}.{uuid.uuid4().hex}"
        try:
            with self._fs.open(draft, "wb") as stream:
                stream.write(content)
            Path(draft).replace(path)  # atomic; fsspec's own `mv` copies when the target exists
        except BaseException as error:
            with suppress(Exception):
                self._fs.rm_file(draft)
            if isinstance(error, OSError) and not error.filename:
                error.filename = folder  # a full disk does not say which
            raise
        return sha

    def get(self, sha: str) -> bytes:
        """Return the bytes whose SHA-256 is `sha`.

        Raises:
            Inconsistent: the blob is missing, or its bytes have another hash.
        """
        path = self.path(sha)
        try:
            content = bytes(self._fs.cat_file(path))
        except FileNotFoundError:
            raise Inconsistent(
                f"blob sha256:{sha} is missing from the store; restore it, or fetch its document again"
            ) from None
        if (actual := sha256_bytes(content)) != sha:
            raise Inconsistent(
                f"blob sha256:{sha} holds bytes with the hash sha256:{actual}; the store was changed from outside: "
                "keep it for the investigation and fetch the document again"
            )
        return content

    def actual_sha256(self, sha: str) -> str | None:
        """Return the SHA-256 of the bytes that are stored as `sha`, in constant memory; None if none are."""
        try:
            with self._fs.open(self.path(sha), "rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except FileNotFoundError:
            return None

    def remove(self, sha: str) -> None:
        """Delete the bytes whose SHA-256 is `sha`, if they are stored."""
        with suppress(FileNotFoundError):
            self._fs.rm_file(self.path(sha))
