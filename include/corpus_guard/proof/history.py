"""Differences between two seals, with the runs that made them.

The manifests say what changed, the events of the log between them say in which run: a difference without an
event has no run, and would not have been sealed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import in_batches
from corpus_guard.errors import UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import events, publications, seals, versions
from corpus_guard.proof.manifest import ManifestChange, RecordKey, compare_manifests


@dataclass(frozen=True, slots=True)
class SealDifference:
    """A chunk that two manifests do not list alike."""

    what: str  # added, removed, modified
    chunk_id: str
    collection: str
    source: str
    uri: str
    run_id: str  # "" if no event names it


def seal_differences(
    ledger: Ledger, storage: Storage, older: int | None = None, newer: int | None = None
) -> Iterator[SealDifference]:
    """Yield the differences between two seals; memory is as large as what changed.

    Args:
        older: number of a seal; None: the last but one.
        newer: number of a later seal; None: the last.

    Raises:
        UnknownSubject: there is no such seal, or there are fewer than two.
        Inconsistent: a manifest is missing from storage.
    """
    first, second = _find_seals(ledger, older, newer)
    runs = _runs_between(ledger, first.manifest_sha256, second.manifest_sha256)
    changes = compare_manifests(storage.read_lines(first.manifest), storage.read_lines(second.manifest))
    for batch in in_batches(changes):
        origins = _origins(ledger, batch)
        for change in batch:
            source, uri = origins.get(change.key, ("", ""))
            chunk_id, collection = change.key
            yield SealDifference(change.what, chunk_id, collection, source, uri, runs.get(change.key, ""))


def _find_seals(ledger: Ledger, older: int | None, newer: int | None) -> tuple[sa.Row[tuple[object, ...]], ...]:
    rows = ledger.rows(sa.select(seals).order_by(seals.c.number))
    existing = [row.number for row in rows]
    if (older is None and len(rows) < 2) or (newer is None and not rows):
        raise UnknownSubject(
            f"a comparison needs two seals, and the ledger has {len(rows)}; the next `guard refresh` that "
            "changes something makes one"
        )
    numbers = (existing[-2] if older is None else older, existing[-1] if newer is None else newer)
    by_number = {row.number: row for row in rows}
    unknown = [number for number in numbers if number not in by_number]
    if unknown:
        span = f"{existing[0]} to {existing[-1]}" if existing else "none"
        raise UnknownSubject(f"seal {unknown[0]} is not in the ledger; it has seals {span}")
    return tuple(by_number[number] for number in numbers)


def _runs_between(ledger: Ledger, older_sha256: str, newer_sha256: str) -> dict[RecordKey, str]:
    """Return the last run that published or withdrew each chunk between the seals of two manifests."""
    with ledger.read() as connection:

        def last_sealed(sha256: str) -> int:
            is_seal = sa.and_(events.c.kind == "sealed", events.c.subject == sha256)
            return connection.scalar(sa.select(sa.func.max(events.c.seq)).where(is_seal)) or 0

        start, end = sorted((last_sealed(older_sha256), last_sealed(newer_sha256)))
        between = sa.and_(events.c.seq > start, events.c.seq < end)
        is_publication = events.c.kind.in_(("published", "unpublished"))
        statement = sa.select(events).where(between, is_publication).order_by(events.c.seq)
        return {
            (chunk_id, row.subject): row.run_id
            for row in connection.execute(statement)
            for chunk_id in (row.body["chunks"] if isinstance(row.body["chunks"], list | dict) else ())
        }


def _origins(ledger: Ledger, changes: list[ManifestChange]) -> dict[RecordKey, tuple[str, str]]:
    """Return source and URI of each changed record that has a publication."""
    statement = (
        sa.select(publications.c.chunk_id, publications.c.collection, versions.c.stamp)
        .join(versions, versions.c.version_id == publications.c.version_id)
        .where(publications.c.chunk_id.in_([change.key[0] for change in changes]))
    )
    return {(row.chunk_id, row.collection): (row.stamp["source"], row.stamp["uri"]) for row in ledger.rows(statement)}
