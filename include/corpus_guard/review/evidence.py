"""Everything a reviewer decides on, of one item.

Whatever comes from a document is hostile: text, hidden text, title, URI, what it declares. It is given as it is; who shows it makes it
inert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import versions_from_table
from corpus_guard.domain import Skipped, Stamp, TrustLevel, Version
from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import chunks, documents, versions
from corpus_guard.ledger.triage import principal_name
from corpus_guard.review._marks import DONE
from corpus_guard.review.queue import Item

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

SIBLINGS = 50  # other documents of one principal that are named
CHUNKS_COMPARED = 8  # of an item, for its neighbours


@dataclass(frozen=True, slots=True)
class Earlier:
    """Another version of the same document."""

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
    """A served chunk that lies near the item."""

    chunk_id: str
    source: str
    uri: str
    trust: str
    similarity: float  # cosine
    text: str  # what it answers


@dataclass(frozen=True, slots=True)
class Release:
    """What a release would publish, and where."""

    collection: str
    chunks: int
    tokens: int
    replaces: str | None  # the version that is served now and would be retired
    needs_two: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """One item with everything a reviewer decides on."""

    item: Item
    version: Version  # text, hidden text, stamp, chunks; the findings' spans are of its text
    skipped: tuple[Skipped, ...]
    served_version: str | None  # what is served of the same document meanwhile
    served: Version | None  # the same with its text, for a difference; None where nothing is, or its text is gone
    history: tuple[Mapping[str, Any], ...]  # what was decided and done on this document's versions, oldest first
    versions: tuple[Earlier, ...]  # all of the document, newest first
    principal: str  # who stands behind it, as far as it says
    siblings: tuple[Sibling, ...]  # other documents of the same principal, newest first
    policy_digest: str  # that gave the verdict

    @property
    def stamp(self) -> Stamp:
        """Who fetched what, when, from where."""
        return self.version.stamp


def evidence(ledger: Ledger, storage: Storage, item: Item) -> Evidence:
    """Everything a reviewer decides on.

    Raises:
        UnknownSubject: its text was purged.
    """
    with ledger.read() as connection:
        row = connection.execute(
            sa.select(
                versions.c.batch,
                versions.c.skipped,
                versions.c.principal,
                versions.c.policy_digest,
                documents.c.target_version,
            )
            .join(documents, documents.c.doc_id == versions.c.doc_id)
            .where(versions.c.version_id == item.version_id)
        ).one()
        history = _history(connection, item.doc_id)
        earlier = _earlier(connection, item.doc_id, row.target_version)
        siblings = _siblings(connection, row.principal, item.doc_id)
        served_batch = None
        if row.target_version not in (None, item.version_id):
            served_batch = connection.scalar(
                sa.select(versions.c.batch).where(versions.c.version_id == row.target_version)
            )
    version = _read(storage, row.batch, item.version_id)
    if version is None:
        raise UnknownSubject(
            f"item {item.version_id} was purged: its text is gone, `guard purge` and the event log keep who asked for it and why"
        )
    return Evidence(
        item=item,
        version=version,
        skipped=tuple(Skipped(*skipped) for skipped in row.skipped),
        served_version=row.target_version,
        served=_read(storage, served_batch, row.target_version) if served_batch else None,
        history=history,
        versions=earlier,
        principal=principal_name(version.stamp.as_dict()),
        siblings=siblings,
        policy_digest=row.policy_digest,
    )


def release_of(guard: Guard, item: Item) -> Release:
    """What a release would publish, and where."""
    trust = TrustLevel(item.trust)
    with guard.ledger.read() as connection:
        count, tokens = connection.execute(
            sa.select(sa.func.count(), sa.func.coalesce(sa.func.sum(chunks.c.tokens), 0)).where(
                chunks.c.version_id == item.version_id
            )
        ).one()
        target = connection.scalar(sa.select(documents.c.target_version).where(documents.c.doc_id == item.doc_id))
    worst = item.worst
    return Release(
        guard.collection(trust),
        count,
        tokens,
        target if target != item.version_id else None,
        guard.policy.review.needs_two(trust, worst),
    )


def neighbours(guard: Guard, found: Evidence, k: int = 5) -> list[Neighbour]:
    """The nearest served chunks of trusted sources, then of reviewed ones: what the corpus says of the same things.

    Loads the embedder and asks Chroma: slow, and only wanted when somebody looks.

    Args:
        guard: the deployment.
        found: the item.
        k: at most so many.

    Raises:
        StoreUnavailable: Chroma does not answer.
    """
    texts = [chunk.text for chunk in found.version.chunks[:CHUNKS_COMPARED]]
    there = set(guard.store.names())
    names = [guard.collection(trust) for trust in (TrustLevel.TRUSTED, TrustLevel.REVIEWED)]
    collections = [name for name in names if name in there]
    if not texts or not collections:
        return []
    from corpus_guard.corpus.retriever import unvouched

    vectors = guard.models.embedder.embed(texts)
    best: dict[str, Neighbour] = {}
    for vector in np.asarray(vectors):
        matches = guard.store.query(collections, vector, k)
        for match, doubt in zip(matches, unvouched(guard.ledger, matches), strict=True):
            if doubt or match.record.metadata.get("doc_id") == found.item.doc_id:
                continue  # what the ledger does not vouch for is no witness
            one = _neighbour(match)
            if one.chunk_id not in best or best[one.chunk_id].similarity < one.similarity:
                best[one.chunk_id] = one
    nearest = sorted(best.values(), key=lambda one: (one.trust != TrustLevel.TRUSTED, -one.similarity))
    return nearest[:k]


def _neighbour(match: Any) -> Neighbour:
    said = match.record.metadata
    return Neighbour(
        match.record.chunk_id,
        str(said.get("source", "")),
        str(said.get("uri", "")),
        str(said.get("trust", "")),
        float(match.similarity),
        match.record.text,
    )


def _read(storage: Storage, batch: str, version: str) -> Version | None:
    found = versions_from_table(storage.read_table(batch, filters=[("version_id", "=", version)]))
    return found[0] if found else None


def _history(connection: sa.Connection, document: str) -> tuple[Mapping[str, Any], ...]:
    rows = connection.execute(
        sa.select(DONE)
        .join(versions, versions.c.version_id == DONE.c.version_id)
        .where(versions.c.doc_id == document)
        .order_by(DONE.c.at, DONE.c.id)
    )
    return tuple(dict(row._mapping) for row in rows)


def _earlier(connection: sa.Connection, document: str, served: str | None) -> tuple[Earlier, ...]:
    columns = (
        versions.c.version_id,
        versions.c.state,
        versions.c.verdict,
        versions.c.risk,
        versions.c.stamp["fetched_at"].as_string().label("fetched_at"),
        versions.c.judged_at,
    )
    rows: Sequence[Any] = connection.execute(sa.select(*columns).where(versions.c.doc_id == document)).all()
    newest = sorted(rows, key=lambda row: (row.fetched_at, row.version_id), reverse=True)
    return tuple(Earlier(**row._mapping, is_served=row.version_id == served) for row in newest)


def _siblings(connection: sa.Connection, principal: str | None, document: str) -> tuple[Sibling, ...]:
    rows = connection.execute(
        sa.select(versions.c.version_id, documents.c.uri, versions.c.state, versions.c.risk, versions.c.judged_at)
        .join(documents, documents.c.latest_version == versions.c.version_id)
        .where(versions.c.principal == principal, versions.c.doc_id != document, documents.c.retired_at.is_(None))
        .order_by(versions.c.judged_at.desc(), versions.c.version_id)
        .limit(SIBLINGS)
    )
    return tuple(Sibling(**row._mapping) for row in rows)
