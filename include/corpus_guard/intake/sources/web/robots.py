"""robots.txt (RFC 9309): read once a run and host, obeyed unless the source declares the host as its own.

A host without one allows everything; one that answers 5xx, or not at all, allows nothing until it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus_guard.intake.sources.web.client import AGENT, PageError, PageTooLarge, WebClient
from corpus_guard.intake.sources.web.urls import Url, parse_url

if TYPE_CHECKING:
    from protego import Protego

MAX_BYTES = 512 * 1024  # RFC 9309 asks for 500 KiB at least
MAX_DELAY_SECONDS = 60.0  # between two pages; a host that asks for more is not fetched from


class RobotsRules:
    """The rules of the hosts one run visits."""

    def __init__(self, client: WebClient) -> None:
        self._client = client
        self._rules: dict[str, Protego | PageError] = {}

    def permit(self, url: Url) -> None:
        """Raise PageError where robots.txt forbids `url`, or cannot be read."""
        if url.origin not in self._rules:
            self._rules[url.origin] = self._read(url)
        rules = self._rules[url.origin]
        if isinstance(rules, PageError):
            raise rules
        if not rules.can_fetch(str(url), AGENT):
            raise PageError(
                "intake.robots",
                f"the robots.txt of {url.host} asks not to fetch it; ask its owner, "
                "or set ignore_robots for a host of your own",
            )

    def _read(self, url: Url) -> Protego | PageError:
        from protego import Protego

        try:
            response = self._client.get(parse_url("/robots.txt", base=url), MAX_BYTES)
        except PageTooLarge:
            return PageError("intake.robots", f"the robots.txt of {url.host} is larger than {MAX_BYTES:,} bytes")
        except PageError as error:
            return PageError(error.code, f"the robots.txt of {url.host} cannot be read: {error}")
        if response.status >= 500 or response.status == 429:
            return PageError(
                "intake.server",
                f"the robots.txt of {url.host} answers {response.status}; nothing is fetched until it can be read",
            )
        text = response.body.decode("utf-8-sig", "replace") if response.status == 200 else ""
        rules = Protego.parse(text)
        delay = rules.crawl_delay(AGENT)
        if delay is not None and delay > MAX_DELAY_SECONDS:
            return PageError(
                "intake.robots",
                f"the robots.txt of {url.host} asks for {delay:g} seconds between pages, too long for a refresh; "
                f"at most {MAX_DELAY_SECONDS:g} are accepted",
            )
        self._client.pauses[url.host] = float(delay or 0.0)
        return rules
