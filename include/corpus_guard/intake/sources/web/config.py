"""Keys of a declaration of ``kind: web``.

- kind: web
  name: manual
  sitemap: https://docs.example.org/sitemap.xml   # or pages: [https://…, …], or feed: https://…/feed.xml
  owner: docs@example.org
  trust: reviewed
  hosts: [www.example.org]            # hosts that redirects and listed pages may also lead to
  include: ["/guide/**"]              # of the URL's path, without its first slash
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from corpus_guard.intake.sources.config import PathGlobs, SourceConfig
from corpus_guard.intake.sources.web.urls import InvalidUrl, Url, canonical_host, parse_url


class WebConfig(SourceConfig, PathGlobs):
    """Pages over HTTP, named by exactly one of `pages`, `sitemap` and `feed`."""

    kind: Literal["web"]
    pages: Annotated[tuple[str, ...], Field(max_length=100_000)] = ()
    sitemap: str | None = None
    feed: str | None = None
    """RSS or Atom. The documents are the pages it links to, not the extracts in it. A page that leaves the feed
    vanishes, so a feed of the last ten entries makes a corpus of ten pages: prefer a sitemap where there is
    one."""
    hosts: tuple[str, ...] = ()
    """Hosts beside those named above that pages may lie on and redirects may lead to."""
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (80, 443)
    allow_private: tuple[str, ...] = ()
    """Addresses, networks (10.1.0.0/16) and host names that may be reached although they are not public. A host name
    may lead to private and loopback addresses, never to link-local ones, where clouds keep their
    credentials."""
    ignore_robots: bool = False
    """For hosts of your own."""
    delay: Annotated[float, Field(ge=0, le=60)] = 0.5
    """Seconds between two requests to one host; a longer Crawl-delay in its robots.txt wins."""
    seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """Time limit of one attempt at a page, redirects included."""
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    """After 429, 5xx, or no answer."""
    max_pages: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    """A longer list is refused as a whole: half a list would look as if the other pages had been deleted."""

    @field_validator("sitemap", "feed")
    @classmethod
    def _canonical_url(cls, url: str | None) -> str | None:
        return url if url is None else str(_parse(url))

    @field_validator("pages")
    @classmethod
    def _canonical_urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(_parse(url)) for url in urls))

    @field_validator("hosts")
    @classmethod
    def _canonical_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(canonical_host(host) for host in hosts)
        except InvalidUrl as error:
            raise ValueError(f"expected host names without scheme, port and path; {error}") from error

    @field_validator("allow_private")
    @classmethod
    def _addresses_or_hosts(cls, allowed: tuple[str, ...]) -> tuple[str, ...]:
        for entry in allowed:
            try:
                ipaddress.ip_network(entry, strict=False)
            except ValueError:
                try:
                    canonical_host(entry)
                except InvalidUrl as error:
                    raise ValueError(f"expected an address, a network or a host name; {error}") from error
        return allowed

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if sum(map(bool, (self.pages, self.sitemap, self.feed))) != 1:
            raise ValueError("give exactly one of pages, sitemap and feed: a list of URLs, or the URL of one")
        for url in self.starts:
            if url.port not in self.ports:
                raise ValueError(f"port {url.port} is not allowed; to allow it, add ports: [{url.port}]")
        return self

    @property
    def starts(self) -> tuple[Url, ...]:
        """The URLs that the declaration names."""
        return tuple(parse_url(url) for url in (*self.pages, *filter(None, (self.sitemap, self.feed))))


def _parse(url: str) -> Url:
    try:
        return parse_url(url)
    except InvalidUrl as error:
        raise ValueError(str(error)) from error
