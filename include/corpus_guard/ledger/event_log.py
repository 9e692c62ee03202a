"""The event log: how an event becomes a line, and a line a leaf.

Rules
    * events are numbered 0, 1, 2, … without a gap, in the order in which their transactions commit;
    * an event's line is canonical JSON and names the leaf of its predecessor: no line can change without every later one changing;
    * its leaf is the RFC 6962 leaf hash of the line, so that the same hash serves the chain and the tree;
    * a line holds text, integers and booleans: numbers with a fraction have no one byte form among languages.

What is not done here: signing. `corpus_guard.proof.heads` signs the tree's root, `corpus_guard.proof.verification` recomputes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from corpus_guard.domain import canonical_json

BEFORE_THE_FIRST = "0" * 64
"""What the first event names as its predecessor's leaf."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the corpus."""

    seq: int  # 0-based
    at: datetime  # UTC
    kind: str
    subject: str  # id of what it happened to
    run_id: str
    body: Mapping[str, Any]  # no floats
    previous: str  # leaf of the event before it, hex

    @property
    def line(self) -> bytes:
        """Canonical JSON, without newline."""
        return canonical_json(
            {
                "v": 1,
                "seq": self.seq,
                "at": self.at.astimezone(UTC).isoformat(timespec="microseconds"),
                "kind": self.kind,
                "subject": self.subject,
                "run_id": self.run_id,
                "body": self.body,
                "previous": self.previous,
            }
        )

    @property
    def leaf(self) -> str:
        """Hex leaf hash of the line (RFC 6962, 2.1)."""
        return leaf_of(self.line)

    @classmethod
    def of_row(cls, row: Any, previous: str) -> Event:
        """As a row of the ledger tells it; `previous` comes from the row before."""
        return cls(row.seq, row.at, row.kind, row.subject, row.run_id, row.body, previous)


def leaf_of(line: bytes) -> str:
    """Hex leaf hash of a line (RFC 6962, 2.1)."""
    return hashlib.sha256(b"\0" + line).hexdigest()


def signable(value: Any) -> Any:
    """`value` as a log can hold it: fractions as decimal text, lone surrogates escaped, keys as text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {str(key): signable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [signable(one) for one in value]
    return value
