"""What a verification can find wrong, each with a name of its own.

A deviation is a difference between what was sealed and signed and what is there now. None of them is a warning: one is enough for
a verification to fail. Which of them can be undone from the Parquet batches and the ledger is said here, in `HEALABLE`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """The names of deviations; stable, because exports and incidents refer to them."""

    # --- the collections -------------------------------------------------------------------------------------------
    ADDED = "added"  # a record that no manifest lists
    REMOVED = "removed"  # a listed record is gone
    TEXT_CHANGED = "text_changed"
    VECTOR_CHANGED = "vector_changed"
    METADATA_CHANGED = "metadata_changed"
    MOVED = "moved"  # listed for one collection, found in another
    SWAPPED = "swapped"  # two records carry each other's text or vector
    UNREACHABLE = "unreachable"  # there, but a query with its own vector does not find it (chroma #7678, #7758)
    SPACE_CHANGED = "space_changed"  # a collection measures distance otherwise, or names another embedder
    COLLECTION_MISSING = "collection_missing"
    COLLECTION_ADDED = "collection_added"  # a name that looks like ours, and nobody sealed anything for it
    # --- the manifest ----------------------------------------------------------------------------------------------
    MANIFEST_MISSING = "manifest_missing"
    MANIFEST_CHANGED = "manifest_changed"  # its bytes have not the signed hash or root
    # --- the ledger ------------------------------------------------------------------------------------------------
    LEDGER_CHANGED = "ledger_changed"  # a row says something else than the signed log or manifest
    UNSEALED = "unsealed"  # published or withdrawn since the last seal: not proved yet
    # --- the event log ---------------------------------------------------------------------------------------------
    EVENT_CHANGED = "event_changed"  # an event has not the hash it was logged with, or does not follow its predecessor
    EVENT_MISSING = "event_missing"  # a gap in the numbers
    LOG_TRUNCATED = "log_truncated"  # shorter than a head that was signed
    HEAD_MISSING = "head_missing"  # nothing was ever signed, or a head of the sequence is gone
    HEAD_CHANGED = "head_changed"  # a head is not that of the log at its size
    BAD_SIGNATURE = "bad_signature"
    UNKNOWN_KEY = "unknown_key"  # signed by nobody the keyring knows
    REVOKED_KEY = "revoked_key"
    ROLLED_BACK = "rolled_back"  # shorter than the head that was verified, witnessed or anchored before
    FORKED = "forked"  # not a continuation of the head that was verified, witnessed or anchored before
    STALE = "stale"  # the newest head is older than allowed
    WITNESS_MISSING = "witness_missing"  # a witness is configured, and the newest head lacks its cosignature


HEALABLE = frozenset(
    {
        Kind.ADDED,
        Kind.REMOVED,
        Kind.TEXT_CHANGED,
        Kind.VECTOR_CHANGED,
        Kind.METADATA_CHANGED,
        Kind.MOVED,
        Kind.SWAPPED,
        Kind.UNREACHABLE,
        Kind.COLLECTION_MISSING,
    }
)
"""Undone by publishing again what the ledger and the Parquet batches say."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One difference; never a document's text."""

    kind: Kind
    subject: str  # chunk id, collection, manifest name, event number, key
    message: str  # plain language: what, where, and what next
    expected: str = ""  # hash, count or name
    found: str = ""
    collection: str = ""
    doc_id: str = ""

    @property
    def healable(self) -> bool:
        """Whether `corpus_guard.proof.healing` can undo it."""
        return self.kind in HEALABLE

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "kind": self.kind.value}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Deviation:
        """The inverse of `as_dict`."""
        return cls(**{**row, "kind": Kind(row["kind"])})
