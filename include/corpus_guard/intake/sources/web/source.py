"""Pages of the web as a source.

Rules:

- A document's uri is its canonical URL as it was listed, whatever it redirects to.
- The validator of a page is its ETag and Last-Modified with the URL that sent them: an unchanged page costs
  one conditional request.
- 404 and 410 mean gone: the document vanishes after the policy's grace. Any other answer that is not the page
  (5xx, a login, an error page with status 200, a refusal) is a failure with a code, and the served version
  stays.
- A list that cannot be read whole, a sitemap of an index included, makes the source unavailable. An entry of a
  feed that links to no page is counted.
- A server that leaves five requests in a row unanswered gets no more in this batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TypeVar

import httpcore

from corpus_guard.domain import sha256_bytes
from corpus_guard.errors import SourceUnavailable
from corpus_guard.intake.parsing import media
from corpus_guard.intake.sources.source import (
    ConfiguredSource,
    Fetched,
    FetchFailed,
    Outcome,
    SkipReason,
    SourceContext,
    SourceItem,
    Unchanged,
    oversize_failure,
)
from corpus_guard.intake.sources.web import addresses, sitemaps
from corpus_guard.intake.sources.web.client import PageError, PageResponse, PageTooLarge, WebClient
from corpus_guard.intake.sources.web.config import WebConfig
from corpus_guard.intake.sources.web.pacing import HostPacing
from corpus_guard.intake.sources.web.robots import RobotsRules
from corpus_guard.intake.sources.web.soft_errors import classify_soft_error, redirected_to_login
from corpus_guard.intake.sources.web.urls import InvalidUrl, Url, parse_url

MAX_SITEMAPS = 1_000  # of one index
MAX_UNANSWERED = 5  # pages of one host in a row
_GONE = frozenset({404, 410})
_REFUSED = frozenset({401, 402, 403, 407, 451})
_MEDIA_TYPES = {
    "text/html": media.HTML,
    "application/xhtml+xml": media.HTML,
    "text/markdown": media.MARKDOWN,
    "text/plain": media.TEXT,
    "application/pdf": media.PDF,
}
_Urls = TypeVar("_Urls")


class WebSource(ConfiguredSource[WebConfig]):
    """Source over pages of the web; see the module's rules."""

    Config = WebConfig

    def __init__(
        self,
        config: WebConfig,
        context: SourceContext,
        resolve: addresses.Resolve = addresses.resolve,
        network: httpcore.NetworkBackend | None = None,
    ) -> None:
        super().__init__(config, context)
        self._pacing = HostPacing(context.cache)
        self._matches = config.matcher()
        self._resolve, self._network = resolve, network

    def list(self) -> Iterator[SourceItem]:
        """Yield every page once; raise SourceUnavailable (see `Source`)."""
        self.skipped.clear()
        urls: Sequence[str] = self._config.pages
        if not urls:
            with closing(self._open_client()) as client:
                urls = self._read_list(client)
            if not urls:
                reason = "lists no page; an empty list would look as if every page had been deleted"
                raise self._unlistable(self._config.starts[0], reason)
        listed: set[str] = set()
        for text in urls:
            try:
                url = parse_url(text)
            except InvalidUrl:
                if text not in listed:  # listed like the others, and refused when it is fetched
                    listed.add(text)
                    yield SourceItem(_refused_uri(text), None, None, json.dumps(None))
                continue
            if str(url) not in listed and self._matches(url.path.removeprefix("/") or "index"):
                listed.add(str(url))
                yield SourceItem(str(url), None, None, json.dumps(str(url)))

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield the pages, one after the other."""
        with closing(self._open_client()) as client:
            robots = RobotsRules(client)
            unanswered: dict[str, int] = {}  # in a row, by host
            for item in items:
                yield self._fetch(client, robots, unanswered, item)

    def _open_client(self) -> WebClient:
        return WebClient(self._config, self._pacing, self._resolve, self._network)

    def _fetch(self, client: WebClient, robots: RobotsRules, unanswered: dict[str, int], item: SourceItem) -> Outcome:
        try:
            url = parse_url(json.loads(item.locator) or item.uri)
        except (InvalidUrl, TypeError) as error:
            return FetchFailed(item, "intake.address", str(error))
        if unanswered.get(url.host, 0) >= MAX_UNANSWERED:
            message = f"{url.host} did not answer {MAX_UNANSWERED} times in a row; the next run asks again"
            return FetchFailed(item, "intake.server", message)
        outcome = self._fetch_page(client, robots, url, item)
        failed = isinstance(outcome, FetchFailed) and outcome.code in {"intake.server", "intake.too_slow"}
        unanswered[url.host] = unanswered.get(url.host, 0) + 1 if failed else 0
        return outcome

    def _fetch_page(self, client: WebClient, robots: RobotsRules, url: Url, item: SourceItem) -> Outcome:
        try:
            return self._outcome(item, url, self._request(client, robots, url, item.known_validator))
        except PageTooLarge as error:
            return oversize_failure(item, error.size, self._context.max_bytes)
        except PageError as error:
            return FetchFailed(item, error.code, str(error))

    def _request(self, client: WebClient, robots: RobotsRules, url: Url, known_validator: str | None) -> PageResponse:
        permit = (lambda url: None) if self._config.ignore_robots else robots.permit
        validator = _parse_validator(known_validator)
        limit = self._context.max_bytes
        response = client.get(url, limit, lambda url: _conditional_headers(validator), permit)
        if response.status == 304 and validator.get("at") != str(response.url):
            # The same ETag at another place belongs to another page.
            response = client.get(url, limit, permit=permit)
        return response

    def _outcome(self, item: SourceItem, url: Url, response: PageResponse) -> Outcome:
        status = response.status
        if response.redirected and redirected_to_login(url.path, response.url.path):
            return FetchFailed(
                item, "intake.login", "it redirects to a login page; pages that need a login are not fetched"
            )
        if status == 304 and item.known_validator is not None:
            return Unchanged(item)
        if status != 200:
            return FetchFailed(item, *_explain_status(status))
        media_type = _media_type(response, item.uri)
        if media_type == media.HTML and (code := classify_soft_error(response.body)):
            return FetchFailed(
                item, code, "the server answers 200 with an error page or a login; the served version stays"
            )
        return Fetched(item, response.body, media_type, validator=_make_validator(response))

    def _read_list(self, client: WebClient) -> Sequence[str]:
        limit = self._config.max_pages
        if self._config.feed:
            feed = parse_url(self._config.feed)
            listed = self._read(client, feed, lambda content: sitemaps.read_feed(content, limit))
            self.skipped[SkipReason.NO_LINK] += listed.unlinked
            return [sitemaps.join_url(str(feed), text) for text in listed.pages]
        pages: Sequence[str] = ()
        pending, requested = [parse_url(self._config.sitemap or "")], {self._config.sitemap}
        while pending:
            current = pending.pop(0)
            urls = self._read(client, current, lambda content: sitemaps.read_sitemap(content, limit))
            pages = [*pages, *urls.pages]
            for text in urls.sitemaps:
                try:
                    url = parse_url(text, base=current)
                except InvalidUrl as error:
                    raise self._unlistable(current, f"names a sitemap that cannot be requested: {error}") from error
                if str(url) not in requested:
                    requested.add(str(url))
                    pending.append(url)
            if len(pages) > limit or len(requested) > MAX_SITEMAPS:
                reason = f"and the sitemaps with it list more than {limit:,} pages or {MAX_SITEMAPS:,} sitemaps"
                raise self._unlistable(current, reason)
        return pages

    def _read(self, client: WebClient, url: Url, read: Callable[[bytes], _Urls]) -> _Urls:
        try:
            response = client.get(url, sitemaps.MAX_BYTES)
            if response.status != 200:
                raise self._unlistable(url, f"answers {response.status}")
            return read(response.body)
        except PageTooLarge as error:
            raise self._unlistable(url, f"has more than {sitemaps.MAX_BYTES:,} bytes") from error
        except (PageError, sitemaps.ListError) as error:
            raise self._unlistable(url, str(error)) from error

    def _unlistable(self, url: Url, reason: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"source {self.name}: {url.origin}{url.path}: {reason}; check the declaration, then run again"
        )


def _refused_uri(text: str) -> str:
    """Return the uri of a listed URL that will be refused; distinct ones stay distinct."""
    uri = text[:1_000].encode("unicode-escape").decode()
    return uri if len(text) <= 1_000 else f"{uri}~{sha256_bytes(text.encode('utf-8', 'surrogatepass'))[:16]}"


def _explain_status(status: int) -> tuple[str, str]:
    """Return the code and the message of a failure."""
    if status in _GONE:
        return "intake.gone", f"the server answers {status}; the page vanishes after its grace"
    if status in _REFUSED:
        return "intake.refused", f"the server answers {status}; the served version stays"
    if status == 429 or status >= 500:
        return "intake.server", f"the server answers {status}; the next run asks again"
    return "intake.unreadable", f"the server answers {status}; expected 200"


def _parse_validator(validator: str | None) -> Mapping[str, str]:
    try:
        parsed = json.loads(validator or "{}")
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _conditional_headers(validator: Mapping[str, str]) -> Mapping[str, str]:
    headers = {"If-None-Match": validator.get("etag"), "If-Modified-Since": validator.get("modified")}
    return {name: value for name, value in headers.items() if value}


def _make_validator(response: PageResponse) -> str | None:
    """Return ETag and date, where they can be sent back unchanged; None where there is neither."""
    headers = {"etag": response.headers.get("etag", ""), "modified": response.headers.get("last-modified", "")}
    usable = {
        name: value
        for name, value in headers.items()
        if value.isprintable() and value.isascii() and 0 < len(value) <= 1_000
    }
    return json.dumps({**usable, "at": str(response.url)}) if usable else None


def _media_type(response: PageResponse, uri: str) -> str:
    stated = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _MEDIA_TYPES.get(stated) or media.guess_by_name(uri.partition("?")[0])
