"""The words of the trade, as frozen values.

A *source* holds *documents*; a document's bytes at one time are a *version*, with a *stamp* that says who fetched what,
when and from where. A version's text is cut into *chunks*. *Checks* look at versions and leave *findings*; the *policy*
turns findings into a *verdict*. Ids come from content and canonical places, never from what a document says of itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import orjson

Progress = Callable[[str, int, int | None], object]
"""Called with (activity, units done, units in all; None while the total is unknown)."""


def no_progress(activity: str, done: int, total: int | None) -> None:
    """Report nothing: the default where nobody watches."""



class TrustLevel(StrEnum):
    """How far a source's owner vouches for it. Each level lives in a collection of its own."""

    TRUSTED = "trusted"  # written and reviewed by people who answer for it
    REVIEWED = "reviewed"  # written inside, or reviewed before it is taken
    OPEN = "open"  # anybody can write to it


class Severity(StrEnum):
    """How bad a finding is by itself, before the policy weighs it."""

    INFO = "info"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 (info) to 4 (critical)."""
        return _SEVERITIES.index(self)


_SEVERITIES = list(Severity)


class Verdict(StrEnum):
    """What the policy says of a version."""

    ACCEPT = "accept"
    QUARANTINE = "quarantine"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Span:
    """Where in a version's text: code points, end excluded."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw in one version."""

    check: str  # the check's name
    code: str  # "<check>.<what>", stable: the policy and the docs refer to it
    severity: Severity
    score: float  # 0..1: how sure the check is that this is an attack or a defect
    message: str  # plain language for a reviewer; never the document's text
    span: Span | None = None  # evidence; None where it lies outside the text
    tags: tuple[str, ...] = ()  # OWASP and ATLAS ids, see `corpus_guard.screening.tags`
    muted: bool = False  # two people said that it means nothing in this source: it is kept and does not count

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; the span as ``[start, end]``."""
        return {
            "check": self.check,
            "code": self.code,
            "severity": self.severity.value,
            "score": round(self.score, 4),
            "message": self.message,
            "span": [self.span.start, self.span.end] if self.span else None,
            "tags": list(self.tags),
            **({"muted": True} if self.muted else {}),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Finding:
        """The inverse of `as_dict`."""
        span = row["span"]
        return cls(
            check=row["check"],
            code=row["code"],
            severity=Severity(row["severity"]),
            score=float(row["score"]),
            message=row["message"],
            span=Span(*span) if span else None,
            tags=tuple(row["tags"]),
            muted=bool(row.get("muted", False)),
        )


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that did not look at a version, and why. Not checked is a fact, never a missing row."""

    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who fetched what, when, from where. What the document says of itself is kept apart, in `declared`."""

    source: str
    owner: str
    trust: TrustLevel
    uri: str  # canonical, with the source's folder or file as its root
    content_sha256: str  # of the bytes as fetched, hex
    size: int  # bytes
    media_type: str
    fetched_at: datetime  # UTC
    fetched_by: str  # program and version
    run_id: str
    parent_version: str | None = None  # the version this one follows
    modified_at: datetime | None = None  # as the source's storage reports it, UTC
    declared: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({})
    )  # title, author, dates: data, not trusted
    revision: str | None = None  # where in the source's history: a git commit, a version of an object

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "source": self.source,
            "owner": self.owner,
            "trust": self.trust.value,
            "uri": self.uri,
            "content_sha256": self.content_sha256,
            "size": self.size,
            "media_type": self.media_type,
            "fetched_at": self.fetched_at.isoformat(),
            "fetched_by": self.fetched_by,
            "run_id": self.run_id,
            "parent_version": self.parent_version,
            "modified_at": self.modified_at.isoformat() if self.modified_at else None,
            "declared": dict(self.declared),
            **({"revision": self.revision} if self.revision else {}),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Stamp:
        """The inverse of `as_dict`."""
        return cls(
            **{
                **row,
                "trust": TrustLevel(row["trust"]),
                "fetched_at": datetime.fromisoformat(row["fetched_at"]),
                "modified_at": datetime.fromisoformat(row["modified_at"]) if row["modified_at"] else None,
                "declared": MappingProxyType(dict(row["declared"])),
            }
        )


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a version's text: ``text == version.text[start:end]``."""

    chunk_id: str
    ordinal: int
    start: int
    end: int
    text: str
    tokens: int  # of the embedding model


@dataclass(frozen=True, slots=True)
class Version:
    """A document's bytes at one time, parsed: what screening looks at."""

    doc_id: str
    version_id: str
    stamp: Stamp
    text: str  # what a reader sees; what is chunked, embedded and published
    hidden: str  # text a reader does not see (comments, display:none, …): screened, never published
    chunks: tuple[Chunk, ...]
    problems: tuple[Finding, ...] = ()  # what parsing found wrong; findings of check "parsing"

    @property
    def text_sha256(self) -> str:
        """Of the text's exact UTF-8 bytes (lone surrogates kept), hex."""
        return sha256_text(self.text)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A version's verdict with all it rests on."""

    version_id: str
    verdict: Verdict
    risk: float  # 0..1, see `corpus_guard.screening.policy`
    policy_digest: str
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...] = ()
    shadow_verdict: Verdict | None = None  # with the shadowed findings; None: the same


def sha256_bytes(data: bytes) -> str:
    """Hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def sha256_text(text: str) -> str:
    """Hex SHA-256 of the exact UTF-8 bytes; nothing is normalised."""
    return sha256_bytes(text.encode("utf-8", "surrogatepass"))


def canonical_json(value: Any) -> bytes:
    """The one byte form of a record: sorted keys, no spaces, UTF-8. Equal to RFC 8785 for text, integers and booleans."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(kind: str, parts: Iterable[str]) -> str:
    """Hex SHA-256 of an ordered list of strings, separated by domain.

    `kind` keeps ids of different things apart ("chunk/v1" never equals "version/v1"), and the JSON form keeps
    ``["ab", "c"]`` apart from ``["a", "bc"]``.
    """
    return sha256_bytes(b"corpus-guard/" + kind.encode() + b"\n" + orjson.dumps([_encodable(part) for part in parts]))


@lru_cache(maxsize=4_096)  # one shard asks for each of its documents several times
def doc_id(source: str, uri: str) -> str:
    """A place in a source."""
    return digest("document/v1", [source, uri])[:32]


def version_id(document: str, content_sha256: str) -> str:
    """The bytes of a document at one time."""
    return digest("version/v1", [document, content_sha256])[:32]


def chunk_id(document: str, version: str, ordinal: int, text: str, chunker: str) -> str:
    """A piece of a version, cut by a given chunker."""
    return digest("chunk/v1", [document, version, str(ordinal), sha256_text(text), chunker])[:32]


def record_digest(text_sha256: str, vector_sha256: str, metadata_sha256: str) -> str:
    """What a collection holds under a chunk's id, in one hash."""
    return digest("record/v1", [text_sha256, vector_sha256, metadata_sha256])


def _encodable(part: str) -> str:
    # A file name or a text can hold lone surrogates, which UTF-8 refuses; hash an escaped form instead.
    try:
        part.encode()
    except UnicodeEncodeError:
        return "\x00surrogates:" + part.encode("utf-8", "surrogatepass").hex()
    return part
