"""Pages of the web as a source.

Rules:

- A document's uri is its canonical URL as it was listed, whatever it redirects to.
- What is kept of a page is its ETag and Last-Modified and where they were said; asked again, the page costs one conditional request.
- 404 and 410 are gone: the document vanishes after the policy's grace. Whatever else is not the page (5xx, a login, an error page
  that says 200, a refusal) is a failure with a code, and the version that is there stays.
- A list that cannot be read whole, a sitemap in a sitemap included, is no list.
- A server that five times in a row does not answer is not asked again in this batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import httpcore

from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources._glob import globbing
from corpus_guard.intake.sources.source import Fetched, FetchFailed, Item, Opening, Outcome, Unchanged, too_large
from corpus_guard.intake.sources.web import addresses, lists
from corpus_guard.intake.sources.web.client import Answer, BodyTooLarge, Client, Failed
from corpus_guard.intake.sources.web.config import WebConfig
from corpus_guard.intake.sources.web.pace import Pace
from corpus_guard.intake.sources.web.robots import Robots
from corpus_guard.intake.sources.web.soft_errors import led_to_login, not_the_page
from corpus_guard.intake.sources.web.urls import BadUrl, Url, parse

MAX_MAPS = 1_000  # sitemaps of one index
GIVE_UP_AFTER = 5  # pages of one host in a row that got no answer
_GONE = frozenset({404, 410})
_REFUSED = frozenset({401, 402, 403, 407, 451})
_TYPES = {
    "text/html": media.HTML,
    "application/xhtml+xml": media.HTML,
    "text/markdown": media.MARKDOWN,
    "text/plain": media.TEXT,
    "application/pdf": media.PDF,
}


class WebSource:
    """See the module's rules."""

    Config = WebConfig

    def __init__(
        self,
        config: WebConfig,
        opening: Opening,
        resolve: addresses.Resolve = addresses.resolve,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        self.name = config.name
        self.owner = config.owner
        self.trust = config.trust
        self._config = config
        self._max_bytes = opening.max_bytes
        self._pace = Pace(opening.cache)
        self._wanted = globbing(config)
        self._resolve, self._network = resolve, network

    def list(self) -> Iterator[Item]:
        """Every page, once; raises SourceUnavailable (see `Source`)."""
        if self._config.pages:
            urls: Iterator[str] = iter(self._config.pages)
        else:
            with closing(self._client()) as client:
                listed = self._listed(client)
            if not listed:
                start = self._config.starts[0]
                raise self._unlisted(start, "lists no page; an empty list would look like every page having gone")
            urls = iter(listed)
        seen: set[str] = set()
        for text in urls:
            try:
                url = parse(text)
            except BadUrl:
                if text not in seen:  # named, as all that is listed, and refused when it is fetched
                    seen.add(text)
                    yield Item(text[:1_000].encode("unicode-escape").decode(), None, None, json.dumps(None))
                continue
            if str(url) not in seen and self._wanted(url.path.removeprefix("/") or "index"):
                seen.add(str(url))
                yield Item(str(url), None, None, json.dumps(str(url)))

    def fetch(self, items: Sequence[Item]) -> Iterator[Outcome]:
        """The pages, one after the other."""
        with closing(self._client()) as client:
            robots = Robots(client)
            silent: dict[str, int] = {}
            for item in items:
                yield self._fetch(client, robots, silent, item)

    def _client(self) -> Client:
        return Client(self._config, self._pace, self._resolve, self._network)

    def _fetch(self, client: Client, robots: Robots, silent: dict[str, int], item: Item) -> Outcome:
        try:
            url = parse(json.loads(item.locator) or item.uri)
        except (BadUrl, TypeError) as error:
            return FetchFailed(item, "intake.address", str(error))
        if silent.get(url.host, 0) >= GIVE_UP_AFTER:
            return FetchFailed(
                item,
                "intake.server",
                f"{url.host} did not answer {GIVE_UP_AFTER} times in a row; the next run asks again",
            )
        outcome = self._answered(client, robots, url, item)
        none = isinstance(outcome, FetchFailed) and outcome.code in {"intake.server", "intake.too_slow"}
        silent[url.host] = silent.get(url.host, 0) + 1 if none else 0
        return outcome

    def _answered(self, client: Client, robots: Robots, url: Url, item: Item) -> Outcome:
        try:
            return self._outcome(item, url, self._ask(client, robots, url, item.known))
        except BodyTooLarge as error:
            return too_large(item, error.size, self._max_bytes)
        except Failed as error:
            return FetchFailed(item, error.code, str(error))

    def _ask(self, client: Client, robots: Robots, url: Url, known: str | None) -> Answer:
        permit = (lambda url: None) if self._config.ignore_robots else robots.permit
        said = _known(known)
        answer = client.get(url, self._max_bytes, lambda at: _conditions(said), permit)
        if answer.status == 304 and said.get("at") != str(answer.url):
            # The same ETag at another place is another page's.
            answer = client.get(url, self._max_bytes, permit=permit)
        return answer

    def _outcome(self, item: Item, url: Url, answer: Answer) -> Outcome:
        status = answer.status
        if answer.redirected and led_to_login(url.path, answer.url.path):
            return FetchFailed(
                item, "intake.login", "it redirects to where people sign in; pages that need a login are not fetched"
            )
        if status == 304 and item.known is not None:
            return Unchanged(item)
        if status != 200:
            return FetchFailed(item, *_refusal(status))
        media_type = _media_type(answer, item.uri)
        if media_type == media.HTML and (code := not_the_page(answer.body)):
            return FetchFailed(
                item, code, "the server says 200, and what came is an error page or a login; what is there stays"
            )
        return Fetched(item, answer.body, media_type, validator=_validator(answer))

    def _listed(self, client: Client) -> Sequence[str]:
        limit = self._config.max_pages
        if self._config.feed:
            links: Sequence[str] = self._read(
                client, parse(self._config.feed), lambda content: lists.read_feed(content, limit)
            )
            return links
        pages: Sequence[str] = ()
        pending, seen = [parse(self._config.sitemap or "")], {self._config.sitemap}
        while pending:
            at = pending.pop(0)
            listed = self._read(client, at, lambda content: lists.read_sitemap(content, limit))
            pages = [*pages, *listed.pages]
            for text in listed.maps:
                try:
                    url = parse(text, base=at)
                except BadUrl as error:
                    raise self._unlisted(at, f"names a sitemap that cannot be asked: {error}") from error
                if str(url) not in seen:
                    seen.add(str(url))
                    pending.append(url)
            if len(pages) > limit or len(seen) > MAX_MAPS:
                raise self._unlisted(
                    at, f"and the sitemaps with it list more than {limit:,} pages or {MAX_MAPS:,} sitemaps"
                )
        return pages

    def _read(self, client: Client, url: Url, read: Any) -> Any:
        try:
            answer = client.get(url, lists.MAX_BYTES)
            if answer.status != 200:
                raise self._unlisted(url, f"answers {answer.status}")
            return read(answer.body)
        except BodyTooLarge as error:
            raise self._unlisted(url, f"has more than {lists.MAX_BYTES:,} bytes") from error
        except (Failed, lists.BadList) as error:
            raise self._unlisted(url, str(error)) from error

    def _unlisted(self, url: Url, why: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"source {self.name}: {url.origin}{url.path}: {why}; check the declaration, then run again"
        )


def _refusal(status: int) -> tuple[str, str]:
    if status in _GONE:
        return "intake.gone", f"the server answers {status}: the page vanishes after its grace"
    if status in _REFUSED:
        return "intake.refused", f"the server answers {status}; what is there stays"
    if status == 429 or status >= 500:
        return "intake.server", f"the server answers {status}; the next run asks again"
    return "intake.unreadable", f"the server answers {status}; expected 200"


def _known(known: str | None) -> dict[str, str]:
    try:
        said = json.loads(known or "{}")
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _conditions(said: dict[str, str]) -> dict[str, str]:
    found = {"If-None-Match": said.get("etag"), "If-Modified-Since": said.get("modified")}
    return {name: value for name, value in found.items() if value}


def _validator(answer: Answer) -> str | None:
    """ETag and date as said, where they can be sent back as they are; None where there is neither."""
    said = {"etag": answer.headers.get("etag", ""), "modified": answer.headers.get("last-modified", "")}
    kept = {
        name: value
        for name, value in said.items()
        if value.isprintable() and value.isascii() and 0 < len(value) <= 1_000
    }
    return json.dumps({**kept, "at": str(answer.url)}) if kept else None


def _media_type(answer: Answer, uri: str) -> str:
    said = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _TYPES.get(said) or media.by_name(uri.partition("?")[0])
