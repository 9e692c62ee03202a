"""The manifest: one canonical JSON line for each published chunk, sorted by chunk id.

It is derived from the ledger, whose hashes are those of what Chroma returned after writing. Two manifests of
the same corpus are equal byte for byte. No line holds a float or a text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

import orjson
import sqlalchemy as sa

from corpus_guard.domain import canonical_json, record_digest
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import append_event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.states import UNFINISHED_STATES, PublicationState, ReviewAction, VersionState
from corpus_guard.ledger.tables import chunks, decision_stands, decisions, events, publications, seals, versions
from corpus_guard.proof.alignment import align
from corpus_guard.proof.log.merkle import Frontier, leaf_hash

if TYPE_CHECKING:
    from corpus_guard.batches import Storage
    from corpus_guard.corpus.store import Store

ROWS_PER_FETCH: Final = 2_000
SEAL_LIFETIME: Final = timedelta(hours=6)  # a nightly run renews a seal, a second run of the same morning does not
MANIFEST_EVENTS: Final = ("published", "unpublished", "judged", "rejudged", "decided")
"""Kinds of events after which the manifest may differ."""

RecordKey: TypeAlias = tuple[str, str]
"""(chunk id, collection)."""


class ManifestLine(TypedDict):
    """A line of the manifest, parsed."""

    v: int
    chunk_id: str
    collection: str
    doc_id: str
    version_id: str
    ordinal: int
    source: str
    owner: str
    trust: str
    uri: str
    fetched_at: str
    content_sha256: str
    text_sha256: str
    vector_sha256: str
    metadata_sha256: str
    model: str
    verdict: str
    decision_id: str | None
    policy_digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A written manifest."""

    name: str  # in storage
    sha256: str
    root: str  # RFC 6962 tree over its lines, hex
    chunks: int


@dataclass(frozen=True, slots=True)
class SealEvent:
    """An event of kind ``sealed``."""

    seq: int
    at: datetime
    name: str  # of the manifest, in storage
    sha256: str  # of the manifest
    root: str  # of the manifest, hex
    chunks: int

    @classmethod
    def from_row(cls, row: sa.Row[tuple[object, ...]] | None) -> SealEvent | None:
        """Return the event in a row of `events`; None if it is no seal, or names no root (older releases)."""
        if row is None or row.kind != "sealed" or "root" not in row.body:
            return None
        return cls(row.seq, row.at, row.body["manifest"], row.subject, row.body["root"], row.body["chunks"])


@dataclass(frozen=True, slots=True)
class LoggedChanges:
    """Publications and withdrawals that were logged after a seal."""

    digests: Mapping[RecordKey, str | None]  # digest of the record that the collection holds now; None: withdrawn
    chunks_by_run: Mapping[str, int]  # published and withdrawn


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """A difference between two manifests."""

    key: RecordKey
    what: str  # added, removed, modified
    digest: str | None  # of the record that the collection should hold now; None: none


def write_manifest(ledger: Ledger, storage: Storage, store: Store, run_id: str) -> Manifest:
    """Write the manifest of what is served now and log it; an unchanged corpus keeps its manifest.

    Its seal is renewed once it is older than SEAL_LIFETIME.

    Nothing is published meanwhile: what another run marks between the reading and the seal would count as
    sealed.

    Raises:
        Inconsistent: Chroma holds another number of chunks than the ledger published, or a row of the ledger
            was changed without an event.
    """
    with ledger.exclusive("publish"):
        last = last_seal(ledger)
        # A seal is renewed although nothing changed, so that its age shows whether anybody still runs the
        # pipeline.
        fresh = last is not None and now() - last.at < SEAL_LIFETIME
        if last and storage.exists(last.name) and not _has_changed_since(ledger, last):
            manifest = Manifest(last.name, last.sha256, last.root, last.chunks)
            if fresh:
                return manifest
        else:
            _check_counts(ledger, store)
            manifest = _write_lines(ledger, storage)
            if last and manifest.sha256 != last.sha256:
                require_logged(ledger, storage, last, manifest)
        with ledger.write() as connection:
            if not last or manifest.sha256 != last.sha256:
                connection.execute(
                    seals.insert().values(
                        run_id=run_id,
                        manifest=manifest.name,
                        manifest_sha256=manifest.sha256,
                        root=manifest.root,
                        chunks=manifest.chunks,
                        sealed_at=now(),
                    )
                )
            append_event(
                connection,
                "sealed",
                manifest.sha256,
                run_id,
                manifest=manifest.name,
                root=manifest.root,
                chunks=manifest.chunks,
            )
        return manifest


def manifest_lines(ledger: Ledger) -> Iterator[bytes]:
    """Yield the lines, without newline, as the ledger is now."""
    released_by = (
        sa.select(decisions.c.decision_id)
        .where(
            decisions.c.version_id == publications.c.version_id,
            decisions.c.verdict == ReviewAction.RELEASE,
            decision_stands(),
        )
        .order_by(decisions.c.decided_at.desc(), decisions.c.decision_id)
        .limit(1)
        .scalar_subquery()
        .label("released_by")
    )
    statement = (
        sa.select(
            *publications.c[
                "chunk_id", "collection", "doc_id", "version_id", "model", "vector_sha256", "metadata_sha256"
            ],
            *versions.c["stamp", "verdict", "state", "policy_digest"],
            *chunks.c["ordinal", "text_sha256"],
            released_by,
        )
        .join_from(publications, chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.state == PublicationState.PUBLISHED)
        .order_by(publications.c.chunk_id, publications.c.collection)
        .execution_options(yield_per=ROWS_PER_FETCH)
    )
    with ledger.read() as connection:
        for row in connection.execute(statement):
            stamp = row.stamp
            released = row.state == VersionState.RELEASED
            line = ManifestLine(
                v=2,
                chunk_id=row.chunk_id,
                collection=row.collection,
                doc_id=row.doc_id,
                version_id=row.version_id,
                ordinal=row.ordinal,
                source=stamp["source"],
                owner=stamp["owner"],
                trust=stamp["trust"],
                uri=stamp["uri"],
                fetched_at=stamp["fetched_at"],
                content_sha256=stamp["content_sha256"],
                text_sha256=row.text_sha256,
                vector_sha256=row.vector_sha256,
                metadata_sha256=row.metadata_sha256,
                model=row.model,
                verdict="release" if released else row.verdict,
                decision_id=row.released_by if released else None,
                policy_digest=row.policy_digest,
            )
            yield canonical_json(line)


def last_seal(ledger: Ledger) -> SealEvent | None:
    """Return the newest seal of the log; None if it names no root, or a baseline was accepted since."""
    return _newest_seal(ledger, events.c.kind.in_(("sealed", "baseline_accepted")))


def last_seal_below(ledger: Ledger, size: int) -> SealEvent | None:
    """Return the newest seal among the first `size` events; None if it names no root."""
    return _newest_seal(ledger, events.c.kind == "sealed", events.c.seq < size)


def _newest_seal(ledger: Ledger, *conditions: sa.ColumnElement[bool]) -> SealEvent | None:
    newest = sa.select(events).where(*conditions).order_by(events.c.seq.desc()).limit(1)
    return SealEvent.from_row(ledger.first(newest))


def logged_changes(ledger: Ledger, seq: int) -> LoggedChanges:
    """Return what was published and withdrawn after event `seq`, the last event for each chunk."""
    digests: dict[RecordKey, str | None] = {}
    chunks_by_run: Counter[str] = Counter()
    statement = (
        sa.select(events.c.kind, events.c.subject, events.c.run_id, events.c.body)
        .where(events.c.seq > seq, events.c.kind.in_(("published", "unpublished")))
        .order_by(events.c.seq)
    )
    with ledger.read() as connection:
        for kind, collection, run_id, body in connection.execute(statement):
            chunks_by_run[run_id] += len(body["chunks"])
            for chunk_id in body["chunks"]:
                digests[chunk_id, collection] = body["chunks"][chunk_id] if kind == "published" else None
    return LoggedChanges(digests, chunks_by_run)


def require_logged(ledger: Ledger, storage: Storage, last: SealEvent, manifest: Manifest) -> None:
    """Check that every difference between two manifests was logged by an event between them.

    Raises:
        Inconsistent: a row of the ledger was added, changed or removed without an event.
    """
    digests = logged_changes(ledger, last.seq).digests
    for change in compare_manifests(storage.read_lines(last.name), storage.read_lines(manifest.name)):
        if change.digest != digests.get(change.key, "nothing"):
            chunk_id, collection = change.key
            raise Inconsistent(
                f"chunk {chunk_id} of {collection}: its row in the ledger was {change.what} since the last "
                "seal, and no event of the log says so: the database was changed from outside. Nothing was "
                "sealed; `guard verify` lists what is wrong"
            )


def compare_manifests(before: Iterable[bytes], after: Iterable[bytes]) -> Iterator[ManifestChange]:
    """Yield what was added, removed or modified between two manifests, sorted; memory stays flat.

    A record is modified if its text, vector or metadata changed.
    """
    for key, old, new in align(_keyed_digests(before), _keyed_digests(after)):
        if old != new:
            yield ManifestChange(key, "added" if old is None else "removed" if new is None else "modified", new)


def _keyed_digests(lines: Iterable[bytes]) -> Iterator[tuple[RecordKey, str]]:
    for raw in lines:
        line: ManifestLine = orjson.loads(raw)
        digest = record_digest(line["text_sha256"], line["vector_sha256"], line["metadata_sha256"])
        yield (line["chunk_id"], line["collection"]), digest


def _write_lines(ledger: Ledger, storage: Storage) -> Manifest:
    tree = Frontier()

    def appended_to_tree() -> Iterator[bytes]:
        for line in manifest_lines(ledger):
            tree.append(leaf_hash(line))
            yield line

    name, sha256, count = storage.write_lines("manifests", appended_to_tree(), ".jsonl")
    return Manifest(name, sha256, tree.root().hex(), count)


def _has_changed_since(ledger: Ledger, last: SealEvent) -> bool:
    # By the order of events, not by times: the clocks of two machines differ.
    later = sa.select(events.c.seq).where(events.c.seq > last.seq, events.c.kind.in_(MANIFEST_EVENTS))
    return ledger.first(later.limit(1)) is not None


def _check_counts(ledger: Ledger, store: Store) -> None:
    # Chroma may hold or lack what another run asked for and nobody has published or removed yet.
    is_published = publications.c.state == PublicationState.PUBLISHED
    is_unfinished = publications.c.state.in_(UNFINISHED_STATES)
    statement = (
        sa.select(
            publications.c.collection,
            sa.func.count().filter(is_published).label("published"),
            sa.func.count().filter(is_unfinished).label("unfinished"),
        )
        .group_by(publications.c.collection)
        .order_by(publications.c.collection)
    )
    rows = ledger.rows(statement)
    for row in rows:  # none if nothing was ever served: then no server is started only to see that it is empty
        count = store.count(row.collection)
        if not row.published <= count <= row.published + row.unfinished:
            raise Inconsistent(
                f"collection {row.collection} at {store.address} holds {count} chunks, the ledger published "
                f"{row.published}; something else writes to it, or it lost records. Nothing was sealed; "
                "`guard verify` lists what is wrong"
            )
