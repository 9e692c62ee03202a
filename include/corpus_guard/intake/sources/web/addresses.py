"""Rules on addresses that pages may come from, and connections made to exactly the address that was checked.

A host name is resolved once for a connection. Every address it has must be allowed, or none is used; the
connection goes to one of these addresses, by number. The name server is never asked twice, since its second
answer may differ (DNS rebinding). TLS and the Host header keep the name. Proxies of the environment are not
used: they would resolve the name again.

Refused, unless the source allows it: addresses that IANA does not call global (private, loopback, link-local,
carrier-grade NAT, unique-local, documentation, reserved), multicast, the addresses where clouds answer with
credentials, and IPv6 addresses that carry such an IPv4 address: mapped, compatible, NAT64, 6to4, Teredo,
ISATAP.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import httpcore

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
"""Resolver from host and port to addresses: the system's, or a test's."""

_CLOUD = frozenset({ipaddress.ip_address("168.63.129.16")})  # Azure's platform, although it is a public number
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")


class AddressRefused(Exception):
    """A host leads to an address that the source does not allow."""


class AttemptTimeout(httpcore.TimeoutException):
    """The time limit of an attempt has passed, although bytes still drip in."""


class AddressRules:
    """Addresses that one source allows."""

    def __init__(self, allow_private: Iterable[str]) -> None:
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._hosts: set[str] = set()
        for entry in allow_private:
            try:
                self._networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                self._hosts.add(entry.lower().rstrip("."))

    def check(self, host: str, address: str) -> None:
        """Raise AddressRefused, which names host and address, unless the address is allowed for the host."""
        parsed = ipaddress.ip_address(address.partition("%")[0])
        for candidate in (parsed, *_embedded_ipv4(parsed)):
            if any(candidate.version == network.version and candidate in network for network in self._networks):
                continue
            if "%" in address or _needs_address(candidate):
                break
            if host not in self._hosts and not _is_public(candidate):
                break
        else:
            return
        raise AddressRefused(
            f"{host} leads to {address}, which is not a public address; to allow it, add it to allow_private of this source"
        )


def resolve(host: str, port: int) -> Sequence[str]:
    """Return all addresses of a host, as the system resolves it."""
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class Deadline:
    """The moment an attempt must be over; shared by all its connections."""

    def __init__(self) -> None:
        self.at = float("inf")

    def remaining(self, limit: float | None) -> float:
        """Return the seconds until the deadline, at most `limit`; raise AttemptTimeout where none remain."""
        remaining = self.at - time.monotonic()
        if remaining <= 0:
            raise AttemptTimeout
        return remaining if limit is None else min(remaining, limit)


class CheckedNetwork(httpcore.NetworkBackend):
    """Network backend that connects to checked addresses only."""

    def __init__(
        self,
        rules: AddressRules,
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
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Resolve the host, check all its addresses and connect to one of them."""
        try:
            addresses = [host] if _is_address(host) else list(self._resolve(host, port))
        except OSError as error:
            raise httpcore.ConnectError("the host name cannot be resolved") from error
        if not addresses:
            raise httpcore.ConnectError("the host name has no address")
        for address in addresses:
            self._rules.check(host, address)
        failure: Exception = httpcore.ConnectError()
        for address in addresses[:4]:
            try:
                stream = self._network.connect_tcp(
                    address, port, self._deadline.remaining(timeout), None, socket_options
                )
                return _TimedStream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None
    ) -> httpcore.NetworkStream:
        """Refuse: pages never come from Unix sockets."""
        raise httpcore.ConnectError("pages never come from Unix sockets")


class _TimedStream(httpcore.NetworkStream):
    """A stream whose reads and writes end with the attempt."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream, self._deadline = stream, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.remaining(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.remaining(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        encrypted = self._stream.start_tls(ssl_context, server_hostname, self._deadline.remaining(timeout))
        return _TimedStream(encrypted, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and address not in _CLOUD
        and not (address.version == 6 and address in _SITE_LOCAL)
    )


def _needs_address(address: Address) -> bool:
    """Return whether `allow_private` must name the address itself: a host name does not open it."""
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _CLOUD


def _embedded_ipv4(address: Address) -> list[Address]:
    """Return the IPv4 addresses inside an IPv6 one."""
    if address.version == 4:
        return []
    embedded: list[Address] = [ipv4 for ipv4 in (address.ipv4_mapped, address.sixtofour) if ipv4 is not None]
    embedded += address.teredo or ()
    last = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    isatap = (int(address) >> 32) & 0xFFFFFFFF in {0x00005EFE, 0x02005EFE}
    compatible = address in _COMPATIBLE and int(address) > 1  # not :: and ::1
    if isatap or compatible or any(address in network for network in _NAT64):
        embedded.append(last)
    return embedded
