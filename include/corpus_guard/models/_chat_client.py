"""OpenAI's client, bounded: no redirects, no second tries of its own, no more of a response than was agreed. Imports it (one second)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx2
from openai import DefaultHttpxClient, OpenAI

MOST_BYTES = 128 * 1024  # of a response, errors included


class TooLong(Exception):
    """A response has more bytes than are read."""


def make_client(url: str, key: str, seconds: float) -> OpenAI:
    """A client for one endpoint; threads may share it.

    Args:
        url: ends where ``/chat/completions`` begins.
        key: empty: none, and then the caller leaves the header away.
        seconds: from the beginning of a request to the last byte that is waited for.
    """

    def began(request: httpx2.Request) -> None:
        request.extensions["began"] = time.monotonic()

    def bounded(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise TooLong  # not asked for; a few bytes may unpack to gigabytes
        deadline = response.request.extensions["began"] + seconds
        response.stream = _Bounded(response.stream, deadline)

    client = OpenAI(
        api_key=key or "none",
        base_url=url,
        timeout=seconds,
        max_retries=0,
        default_headers={"Accept-Encoding": "identity"},
        http_client=DefaultHttpxClient(
            timeout=seconds, follow_redirects=False, event_hooks={"request": [began], "response": [bounded]}
        ),
    )
    # The client takes these from OPENAI_... variables, which are not meant for whatever endpoint is configured here.
    client.organization = client.project = client.admin_api_key = None
    return client


class _Bounded(httpx2.SyncByteStream):
    """A body of bounded size that takes bounded time."""

    def __init__(self, stream: httpx2.SyncByteStream | httpx2.AsyncByteStream, deadline: float) -> None:
        assert isinstance(stream, httpx2.SyncByteStream)  # noqa: S101 - the client is not asynchronous
        self._stream = stream
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for piece in self._stream:
            size += len(piece)
            if size > MOST_BYTES:
                raise TooLong
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the answer drips in")
            yield piece

    def close(self) -> None:
        """Give the connection back."""
        self._stream.close()
