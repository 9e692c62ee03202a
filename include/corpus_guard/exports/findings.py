"""Content of an export: findings from the ledger, and deviations from a verification.

Rules
    * no document's text is exported: neither the text nor a document's claims (title, author, dates);
    * a URI is data: percent-encoded, relative, and never leading out of its source;
    * every other string comes without invisible or steering characters, every number is finite and in its
      range;
    * ids follow from content: a finding exported twice has the same id;
    * reading sees the ledger at one moment and streams by version: memory does not grow with the corpus.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa

from corpus_guard.domain import Counterstatement, Finding, JsonRecord, Severity, Span, Stamp, digest
from corpus_guard.errors import UnknownSubject, require_one_of
from corpus_guard.invisible import code_point
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import VERSION_STATES
from corpus_guard.ledger.tables import decision_stands, decisions, documents, findings, versions
from corpus_guard.proof.deviations import HEALABLE_KINDS, Deviation, DeviationKind
from corpus_guard.screening.tags import tag_ids

ROWS_PER_FETCH: Final = 1_000  # rows held at a time

CHECK_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "intake": "A document could not be fetched as it was listed.",
        "parsing": "A document's bytes could not be read as text, or were crafted to harm their reader.",
        "structure": "A parsed version is broken, or beyond the limits that real documents keep.",
        "unicode": "Characters make the text read differently to a model than to a person.",
        "instructions": "The text gives instructions to the model that will read it.",
        "typos": "The text has clusters of misspelt words that people do not write.",
        "question_led": "The text opens with the very question it answers.",
        "overruling": "A short text tells its readers to disregard what they know.",
        "provenance": "The stamp and the document's claims contradict each other, or its dates are out of order.",
        "modification": "A new version changes a statement of its accepted predecessor, or hides such a change.",
        "duplicates": "The text, or nearly the same text, already exists elsewhere.",
        "conflict": "The text states another value than a served text of higher trust.",
        "coordination": "Several new texts of open sources give the same answer to one question.",
        "targeting": "The text was written to be the answer to a question that people ask.",
        "hubness": "The text would be retrieved for many questions at once.",
        "filter_features": "ML-FilterRAG would drop the text for a question that people ask.",
        "expectation": "The document breaks an expectation of this deployment.",
        "statistics": "The document differs from the others of its source.",
        "perplexity": "The text is unlikely to have been written by a person.",
        "integrity": "The corpus is no longer what was sealed and signed.",
    }
)
"""Meaning of each check's findings, for readers of an export without the documentation."""

_POISONED: Final = tag_ids(("poisoning", "embedding_weakness", "rag_poisoning"))
_CONTENT_KINDS: Final = frozenset(
    {
        DeviationKind.ADDED,
        DeviationKind.TEXT_CHANGED,
        DeviationKind.VECTOR_CHANGED,
        DeviationKind.METADATA_CHANGED,
        DeviationKind.MOVED,
        DeviationKind.SWAPPED,
    }
)
_NOT_PROVED_YET: Final = frozenset({DeviationKind.UNSEALED, DeviationKind.STALE})


@dataclass(frozen=True, slots=True)
class ExportedDecision(JsonRecord):
    """A person's last decision on a version."""

    verdict: str  # release or reject
    reviewer: str
    reason: str  # in the reviewer's words
    policy_digest: str
    decided_at: datetime  # UTC
    applied: bool


@dataclass(frozen=True, slots=True)
class ExportedFinding:
    """One finding of one version, with everything needed to judge it elsewhere."""

    uid: str  # 32 hex digits, from the version, the code, the place, and a number among equal ones
    finding: Finding
    doc_id: str
    version_id: str
    stamp: Stamp  # its URI percent-encoded, `declared` empty
    state: str  # accepted, quarantined, released, rejected
    verdict: str  # the policy's
    risk: float  # 0..1
    policy_digest: str
    run_id: str
    judged_at: datetime  # UTC
    current: bool  # the newest version of a document that is still at its source
    decision: ExportedDecision | None
    line: int | None = None  # in the file, from 1, where it is a file beside its reader


@dataclass(frozen=True, slots=True)
class ExportedDeviation:
    """One deviation that a verification found."""

    uid: str  # 32 hex digits, from the subject and the kind of deviation
    deviation: Deviation
    severity: Severity
    tags: tuple[str, ...]
    at: datetime  # when it was found, UTC


ExportItem = ExportedFinding | ExportedDeviation
"""An entry that every format can hold."""


def export_findings(
    ledger: Ledger,
    *,
    source: str | None = None,
    state: str | None = None,
    since: datetime | None = None,
    version_ids: Collection[str] | None = None,
) -> Iterator[ExportedFinding]:
    """Yield findings in the order of versions.

    Args:
        state: only versions in this state: accepted, quarantined, released or rejected.
        version_ids: only these versions, a few hundred at most.

    Raises:
        Misuse: `state` is not a state.
        UnknownSubject: the ledger has no document of `source`; a typing error must not look like a clean
            export.
    """
    if state is not None:
        require_one_of("state", state, VERSION_STATES)
    conditions = []
    if source is not None:
        conditions.append(documents.c.source == source)
    if state is not None:
        conditions.append(versions.c.state == state)
    if since is not None:
        conditions.append(versions.c.judged_at >= since)
    if version_ids is not None:
        conditions.append(versions.c.version_id.in_(version_ids))
    with ledger.read() as connection:
        if source is not None:
            _require_source(connection, source)
        counts: Counter[tuple[str, int | None, int | None]] = Counter()  # of equal findings of one version
        version = ""
        for row in connection.execute(_select_findings().where(*conditions)):
            if row.version_id != version:
                version = row.version_id
                counts.clear()
            place = (row.code, row.span_start, row.span_end)
            counts[place] += 1
            yield _make_finding(row, counts[place])


def export_deviations(deviations: Iterable[Deviation], at: datetime) -> Iterator[ExportedDeviation]:
    """Yield the deviations that a verification found at `at`, ready for export."""
    for deviation in deviations:
        kind = deviation.kind
        key = [kind, deviation.collection, deviation.subject, deviation.expected, deviation.actual]
        escaped = {name: escape_unprintable(value) for name, value in deviation.as_dict().items()}
        yield ExportedDeviation(
            digest("deviation/v1", key)[:32],
            Deviation.from_dict(escaped),
            Severity.HIGH if kind in HEALABLE_KINDS or kind in _NOT_PROVED_YET else Severity.CRITICAL,
            _POISONED if kind in _CONTENT_KINDS else (),
            at,
        )


def portable_uri(uri: str) -> str:
    """Return `uri` as a relative reference (RFC 3986, 4.2) without a scheme, a host, or a way out of its source.

    Slashes stay between ordinary names; where a name is empty, ``.`` or ``..``, slashes and dots are encoded
    too.
    """
    if {"", ".", ".."} & set(uri.split("/")):
        return quote(uri, safe="", errors="surrogatepass").replace(".", "%2E")
    return quote(uri, safe="/", errors="surrogatepass")


def escape_unprintable(text: str) -> str:
    """Return `text` with each character that cannot be printed as its code point."""
    return "".join(char if char.isprintable() else f"⟨{code_point(char)}⟩" for char in text)


def dump_json(value: object) -> str:
    """Return one line of JSON in ASCII; raise ValueError on NaN and infinity."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _select_findings() -> sa.Select[Any]:
    latest = (
        sa.func.row_number()
        .over(partition_by=decisions.c.version_id, order_by=(decisions.c.decided_at.desc(), decisions.c.decision_id))
        .label("nth")
    )
    ranked = sa.select(decisions, latest).where(decision_stands()).subquery()
    return (
        sa.select(
            findings,
            *versions.c["doc_id", "stamp", "state", "verdict", "risk", "policy_digest", "run_id", "judged_at"],
            sa.and_(documents.c.latest_version == versions.c.version_id, documents.c.retired_at.is_(None)).label(
                "current"
            ),
            ranked.c.verdict.label("decided"),
            ranked.c.reviewer,
            ranked.c.reason,
            ranked.c.policy_digest.label("decided_under"),
            ranked.c.decided_at,
            ranked.c.applied_at,
        )
        .join(versions, versions.c.version_id == findings.c.version_id)
        .join(documents, documents.c.doc_id == versions.c.doc_id)
        .outerjoin(ranked, sa.and_(ranked.c.version_id == versions.c.version_id, ranked.c.nth == 1))
        .order_by(findings.c.version_id, findings.c.ordinal)
        .execution_options(yield_per=ROWS_PER_FETCH)
    )


def _make_finding(row: sa.Row[Any], nth: int) -> ExportedFinding:
    span = Span(row.span_start, row.span_end) if row.span_start is not None else None
    place = [str(span.start), str(span.end)] if span else ["", ""]
    stamp = Stamp.from_dict(row.stamp)
    return ExportedFinding(
        uid=digest("finding/v1", [row.version_id, row.code, *place, str(nth)])[:32],
        finding=Finding(
            row.check_name,
            row.code,
            Severity(row.severity),
            _clamp_share(row.score),
            escape_unprintable(row.message),
            span,
            tuple(row.tags),
            bool(row.muted),
            Counterstatement.from_dict(row.counterstatement) if row.counterstatement else None,
        ),
        doc_id=row.doc_id,
        version_id=row.version_id,
        stamp=replace(
            stamp,
            uri=portable_uri(stamp.uri),
            owner=escape_unprintable(stamp.owner),
            media_type=escape_unprintable(stamp.media_type),
            declared={},
        ),
        state=row.state,
        verdict=row.verdict,
        risk=_clamp_share(row.risk),
        policy_digest=row.policy_digest,
        run_id=row.run_id,
        judged_at=row.judged_at,
        current=bool(row.current),
        decision=ExportedDecision(
            row.decided,
            escape_unprintable(row.reviewer),
            escape_unprintable(row.reason),
            row.decided_under,
            row.decided_at,
            row.applied_at is not None,
        )
        if row.decided
        else None,
    )


def _clamp_share(value: float) -> float:
    # A value that is not a share (NaN, infinite) counts as the worst: a broken one must not look harmless.
    return round(value, 4) if 0 <= value <= 1 else 1.0


def _require_source(connection: sa.Connection, source: str) -> None:
    names = connection.scalars(sa.select(documents.c.source).distinct().order_by(documents.c.source)).all()
    if source not in names:
        raise UnknownSubject(f"source {source!r} has no document in the ledger; known: {', '.join(names) or 'none'}")


@dataclass(frozen=True, slots=True)
class Taxon:
    """A risk or technique in an external catalogue."""

    taxonomy: str  # a key of TAXONOMIES
    uid: str  # in the catalogue: LLM01, AML.T0051.001
    name: str


TAXONOMIES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "OWASP:2025": ("OWASP Top 10 for LLM Applications 2025", "2025"),
        "OWASP:2026": ("OWASP Top 10 for LLM Applications 2026", "2026"),
        # Release 2026.06, the first after format 5.6.0, renamed and removed none of the ids below; 2026.07 retired T0019
        # and T0104 only, which nothing here uses.
        "ATLAS": ("MITRE ATLAS", "2026.06"),
    }
)
"""Name and edition of each catalogue."""

_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "OWASP:LLM01:2025": "Prompt Injection",
        "OWASP:LLM03:2025": "Supply Chain",
        "OWASP:LLM04:2025": "Data and Model Poisoning",
        "OWASP:LLM08:2025": "Vector and Embedding Weaknesses",
        "OWASP:LLM09:2025": "Misinformation",
        "OWASP:LLM01:2026": "Prompt Injection",
        "OWASP:LLM04:2026": "Supply Chain",
        "OWASP:LLM05:2026": "Data and Model Poisoning",
        "OWASP:LLM09:2026": "Vector and Embedding Weaknesses",
        "OWASP:LLM07:2026": "Misinformation",
        "ATLAS:AML.T0051.001": "LLM Prompt Injection: Indirect",
        "ATLAS:AML.T0066": "Retrieval Content Crafting",
        "ATLAS:AML.T0068": "LLM Prompt Obfuscation",
        "ATLAS:AML.T0070": "RAG Poisoning",
        "ATLAS:AML.T0071": "False RAG Entry Injection",
    }
)


def _taxon(tag: str, name: str) -> Taxon:
    catalogue, uid, *edition = tag.split(":")
    return Taxon(":".join((catalogue, *edition)), uid, name)


TAXA: Final[Mapping[str, Taxon]] = MappingProxyType({tag: _taxon(tag, name) for tag, name in _NAMES.items()})
"""Meaning of each tag that findings carry (`corpus_guard.screening.tags`)."""
POISONING: Final = "ATLAS:AML.T0070"
"""Tag of what a case is about."""
