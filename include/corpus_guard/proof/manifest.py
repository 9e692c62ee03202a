"""The manifest: one canonical JSON line for each published chunk, sorted by chunk id.

It is derived from the ledger, and the ledger's hashes are those of what Chroma gave back after writing. Two manifests of the same
corpus are equal byte for byte. No line holds a float or a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from corpus_guard.domain import canonical_json
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import chunks, events, publications, seals, versions

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

PAGE = 2_000  # rows held at a time


@dataclass(frozen=True, slots=True)
class Manifest:
    """A written manifest."""

    name: str  # in storage
    sha256: str
    chunks: int


def write_manifest(guard: Guard, run_id: str) -> Manifest:
    """Write the manifest of what is served now and note its digest in the ledger; an unchanged corpus keeps the last one.

    Nobody publishes meanwhile: what another run marks between the reading and the seal would be taken for sealed.

    Raises:
        Inconsistent: Chroma holds another number of chunks than the ledger published.
    """
    with guard.ledger.exclusive("publish"):
        last = _unchanged_since_last(guard)
        if last is not None:
            return last
        _compare_counts(guard)
        name, sha256, count = guard.storage.write_lines("manifests", manifest_lines(guard.ledger), ".jsonl")
        with guard.ledger.write() as connection:
            row = {"run_id": run_id, "manifest": name, "manifest_sha256": sha256, "chunks": count, "sealed_at": now()}
            connection.execute(seals.insert().values(row))
            guard.ledger.event(connection, "sealed", sha256, run_id, manifest=name, chunks=count)
        return Manifest(name, sha256, count)


def manifest_lines(ledger: Ledger) -> Iterator[bytes]:
    """The lines, without newline, as the ledger stands."""
    statement = (
        sa.select(
            publications.c.chunk_id,
            publications.c.collection,
            publications.c.doc_id,
            publications.c.version_id,
            publications.c.model,
            publications.c.vector_sha256,
            publications.c.metadata_sha256,
            chunks.c.ordinal,
            chunks.c.text_sha256,
            versions.c.stamp,
            versions.c.verdict,
            versions.c.state,
            versions.c.policy_digest,
        )
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.state == "published")
        .order_by(publications.c.chunk_id, publications.c.collection)
        .execution_options(yield_per=PAGE)
    )
    with ledger.read() as connection:
        for row in connection.execute(statement):
            stamp = row.stamp
            yield canonical_json(
                {
                    "v": 1,
                    "chunk_id": row.chunk_id,
                    "collection": row.collection,
                    "doc_id": row.doc_id,
                    "version_id": row.version_id,
                    "ordinal": row.ordinal,
                    "source": stamp["source"],
                    "owner": stamp["owner"],
                    "trust": stamp["trust"],
                    "uri": stamp["uri"],
                    "fetched_at": stamp["fetched_at"],
                    "content_sha256": stamp["content_sha256"],
                    "text_sha256": row.text_sha256,
                    "vector_sha256": row.vector_sha256,
                    "metadata_sha256": row.metadata_sha256,
                    "model": row.model,
                    "verdict": "release" if row.state == "released" else row.verdict,
                    "policy_digest": row.policy_digest,
                }
            )


def _unchanged_since_last(guard: Guard) -> Manifest | None:
    # By the order of events, not by times: the clocks of two machines differ.
    def last_of(*kinds: str) -> sa.ScalarSelect[int]:
        newest = sa.func.coalesce(sa.func.max(events.c.seq), 0)
        return sa.select(newest).where(events.c.kind.in_(kinds)).scalar_subquery()

    with guard.ledger.read() as connection:
        last = connection.execute(sa.select(seals).order_by(seals.c.number.desc()).limit(1)).first()
        changed = connection.scalar(sa.select(last_of("published", "unpublished", "rejudged") > last_of("sealed")))
    if last is None or changed or not guard.storage.exists(last.manifest):
        return None
    return Manifest(last.manifest, last.manifest_sha256, last.chunks)


def _compare_counts(guard: Guard) -> None:
    # What another run asked for and nobody published or removed yet may be in Chroma or not.
    unfinished = publications.c.state.in_(("pending", "retiring"))
    statement = (
        sa.select(
            publications.c.collection,
            sa.func.count().filter(publications.c.state == "published").label("published"),
            sa.func.count().filter(unfinished).label("unfinished"),
        )
        .group_by(publications.c.collection)
        .order_by(publications.c.collection)
    )
    with guard.ledger.read() as connection:
        expected = connection.execute(statement).all()
    for row in expected:  # none where nothing was ever served: no server is started to learn that it is empty
        found = guard.store.count(row.collection)
        if not row.published <= found <= row.published + row.unfinished:
            raise Inconsistent(
                f"collection {row.collection} at {guard.store.url} holds {found} chunks, the ledger published {row.published}; something "
                "else writes to it, or it lost records. Nothing was sealed"
            )
