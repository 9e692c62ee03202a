"""robots.txt (RFC 9309): asked once a run and host, obeyed unless the source says that the host is its own.

A host without one allows everything; one that answers 5xx, or not at all, allows nothing until it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corpus_guard.intake.sources.web.client import AGENT, BodyTooLarge, Client, Failed
from corpus_guard.intake.sources.web.urls import Url, parse

if TYPE_CHECKING:
    from protego import Protego

LIMIT = 512 * 1024  # bytes; RFC 9309 asks for 500 KiB at least
LONGEST_DELAY = 60.0  # seconds between two pages; a host that asks for more is not fetched from


class Robots:
    """What hosts ask of visitors."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._rules: dict[str, Protego | Failed] = {}

    def permit(self, url: Url) -> None:
        """Raises Failed where robots.txt asks not to fetch `url`, or nobody knows."""
        if url.origin not in self._rules:
            self._rules[url.origin] = self._ask(url)
        rules = self._rules[url.origin]
        if isinstance(rules, Failed):
            raise rules
        if not rules.can_fetch(str(url), AGENT):
            raise Failed(
                "intake.robots",
                f"the robots.txt of {url.host} asks not to fetch it; ask its owner, or set ignore_robots for a host of your own",
            )

    def _ask(self, url: Url) -> Protego | Failed:
        from protego import Protego

        try:
            answer = self._client.get(parse("/robots.txt", base=url), LIMIT)
        except BodyTooLarge:
            return Failed("intake.robots", f"the robots.txt of {url.host} is larger than {LIMIT:,} bytes")
        except Failed as error:
            return error
        if answer.status >= 500 or answer.status == 429:
            return Failed(
                "intake.server",
                f"the robots.txt of {url.host} answers {answer.status}; nothing is fetched until it is there",
            )
        text = answer.body.decode("utf-8", "replace") if answer.status == 200 else ""
        rules = Protego.parse(text)
        delay = rules.crawl_delay(AGENT)
        if delay is not None and delay > LONGEST_DELAY:
            return Failed(
                "intake.robots",
                f"the robots.txt of {url.host} asks for {delay:g} seconds between pages; that is no refresh",
            )
        self._client.pauses[url.host] = float(delay or 0.0)
        return rules
