"""Records that the collections should hold: the newest signed manifest, and what was logged after it.

Rules
    * a seal counts when its event lies under a verified head: whoever can write to the ledger can log a seal,
      but cannot sign it;
    * its manifest has the hash, the root and the number of lines that the event says; its lines are sorted,
      each once;
    * what was published or withdrawn since then was logged with digests: it is expected as logged, and
      counted as not proved yet;
    * without such a manifest only the ledger is left to compare with; the verification has failed already,
      and reports what else is wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
import sqlalchemy as sa

from corpus_guard.domain import Progress, record_digest
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.queries import select_in_batches
from corpus_guard.ledger.states import PublicationState
from corpus_guard.ledger.tables import chunks, publications
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.merkle import Frontier, leaf_hash
from corpus_guard.proof.manifest import (
    LoggedChanges,
    ManifestLine,
    RecordKey,
    SealEvent,
    last_seal_below,
    logged_changes,
    manifest_lines,
)
from corpus_guard.proof.verify.findings import DeviationCollector

if TYPE_CHECKING:
    from corpus_guard.batches import Storage

LINES_PER_REPORT: Final = 20_000  # between two reports of progress


@dataclass(frozen=True, slots=True)
class ExpectedRecord:
    """Hashes of the record that a collection should hold under a chunk's id."""

    chunk_id: str
    collection: str
    doc_id: str
    text_sha256: str
    vector_sha256: str
    metadata_sha256: str
    model: str

    @property
    def key(self) -> RecordKey:
        """(chunk id, collection)."""
        return self.chunk_id, self.collection

    @property
    def digest(self) -> str:
        """Digest of the record, as the log has it."""
        return record_digest(self.text_sha256, self.vector_sha256, self.metadata_sha256)

    @classmethod
    def from_line(cls, raw: bytes) -> ExpectedRecord:
        """Return the record that a line of a manifest lists."""
        line: ManifestLine = orjson.loads(raw)
        return cls(
            line["chunk_id"],
            line["collection"],
            line["doc_id"],
            line["text_sha256"],
            line["vector_sha256"],
            line["metadata_sha256"],
            line["model"],
        )


@dataclass(frozen=True, slots=True)
class SignedSeal:
    """The newest seal under a verified head."""

    event: SealEvent | None  # None: nothing was sealed, or the seal is not signed
    manifest_intact: bool  # its manifest exists, and is the one that was signed

    @property
    def lines(self) -> int:
        """Number of lines in its manifest."""
        return self.event.chunks if self.event else 0


def check_manifest(
    ledger: Ledger, storage: Storage, signed_events: int, collector: DeviationCollector, progress: Progress
) -> SignedSeal:
    """Find the newest seal among the first `signed_events` events, and check its manifest."""
    event = last_seal_below(ledger, signed_events)
    if event is None:
        collector.add(
            DeviationKind.MANIFEST_MISSING,
            "manifest",
            "no signed event names a manifest: nothing was ever sealed, or only by a release that signed "
            "nothing; run `guard refresh`",
        )
        return SignedSeal(None, manifest_intact=False)
    location = storage.location(event.name)
    try:
        defect = _manifest_defect(storage, event, progress)
    except Inconsistent:
        collector.add(
            DeviationKind.MANIFEST_MISSING,
            event.name,
            f"the manifest {location} is missing; restore it from a backup, or seal again: an unchanged "
            "corpus gives the same manifest",
            expected=event.sha256,
        )
        return SignedSeal(event, manifest_intact=False)
    if defect:
        collector.add(
            DeviationKind.MANIFEST_CHANGED,
            event.name,
            f"the manifest {location} is not the one that was signed: {defect}; restore it from a backup",
            expected=event.sha256,
        )
    return SignedSeal(event, manifest_intact=not defect)


def changes_since(ledger: Ledger, seal: SignedSeal) -> LoggedChanges:
    """Return what was published and withdrawn after the seal, the last event for each chunk."""
    return logged_changes(ledger, seal.event.seq) if seal.event else LoggedChanges({}, {})


def expected_records(
    ledger: Ledger, storage: Storage, seal: SignedSeal, changes: LoggedChanges
) -> Iterator[ExpectedRecord]:
    """Yield every record that the collections should hold; memory stays flat.

    Records of the manifest come first, then those published since.
    """
    if not (seal.event and seal.manifest_intact):
        yield from map(ExpectedRecord.from_line, manifest_lines(ledger))
        return
    for line in storage.read_lines(seal.event.name):
        record = ExpectedRecord.from_line(line)
        if record.key not in changes.digests:
            yield record
    new_keys = sorted(key for key, digest in changes.digests.items() if digest is not None)
    yield from published_records(ledger, new_keys).values()


def published_records(ledger: Ledger, keys: Sequence[RecordKey]) -> dict[RecordKey, ExpectedRecord]:
    """Return what the ledger says about published chunks."""
    columns = ("chunk_id", "collection", "doc_id", "vector_sha256", "metadata_sha256", "model")
    statement = (
        sa.select(*(publications.c[name] for name in columns), chunks.c.text_sha256)
        .join(chunks, chunks.c.chunk_id == publications.c.chunk_id)
        .where(publications.c.state == PublicationState.PUBLISHED)
    )
    requested = set(keys)
    with ledger.read() as connection:
        rows = select_in_batches(
            connection, statement, publications.c.chunk_id, (chunk_id for chunk_id, _ in requested)
        )
        records = [ExpectedRecord(**row._mapping) for row in rows]
    return {record.key: record for record in records if record.key in requested}


def publication_states(ledger: Ledger, keys: Sequence[RecordKey]) -> dict[RecordKey, str]:
    """Return the state of each of these publications that exists; a changed row may hold any text."""
    statement = sa.select(publications.c.chunk_id, publications.c.collection, publications.c.state)
    requested = set(keys)
    with ledger.read() as connection:
        rows = select_in_batches(
            connection, statement, publications.c.chunk_id, (chunk_id for chunk_id, _ in requested)
        )
        states = {(row.chunk_id, row.collection): row.state for row in rows}
    return {key: state for key, state in states.items() if key in requested}


def report_unsealed(changes: LoggedChanges, in_flight: int, collector: DeviationCollector) -> None:
    """Add one deviation for everything that is not proved yet.

    Args:
        in_flight: chunks that the outbox is about to publish or withdraw.
    """
    count = sum(changes.chunks_by_run.values()) + in_flight
    if not count:
        return
    runs = [f"{run} ({number})" for run, number in sorted(changes.chunks_by_run.items())]
    runs += [f"the outbox ({in_flight})"] if in_flight else []
    subject = "1 chunk was" if count == 1 else f"{count} chunks were"
    collector.add(
        DeviationKind.UNSEALED,
        "manifest",
        f"{subject} published, withdrawn or requested since the last signed seal, by {', '.join(runs[:5])}: "
        "not proved yet. A running run seals at its end; after one that was killed run `guard refresh`",
        actual=count,
    )


def _manifest_defect(storage: Storage, event: SealEvent, progress: Progress) -> str:
    """Return what is wrong with the manifest; "" if it is the signed one."""
    hasher, tree = hashlib.sha256(), Frontier()
    previous: RecordKey | None = None
    is_sorted = True
    for number, raw in enumerate(storage.read_lines(event.name)):
        hasher.update(raw + b"\n")
        tree.append(leaf_hash(raw))
        if number % LINES_PER_REPORT == 0:
            progress("manifest", number, event.chunks)
        try:
            line: ManifestLine = orjson.loads(raw)
            key = line["chunk_id"], line["collection"]
        except (ValueError, TypeError, LookupError):
            return f"line {number + 1} is not a line of a manifest"
        is_sorted = is_sorted and (previous is None or previous < key)
        previous = key
    sha256 = hasher.hexdigest()
    if (sha256, tree.root().hex()) != (event.sha256, event.root):
        return f"it has {tree.size} lines and SHA-256 {sha256[:16]}…, expected {event.chunks} lines and {event.sha256[:16]}…"
    if tree.size != event.chunks or not is_sorted:
        return f"its {tree.size} lines are not {event.chunks} sorted lines, each once"
    return ""
