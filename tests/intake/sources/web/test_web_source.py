"""Pages from a real server that misbehaves: each way ends in one outcome with a code, in bounded time."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpcore
import pytest

from corpus_guard.domain import TrustLevel
from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.sources import Fetched, FetchFailed, Outcome, SourceContext, Unchanged
from corpus_guard.intake.sources.web import client as clients
from corpus_guard.intake.sources.web import sitemaps
from corpus_guard.intake.sources.web.config import WebConfig
from corpus_guard.intake.sources.web.source import WebSource
from intake.sources.web.misbehaving import Site, answer, page, serving

LIMIT = 200_000
HOSTS = {"docs.example": ["127.0.0.1"], "other.example": ["127.0.0.1"]}


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site()) as served:
        yield served


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "FIRST_PAUSE_SECONDS", 0.01)


def source(site: Site, cache: Path, resolve: Any = None, network: Any = None, **more: Any) -> WebSource:
    said = {
        "allow_private": ["docs.example", "other.example"],
        "ports": [site.port],
        "delay": 0,
        "retries": 1,
        "seconds": 5,
        **more,
    }
    if not {"pages", "sitemap", "feed"} & set(said):
        said["pages"] = [site.url("/page")]
    config = WebConfig(kind="web", name="manual", owner="o", trust=TrustLevel.OPEN, **said)
    return WebSource(config, SourceContext(LIMIT, cache=cache), resolve or (lambda host, port: HOSTS[host]), network)


def fetch(source: WebSource, known: str | None = None) -> Outcome:
    (outcome,) = source.fetch([replace(item, known_validator=known) for item in source.list()])
    return outcome


def code(outcome: Outcome) -> str:
    assert isinstance(outcome, FetchFailed), outcome
    return outcome.code


def test_a_page_is_fetched_once_and_then_costs_one_conditional_request(site: Site, tmp_path: Path) -> None:
    site.routes["/page"], site.etags["/page"] = page("Gauge"), '"v1"'
    first = fetch(source(site, tmp_path))
    assert isinstance(first, Fetched)
    assert (first.content, first.media_type, first.item.uri) == (page("Gauge"), "text/html", site.url("/page"))
    site.asked.clear()

    second = fetch(source(site, tmp_path), first.validator)

    assert isinstance(second, Unchanged)
    assert site.paths() == ["/page"]
    assert site.asked[-1][2]["If-None-Match"] == '"v1"'
    site.etags["/page"] = '"v2"'
    assert isinstance(fetch(source(site, tmp_path), first.validator), Fetched)


def test_the_name_goes_into_the_host_header_and_the_agent_says_who_asks(site: Site, tmp_path: Path) -> None:
    site.routes["/page"] = page("Gauge")
    fetch(source(site, tmp_path))
    host, _, headers = site.asked[-1]
    assert host == f"docs.example:{site.port}"
    assert headers["User-Agent"].startswith("corpus-guard/")
    assert "Cookie" not in headers


# --- addresses -------------------------------------------------------------------------------------------------------


def test_loopback_is_refused_unless_allowed(site: Site, tmp_path: Path) -> None:
    site.routes["/page"] = page("Secret")
    outcome = fetch(source(site, tmp_path, allow_private=[]))
    assert code(outcome) == "intake.address"
    assert site.asked == []
    assert isinstance(fetch(source(site, tmp_path, allow_private=["127.0.0.0/8"])), Fetched)


def test_the_connection_goes_to_the_checked_address_and_the_name_is_resolved_once(site: Site, tmp_path: Path) -> None:
    """A name server that answers with a public address first and with loopback afterwards (DNS rebinding)."""
    site.routes["/page"] = page("Secret")
    answers = iter([["93.184.216.34"]] + [["127.0.0.1"]] * 50)
    asked: list[str] = []
    connected: list[str] = []

    class Network(httpcore.SyncBackend):
        def connect_tcp(self, host: str, *rest: Any, **more: Any) -> Any:
            connected.append(host)
            raise httpcore.ConnectError

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    outcome = fetch(source(site, tmp_path, resolve, Network(), allow_private=[], ignore_robots=True, retries=0))

    assert (code(outcome), asked, connected) == ("intake.server", ["docs.example"], ["93.184.216.34"])
    assert site.asked == []


def test_one_private_address_among_public_ones_refuses_the_host(site: Site, tmp_path: Path) -> None:
    outcome = fetch(source(site, tmp_path, lambda *_: ["93.184.216.34", "127.0.0.1"], allow_private=[]))
    assert code(outcome) == "intake.address"


def test_a_redirect_to_a_private_address_another_port_or_host_is_refused(site: Site, tmp_path: Path) -> None:
    for to, expected in [
        ("http://169.254.169.254/latest/meta-data/", "intake.outside"),
        ("http://2130706433/", "intake.address"),
        ("http://user:pw@docs.example/", "intake.address"),
        ("file:///etc/passwd", "intake.address"),
        ("http://docs.example:1/", "intake.address"),
        ("http://elsewhere.example/", "intake.outside"),
    ]:
        site.routes["/page"] = answer(302, Location=to)
        assert code(fetch(source(site, tmp_path))) == expected, to
    site.routes["/page"] = answer(302, Location="http://169.254.169.254/latest/")
    allowed = source(site, tmp_path, hosts=["169.254.169.254"], ports=[site.port, 80])
    assert code(fetch(allowed)) == "intake.address"


def test_proxies_of_the_environment_are_not_asked(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    site.routes["/page"] = page("Gauge")
    assert isinstance(fetch(source(site, tmp_path)), Fetched)


# --- redirects -------------------------------------------------------------------------------------------------------


def test_a_redirect_within_the_source_is_followed_and_the_uri_stays(site: Site, tmp_path: Path) -> None:
    site.routes["/page"] = answer(301, Location="/new/page")
    site.routes["/new/page"], site.etags["/new/page"] = page("Moved"), '"m"'
    first = fetch(source(site, tmp_path))
    assert isinstance(first, Fetched)
    assert first.item.uri == site.url("/page")
    assert isinstance(fetch(source(site, tmp_path), first.validator), Unchanged)


def test_a_304_from_another_place_than_the_kept_one_is_not_believed(site: Site, tmp_path: Path) -> None:
    site.routes["/page"], site.etags["/page"] = page("First"), '"1"'
    known = fetch(source(site, tmp_path)).validator  # type: ignore[union-attr]
    site.routes["/page"] = answer(302, Location="/other")
    site.routes["/other"], site.etags["/other"] = page("Other"), '"1"'

    outcome = fetch(source(site, tmp_path), known)

    assert isinstance(outcome, Fetched)
    assert outcome.content == page("Other")


def test_a_loop_of_redirects_ends(site: Site, tmp_path: Path) -> None:
    site.routes["/page"] = answer(302, Location="/page2")
    site.routes["/page2"] = answer(302, Location="/page")
    assert code(fetch(source(site, tmp_path, retries=0))) == "intake.server"
    assert len(site.paths()) == clients.MAX_REDIRECTS + 1


# --- what is not the page --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (answer(404), "intake.gone"),
        (answer(410), "intake.gone"),
        (answer(401), "intake.refused"),
        (answer(403), "intake.refused"),
        (answer(500), "intake.server"),
        (answer(429), "intake.server"),
        (answer(204), "intake.unreadable"),
        (answer(304), "intake.unreadable"),  # nothing was asked under a condition
        (answer(302, Location="/login?next=/page"), "intake.login"),
        (b"<title>Sign in - Docs</title><form><input name=u><input type='password'></form>", "intake.login"),
        (b"<title>404 Not Found</title><h1>Not Found</h1>", "intake.error_page"),
        (b"<html><title>Page not found | Manual</title><p>Sorry</p>", "intake.error_page"),
        (b"<title>Just a moment...</title>", "intake.login"),
    ],
)
def test_what_is_not_the_page_is_no_new_version(site: Site, tmp_path: Path, said: Any, expected: str) -> None:
    site.routes |= {"/page": said, "/login?next=/page": page("Please sign in")}
    assert code(fetch(source(site, tmp_path, retries=0))) == expected


# --- size, time, packing ---------------------------------------------------------------------------------------------


def chunks(piece: bytes, count: int, pause: float = 0.0) -> Any:
    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for _ in range(count):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            handler.wfile.flush()
            time.sleep(pause)
        handler.wfile.write(b"0\r\n\r\n")

    return write


def endless_headers(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        handler.wfile.write(b"X-%d: %s\r\n" % (number, b"a" * 100))


BOMB = gzip.compress(b"\0" * 50_000_000)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (answer(200, b"x", cut=1, Content_Length="999999999"), "parsing.too_large"),
        (answer(200, b"x" * 10, cut=5), "intake.unreadable"),
        (chunks(b"x" * 10_000, 100), "parsing.too_large"),
        (answer(200, BOMB, Content_Encoding="gzip"), "parsing.too_large"),
        (answer(200, b"no gzip", Content_Encoding="gzip"), "intake.unreadable"),
        (answer(200, gzip.compress(b"x" * 9_000)[:-12], Content_Encoding="gzip"), "intake.server"),
        (answer(200, b"x", Content_Encoding="br"), "intake.unreadable"),
        (endless_headers, "intake.unreadable"),
        (lambda handler: handler.wfile.write(b"\xff\xfe garbage\r\n\r\n"), "intake.unreadable"),
        (lambda handler: handler.connection.shutdown(socket.SHUT_RDWR), "intake.server|intake.unreadable"),
    ],
    ids=["lying", "cut", "endless", "bomb", "no-gzip", "cut-gzip", "brotli", "headers", "garbage", "hang-up"],
)  # fmt: skip
def test_a_hostile_answer_is_contained(site: Site, tmp_path: Path, said: Any, expected: str) -> None:
    site.routes["/page"] = said
    began = time.monotonic()
    assert code(fetch(source(site, tmp_path, retries=0))) in expected.split("|")
    assert time.monotonic() - began < 30


def test_bytes_that_drip_end_with_the_time_of_one_attempt(site: Site, tmp_path: Path) -> None:
    site.routes["/page"] = chunks(b"x", 10_000, pause=0.05)
    assert code(fetch(source(site, tmp_path, retries=0, seconds=0.6))) == "intake.too_slow"


def test_gzip_and_deflate_are_unpacked(site: Site, tmp_path: Path) -> None:
    for packed in ((gzip.compress(page("A")), "gzip"), (zlib.compress(page("A")), "deflate")):
        site.routes["/page"] = answer(200, packed[0], Content_Encoding=packed[1], Content_Type="text/html")
        outcome = fetch(source(site, tmp_path))
        assert isinstance(outcome, Fetched)
        assert outcome.content == page("A")


def test_all_members_of_a_gzip_stream_are_read(site: Site, tmp_path: Path) -> None:
    packed = gzip.compress(page("A")[:100]) + gzip.compress(page("A")[100:]) + b"padding"
    site.routes["/page"] = answer(200, packed, Content_Encoding="gzip")
    outcome = fetch(source(site, tmp_path))
    assert isinstance(outcome, Fetched)
    assert outcome.content == page("A")


# --- tries, pace, robots ---------------------------------------------------------------------------------------------


def test_a_server_that_recovers_is_asked_again_and_retry_after_is_kept(site: Site, tmp_path: Path) -> None:
    times: list[float] = []

    def busy(handler: BaseHTTPRequestHandler) -> None:
        times.append(time.monotonic())
        answer(503, Retry_After="1")(handler) if len(times) == 1 else answer(200, page("Back"))(handler)

    site.routes["/page"] = busy
    assert isinstance(fetch(source(site, tmp_path)), Fetched)
    assert times[1] - times[0] >= 0.95


def test_a_silent_host_is_given_up_for_the_batch(site: Site, tmp_path: Path) -> None:
    pages = [site.url(f"/{number}") for number in range(20)]
    site.routes = {f"/{number}": answer(500) for number in range(20)}
    made = source(site, tmp_path, pages=pages, retries=0, ignore_robots=True, resolve=lambda *_: ["127.0.0.2"],
                  allow_private=["127.0.0.2"])  # nobody listens there  # fmt: skip
    assert {code(one) for one in made.fetch([*made.list()])} == {"intake.server"}
    assert site.asked == []


def test_a_host_that_answers_nothing_but_500_is_given_up_too(site: Site, tmp_path: Path) -> None:
    site.routes = {f"/{number}": answer(500) for number in range(20)}
    made = source(site, tmp_path, pages=[site.url(path) for path in site.routes], retries=0)
    assert {code(one) for one in made.fetch([*made.list()])} == {"intake.server"}
    assert len(site.paths()) == 5


def test_two_sources_keep_one_pause_at_a_host(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/page": page("A"), "/robots.txt": b""}
    began = time.monotonic()
    for _ in range(2):
        assert isinstance(fetch(source(site, tmp_path, delay=0.2, ignore_robots=True)), Fetched)
    assert time.monotonic() - began >= 0.2


def test_robots_txt_with_a_byte_order_mark_is_obeyed(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/page": page("A"), "/robots.txt": answer(200, b"\xef\xbb\xbfUser-agent: *\nDisallow: /page\n")}
    assert code(fetch(source(site, tmp_path))) == "intake.robots"


def test_a_robots_txt_that_cannot_be_read_is_named(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/page": page("A"), "/robots.txt": answer(302, Location="http://evil.example/robots.txt")}
    outcome = fetch(source(site, tmp_path))
    assert code(outcome) == "intake.outside"
    assert "the robots.txt of docs.example cannot be read" in outcome.message  # type: ignore[union-attr]


def test_robots_txt_is_obeyed_unless_told_otherwise(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/page": page("A"), "/robots.txt": answer(200, b"User-agent: *\nDisallow: /page\n")}
    assert code(fetch(source(site, tmp_path))) == "intake.robots"
    assert site.paths() == []
    assert isinstance(fetch(source(site, tmp_path, ignore_robots=True)), Fetched)
    site.routes["/robots.txt"] = answer(200, b"User-agent: corpus-guard\nCrawl-delay: 900\n")
    assert code(fetch(source(site, tmp_path))) == "intake.robots"
    site.routes["/robots.txt"] = answer(503)
    assert code(fetch(source(site, tmp_path, retries=0))) == "intake.server"


def test_a_redirect_is_asked_of_robots_txt_too(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/page": answer(302, Location="/private"), "/private": page("A")}
    site.routes["/robots.txt"] = answer(200, b"User-agent: *\nDisallow: /private\n")
    assert code(fetch(source(site, tmp_path))) == "intake.robots"
    assert site.paths() == ["/page"]


# --- lists -----------------------------------------------------------------------------------------------------------


def urlset(site: Site, *paths: str) -> bytes:
    locs = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in paths)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{locs}</urlset>'.encode()


def index(site: Site, *paths: str) -> bytes:
    return (
        "<sitemapindex>" + "".join(f"<sitemap><loc>{site.url(p)}</loc></sitemap>" for p in paths) + "</sitemapindex>"
    ).encode()


def test_sitemaps_are_read_nested_and_gzipped_and_a_page_is_listed_once(site: Site, tmp_path: Path) -> None:
    site.routes |= {
        "/sitemap.xml": index(site, "/one.xml", "/two.xml.gz", "/sitemap.xml"),
        "/one.xml": urlset(site, "/a", "/b#part", "/%7Ec", "/a"),
        "/two.xml.gz": answer(200, gzip.compress(urlset(site, "/b", "/draft/d"))),
    }
    made = source(site, tmp_path, sitemap=site.url("/sitemap.xml"), exclude=["draft/**"])
    assert [item.uri for item in made.list()] == [site.url(path) for path in ("/a", "/b", "/~c")]


BOMB_XML = b'<!DOCTYPE u [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]><urlset><url><loc>&b;</loc></url></urlset>'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (BOMB_XML, "document type declaration"),
        (
            b'<!DOCTYPE u [<!ENTITY x SYSTEM "file:///etc/passwd">]><urlset><url><loc>&x;</loc></url></urlset>',
            "document type",
        ),
        (b"<urlset><url><loc>x</loc>", "not XML"),
        (b"<urlset>" + b"<a>" * 500, "nested more than"),
        (b"<html><p>not found", "is another document"),
        (b"<html><head><title>Sign in</title></head></html>", "is another document"),
        (b"\x1f\x8bnot gzip", "cannot be unpacked"),
        (gzip.compress(b"\0" * 60_000_000), "bytes unpacked"),
        (gzip.compress(b"<urlset>" + b"<a/>" * 2_100_000), "more than 2,000,000 elements"),
        (b"<urlset><url><loc>" + b"x" * 100_000 + b"</loc></url></urlset>", "a URL of more than"),
        (b"<urlset>" + b"<url><loc>http://docs.example/x</loc></url>" * 30 + b"</urlset>", "more than 20 URLs"),
        ("<urlset>".encode("utf-16")[:7], "not XML"),
    ],
)
def test_a_list_that_cannot_be_read_whole_is_no_list(site: Site, tmp_path: Path, content: bytes, says: str) -> None:
    site.routes |= {
        "/sitemap.xml": index(site, "/good.xml", "/bad.xml"),
        "/good.xml": urlset(site, "/a"),
        "/bad.xml": content,
    }
    with pytest.raises(SourceUnavailable, match=says) as caught:
        [*source(site, tmp_path, sitemap=site.url("/sitemap.xml"), max_pages=20).list()]
    assert "/bad.xml" in str(caught.value)


def test_a_sitemap_that_is_gone_or_on_another_host_is_no_list(site: Site, tmp_path: Path) -> None:
    with pytest.raises(SourceUnavailable, match="answers 404"):
        [*source(site, tmp_path, sitemap=site.url("/sitemap.xml")).list()]
    site.routes["/sitemap.xml"] = b"<sitemapindex><sitemap><loc>http://169.254.169.254/x</loc></sitemap></sitemapindex>"
    with pytest.raises(SourceUnavailable, match=r"169\.254"):
        [*source(site, tmp_path, sitemap=site.url("/sitemap.xml")).list()]


def test_a_list_without_a_page_is_no_list(site: Site, tmp_path: Path) -> None:
    site.routes |= {"/sitemap.xml": b"<urlset></urlset>", "/feed": b"<rss><channel/></rss>"}
    for list_ in ({"sitemap": site.url("/sitemap.xml")}, {"feed": site.url("/feed")}):
        with pytest.raises(SourceUnavailable, match="lists no page"):
            [*source(site, tmp_path, **list_).list()]


def test_a_text_in_many_pieces_is_read_in_linear_time(site: Site, tmp_path: Path) -> None:
    started = time.process_time()
    with pytest.raises(sitemaps.ListError, match="more than"):
        sitemaps.read_sitemap(b"<urlset><url><loc>" + b"a<b/>" * 100_000 + b"</loc></url></urlset>", 10)
    assert time.process_time() - started < 5  # 20 times as long where each piece counts all before it


def test_long_urls_that_begin_alike_stay_apart(site: Site, tmp_path: Path) -> None:
    long = [f"http://docs.example/{'a' * 5_000}{number}" for number in (1, 2)]
    site.routes["/sitemap.xml"] = f"<urlset>{''.join(f'<url><loc>{url}</loc></url>' for url in long)}</urlset>".encode()
    assert len({item.uri for item in source(site, tmp_path, sitemap=site.url("/sitemap.xml")).list()}) == 2


def test_what_a_sitemap_lists_elsewhere_is_named_and_not_asked(site: Site, tmp_path: Path) -> None:
    site.routes["/sitemap.xml"] = (
        b"<urlset><url><loc>http://elsewhere.example/a</loc></url><url><loc>javascript:alert(1)</loc></url></urlset>"
    )
    made = source(site, tmp_path, sitemap=site.url("/sitemap.xml"))
    assert [code(one) for one in made.fetch([*made.list()])] == ["intake.outside", "intake.address"]
    assert site.paths() == ["/sitemap.xml"]


def test_feeds_give_the_pages_they_link_to(site: Site, tmp_path: Path) -> None:
    rss = f"<rss><channel><link>{site.url('/')}</link><item><link>{site.url('/a')}</link></item></channel></rss>"
    atom = (
        f'<feed xmlns="http://www.w3.org/2005/Atom"><link href="{site.url("/")}"/><entry><link href="{site.url("/b")}"/>'
        f'<link rel="edit" href="{site.url("/edit")}"/><content>an extract</content></entry></feed>'
    )
    for feed, path in ((rss, "/a"), (atom, "/b")):
        site.routes["/feed"] = feed.encode()
        assert [item.uri for item in source(site, tmp_path, feed=site.url("/feed")).list()] == [site.url(path)]


@pytest.mark.parametrize(
    ("feed", "paths"),
    [
        pytest.param("<rss><channel><item><guid>@/a</guid></item></channel></rss>", ["/a"], id="permanent id"),
        pytest.param(
            "<rss><channel><item><link>@/a</link><guid>@/b</guid></item></channel></rss>", ["/a"], id="link and id"
        ),
        pytest.param("<rss><channel><item><link>a?x=1</link></item></channel></rss>", ["/dir/a?x=1"], id="relative"),
        pytest.param(
            '<feed><entry xml:base="/other/"><link href="a"/></entry><entry><link href="b"/></entry></feed>',
            ["/other/a", "/dir/b"],
            id="xml:base",
        ),
        pytest.param('<feed><entry><link rel="ALTERNATE" href="@/a"/></entry></feed>', ["/a"], id="case of rel"),
        pytest.param(
            '<feed><entry><link rel="http://www.iana.org/assignments/relation/alternate" href="@/a"/></entry></feed>',
            ["/a"],
            id="rel as IRI",
        ),
        pytest.param(
            '<feed xml:base="http://[bad/"><entry><link href="@/a"/></entry></feed>', ["/a"], id="broken base"
        ),
    ],
)
def test_each_form_of_a_link_is_found(site: Site, tmp_path: Path, feed: str, paths: list[str]) -> None:
    site.routes["/dir/feed"] = feed.replace("@", site.url("")).encode()
    listed = source(site, tmp_path, feed=site.url("/dir/feed")).list()
    assert [item.uri for item in listed] == [site.url(path) for path in paths]


def test_entries_without_a_page_are_counted(site: Site, tmp_path: Path) -> None:
    items = "<item><title>only words</title></item><item><guid isPermaLink='false'>7</guid></item>"
    site.routes["/feed"] = f"<rss><channel>{items}<item><link>{site.url('/a')}</link></item></channel></rss>".encode()
    made = source(site, tmp_path, feed=site.url("/feed"))
    assert [item.uri for item in made.list()] == [site.url("/a")]
    assert dict(made.skipped) == {"entries of a feed that link to no page": 2}


# --- declarations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"pages": ["ftp://docs.example/"]}, "begins with http"),
        ({"pages": ["https://me:pw@docs.example/"]}, "user or password"),
        ({"pages": ["http://docs.example:8080/"]}, r"ports: \[8080\]"),
        ({"pages": ["http://0x7f000001/"]}, "four decimal numbers"),
        ({"pages": ["http://docs.example/"], "feed": "http://docs.example/feed"}, "exactly one"),
        ({"hosts": ["https://docs.example"], "pages": ["http://docs.example/"]}, "without scheme"),
    ],
)
def test_a_mistake_in_a_declaration_says_what_to_write(said: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        WebConfig(kind="web", name="manual", owner="o", trust=TrustLevel.OPEN, **said)


def test_what_is_kept_of_a_page_is_small_and_plain(site: Site, tmp_path: Path) -> None:
    site.routes["/page"] = answer(
        200, page("A"), ETag='"' + "e" * 5_000 + '"', Last_Modified="Sat, 21 Nov 2026 10:00:00 GMT"
    )
    outcome = fetch(source(site, tmp_path))
    assert isinstance(outcome, Fetched)
    assert json.loads(outcome.validator or "") == {"modified": "Sat, 21 Nov 2026 10:00:00 GMT", "at": site.url("/page")}
