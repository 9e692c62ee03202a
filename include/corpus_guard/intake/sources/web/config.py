"""What a declaration of ``kind: web`` says.

- kind: web
  name: manual
  sitemap: https://docs.example.org/sitemap.xml   # or pages: [https://…, …], or feed: https://…/feed.xml
  owner: docs@example.org
  trust: reviewed
  hosts: [www.example.org]            # where redirects and listed pages may also lead
  include: ["/guide/**"]              # of the URL's path, without its first slash
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from corpus_guard.intake.sources.declared import Declared, Globs
from corpus_guard.intake.sources.web.urls import BadUrl, Url, host_of, parse


class WebConfig(Declared, Globs):
    """Pages over HTTP; exactly one of `pages`, `sitemap` and `feed` says which."""

    kind: Literal["web"]
    pages: Annotated[tuple[str, ...], Field(max_length=100_000)] = ()
    sitemap: str | None = None
    feed: str | None = None
    """RSS or Atom. The pages it links to are the documents, not the extracts in it; what leaves the feed vanishes, so a feed that
    shows the last ten entries makes a corpus of ten pages: prefer the sitemap where there is one."""
    hosts: tuple[str, ...] = ()
    """Hosts beside those named above that pages may lie on and redirects may lead to."""
    ports: tuple[Annotated[int, Field(ge=1, le=65_535)], ...] = (80, 443)
    allow_private: tuple[str, ...] = ()
    """Addresses, networks (10.1.0.0/16) and host names that may be reached although they are not public. A host name opens
    private and loopback addresses to it, never link-local ones, where clouds keep their credentials."""
    ignore_robots: bool = False
    """For hosts of your own."""
    delay: Annotated[float, Field(ge=0, le=60)] = 0.5
    """Seconds between two requests to one host; a longer Crawl-delay of its robots.txt wins."""
    seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """One attempt at a page may take, redirects and all."""
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    """After 429, 5xx, or no answer."""
    max_pages: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    """A list that holds more is not taken at all: half a list would look like half of the pages having gone."""

    @field_validator("sitemap", "feed")
    @classmethod
    def _url(cls, url: str | None) -> str | None:
        return url if url is None else str(_parsed(url))

    @field_validator("pages")
    @classmethod
    def _urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(_parsed(url)) for url in urls))

    @field_validator("hosts")
    @classmethod
    def _hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return tuple(host_of(host) for host in hosts)
        except BadUrl as error:
            raise ValueError(f"expected host names without scheme, port and path; {error}") from error

    @field_validator("allow_private")
    @classmethod
    def _private(cls, allowed: tuple[str, ...]) -> tuple[str, ...]:
        for one in allowed:
            try:
                ipaddress.ip_network(one, strict=False)
            except ValueError:
                try:
                    host_of(one)
                except BadUrl as error:
                    raise ValueError(f"expected an address, a network or a host name; {error}") from error
        return allowed

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if sum(map(bool, (self.pages, self.sitemap, self.feed))) != 1:
            raise ValueError("give exactly one of pages, sitemap and feed: a list of URLs, or the URL of one")
        for url in self.starts:
            if url.port not in self.ports:
                raise ValueError(f"port {url.port} is not allowed; add ports: [{url.port}] if it is meant")
        return self

    @property
    def starts(self) -> tuple[Url, ...]:
        """The URLs that are given here."""
        return tuple(parse(url) for url in (*self.pages, *filter(None, (self.sitemap, self.feed))))


def _parsed(url: str) -> Url:
    try:
        return parse(url)
    except BadUrl as error:
        raise ValueError(str(error)) from error
