from __future__ import annotations

import pytest

from corpus_guard.intake.sources.web.addresses import AddressRefused, AddressRules

NOWHERE = "0.0.0.0"  # noqa: S104  checked, not bound
PUBLIC = ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"]
PRIVATE = [
    "127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", NOWHERE,
    "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1", "168.63.129.16", "::", "::1", "fe80::1", "fe80::1%eth0",
    "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::127.0.0.1",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe", "2606:2800::5efe:7f00:1", "2606:2800::200:5efe:a00:1",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_allowed(address: str) -> None:
    AddressRules(()).check("docs.example", address)


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused_whatever_carries_it(address: str) -> None:
    with pytest.raises(AddressRefused, match="allow_private"):
        AddressRules(()).check("docs.example", address)


def test_a_named_network_or_host_is_allowed_and_nothing_else() -> None:
    rules = AddressRules(("10.1.0.0/16", "::1", "Intranet.Example."))
    rules.check("docs.example", "10.1.2.3")
    rules.check("docs.example", "::1")
    rules.check("intranet.example", "192.168.1.1")
    for host, address in (("docs.example", "10.2.0.1"), ("docs.example", "192.168.1.1")):
        with pytest.raises(AddressRefused):
            rules.check(host, address)


def test_a_network_that_translates_is_allowed_by_name_and_what_it_carries_is_checked_all_the_same() -> None:
    rules = AddressRules(("64:ff9b::/96",))
    rules.check("docs.example", "64:ff9b::5db8:d822")
    with pytest.raises(AddressRefused):
        rules.check("docs.example", "64:ff9b::a9fe:a9fe")


@pytest.mark.parametrize("address", ["169.254.169.254", "fe80::1", "168.63.129.16", NOWHERE, "::ffff:169.254.169.254"])
def test_a_host_name_never_opens_what_clouds_keep_their_credentials_at(address: str) -> None:
    with pytest.raises(AddressRefused):
        AddressRules(("intranet.example",)).check("intranet.example", address)
    if address == "169.254.169.254":
        AddressRules(("169.254.169.254",)).check("metadata.example", address)  # named as such, it is meant
