"""Which addresses a page may come from, and a connection that is made to exactly the address that was checked.

A host name is resolved once for a connection; every address it has must be allowed, or none is taken; the connection goes to
one of these addresses, by number. A second answer of the name server, however different, is never asked for (DNS rebinding).
TLS and the Host header keep the name. Proxies of the environment are not used: they would resolve the name again.

Not allowed, unless the source allows it: what IANA does not call global (private, loopback, link-local, carrier-grade NAT, unique-local,
documentation, reserved), multicast, the addresses where clouds answer with credentials, and IPv6 addresses that carry such an
IPv4 address: mapped, compatible, NAT64, 6to4, Teredo, ISATAP.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""From host and port to addresses, as the system does it; tests bring their own."""

_CLOUD = frozenset({ipaddress.ip_address("168.63.129.16")})  # Azure's platform, although it is a public number
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")


class NotAllowed(Exception):
    """A host leads to an address that the source does not allow."""


class TooSlow(httpcore.TimeoutException):
    """The time for one attempt is over, although bytes still drip."""


class Rules:
    """What one source allows."""

    def __init__(self, allow_private: Iterable[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._hosts: set[str] = set()
        for one in allow_private:
            try:
                self._networks.append(ipaddress.ip_network(one, strict=False))
            except ValueError:
                self._hosts.add(one.lower().rstrip("."))

    def check(self, host: str, address: str) -> None:
        """Raises NotAllowed; the message names host and address."""
        found = ipaddress.ip_address(address.partition("%")[0])
        for one in (found, *_carried(found)):
            if any(one.version == network.version and one in network for network in self._networks):
                continue
            if "%" in address or _never_by_name(one):
                break
            if host not in self._hosts and not _public(one):
                break
        else:
            return
        raise NotAllowed(
            f"{host} leads to {address}, which is not a public address; if it is meant, add it to allow_private of this source"
        )


def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, as the system resolves it."""
    return list(dict.fromkeys(str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


class Deadline:
    """The moment an attempt must be over; shared by all its connections."""

    def __init__(self) -> None:
        self.at = float("inf")

    def left(self, at_most: float | None) -> float:
        """Seconds; raises TooSlow when there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise TooSlow
        return left if at_most is None else min(left, at_most)


class CheckedNetwork(httpcore.NetworkBackend):
    """Connects to checked addresses only."""

    def __init__(
        self,
        rules: Rules,
        deadline: Deadline,
        resolve: Resolve = resolve,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        self._rules, self._deadline, self._resolve = rules, deadline, resolve
        self._network = network or httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve, check all addresses, connect to one of them."""
        try:
            addresses = [host] if _literal(host) else list(self._resolve(host, port))
        except OSError as error:
            raise httpcore.ConnectError("the host name is not known") from error
        if not addresses:
            raise httpcore.ConnectError("the host name has no address")
        for address in addresses:
            self._rules.check(host, address)
        failed: Exception = httpcore.ConnectError()
        for address in addresses[:4]:
            try:
                stream = self._network.connect_tcp(address, port, self._deadline.left(timeout), None, socket_options)
                return _Timed(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed

    def connect_unix_socket(self, path: str, timeout: float | None = None, socket_options: Any = None) -> Any:
        """Never."""
        raise httpcore.ConnectError("no pages come from Unix sockets")


class _Timed(httpcore.NetworkStream):
    """A stream on which no read or write outlasts the attempt."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None) -> Any:
        made = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout))
        return _Timed(made, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and address not in _CLOUD
        and not (address.version == 6 and address in _SITE_LOCAL)
    )


def _never_by_name(address: Address) -> bool:
    """Where a host name in `allow_private` does not lead: an address must be named to be meant."""
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _CLOUD


def _carried(address: Address) -> list[Address]:
    """The IPv4 addresses inside an IPv6 one."""
    if address.version == 4:
        return []
    found: list[Address] = [one for one in (address.ipv4_mapped, address.sixtofour) if one is not None]
    found += address.teredo or ()
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    isatap = (int(address) >> 32) & 0xFFFFFFFF in {0x00005EFE, 0x02005EFE}
    compatible = address in _COMPATIBLE and int(address) > 1  # not :: and ::1
    if isatap or compatible or any(address in network for network in _NAT64):
        found.append(last)
    return found
