"""One GET after the other, bounded in every direction a hostile server can push.

- connections: to checked addresses only, no proxy, no cookie, TLS verified (`corpus_guard.intake.sources.web.addresses`);
- time: one attempt, redirects and all, ends after `seconds`, however slowly bytes drip;
- size: headers 100 KiB (h11's limit), the body `limit` bytes, on the wire and again unpacked, whatever Content-Length says;
- encodings: identity, gzip and deflate, unpacked here piece by piece; another is a failure, not garbage text;
- redirects: five, each parsed, checked against hosts, ports and robots.txt again; never from https to http;
- tries: `retries` more after 429, 5xx or no answer, with growing pauses, or as Retry-After says where that is at most a minute.
"""

from __future__ import annotations

import random
import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

import httpcore

from corpus_guard import __version__
from corpus_guard.intake.sources.web import addresses
from corpus_guard.intake.sources.web.config import WebConfig
from corpus_guard.intake.sources.web.pace import Pace
from corpus_guard.intake.sources.web.urls import BadUrl, Url, parse

AGENT = "corpus-guard"
REDIRECTS = 5
LONGEST_RETRY_AFTER = 60.0  # seconds
FIRST_PAUSE = 0.5  # seconds before the second try; doubled for each further one
_MOVED = frozenset({301, 302, 303, 307, 308})
_TRY_AGAIN = frozenset({429, 500, 502, 503, 504})


class Failed(Exception):
    """No usable answer.

    Attributes:
        code: as `corpus_guard.intake.sources.source.FetchFailed` carries it.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class BodyTooLarge(Exception):
    """The body is above the limit; `size` in bytes where the server says it."""

    def __init__(self, size: int | None) -> None:
        super().__init__()
        self.size = size


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said in the end."""

    status: int
    headers: Mapping[str, str]  # lower-case names; of several with one name the first
    url: Url  # where it was said, after redirects
    body: bytes  # empty unless the status is 200
    redirected: bool = False


Headers = Callable[[Url], Mapping[str, str]]
Permit = Callable[[Url], None]
"""Raises Failed for a URL that must not be asked."""


class Client:
    """Asks for one source; used by one thread. Close it."""

    def __init__(
        self,
        config: WebConfig,
        pace: Pace,
        resolve: addresses.Resolve = addresses.resolve,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        self._config, self._pace = config, pace
        self._hosts = {url.host for url in config.starts} | set(config.hosts)
        self._deadline = addresses.Deadline()
        checked = addresses.CheckedNetwork(addresses.Rules(config.allow_private), self._deadline, resolve, network)
        self._pool = httpcore.ConnectionPool(
            ssl_context=_tls(), max_connections=4, max_keepalive_connections=2, network_backend=checked
        )
        self.pauses: dict[str, float] = {}  # host → seconds, where robots.txt asks for more than the source

    def close(self) -> None:
        """Give the connections back."""
        self._pool.close()

    def get(
        self, url: Url, limit: int, headers: Headers = lambda url: {}, permit: Permit = lambda url: None, tries: int = 0
    ) -> Answer:
        """GET `url` and follow where it leads.

        Args:
            url: canonical.
            limit: bytes the body may have.
            headers: more headers for one hop.
            permit: asked before each hop.
            tries: at most so many; 0: as the source says.

        Raises:
            Failed: nothing usable came; with its code.
            BodyTooLarge: the body is above the limit.
        """
        last = tries or self._config.retries + 1
        for attempt in range(1, last + 1):
            pause = FIRST_PAUSE * 2 ** (attempt - 1) * (1 + random.random())  # noqa: S311  spreads clients, hides nothing
            try:
                answer = self._follow(url, limit, headers, permit)
            except Failed as error:
                if error.code != "intake.server" or attempt == last:
                    raise
                time.sleep(pause)
                continue
            if answer.status not in _TRY_AGAIN or attempt == last:
                return answer
            asked = _retry_after(answer.headers.get("retry-after", ""))
            if asked is not None and asked > LONGEST_RETRY_AFTER:
                return answer
            self._pace.hold(answer.url.host, max(pause, asked or 0.0))
        raise AssertionError("unreachable")

    def _follow(self, url: Url, limit: int, headers: Headers, permit: Permit) -> Answer:
        at = url
        for hop in range(REDIRECTS + 1):
            self._check(at)
            permit(at)
            self._pace.wait(at.host, max(self._config.delay, self.pauses.get(at.host, 0.0)))
            if hop == 0:
                self._deadline.at = time.monotonic() + self._config.seconds
            answer = self._ask(at, limit, headers(at))
            if answer.status not in _MOVED:
                return Answer(answer.status, answer.headers, at, answer.body, at != url)
            try:
                to = parse(answer.headers.get("location", ""), base=at)
            except BadUrl as error:
                raise Failed("intake.address", f"it redirects to what cannot be asked: {error}") from error
            if at.scheme == "https" and to.scheme == "http":
                raise Failed(
                    "intake.outside", "it redirects from https to http; anybody on the way could write the answer"
                )
            at = to
        raise Failed("intake.server", f"it redirects more than {REDIRECTS} times")

    def _check(self, url: Url) -> None:
        if url.host not in self._hosts:
            raise Failed(
                "intake.outside",
                f"it leads to the host {url.host}; add it to `hosts` of this source if it belongs to it",
            )
        if url.port not in self._config.ports:
            raise Failed(
                "intake.address", f"it leads to port {url.port}; add it to `ports` of this source if it is meant"
            )

    def _ask(self, url: Url, limit: int, more: Mapping[str, str]) -> Answer:
        sent = {
            "Host": url.origin.partition("://")[2],
            "User-Agent": f"{AGENT}/{__version__}",
            "Accept": "text/html, application/xhtml+xml, text/*;q=0.9, */*;q=0.5",
            "Accept-Encoding": "gzip, identity",
            **more,
        }
        timeout = dict.fromkeys(("connect", "read", "write", "pool"), self._config.seconds)
        request = httpcore.Request(
            "GET",
            httpcore.URL(scheme=url.scheme, host=url.host, port=url.port, target=url.target),
            headers=list(sent.items()),
            extensions={"timeout": timeout},
        )
        try:
            response = self._pool.handle_request(request)
            try:
                said: dict[str, str] = {}
                for name, value in response.headers:
                    said.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
                body = self._body(response, said, limit) if response.status == 200 else b""
                return Answer(response.status, said, url, body)
            finally:
                response.close()
        except addresses.NotAllowed as error:
            raise Failed("intake.address", str(error)) from error
        except (addresses.TooSlow, httpcore.ReadTimeout, httpcore.WriteTimeout) as error:
            raise Failed("intake.too_slow", f"no whole answer within {self._config.seconds:g} seconds") from error
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError) as error:
            raise Failed("intake.server", f"{url.host} does not answer ({type(error).__name__})") from error
        except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError) as error:
            raise Failed(
                "intake.unreadable", f"{url.host} does not speak HTTP as agreed ({type(error).__name__})"
            ) from error

    def _body(self, response: httpcore.Response, headers: Mapping[str, str], limit: int) -> bytes:
        claimed = headers.get("content-length", "")
        if claimed.isdecimal() and len(claimed) < 20 and int(claimed) > limit:
            raise BodyTooLarge(int(claimed))
        packing = headers.get("content-encoding", "").strip().lower()
        if packing not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise Failed("intake.unreadable", "the page is packed in a way that was not asked for; gzip or none was")
        pieces = response.iter_stream()
        taken = _read(pieces, limit) if packing in {"", "identity"} else _unpacked(pieces, packing, limit)
        if claimed.isdecimal() and packing in {"", "identity"} and len(taken) != int(claimed):
            raise Failed("intake.server", "the answer ended early")
        return taken


def _read(pieces: object, limit: int) -> bytes:
    taken = bytearray()
    for piece in _iterate(pieces):
        taken += piece
        if len(taken) > limit:
            raise BodyTooLarge(None)
    return bytes(taken)


def _unpacked(pieces: object, packing: str, limit: int) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16 if packing != "deflate" else zlib.MAX_WBITS)
    taken, wire = bytearray(), 0
    try:
        for piece in _iterate(pieces):
            wire += len(piece)
            while piece and not unpacker.eof:
                taken += unpacker.decompress(piece, limit + 1 - len(taken))
                piece = unpacker.unconsumed_tail  # noqa: PLW2901  what did not fit yet
                if len(taken) > limit or wire > limit:
                    raise BodyTooLarge(None)
    except zlib.error as error:
        raise Failed("intake.unreadable", "the page says it is packed and cannot be unpacked") from error
    if not unpacker.eof:
        raise Failed("intake.server", "the packed answer ended early")
    return bytes(taken)


def _iterate(pieces: object) -> Iterator[bytes]:
    for piece in pieces:  # type: ignore[attr-defined]
        if not isinstance(piece, bytes):
            raise TypeError("httpcore gives bytes")
        yield piece


def _retry_after(text: str) -> float | None:
    text = text.strip()
    if text.isdecimal() and len(text) < 10:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()  # the system's authorities, or SSL_CERT_FILE's
    if not context.get_ca_certs():
        import certifi

        context.load_verify_locations(certifi.where())
    return context
