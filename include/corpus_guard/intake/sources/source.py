"""The contract of a connector: list items without reading them, then fetch the bytes of those it is asked for.

A *validator* is what a source states about a document's bytes without sending them: ETag and date of a page,
ETag and time of an object, hash of a git blob, watermark of a row. Only its source can read it. The refresh
keeps the last one together with the hash of the bytes it came with, and hands it back:

- `list` states an item's validator where listing knows it. An item whose validator is unchanged is not
  fetched.
- `fetch` finds the kept one in `SourceItem.known_validator` and may answer `Unchanged`, without the bytes.
- A document without a validator is fetched and hashed each time. Files on disk have none, on purpose: whoever
  writes a file sets its time and size; hashing a local file costs little more than reading its metadata and
  is never wrong.

Rules for every connector:

- Take a validator before the bytes it stands for, or with them, never after: bytes that change in between are
  read again.
- Put into the validator whatever in the source's configuration shapes the bytes (which column is the text).
- Answer `Unchanged` only to `SourceItem.known_validator`. Without it, send the bytes.
- Report an item that cannot be fetched as a `FetchFailed` in its place, never as an exception: the others go
  on.
- Raise `corpus_guard.errors.SourceUnavailable` when the source as a whole cannot be listed. Never list it as
  empty: an empty list would look as if every document had been deleted.
- Treat names and metadata that arrive with a document as data. Never build a path to write to from them.
- Count what `list` passes over in an attribute `skipped` (reason → number): people look for a file that is
  missing. A connector without it counts as one that passes over nothing.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, Self, TypeVar
from urllib.parse import urlsplit

from corpus_guard.domain import Finding, TrustLevel
from corpus_guard.intake.parsing.media import names_no_text
from corpus_guard.intake.sources.config import SourceConfig
from corpus_guard.intake.sources.connections import Connections, from_environment

MAX_BYTES = 32 * 2**20
"""Bytes one document may have, unless the caller says otherwise."""

ConfigT = TypeVar("ConfigT", bound=SourceConfig)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """Limits, credentials and scratch space that a deployment gives a connector."""

    max_bytes: int = MAX_BYTES  # of one document
    connections: Connections = from_environment  # credentials, by the name a declaration gives them
    cache: Path | None = None  # folder for what may be lost: clones, times of requests; None: a temporary one


@dataclass(frozen=True, slots=True)
class SourceItem:
    """A document's place in a source, as a cheap listing sees it."""

    uri: str  # canonical path inside the source, posix; control characters are kept: they are data
    size: int | None  # bytes, where the storage says so
    modified_at: datetime | None  # of the file, as its storage reports it, UTC
    locator: str  # JSON, ASCII: what `fetch` needs to find the bytes again
    validator: str | None = None  # of the bytes as listed; None: listing cannot tell
    known_validator: str | None = None  # of the bytes in the ledger; None: there is none that counts, send the bytes

    def as_dict(self) -> dict[str, Any]:
        """Return the item for JSON, as it was listed: without what the ledger knows of its bytes."""
        modified = self.modified_at.isoformat() if self.modified_at else None
        return {
            "uri": self.uri,
            "size": self.size,
            "modified_at": modified,
            "locator": self.locator,
            "validator": self.validator,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Read what `as_dict` returned; releases before validators wrote none."""
        modified = datetime.fromisoformat(row["modified_at"]) if row["modified_at"] else None
        return cls(row["uri"], row["size"], modified, row["locator"], row.get("validator"))


@dataclass(frozen=True, slots=True)
class Fetched:
    """An item's bytes."""

    item: SourceItem
    content: bytes
    media_type: str  # as the place suggests; `corpus_guard.intake.parsing.media` decides by content
    declared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # the document's own claims
    problems: tuple[Finding, ...] = ()  # what fetching found wrong with this item
    validator: str | None = None  # of these bytes; None: the source has none
    revision: str | None = None  # place in the source's history: a git commit, a version of an object


@dataclass(frozen=True, slots=True)
class Unchanged:
    """An item whose bytes are still those of `SourceItem.known_validator`, as the source says."""

    item: SourceItem


@dataclass(frozen=True, slots=True)
class FetchFailed:
    """An item whose bytes could not be taken, and why.

    Codes: ``parsing.too_large``; ``intake.gone`` (it vanishes, after the policy's grace) and
        ``intake.changed``
    (between listing and fetching), ``intake.unreadable`` (the storage refuses, or the answer makes no sense),
    ``intake.outside`` (the place leads out of the source), ``intake.address`` (its host leads to an address
    that is not allowed), ``intake.robots`` (robots.txt asks not to), ``intake.login``, ``intake.refused``
    (401, 403), ``intake.error_page``, ``intake.server`` (5xx, 429, no answer), ``intake.too_slow``,
    ``intake.lfs_pointer``, ``intake.no_id``.
    """

    item: SourceItem
    code: str
    message: str  # never the document's text


Outcome = Fetched | FetchFailed | Unchanged


class SkipReason(StrEnum):
    """Reason why an entry of a source is no document, as people read it behind its number."""

    HIDDEN = "hidden (a name that begins with a dot)"
    LINK_OUT = "links that lead out of the source"
    FOLDER_LINK = "links to folders"
    BROKEN_LINK = "links that lead nowhere"
    LINK = "links"
    NOT_A_FILE = "pipes, sockets and devices"
    SUBMODULE = "submodules"
    LEFT_OUT = "left out by include and exclude"
    NO_TEXT = "pictures, sounds, videos and fonts, by their names"
    NO_LINK = "entries of a feed that link to no page"


_ONE_SKIPPED: Final[Mapping[str, str]] = {
    SkipReason.LINK_OUT: "link that leads out of the source",
    SkipReason.FOLDER_LINK: "link to a folder",
    SkipReason.BROKEN_LINK: "link that leads nowhere",
    SkipReason.LINK: "link",
    SkipReason.NOT_A_FILE: "pipe, socket or device",
    SkipReason.SUBMODULE: "submodule",
    SkipReason.NO_TEXT: "picture, sound, video or font, by its name",
    SkipReason.NO_LINK: "entry of a feed that links to no page",
}


def count_skipped(number: int, reason: str) -> str:
    """Return a number of entries and why they are no documents: "1 link", "2 links"."""
    return f"{number:,} {_ONE_SKIPPED.get(reason, reason) if number == 1 else reason}"


def why_left_out(path: str, matches: Callable[[str], bool]) -> SkipReason | None:
    """Return why a file of a tree is no document by its path; None: it is one.

    Args:
        path: of the file, in the source.
        matches: tells whether the source's globs take a path.
    """
    if not matches(path):
        return SkipReason.LEFT_OUT
    return SkipReason.NO_TEXT if names_no_text(path) else None


def skipped_by(source: Source) -> dict[str, int]:
    """Return what the last complete `list` of a source passed over: reason → number."""
    return {str(reason): int(count) for reason, count in dict(getattr(source, "skipped", {})).items() if count}


class Source(Protocol):
    """A place that holds documents, with an owner who vouches for it to a stated degree."""

    name: str
    owner: str
    trust: TrustLevel

    def list(self) -> Iterator[SourceItem]:
        """Yield every document, without its bytes.

        Raises:
            SourceUnavailable: the source as a whole cannot be listed; the message names its URL.
        """
        ...

    def fetch(self, items: Sequence[SourceItem]) -> Iterator[Outcome]:
        """Yield one outcome for each of `items`, in their order."""
        ...


class ConfiguredSource(Generic[ConfigT]):
    """Base of the guard's own connectors: name, owner and trust level as declared."""

    def __init__(self, config: ConfigT, context: SourceContext) -> None:
        self.name = config.name
        self.owner = config.owner
        self.trust = config.trust
        self.skipped: Counter[str] = Counter()
        """Entries that the last `list` passed over: `SkipReason` → number."""
        self._config = config
        self._context = context


def public_url(url: str) -> str:
    """Return `url` without user, password, query and fragment: fit for messages."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def oversize_failure(item: SourceItem, size: int | None, limit: int) -> FetchFailed:
    """Return the outcome for a document above `limit` bytes; `size` is None where reading stopped at the limit."""
    actual = f"{size:,} bytes" if size is not None else f"more than {limit:,} bytes"
    return FetchFailed(item, "parsing.too_large", f"the document has {actual}; the limit is {limit:,} bytes")


def utf8_path(path: str) -> str:
    """Return a path as text that UTF-8 can hold; distinct names stay distinct."""
    try:
        path.encode()
    except UnicodeEncodeError:
        # A local name that is not UTF-8 arrives with lone surrogates. The escape alone could collide with a name
        # that holds a literal backslash, hence the hash.
        raw = os.fsencode(path)
        return f"{raw.decode('utf-8', 'backslashreplace')}~{hashlib.sha256(raw).hexdigest()[:16]}"
    return path


def as_utc(value: object) -> datetime | None:
    """Convert a storage's modification time, whatever its form; return None where it makes no sense."""
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, int | float):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, OSError, ValueError):
            return None
    return None
