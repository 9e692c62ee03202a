"""File systems behind URLs: fsspec's own, and obstore's for S3, Google Cloud Storage and Azure.

Credentials, region and end point of an object store come from the environment, under the names its own tools
read: ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_REGION``, ``AWS_ENDPOINT_URL``, and so on.
"""

from __future__ import annotations

from typing import Final, Literal

from fsspec import AbstractFileSystem
from fsspec.core import url_to_fs

OBJECT_STORES: Final[dict[str, Literal["s3", "gs", "az"]]] = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
}
"""Scheme of a URL → obstore's name for it."""


def open_filesystem(url: str) -> tuple[AbstractFileSystem, str]:
    """Return the file system of a URL, and the path in it, without a slash at its end.

    Raises:
        ValueError, ImportError: nothing here opens such a URL.
    """
    scheme, separator, path = url.partition("://")
    if separator and scheme in OBJECT_STORES:
        from corpus_guard.batches.object_files import RETRIES, ObjectFileSystem  # obstore takes 40 ms

        return ObjectFileSystem(OBJECT_STORES[scheme], retry_config=RETRIES), path.rstrip("/")
    filesystem, path = url_to_fs(url)
    return filesystem, str(path).rstrip("/")
