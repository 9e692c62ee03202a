"""What a new version follows: the texts that a change is compared with.

Rules
- The predecessor is the version that was known before (`Stamp.parent_version`) if it was accepted or released. If it was
  stopped, it is what the collections hold of the document: otherwise handing in a text that is stopped would clear the
  way for the next.
- Bytes that were known before follow nothing.
- A text that the ledger names and storage does not hold, or holds with another hash, is an error: compared with nothing,
  a change would pass unseen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.batches.tables import split, versions_from_table
from corpus_guard.domain import Version
from corpus_guard.errors import Inconsistent
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import documents
from corpus_guard.ledger.tables import versions as known

_ASKED_AT_ONCE: Final = 500


def load_predecessors(ledger: Ledger, storage: Storage, versions: Sequence[Version]) -> dict[str, Version]:
    """Read what a shard's versions follow; one batch is held at a time, and of it only what is wanted.

    Returns:
        Id of the new version → its predecessor. A document that is new, or of which nothing was ever accepted, has none.

    Raises:
        Inconsistent: a batch cannot be read, or lacks a version that the ledger says it holds.
    """
    wanted: dict[str, dict[str, Any]] = defaultdict(dict)  # batch → version id → row of the ledger
    followers: dict[str, list[str]] = defaultdict(list)
    for new, row in _accepted_before(ledger, versions).items():
        wanted[row.batch][row.version_id] = row
        followers[row.version_id].append(new)
    found: dict[str, Version] = {}
    for batch, rows in wanted.items():
        for version in _read(storage, batch, rows):
            found |= dict.fromkeys(followers[version.version_id], version)
    return found


def _accepted_before(ledger: Ledger, versions: Sequence[Version]) -> dict[str, Any]:
    """Id of the new version → the ledger's row of its predecessor."""
    accepted = known.c.state.in_(("accepted", "released"))
    columns = sa.select(known.c.version_id, known.c.doc_id, known.c.batch, known.c.text_sha256).where(accepted)
    found: dict[str, Any] = {}
    with ledger.read() as connection:
        for part in split((version for version in versions if version.stamp.parent_version), _ASKED_AT_ONCE):
            parents = columns.where(known.c.version_id.in_([one.stamp.parent_version for one in part]))
            by_id = {row.version_id: row for row in connection.execute(parents)}
            served = columns.join(documents, documents.c.target_version == known.c.version_id)
            by_document = {
                row.doc_id: row
                for row in connection.execute(served.where(known.c.doc_id.in_([one.doc_id for one in part])))
            }
            for version in part:
                row = by_id.get(version.stamp.parent_version) or by_document.get(version.doc_id)
                # A parent of another document would be a forged stamp; nothing of it is compared.
                if row is not None and row.doc_id == version.doc_id and row.version_id != version.version_id:
                    found[version.version_id] = row
    return found


def _read(storage: Storage, batch: str, rows: Mapping[str, Any]) -> list[Version]:
    import pyarrow as pa

    try:
        table = storage.read_table(batch, filters=[("version_id", "in", list(rows))])
        held = {version.version_id: version for version in versions_from_table(table)}
    except (pa.ArrowException, ValueError, KeyError, TypeError) as error:
        raise Inconsistent(
            f"{storage.location(batch)}: unreadable ({type(error).__name__}), and new versions are to be compared with "
            "texts in it; restore the file"
        ) from error
    for version_id, row in rows.items():
        if version_id not in held or held[version_id].text_sha256 != row.text_sha256:
            what = "has another text than the ledger says" if version_id in held else "is not in it"
            raise Inconsistent(
                f"{storage.location(batch)}: version {version_id} {what}, and a new version is to be compared with it; "
                "restore the file"
            )
    return list(held.values())
