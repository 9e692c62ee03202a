"""HTTP client that sends one GET after the other, with limits on everything a hostile server can send.

Rules:

- connections: to checked addresses only, no proxy, no cookie, TLS verified
  (`corpus_guard.intake.sources.web.addresses`);
- time: one attempt, redirects included, ends after `seconds`, however slowly bytes drip in;
- size: headers 100 KiB (h11's limit), the body `limit` bytes, on the wire and again unpacked, whatever
  Content-Length says;
- encodings: identity, gzip and deflate, unpacked here piece by piece; another is a failure, not garbage text;
- redirects: five, each parsed and checked against hosts, ports and robots.txt again; never from https to
  http;
- tries: `retries` more after 429, 5xx or no answer, with growing pauses, or as Retry-After says where that is
  at most a minute.
"""

from __future__ import annotations

import random
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpcore

from corpus_guard import __version__
from corpus_guard.intake.sources.web import addresses
from corpus_guard.intake.sources.web.config import WebConfig
from corpus_guard.intake.sources.web.pacing import HostPacing
from corpus_guard.intake.sources.web.urls import InvalidUrl, Url, parse_url

AGENT = "corpus-guard"
MAX_REDIRECTS = 5
MAX_RETRY_AFTER_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 0.5  # before the second try; doubled for each further one
_MOVED = frozenset({301, 302, 303, 307, 308})
_GZIP_MAGIC = b"\x1f\x8b"
_TRY_AGAIN = frozenset({429, 500, 502, 503, 504})


class PageError(Exception):
    """A request without a usable answer.

    Attributes:
        code: as `corpus_guard.intake.sources.source.FetchFailed` carries it.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PageTooLarge(Exception):
    """A body above the limit; `size` in bytes where the server states it."""

    def __init__(self, size: int | None) -> None:
        super().__init__()
        self.size = size


@dataclass(frozen=True, slots=True)
class PageResponse:
    """The last response of a server, after redirects."""

    status: int
    headers: Mapping[str, str]  # lower-case names; of several with one name the first
    url: Url  # after redirects
    body: bytes  # empty unless the status is 200
    redirected: bool = False


Headers = Callable[[Url], Mapping[str, str]]
Permit = Callable[[Url], None]
"""Raises PageError for a URL that must not be requested."""


class WebClient:
    """HTTP client of one source, for one thread. Close it after use."""

    def __init__(
        self,
        config: WebConfig,
        pacing: HostPacing,
        resolve: addresses.Resolve = addresses.resolve,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        self._config, self._pacing = config, pacing
        self._hosts = {url.host for url in config.starts} | set(config.hosts)
        self._deadline = addresses.Deadline()
        checked = addresses.CheckedNetwork(
            addresses.AddressRules(config.allow_private), self._deadline, resolve, network
        )
        self._pool = httpcore.ConnectionPool(
            ssl_context=_tls_context(), max_connections=4, max_keepalive_connections=2, network_backend=checked
        )
        self.pauses: dict[str, float] = {}  # host → seconds, where robots.txt asks for more than the source

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def get(
        self, url: Url, limit: int, headers: Headers = lambda url: {}, permit: Permit = lambda url: None, tries: int = 0
    ) -> PageResponse:
        """GET `url` and follow its redirects.

        Args:
            url: canonical.
            limit: size limit of the body, in bytes.
            headers: gives more headers for one hop.
            permit: called before each hop.
            tries: at most so many; 0: as the source declares.

        Raises:
            PageError: there is no usable answer; with its code.
            PageTooLarge: the body is above the limit.
        """
        last = tries or self._config.retries + 1
        for attempt in range(1, last + 1):
            pause = FIRST_PAUSE_SECONDS * 2 ** (attempt - 1) * (1 + random.random())  # noqa: S311 - only spreads clients
            try:
                response = self._follow(url, limit, headers, permit)
            except PageError as error:
                if error.code != "intake.server" or attempt == last:
                    raise
                time.sleep(pause)
                continue
            if response.status not in _TRY_AGAIN or attempt == last:
                return response
            retry_after = _parse_retry_after(response.headers.get("retry-after", ""))
            if retry_after is not None and retry_after > MAX_RETRY_AFTER_SECONDS:
                return response
            self._pacing.hold(response.url.host, max(pause, retry_after or 0.0))
        raise AssertionError("unreachable")

    def _follow(self, url: Url, limit: int, headers: Headers, permit: Permit) -> PageResponse:
        current = url
        for hop in range(MAX_REDIRECTS + 1):
            self._check(current)
            permit(current)
            self._pacing.wait(current.host, max(self._config.delay, self.pauses.get(current.host, 0.0)))
            if hop == 0:
                self._deadline.at = time.monotonic() + self._config.seconds
            response = self._request(current, limit, headers(current))
            if response.status not in _MOVED:
                return PageResponse(response.status, response.headers, current, response.body, current != url)
            try:
                target = parse_url(response.headers.get("location", ""), base=current)
            except InvalidUrl as error:
                raise PageError("intake.address", f"it redirects to a URL that cannot be requested: {error}") from error
            if current.scheme == "https" and target.scheme == "http":
                raise PageError(
                    "intake.outside", "it redirects from https to http; anybody on the way could write the answer"
                )
            current = target
        raise PageError("intake.server", f"it redirects more than {MAX_REDIRECTS} times")

    def _check(self, url: Url) -> None:
        if url.host not in self._hosts:
            raise PageError(
                "intake.outside",
                f"it leads to the host {url.host}; add it to `hosts` of this source if it belongs to it",
            )
        if url.port not in self._config.ports:
            raise PageError(
                "intake.address", f"it leads to port {url.port}; to allow it, add it to `ports` of this source"
            )

    def _request(self, url: Url, limit: int, extra: Mapping[str, str]) -> PageResponse:
        headers = {
            "Host": url.origin.partition("://")[2],
            "User-Agent": f"{AGENT}/{__version__}",
            "Accept": "text/html, application/xhtml+xml, text/*;q=0.9, */*;q=0.5",
            "Accept-Encoding": "gzip, identity",
            **extra,
        }
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), self._config.seconds)
        request = httpcore.Request(
            "GET",
            httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=list(headers.items()),
            extensions={"timeout": timeout},
        )
        try:
            response = self._pool.handle_request(request)
            try:
                answered: dict[str, str] = {}
                for name, value in response.headers:
                    answered.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
                body = self._read_body(response, answered, limit) if response.status == 200 else b""
                return PageResponse(response.status, answered, url, body)
            finally:
                response.close()
        except addresses.AddressRefused as error:
            raise PageError("intake.address", str(error)) from error
        except (addresses.AttemptTimeout, httpcore.ReadTimeout, httpcore.WriteTimeout) as error:
            raise PageError("intake.too_slow", f"no complete answer within {self._config.seconds:g} seconds") from error
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
            raise PageError("intake.server", f"{url.host} does not answer ({type(error).__name__})") from error
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError) as error:
            raise PageError("intake.unreadable", f"{url.host} sends broken HTTP ({type(error).__name__})") from error

    def _read_body(self, response: httpcore.Response, headers: Mapping[str, str], limit: int) -> bytes:
        claimed = headers.get("content-length", "")
        if claimed.isdecimal() and len(claimed) < 20 and int(claimed) > limit:
            raise PageTooLarge(int(claimed))
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise PageError(
                "intake.unreadable", "the page came in an encoding that was not requested; expected gzip or none"
            )
        pieces = response.iter_stream()
        plain = encoding in {"", "identity"}
        body = _read_plain(pieces, limit) if plain else _decompress(pieces, encoding, limit)
        if claimed.isdecimal() and plain and len(body) != int(claimed):
            raise PageError("intake.server", "the answer ended early")
        return body


def _read_plain(pieces: Iterable[bytes], limit: int) -> bytes:
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) > limit:
            raise PageTooLarge(None)
    return bytes(body)


def _decompress(pieces: Iterable[bytes], encoding: str, limit: int) -> bytes:
    window = zlib.MAX_WBITS if encoding == "deflate" else zlib.MAX_WBITS | 16
    decompressor = zlib.decompressobj(window)
    body, received = bytearray(), 0
    try:
        for piece in pieces:
            received += len(piece)
            pending = piece
            while pending:
                if (
                    decompressor.eof
                ):  # a gzip stream may have several members (RFC 1952, 2.2); what else follows is ignored
                    if encoding == "deflate" or not pending.startswith(_GZIP_MAGIC):
                        break
                    decompressor = zlib.decompressobj(window)
                body += decompressor.decompress(pending, limit + 1 - len(body))
                pending = decompressor.unused_data or decompressor.unconsumed_tail
                if len(body) > limit or received > limit:
                    raise PageTooLarge(None)
    except zlib.error as error:
        raise PageError("intake.unreadable", f"the page is labelled {encoding} and cannot be decompressed") from error
    if not decompressor.eof:
        raise PageError("intake.server", "the compressed answer ended early")
    return bytes(body)


def _parse_retry_after(text: str) -> float | None:
    text = text.strip()
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _tls_context() -> ssl.SSLContext:
    context = ssl.create_default_context()  # the system's authorities, or SSL_CERT_FILE's
    if not context.get_ca_certs():
        import certifi

        context.load_verify_locations(certifi.where())
    return context
