"""URLs in one canonical form (RFC 3986, section 6): the same page is the same document, however its URL is written.

Refused: schemes other than http and https, a user or a password, backslashes and control characters, and
hosts that only some programs read as an address (2130706433, 0x7f.1, 017700000001, 127.1): the checked
address must be the one that is connected to.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import quote, urljoin, urlsplit

MAX_CHARS = 4_096
PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x20\x7f\\]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]*|[0-9]+")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SAFE = "!$&'()*+,;=:@/?%-._~"


class InvalidUrl(ValueError):
    """A URL that this source does not request; the message says why and holds no password."""


@dataclass(frozen=True, slots=True)
class Url:
    """A canonical URL; `str` gives it back."""

    scheme: str
    host: str  # lower case, IDNA; IPv6 without brackets
    port: int
    target: str  # path and query, beginning with a slash

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"

    @property
    def origin(self) -> str:
        """Scheme and host, and the port unless it is the usual one of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + ("" if self.port == PORTS[self.scheme] else f":{self.port}")

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


def parse_url(text: str, base: Url | None = None) -> Url:
    """Return the canonical form of `text`, which may be relative to `base`.

    Raises:
        InvalidUrl: see the module's rules.
    """
    text = text.strip(" \t\r\n")
    if len(text) > MAX_CHARS:
        raise InvalidUrl(f"the URL has {len(text):,} characters; the limit is {MAX_CHARS:,}")
    if _CONTROL.search(text):
        raise InvalidUrl("the URL holds a space, a backslash or a control character; write them percent-encoded")
    try:
        parts = urlsplit(urljoin(str(base), text) if base else text)
        port = parts.port
    except ValueError as error:
        raise InvalidUrl("not a URL; expected https://host/path") from error
    if parts.scheme not in PORTS:
        raise InvalidUrl("expected a URL that begins with http:// or https://")
    if "@" in parts.netloc:
        raise InvalidUrl("the URL holds a user or password; pages that need a login are not fetched")
    if port == 0:
        raise InvalidUrl("port 0 does not exist")
    path = _escaped(_without_dots(_unescaped(parts.path)) or "/")
    query = f"?{_escaped(_unescaped(parts.query))}" if parts.query else ""
    return Url(parts.scheme, canonical_host(parts.hostname or ""), port or PORTS[parts.scheme], path + query)


def canonical_host(text: str) -> str:
    """Return a host name or address in its one canonical form; raise InvalidUrl where it has none."""
    if ":" in text:
        try:
            address = ipaddress.IPv6Address(text.strip("[]"))
        except ValueError as error:
            raise InvalidUrl("not an IPv6 address") from error
        if address.scope_id:
            raise InvalidUrl("an IPv6 address with a zone leads to this machine's own network")
        return str(address)
    host = _idna(text.lower().rstrip("."))
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # resolvers take it for an address (WHATWG URL, "ends in a number")
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError as error:
            raise InvalidUrl("the host is a number; write an IPv4 address as four decimal numbers") from error
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise InvalidUrl("not a host name")
    return host


def _idna(host: str) -> str:
    if host.isascii():
        return host
    import idna

    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError as error:
        raise InvalidUrl("the host name is not valid in IDNA") from error


def _unescaped(text: str) -> str:
    """Undo escapes of unreserved characters and write all others in upper case."""

    def unescape(match: re.Match[str]) -> str:
        value = int(match[1], 16)
        return chr(value) if value in _UNRESERVED else f"%{match[1].upper()}"

    return _ESCAPE.sub(unescape, text)


def _escaped(text: str) -> str:
    # A % that does not begin an escape is escaped itself; the others stay.
    return re.sub(r"%(?![0-9A-F]{2})", "%25", quote(text, safe=_SAFE, errors="replace"))


def _without_dots(path: str) -> str:
    resolved: list[str] = []
    segments = path.split("/")
    for index, segment in enumerate(segments):
        if segment in {".", ".."}:
            if segment == ".." and len(resolved) > 1:
                resolved.pop()
            if index == len(segments) - 1:
                resolved.append("")
        else:
            resolved.append(segment)
    return "/".join(resolved)
