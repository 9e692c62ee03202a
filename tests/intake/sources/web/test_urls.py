from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus_guard.intake.sources.web.urls import InvalidUrl, canonical_host, parse_url


@pytest.mark.parametrize(
    ("said", "canonical"),
    [
        ("HTTP://Docs.Example:80/a/./b/../c?x=1#part", "http://docs.example/a/c?x=1"),
        ("https://docs.example:443", "https://docs.example/"),
        ("https://docs.example./%7euser/%c3%a9", "https://docs.example/~user/%C3%A9"),
        ("https://docs.example/é page".replace(" ", "%20"), "https://docs.example/%C3%A9%20page"),
        ("https://docs.example/100%", "https://docs.example/100%25"),
        ("https://docs.example/a/..", "https://docs.example/"),
        ("https://docs.example/%2e%2e/%2fetc", "https://docs.example/%2Fetc"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://[2001:DB8::1]:8443/", "https://[2001:db8::1]:8443/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        ("  https://docs.example/a\n", "https://docs.example/a"),
    ],
)
def test_one_page_has_one_url(said: str, canonical: str) -> None:
    assert str(parse_url(said)) == canonical
    assert str(parse_url(canonical)) == canonical


@pytest.mark.parametrize(
    "said",
    [
        "ftp://x.example/", "javascript:alert(1)", "//x.example/", "/only/a/path", "http://", "http://user@x.example/",
        "http://good.example\\@127.0.0.1/", "http://good.example@127.0.0.1/", "http://2130706433/", "http://0x7f000001/",
        "http://0177.0.0.1/", "http://127.1/", "http://127.0.0.1.0x1/", "http://[fe80::1%25eth0]/", "http://x.example:0/",
        "http://x.example:99999/", "http://x exam.ple/", "http://x.example/\x00", "http://x.example/a b", "http://" + "a" * 300 + "/",
        "http://x.example/" + "a" * 5_000, "http://[::1/", "http://-x.example/", "http://x..example/",
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(said: str) -> None:
    with pytest.raises(InvalidUrl):
        parse_url(said)


def test_relative_urls_start_at_their_base() -> None:
    base = parse_url("https://docs.example/guide/a.html")
    assert str(parse_url("../b.html", base)) == "https://docs.example/b.html"
    assert str(parse_url("//other.example/b", base)) == "https://other.example/b"


@given(st.text(max_size=60))
def test_parsing_gives_a_canonical_url_or_refuses(text: str) -> None:
    for said in (f"http://docs.example/{text}", f"http://{text}/", text):
        try:
            url = parse_url(said)
        except InvalidUrl:
            continue
        assert str(parse_url(str(url))) == str(url)
        assert str(url).isascii()
        assert canonical_host(url.host) == url.host
