"""Kinds of deviations that a verification reports, each with a stable name.

A deviation is a difference between what was sealed and signed and what is there now. None of them is a
warning: one is enough for a verification to fail. `HEALABLE_KINDS` lists those that can be undone from the
Parquet batches and the ledger, where no `OTHER_LEDGER_KINDS` are among them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class DeviationKind(StrEnum):
    """Names of deviations; stable, because exports and incidents refer to them."""

    # --- the collections ---
    ADDED = "added"  # a record that no manifest lists
    REMOVED = "removed"  # a listed record is gone
    TEXT_CHANGED = "text_changed"
    VECTOR_CHANGED = "vector_changed"
    METADATA_CHANGED = "metadata_changed"
    MOVED = "moved"  # listed for one collection, found in another
    SWAPPED = "swapped"  # two records carry each other's text or vector
    UNREACHABLE = "unreachable"  # there, but a query with its own vector does not find it (chroma #7678, #7758)
    SPACE_CHANGED = "space_changed"  # a collection measures distance differently, or names another embedder
    COLLECTION_MISSING = "collection_missing"
    COLLECTION_DAMAGED = "collection_damaged"  # Chroma refuses to read it: a value in its files has a wrong type
    COLLECTION_FOREIGN = "collection_foreign"  # named like ours, and belongs to another deployment
    COLLECTION_ADDED = "collection_added"  # named like ours, and nothing was ever sealed for it
    # --- the manifest ---
    MANIFEST_MISSING = "manifest_missing"
    MANIFEST_CHANGED = "manifest_changed"  # its bytes do not have the signed hash or root
    # --- the ledger ---
    LEDGER_CHANGED = "ledger_changed"  # a row contradicts the signed log or manifest
    UNSEALED = "unsealed"  # published or withdrawn since the last seal: not proved yet
    # --- what is stored ---
    FILE_MISSING = "file_missing"  # raw bytes, a batch, a record or a detector
    FILE_CHANGED = "file_changed"  # it does not have its logged hash, or does not hold what was judged
    KEYS_CHANGED = "keys_changed"  # a file of the keys does not fit the keyring
    WEIGHTS_CHANGED = (
        "weights_changed"  # a model's file is not the pinned or converted one, or a learned part not the logged one
    )
    # --- the event log ---
    EVENT_CHANGED = "event_changed"  # an event does not have its logged hash, or does not follow its predecessor
    EVENT_MISSING = "event_missing"  # a gap in the numbers
    LOG_TRUNCATED = "log_truncated"  # shorter than a head that was signed
    HEAD_MISSING = "head_missing"  # nothing was ever signed, or a head of the sequence is gone
    HEAD_CHANGED = "head_changed"  # a head is not that of the log at its size
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_KEY = "unknown_key"  # signed by a key that is not in the keyring
    REVOKED_KEY = "revoked_key"
    ROLLED_BACK = "rolled_back"  # shorter than the head that was verified, witnessed or anchored before
    FORKED = "forked"  # not a continuation of the head that was verified, witnessed or anchored before
    STALE = "stale"  # the newest head is older than allowed
    WITNESS_MISSING = "witness_missing"  # a witness is configured, and the newest head lacks its cosignature


HEALABLE_KINDS: Final = frozenset(
    {
        DeviationKind.ADDED,
        DeviationKind.REMOVED,
        DeviationKind.TEXT_CHANGED,
        DeviationKind.VECTOR_CHANGED,
        DeviationKind.METADATA_CHANGED,
        DeviationKind.MOVED,
        DeviationKind.SWAPPED,
        DeviationKind.UNREACHABLE,
        DeviationKind.COLLECTION_MISSING,
    }
)
"""Kinds that are undone by publishing again what the ledger and the Parquet batches say."""

NEVER_ACCEPTED_KINDS: Final = HEALABLE_KINDS | {
    DeviationKind.COLLECTION_DAMAGED,
    DeviationKind.COLLECTION_FOREIGN,
    DeviationKind.UNSEALED,
}
"""Kinds that are no baseline: healing or the next seal ends them, or the records of a collection were not compared."""

OTHER_LEDGER_KINDS: Final = frozenset(
    {
        DeviationKind.EVENT_CHANGED,
        DeviationKind.EVENT_MISSING,
        DeviationKind.LOG_TRUNCATED,
        DeviationKind.HEAD_CHANGED,
        DeviationKind.ROLLED_BACK,
        DeviationKind.FORKED,
    }
)
"""Kinds that say that this is not the ledger that was signed: what it says is served may have been withdrawn since."""


UNREADABLE: Final = "unreadable"
"""Finding for an unreachable record that the store refuses to give: nobody knows whether it is as it was sealed."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """A difference between sealed and present state; never holds a document's text."""

    kind: DeviationKind
    subject: str  # chunk id, collection, manifest name, event number, key
    message: str  # plain language: what, where, and what next
    expected: str = ""  # hash, count or name
    actual: str = ""  # the same
    collection: str = ""
    doc_id: str = ""

    @property
    def is_lost_link(self) -> bool:
        """True if all that deviates is the index: the record was read, is as it was sealed, and no query finds it."""
        return self.kind is DeviationKind.UNREACHABLE and self.actual != UNREADABLE

    @property
    def healable(self) -> bool:
        """True if `corpus_guard.proof.healing` can undo it."""
        return self.kind in HEALABLE_KINDS

    def as_dict(self) -> dict[str, str]:
        """Return the deviation JSON-ready; `actual` is called ``found``."""
        return {
            "kind": self.kind.value,
            "subject": self.subject,
            "message": self.message,
            "expected": self.expected,
            "found": self.actual,
            "collection": self.collection,
            "doc_id": self.doc_id,
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, str]) -> Deviation:
        """Return the deviation behind what `as_dict` returned."""
        return cls(
            kind=DeviationKind(row["kind"]),
            subject=row["subject"],
            message=row["message"],
            expected=row["expected"],
            actual=row["found"],
            collection=row["collection"],
            doc_id=row["doc_id"],
        )
