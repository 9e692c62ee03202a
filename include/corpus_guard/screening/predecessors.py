"""Accepted predecessors of new versions: the texts that a change is compared with.

Rules
- The predecessor is the version that came before (`Stamp.parent_version`) if it was accepted or released. If
  it was stopped, it is the version that the collections hold of the document: otherwise a text that is
  stopped would clear the way for the next one.
- Bytes that were known before have no predecessor.
- A text that the ledger names and storage does not hold, or holds with another hash, is an error: compared
  with nothing, a change would pass unseen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import versions_from_table
from corpus_guard.domain import Version
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger, tables
from corpus_guard.ledger.queries import rows_by_id
from corpus_guard.ledger.states import SERVABLE_STATES


@dataclass(frozen=True, slots=True)
class _Predecessor:
    """A version as the ledger names it."""

    version_id: str
    doc_id: str
    batch: str
    text_sha256: str


def load_predecessors(ledger: Ledger, storage: Storage, versions: Sequence[Version]) -> dict[str, Version]:
    """Read the predecessors of a shard's versions, one batch at a time.

    Returns:
        Id of the new version → its predecessor. A new document, or one of which nothing was ever accepted,
        has none.

    Raises:
        Inconsistent: a batch cannot be read, or lacks a version that the ledger says it holds.
    """
    by_batch: dict[str, dict[str, _Predecessor]] = defaultdict(dict)  # batch → version id → predecessor
    followers: dict[str, list[str]] = defaultdict(list)
    for new, predecessor in _accepted_before(ledger, versions).items():
        by_batch[predecessor.batch][predecessor.version_id] = predecessor
        followers[predecessor.version_id].append(new)
    loaded: dict[str, Version] = {}
    for batch, predecessors in by_batch.items():
        for version in _read(storage, batch, predecessors.values()):
            loaded |= dict.fromkeys(followers[version.version_id], version)
    return loaded


def _accepted_before(ledger: Ledger, versions: Iterable[Version]) -> dict[str, _Predecessor]:
    """Return id of the new version → its predecessor."""
    table = tables.versions
    columns = table.c["version_id", "doc_id", "batch", "text_sha256"]
    is_accepted = table.c.state.in_(SERVABLE_STATES)
    is_served = tables.documents.c.target_version == table.c.version_id
    served = sa.select(table.c.doc_id.label("of"), *columns).where(is_accepted).join(tables.documents, is_served)
    followers = [(version, parent) for version in versions if (parent := version.stamp.parent_version)]
    with ledger.read() as connection:
        accepted = rows_by_id(connection, sa.select(*columns).where(is_accepted), (parent for _, parent in followers))
        by_document = rows_by_id(connection, served, (version.doc_id for version, _ in followers))
    predecessors: dict[str, _Predecessor] = {}
    for version, parent in followers:
        row = accepted.get(parent) or by_document.get(version.doc_id)
        # A parent of another document would be a forged stamp; nothing of it is compared.
        if row is not None and row.doc_id == version.doc_id and row.version_id != version.version_id:
            predecessors[version.version_id] = _Predecessor(row.version_id, row.doc_id, row.batch, row.text_sha256)
    return predecessors


def _read(storage: Storage, batch: str, predecessors: Collection[_Predecessor]) -> list[Version]:
    version_ids = [predecessor.version_id for predecessor in predecessors]
    try:
        table = storage.read_table(batch, filters=[("version_id", "in", version_ids)])
        stored = {version.version_id: version for version in versions_from_table(table)}
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise Inconsistent(
            f"{storage.location(batch)}: unreadable ({type(error).__name__}), expected the predecessors of new versions; "
            "restore the file"
        ) from error
    for predecessor in predecessors:
        version = stored.get(predecessor.version_id)
        if version is None or version.text_sha256 != predecessor.text_sha256:
            difference = "has another text than the ledger says" if version else "is not in it"
            raise Inconsistent(
                f"{storage.location(batch)}: version {predecessor.version_id} {difference}, and a new version must be "
                "compared with it; restore the file"
            )
    return list(stored.values())
