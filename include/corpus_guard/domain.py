"""The domain's vocabulary, as frozen values.

A *source* holds *documents*; a document's bytes at one time are a *version*, with a *stamp* that says who
fetched what, when and from where. A version's text is cut into *chunks*. *Checks* look at versions and leave
*findings*; the *policy* turns findings into a *verdict*. Ids come from content and canonical places, never
from what a document declares.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from datetime import date, datetime
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

import orjson

Thing = TypeVar("Thing")
Key = TypeVar("Key")
Progress = Callable[[str, int, int | None], object]
"""Called with (activity, units done, units in all; None while the total is unknown)."""


def no_progress(activity: str, done: int, total: int | None) -> None:
    """Report nothing: the default where nobody watches."""


class TrustLevel(StrEnum):
    """Trust in a source. Each level has its own collection."""

    TRUSTED = "trusted"  # written and reviewed by people who answer for it
    REVIEWED = "reviewed"  # written inside, or reviewed before it is taken in
    OPEN = "open"  # anybody can write to it

    @property
    def rank(self) -> int:
        """0 (open) to 2 (trusted)."""
        return _TRUST_LEVELS.index(self)


_TRUST_LEVELS = [TrustLevel.OPEN, TrustLevel.REVIEWED, TrustLevel.TRUSTED]


class Severity(StrEnum):
    """Severity of a finding by itself, before the policy weighs it."""

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


class JsonRecord:
    """Dataclass that can be written as JSON."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    json_properties: ClassVar[tuple[str, ...]] = ()
    """Names of properties that are written after the fields."""

    def as_dict(self) -> dict[str, Any]:
        """Return the record JSON-ready, field by field."""
        names = (*(each.name for each in fields(self)), *self.json_properties)
        return {name: json_ready(getattr(self, name)) for name in names}


def json_ready(value: Any) -> Any:
    """Return a value as JSON holds it: times in ISO 8601, records as dictionaries, spans as ``[start, end]``."""
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if isinstance(value, Span):
        return [value.start, value.end]
    if is_dataclass(value):
        return {each.name: json_ready(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_ready(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(member) for member in value]
    return value.isoformat() if isinstance(value, date) else value


class Verdict(StrEnum):
    """The policy's decision on a version."""

    ACCEPT = "accept"
    QUARANTINE = "quarantine"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Span:
    """Range of a version's text, in code points, end excluded."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Counterstatement(JsonRecord):
    """A sentence of another document that contradicts the one of a finding: ids and places, never its words.

    Whoever shows it reads it from the other version, if that was not purged.
    """

    doc_id: str
    version_id: str
    span: Span  # in the text of that version
    own_span: Span  # the sentence that it contradicts, in the text of the finding
    values: tuple[Span, ...] = ()  # of the values that are at odds, in the text of that version
    own_values: tuple[Span, ...] = ()  # the same in the text of the finding

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Counterstatement:
        """Build from a dictionary made by `as_dict`."""
        values, own_values = (tuple(Span(*span) for span in row[name]) for name in ("values", "own_values"))
        return cls(row["doc_id"], row["version_id"], Span(*row["span"]), Span(*row["own_span"]), values, own_values)


@dataclass(frozen=True, slots=True)
class Finding:
    """An observation of one check in one version."""

    check: str  # the check's name
    code: str  # "<check>.<name>", stable: the policy and the docs refer to it
    severity: Severity
    score: float  # 0..1: certainty of the check that this is an attack or a defect
    message: str  # plain language for a reviewer; never the document's text
    span: Span | None = None  # evidence; None where it lies outside the text
    tags: tuple[str, ...] = ()  # OWASP and ATLAS ids, see `corpus_guard.screening.tags`
    muted: bool = False  # two people declared it meaningless in this source: it does not count
    counterstatement: Counterstatement | None = None  # the other half of the evidence

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary; the span as ``[start, end]``."""
        return {
            "check": self.check,
            "code": self.code,
            "severity": self.severity.value,
            "score": round(self.score, 4),
            "message": self.message,
            "span": [self.span.start, self.span.end] if self.span else None,
            "tags": list(self.tags),
            **({"muted": True} if self.muted else {}),
            **({"counterstatement": self.counterstatement.as_dict()} if self.counterstatement else {}),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Finding:
        """Build from a dictionary made by `as_dict`."""
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
            counterstatement=Counterstatement.from_dict(row["counterstatement"])
            if row.get("counterstatement")
            else None,
        )


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that did not look at a version, with the reason. No check is left out without a reason."""

    check: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stamp:
    """Provenance: who fetched what, when, from where. The document's own claims are only in `declared`."""

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
    parent_version: str | None = None  # the version before it
    modified_at: datetime | None = None  # as reported by the source's storage, UTC
    # title, author, dates: data, not trusted
    declared: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    revision: str | None = None  # in the source's history: a git commit, a version of an object

    def as_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary."""
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
        """Build from a dictionary made by `as_dict`."""
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

    @property
    def span(self) -> Span:
        """Return its place in the text."""
        return Span(self.start, self.end)


@dataclass(frozen=True, slots=True)
class Version:
    """A document's bytes at one time, parsed."""

    doc_id: str
    version_id: str
    stamp: Stamp
    text: str  # visible text: chunked, embedded and published
    hidden: str  # text that readers do not see (comments, display:none, …): screened, never published
    chunks: tuple[Chunk, ...]
    problems: tuple[Finding, ...] = ()  # findings of the check "parsing"

    @property
    def text_sha256(self) -> str:
        """Hex SHA-256 of the text's exact UTF-8 bytes; lone surrogates stay."""
        return sha256_text(self.text)

    def chunk_at(self, ordinal: int) -> Chunk | None:
        """Return the chunk with this number; None: there is none."""
        return next((chunk for chunk in self.chunks if chunk.ordinal == ordinal), None)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A version's verdict, with its reasons."""

    version_id: str
    verdict: Verdict
    risk: float  # 0..1, see `corpus_guard.screening.policy`
    policy_digest: str
    findings: tuple[Finding, ...]
    skipped: tuple[Skipped, ...] = ()
    shadow_verdict: Verdict | None = None  # with shadowed findings counted; None: the same


def sha256_bytes(data: bytes) -> str:
    """Return the hex SHA-256."""
    return hashlib.sha256(data).hexdigest()


def sha256_text(text: str) -> str:
    """Return the hex SHA-256 of the exact UTF-8 bytes; nothing is normalised."""
    return sha256_bytes(text.encode("utf-8", "surrogatepass"))


EMPTY_TEXT_SHA256: Final = sha256_text("")
"""Hash of the text of a document without text: it identifies nothing."""


def replace_surrogates(text: str) -> str:
    """Return `text` with question marks for lone surrogates, which UTF-8 and tokenizers refuse."""
    return text.encode("utf-8", "replace").decode()


def to_storable(text: str, max_length: int | None = None) -> str:
    """Return `text` cut to `max_length` characters, without what PostgreSQL and UTF-8 refuse: NUL and lone surrogates."""
    return replace_surrogates(text[:max_length]).replace("\x00", "\ufffd")


def canonical_json(value: object) -> bytes:
    """Return the one byte form of a record: sorted keys, no spaces, UTF-8.

    It equals RFC 8785 for text, integers and booleans.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(kind: str, parts: Iterable[str]) -> str:
    """Return the hex SHA-256 of an ordered list of strings, separated by domain.

    `kind` separates ids of different things ("chunk/v1" never equals "version/v1"), and the JSON form
    separates ``["ab", "c"]`` from ``["a", "bc"]``.
    """
    return sha256_bytes(b"corpus-guard/" + kind.encode() + b"\n" + orjson.dumps([_encodable(part) for part in parts]))


@lru_cache(maxsize=4_096)  # one shard asks for each of its documents several times
def doc_id(source: str, uri: str) -> str:
    """Return the id of a place in a source."""
    return digest("document/v1", [source, uri])[:32]


def version_id(document: str, content_sha256: str) -> str:
    """Return the id of a document's bytes at one time."""
    return digest("version/v1", [document, content_sha256])[:32]


def chunk_id(document: str, version: str, ordinal: int, text: str, chunker: str) -> str:
    """Return the id of a piece of a version, cut by a given chunker."""
    return digest("chunk/v1", [document, version, str(ordinal), sha256_text(text), chunker])[:32]


def plural(count: int, noun: str, many: str = "") -> str:
    """Return a count with its noun: "1 item", "1,204 items", "3 stretches". Pages name the plural, too."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def first_of_each(things: Iterable[Thing], key: Callable[[Thing], Key]) -> dict[Key, Thing]:
    """Return the first thing of each key, by key."""
    first: dict[Key, Thing] = {}
    for thing in things:
        first.setdefault(key(thing), thing)
    return first


def record_digest(text_sha256: str, vector_sha256: str, metadata_sha256: str) -> str:
    """Return one hash of what a collection holds under a chunk's id."""
    return digest("record/v1", [text_sha256, vector_sha256, metadata_sha256])


def _encodable(part: str) -> str:
    # A file name or a text can hold lone surrogates, which UTF-8 refuses; hash an escaped form instead.
    try:
        part.encode()
    except UnicodeEncodeError:
        return "\x00surrogates:" + part.encode("utf-8", "surrogatepass").hex()
    return part
