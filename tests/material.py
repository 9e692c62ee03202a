"""What the tests of the lower rooms are made from. No model: vectors follow from the texts' hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from corpus_guard import domain
from corpus_guard.batches import Storage
from corpus_guard.batches.tables import vectors_to_table, versions_to_table
from corpus_guard.corpus import outbox, publishing, retrieval_log
from corpus_guard.corpus.chroma_store import ChromaStore
from corpus_guard.corpus.store import ChunkRecord, Store
from corpus_guard.domain import Chunk, Finding, Judgement, Severity, Span, Stamp, TrustLevel, Verdict, Version
from corpus_guard.intake.blobs import BlobStore
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.states import QueryOrigin
from corpus_guard.ledger.tables import documents, publications, versions
from corpus_guard.settings import Settings

DIMENSIONS = 16
MODEL = "hashed-texts/float32"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)

Held = set[tuple[str, str]]
"""(collection, chunk id)."""


def at(minute: float) -> datetime:
    """A fetch time."""
    return START + timedelta(minutes=minute)


def add_question(ledger: Ledger, text: str, origin: QueryOrigin = QueryOrigin.REPORT, at: datetime = START) -> None:
    """Put a question into the bank, or count it once more."""
    with ledger.write() as connection:
        retrieval_log.count_query(connection, text, origin, at)


def a_version(
    uri: str = "pumps.md",
    passages: Sequence[str] = ("The pump house is inspected in spring. ", "The old quay is swept in autumn."),
    *,
    minute: float = 0,
    trust: TrustLevel = TrustLevel.OPEN,
    **stamp: Any,
) -> Version:
    """A version with one chunk a passage, fetched `minute` minutes after START; `stamp` overrides fields of its stamp."""
    text = "".join(passages)
    data = text.encode("utf-8", "surrogatepass")
    fields: dict[str, Any] = {
        "source": "harbour",
        "owner": "harbour office",
        "trust": trust,
        "uri": uri,
        "content_sha256": domain.sha256_bytes(data),
        "size": len(data),
        "media_type": "text/markdown",
        "fetched_at": at(minute),
        "fetched_by": "corpus-guard/0.1.0",
        "run_id": "run-1",
        "declared": {"title": uri},
    }
    made = Stamp(**{**fields, **stamp})
    document = domain.doc_id(made.source, made.uri)
    version = domain.version_id(document, made.content_sha256)
    chunks = []
    start = 0
    for ordinal, passage in enumerate(passages):
        chunk_id = domain.chunk_id(document, version, ordinal, passage, "passages")
        chunks.append(Chunk(chunk_id, ordinal, start, start + len(passage), passage, len(passage) // 4))
        start += len(passage)
    return Version(document, version, made, text, "", tuple(chunks))


def a_finding(code: str = "instructions.override", **fields: Any) -> Finding:
    made: dict[str, Any] = {
        "check": code.partition(".")[0],
        "code": code,
        "severity": Severity.HIGH,
        "score": 0.9,
        "message": "asks its reader to forget what it was told",
        "span": Span(4, 14),
        "tags": ("LLM01:2025",),
    }
    return Finding(**{**made, **fields})


def judged(version: Version, verdict: Verdict = Verdict.ACCEPT, **fields: Any) -> Judgement:
    """A judgement of `version` that gives `verdict`; all but an acceptance come with a finding."""
    found = () if verdict is Verdict.ACCEPT else (a_finding(),)
    made: dict[str, Any] = {"risk": 0.9 if found else 0.1, "policy_digest": "0" * 64, "findings": found}
    return Judgement(version.version_id, verdict, **{**made, **fields})


def vector_of(text: str) -> NDArray[np.float32]:
    """A unit vector that follows from the text alone."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return np.ascontiguousarray(vector / np.linalg.norm(vector), np.float32)


class TextHashes:
    """An embedder that finds equal texts and nothing else."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([vector_of(text) for text in texts])


def a_record(text: str = "The pump house is inspected in spring.", **metadata: Any) -> ChunkRecord:
    return ChunkRecord(domain.sha256_text(text)[:32], text, vector_of(text), {"ordinal": 0, **metadata})


@dataclass
class Shelf:
    """A corpus without its upper rooms: verdicts go in, and what is served can be looked at."""

    ledger: Ledger
    storage: Storage
    store: Store

    def record(self, *versions_and_verdicts: tuple[Version, Verdict], run_id: str = "run-1") -> None:
        """Write verdicts, with batches as a refresh would make them."""
        made = [version for version, _ in versions_and_verdicts]
        chunks = [chunk for version in made for chunk in version.chunks]
        folder = f"batches/{domain.digest('test/v1', [repr(version.stamp) for version in made])[:32]}"
        batch, vectors = f"{folder}/versions.parquet", f"{folder}/vectors.parquet"
        if not self.storage.exists(vectors):
            self.storage.write_table(batch, versions_to_table(made))
            table = np.array([vector_of(chunk.text) for chunk in chunks], np.float32).reshape(-1, DIMENSIONS)
            self.storage.write_table(vectors, vectors_to_table([chunk.chunk_id for chunk in chunks], table, MODEL))
        for version in made:
            BlobStore(f"{self.storage.url}/raw").put(version.text.encode("utf-8", "surrogatepass"))
        with self.ledger.write() as connection:
            publishing.record(
                connection,
                run_id,
                batch,
                [(version, judged(version, verdict)) for version, verdict in versions_and_verdicts],
                collection=self.store.collection_name,
                vectors=vectors,
                model=MODEL,
            )

    def accept(self, *made: Version) -> None:
        self.record(*((version, Verdict.ACCEPT) for version in made))

    def retire(self, *doc_ids: str) -> None:
        with self.ledger.write() as connection:
            publishing.retire(connection, "run-1", doc_ids, "vanished from its source")

    def drain(self) -> tuple[int, int]:
        return outbox.drain(self.ledger, self.storage, self.store, "run-1")

    def serve(self, *made: Version) -> None:
        self.accept(*made)
        self.drain()

    def held_by(self, *made: Version) -> Held:
        """What serving exactly these versions means."""
        return {
            (self.store.collection_name(version.stamp.trust), chunk.chunk_id)
            for version in made
            for chunk in version.chunks
        }

    def settings(self, home: Path) -> Settings:
        """Of a guard over the same ledger and collections."""
        is_chroma = isinstance(self.store, ChromaStore)
        return Settings(
            home=home,
            ledger_url=self.ledger.url.render_as_string(hide_password=False),
            store="chroma" if is_chroma else "pgvector",
            chroma_url=self.store.url if is_chroma else "",
            pgvector_url="" if is_chroma else self.store.url,
            collection_prefix=self.store.prefix,
        )

    def in_chroma(self) -> dict[tuple[str, str], ChunkRecord]:
        return {(name, record.chunk_id): record for name in self.store.names() for record in self.store.scan(name)}

    def in_ledger(self, *states: str) -> dict[tuple[str, str], Any]:
        with self.ledger.read() as connection:
            rows = connection.execute(sa.select(publications).where(publications.c.state.in_(states or ("published",))))
            return {(row.collection, row.chunk_id): row for row in rows}

    def document(self, version: Version) -> Any:
        with self.ledger.read() as connection:
            return connection.execute(sa.select(documents).where(documents.c.doc_id == version.doc_id)).one()

    def state(self, version: Version) -> str:
        with self.ledger.read() as connection:
            statement = sa.select(versions.c.state).where(versions.c.version_id == version.version_id)
            return str(connection.scalar(statement))

    def check_agreement(self) -> Held:
        """Nothing is left to do, and Chroma holds what the ledger published, byte for byte. Returns what that is."""
        assert not self.in_ledger("pending", "retiring")
        found, published = self.in_chroma(), self.in_ledger()
        assert set(found) == set(published)
        for key, row in published.items():
            assert found[key].vector_sha256 == row.vector_sha256
            assert found[key].metadata_sha256 == row.metadata_sha256
        return set(found)
