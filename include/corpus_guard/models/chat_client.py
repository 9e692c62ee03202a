"""OpenAI's client with bounds: no redirects, no retries of its own, and a bounded size of responses.

Importing this module imports the client, which takes a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx2
from openai import DefaultHttpxClient, OpenAI

MAX_RESPONSE_BYTES = 128 * 1024  # errors included


class ResponseTooLong(Exception):
    """A response has more bytes than are read."""


def make_client(url: str, key: str, seconds: float) -> OpenAI:
    """Return a client for one endpoint; threads may share it.

    Args:
        url: ends where ``/chat/completions`` begins.
        key: empty: none; the caller then leaves the header out.
        seconds: from the beginning of a request to the last byte that is waited for.
    """

    def mark_start(request: httpx2.Request) -> None:
        request.extensions["started"] = time.monotonic()

    def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ResponseTooLong  # not requested; a few bytes may unpack to gigabytes
        deadline = response.request.extensions["started"] + seconds
        response.stream = _BoundedStream(response.stream, deadline)

    client = OpenAI(
        api_key=key or "none",
        base_url=url,
        timeout=seconds,
        max_retries=0,
        default_headers={"Accept-Encoding": "identity"},
        http_client=DefaultHttpxClient(
            timeout=seconds, follow_redirects=False, event_hooks={"request": [mark_start], "response": [bound]}
        ),
    )
    # The client takes these from OPENAI_... variables, which are not meant for the endpoint that is
    # configured here.
    client.organization = client.project = client.admin_api_key = None
    return client


class _BoundedStream(httpx2.SyncByteStream):
    """A body of bounded size that takes bounded time."""

    def __init__(self, stream: httpx2.SyncByteStream | httpx2.AsyncByteStream, deadline: float) -> None:
        assert isinstance(stream, httpx2.SyncByteStream)  # noqa: S101 - the client is not asynchronous
        self._stream = stream
        self._deadline = deadline

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self._stream:
            size += len(part)
            if size > MAX_RESPONSE_BYTES:
                raise ResponseTooLong
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the response took too long")
            yield part

    def close(self) -> None:
        """Close the connection's stream."""
        self._stream.close()
