"""What a connector is: it lists items without reading them, and fetches the bytes of those it is asked for.

Rules every connector keeps:

- One item that cannot be fetched is a `FetchFailed` in its place, never an exception: the others go on.
- A source that cannot be listed as a whole raises `corpus_guard.errors.SourceUnavailable`. It never lists as empty: an
  empty list would look like every document having been deleted.
- Names and metadata that arrive with a document are data. No connector builds a path to write to from them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

from corpus_guard.domain import Finding, TrustLevel
from corpus_guard.intake.parsing.parsed import MAX_DECLARED

__all__ = [
    "MAX_BYTES",
    "MAX_DECLARED",
    "FetchFailed",
    "Fetched",
    "Item",
    "Source",
    "as_utc",
    "public_url",
    "storable",
    "too_large",
]

MAX_BYTES = 32 * 2**20
"""Bytes one document may have, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Item:
    """A document's place in a source, as cheap listing sees it."""

    uri: str  # canonical path inside the source, posix; control characters are kept: they are data
    size: int | None  # bytes, where the storage says so
    modified_at: datetime | None  # of the file, as its storage reports it, UTC
    locator: str  # JSON, ASCII: what `fetch` needs to find the bytes again


@dataclass(frozen=True, slots=True)
class Fetched:
    """An item's bytes."""

    item: Item
    content: bytes
    media_type: str  # as the place suggests; `corpus_guard.intake.parsing.media` decides by content
    declared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # what it says of itself
    problems: tuple[Finding, ...] = ()  # what fetching found wrong with this one item


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """An item whose bytes were not taken, and why.

    Codes: ``parsing.too_large``; ``intake.gone`` and ``intake.changed`` (between listing and fetching),
    ``intake.unreadable`` (the storage refuses), ``intake.outside`` (the place leads out of the source).
    """

    item: Item
    code: str
    message: str  # never the document's text


class Source(Protocol):
    """A place that holds documents, with an owner who vouches for it to a stated degree."""

    name: str
    owner: str
    trust: TrustLevel

    def list(self) -> Iterator[Item]:
        """Every document, without its bytes.

        Raises:
            SourceUnavailable: the source as a whole cannot be listed; the message names its URL.
        """
        ...

    def fetch(self, items: Sequence[Item]) -> Iterator[Fetched | FetchFailed]:
        """The bytes of `items`, in their order, one outcome each."""
        ...


def public_url(url: str) -> str:
    """`url` without user, password, query and fragment: fit for messages."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def too_large(item: Item, found: int | None, limit: int) -> FetchFailed:
    """The outcome for a document above the limit; `found` in bytes, None where reading stopped at the limit."""
    size = f"{found:,} bytes" if found is not None else f"more than {limit:,} bytes"
    return FetchFailed(item, "parsing.too_large", f"the document has {size}; the limit is {limit:,} bytes")


def storable(path: str) -> str:
    """A path as text that UTF-8 can hold; distinct names stay distinct."""
    try:
        path.encode()
    except UnicodeEncodeError:
        # A local name that is no UTF-8 arrives with lone surrogates. The escape alone could collide with a name
        # that holds a literal backslash, hence the hash.
        raw = os.fsencode(path)
        return f"{raw.decode('utf-8', 'backslashreplace')}~{hashlib.sha256(raw).hexdigest()[:16]}"
    return path


def as_utc(value: Any) -> datetime | None:
    """A storage's modification time, whatever form it has; None where it makes no sense."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, int | float):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError, ValueError):
            return None
    return None
