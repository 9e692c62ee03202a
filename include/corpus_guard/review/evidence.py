"""Everything a reviewer needs to decide on one item.

Whatever comes from a document is hostile: text, hidden text, title, URI, what it declares. It is returned
unchanged; whoever displays it must make it inert.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.reading import read_checked_versions
from corpus_guard.domain import Finding, Skipped, Span, TrustLevel, Version, json_ready
from corpus_guard.errors import GuardError, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import rows_by_id
from corpus_guard.ledger.tables import chunks, documents, versions
from corpus_guard.ledger.triage import principal_name
from corpus_guard.review.queue import QueueItem
from corpus_guard.review.records import REVIEW_RECORDS, ReviewRow

if TYPE_CHECKING:
    from corpus_guard.corpus.store import Match, Store
    from corpus_guard.models import Models
    from corpus_guard.screening.policy import Policy

MAX_SIBLINGS: Final = 50  # other documents of the same principal
MAX_COMPARED_CHUNKS: Final = 8  # of the item, for its neighbours


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """One version of a document, as the list of its versions shows it."""

    version_id: str
    state: str
    verdict: str
    risk: float
    fetched_at: str  # ISO 8601
    judged_at: datetime
    is_served: bool


@dataclass(frozen=True, slots=True)
class Sibling:
    """Another document of the same principal, by its newest version."""

    version_id: str
    uri: str
    state: str
    risk: float
    judged_at: datetime


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A served chunk that is similar to the item."""

    chunk_id: str
    source: str
    uri: str
    trust: str
    similarity: float  # cosine
    text: str


@dataclass(frozen=True, slots=True)
class QuotedSentence:
    """A sentence of a document, with the values that are at odds with another document's."""

    text: str
    values: tuple[Span, ...]  # in `text`


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two sentences that contradict each other, read from their batches."""

    own: QuotedSentence
    other: QuotedSentence | None  # None: its text was purged or cannot be read
    version_id: str  # of the other document
    source: str
    uri: str
    trust: str


@dataclass(frozen=True, slots=True)
class ReleasePreview:
    """Effects that a release of the item would have."""

    collection: str
    chunks: int
    tokens: int
    replaces: str | None  # id of the version that is served now and would be retired
    needs_two: bool


@dataclass(frozen=True, slots=True)
class ItemEvidence:
    """One item with everything a reviewer needs to decide."""

    item: QueueItem
    version: Version  # text, hidden text, stamp, chunks; the findings' spans refer to its text
    skipped: tuple[Skipped, ...]
    served_version: str | None  # id of the version of the same document that is served now
    served: Version | None  # that version with its text; None if none is served, or its text is gone
    history: tuple[ReviewRow, ...]  # decisions and acts on all versions of the document, oldest first
    versions: tuple[VersionSummary, ...]  # all versions of the document, newest first
    principal: str  # the person or team behind the document, as it declares
    siblings: tuple[Sibling, ...]  # other documents of the same principal, newest first
    policy_digest: str  # of the policy that gave the verdict

    def as_dict(self) -> dict[str, object]:
        """Return the evidence JSON-ready, without the text of the version that is served."""
        return {
            **self.item.as_dict(),
            "stamp": self.version.stamp.as_dict(),
            "text": self.version.text,
            "hidden": self.version.hidden,
            **{
                name: json_ready(getattr(self, name))
                for name in ("skipped", "served_version", "versions", "principal", "siblings")
            },
            "decisions": json_ready(self.history),
        }


def load_evidence(ledger: Ledger, storage: Storage, item: QueueItem) -> ItemEvidence:
    """Return everything a reviewer needs to decide on `item`.

    Raises:
        UnknownSubject: its text was purged.
        BatchDamaged: a stored text is not the one that was judged; nobody shall decide on it.
    """
    with ledger.read() as connection:
        row = connection.execute(
            sa.select(*versions.c["batch", "skipped", "principal", "policy_digest"], documents.c.target_version)
            .join(documents, documents.c.doc_id == versions.c.doc_id)
            .where(versions.c.version_id == item.version_id)
        ).one()
        history = _document_history(connection, item.doc_id)
        document_versions = _document_versions(connection, item.doc_id, row.target_version)
        siblings = _siblings(connection, row.principal, item.doc_id)
        served_batch = None
        if row.target_version not in (None, item.version_id):
            served_batch = connection.scalar(
                sa.select(versions.c.batch).where(versions.c.version_id == row.target_version)
            )
    version = _read_version(ledger, storage, row.batch, item.version_id)
    if version is None:
        raise UnknownSubject(
            f"item {item.version_id} was purged: its text is gone; the event log records who requested the purge and why"
        )
    return ItemEvidence(
        item=item,
        version=version,
        skipped=tuple(Skipped(*skipped) for skipped in row.skipped),
        served_version=row.target_version,
        served=_read_version(ledger, storage, served_batch, row.target_version) if served_batch else None,
        history=history,
        versions=document_versions,
        principal=principal_name(version.stamp.as_dict()),
        siblings=siblings,
        policy_digest=row.policy_digest,
    )


def load_contradictions(
    ledger: Ledger, storage: Storage, version: Version, findings: Sequence[Finding]
) -> list[Contradiction | None]:
    """Return both sentences of each finding that names two; None for the others."""
    wanted = {finding.counterstatement.version_id for finding in findings if finding.counterstatement}
    columns = (versions.c.version_id, versions.c.batch, documents.c.source, documents.c.uri, documents.c.trust)
    statement = sa.select(*columns).join(documents, documents.c.doc_id == versions.c.doc_id)
    with ledger.read() as connection:
        rows = rows_by_id(connection, statement, wanted)
    texts: dict[str, str] = {}
    for version_id, row in rows.items():
        with contextlib.suppress(GuardError):  # damaged: `guard verify` names it, and the ids are still shown
            stored = _read_version(ledger, storage, row.batch, version_id)
            if stored is not None:
                texts[version_id] = stored.text
    return [_contradiction(version.text, finding, rows, texts) for finding in findings]


def _contradiction(
    text: str, finding: Finding, rows: Mapping[str, sa.Row[Any]], texts: Mapping[str, str]
) -> Contradiction | None:
    counter = finding.counterstatement
    if counter is None or counter.version_id not in rows:
        return None
    row, other = rows[counter.version_id], texts.get(counter.version_id)
    return Contradiction(
        _quoted(text, counter.own_span, counter.own_values),
        None if other is None else _quoted(other, counter.span, counter.values),
        counter.version_id,
        row.source,
        row.uri,
        row.trust,
    )


def _quoted(text: str, span: Span, values: Iterable[Span]) -> QuotedSentence:
    shifted = (Span(value.start - span.start, value.end - span.start) for value in values)
    return QuotedSentence(text[span.start : span.end], tuple(value for value in shifted if value.start >= 0))


def preview_release(ledger: Ledger, store: Store, policy: Policy, item: QueueItem) -> ReleasePreview:
    """Return what a release of `item` would publish, and where."""
    trust = TrustLevel(item.trust)
    with ledger.read() as connection:
        count, tokens = connection.execute(
            sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(chunks.c.tokens), 0)).where(
                chunks.c.version_id == item.version_id
            )
        ).one()
        target = connection.scalar(sa.select(documents.c.target_version).where(documents.c.doc_id == item.doc_id))
    return ReleasePreview(
        collection=store.collection_name(trust),
        chunks=count,
        tokens=tokens,
        replaces=target if target != item.version_id else None,
        needs_two=policy.review.needs_two(trust, item.worst),
    )


def find_neighbours(
    ledger: Ledger, store: Store, models: Models, evidence: ItemEvidence, k: int = 5
) -> list[Neighbour]:
    """Return the nearest served chunks of trusted sources, then of reviewed ones.

    Loads the embedder and queries Chroma, which is slow: call it only on request.

    Raises:
        StoreUnavailable: the vector store does not answer.
    """
    texts = [chunk.text for chunk in evidence.version.chunks[:MAX_COMPARED_CHUNKS]]
    existing = set(store.names())
    names = [store.collection_name(trust) for trust in (TrustLevel.TRUSTED, TrustLevel.REVIEWED)]
    collections = [name for name in names if name in existing]
    if not texts or not collections:
        return []
    from corpus_guard.corpus.retriever import reasons_to_withhold  # loads torch

    vectors = models.question_embedder.embed(texts)
    best: dict[str, Neighbour] = {}
    for vector in np.asarray(vectors):
        matches = store.query(collections, vector, k)
        for match, reason in zip(matches, reasons_to_withhold(ledger, matches), strict=True):
            if reason or match.record.metadata.get("doc_id") == evidence.item.doc_id:
                continue  # a chunk that the ledger does not vouch for is no evidence
            neighbour = _neighbour(match)
            previous = best.get(neighbour.chunk_id)
            if previous is None or previous.similarity < neighbour.similarity:
                best[neighbour.chunk_id] = neighbour
    nearest = sorted(best.values(), key=lambda chunk: (chunk.trust != TrustLevel.TRUSTED, -chunk.similarity))
    return nearest[:k]


def _neighbour(match: Match) -> Neighbour:
    metadata = match.record.metadata
    return Neighbour(
        chunk_id=match.record.chunk_id,
        source=str(metadata.get("source", "")),
        uri=str(metadata.get("uri", "")),
        trust=str(metadata.get("trust", "")),
        similarity=float(match.similarity),
        text=match.record.text,
    )


def _read_version(ledger: Ledger, storage: Storage, batch: str, version_id: str) -> Version | None:
    stored = read_checked_versions(ledger, storage, batch, [version_id])
    return stored[0] if stored else None


def _document_history(connection: sa.Connection, doc_id: str) -> tuple[ReviewRow, ...]:
    rows = connection.execute(
        sa.select(REVIEW_RECORDS)
        .join(versions, versions.c.version_id == REVIEW_RECORDS.c.version_id)
        .where(versions.c.doc_id == doc_id)
        .order_by(REVIEW_RECORDS.c.at, REVIEW_RECORDS.c.id)
    )
    return tuple(cast("ReviewRow", dict(row)) for row in rows.mappings())


def _document_versions(connection: sa.Connection, doc_id: str, served: str | None) -> tuple[VersionSummary, ...]:
    columns = (
        *versions.c["version_id", "state", "verdict", "risk"],
        versions.c.stamp["fetched_at"].as_string().label("fetched_at"),
        versions.c.judged_at,
    )
    rows = connection.execute(sa.select(*columns).where(versions.c.doc_id == doc_id)).all()
    newest_first = sorted(rows, key=lambda row: (row.fetched_at, row.version_id), reverse=True)
    return tuple(VersionSummary(**row._mapping, is_served=row.version_id == served) for row in newest_first)


def _siblings(connection: sa.Connection, principal: str | None, doc_id: str) -> tuple[Sibling, ...]:
    rows = connection.execute(
        sa.select(versions.c.version_id, documents.c.uri, versions.c.state, versions.c.risk, versions.c.judged_at)
        .join(documents, documents.c.latest_version == versions.c.version_id)
        .where(versions.c.principal == principal, versions.c.doc_id != doc_id, documents.c.retired_at.is_(None))
        .order_by(versions.c.judged_at.desc(), versions.c.version_id)
        .limit(MAX_SIBLINGS)
    )
    return tuple(Sibling(**row._mapping) for row in rows)
