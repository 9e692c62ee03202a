"""What a connector is: it lists items without reading them, and fetches the bytes of those it is asked for.

What a source says of a document's bytes without sending them is its *validator*: ETag and date of a page, ETag and time of an
object, hash of a git blob, watermark of a row. It is opaque to everybody but its source. The refresh keeps the last one with
the hash of the bytes it came with, and gives it back:

- `list` says an item's validator where listing knows it. One that is as it was kept is not fetched.
- `fetch` finds the kept one in `Item.known` and may answer `Unchanged`, without the bytes.
- A document without a validator is fetched and hashed each time. Files on disk have none, on purpose: times and sizes are
  set by whoever writes the file, and hashing a local file costs little more than reading its metadata and is never wrong.

Rules every connector keeps:

- A validator is taken before the bytes it stands for, or with them, never after: bytes that change in between are read again.
- Whatever of a source's configuration shapes the bytes (which column is the text) goes into the validator.
- `Unchanged` is an answer to `Item.known` alone. Without it the bytes are wanted.

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
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol
from urllib.parse import urlsplit

from corpus_guard.domain import Finding, TrustLevel
from corpus_guard.intake.parsing.parsed import MAX_DECLARED
from corpus_guard.intake.sources.connections import Connections, from_environment

__all__ = [
    "MAX_BYTES",
    "MAX_DECLARED",
    "FetchFailed",
    "Fetched",
    "Item",
    "Opening",
    "Outcome",
    "Source",
    "Unchanged",
    "as_utc",
    "public_url",
    "storable",
    "too_large",
]

MAX_BYTES = 32 * 2**20
"""Bytes one document may have, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a connector gets of the deployment it is opened in."""

    max_bytes: int = MAX_BYTES  # of one document
    connections: Connections = from_environment  # credentials, by the name a declaration gives them
    cache: Path | None = (
        None  # a folder for what may be lost: clones, when a host was last asked; None: a temporary one
    )


@dataclass(frozen=True, slots=True)
class Item:
    """A document's place in a source, as cheap listing sees it."""

    uri: str  # canonical path inside the source, posix; control characters are kept: they are data
    size: int | None  # bytes, where the storage says so
    modified_at: datetime | None  # of the file, as its storage reports it, UTC
    locator: str  # JSON, ASCII: what `fetch` needs to find the bytes again
    validator: str | None = None  # of the bytes as listed; None: listing cannot tell
    known: str | None = None  # the validator of the bytes the ledger has; None: none that counts, send the bytes


@dataclass(frozen=True, slots=True)
class Fetched:
    """An item's bytes."""

    item: Item
    content: bytes
    media_type: str  # as the place suggests; `corpus_guard.intake.parsing.media` decides by content
    declared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # what it says of itself
    problems: tuple[Finding, ...] = ()  # what fetching found wrong with this one item
    validator: str | None = None  # of these bytes; None: the source has none
    revision: str | None = None  # where in the source's history: a git commit, a version of an object


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An item whose bytes are those of `Item.known`, as the source says."""

    item: Item


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """An item whose bytes were not taken, and why.

    Codes: ``parsing.too_large``; ``intake.gone`` (it vanishes, after the policy's grace) and ``intake.changed`` (between listing
    and fetching), ``intake.unreadable`` (the storage refuses, or nothing that can be understood came),
    ``intake.outside`` (the place leads out of the source), ``intake.address`` (its host leads to an address that is not
    allowed), ``intake.robots`` (robots.txt asks not to), ``intake.login``, ``intake.refused`` (401, 403), ``intake.error_page``,
    ``intake.server`` (5xx, 429, no answer), ``intake.too_slow``, ``intake.lfs_pointer``, ``intake.no_id``.
    """

    item: Item
    code: str
    message: str  # never the document's text


Outcome = Fetched | FetchFailed | Unchanged


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

    def fetch(self, items: Sequence[Item]) -> Iterator[Outcome]:
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
