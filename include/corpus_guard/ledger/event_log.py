"""The event log: how an event becomes a line, and a line a leaf.

Rules
    * events are numbered 0, 1, 2, … without a gap, in the order in which their transactions commit;
    * an event's line is canonical JSON and names the leaf of its predecessor: no line can change without
      every later one changing;
    * its leaf is the RFC 6962 leaf hash of the line, so that the same hash serves the chain and the tree;
    * a line holds text, integers and booleans: languages print fractional numbers in different ways;
    * events are chained when their transaction is about to commit, under a lock that is taken last: a
      transaction never waits for one that waits for it;
    * the digests of the rows that a transaction changed are its last events (`corpus_guard.ledger.row_digests`).

What is not done here: signing. `corpus_guard.proof.log.heads` signs the tree's root,
`corpus_guard.proof.verify.verification` recomputes it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from corpus_guard.domain import canonical_json
from corpus_guard.ledger.queries import Row, advisory_lock_key, is_sqlite
from corpus_guard.ledger.row_digests import GROUPS, ROWS_EVENT, changed_groups, noticed_changes
from corpus_guard.ledger.tables import events

GENESIS_LEAF: Final = "0" * 64
"""Leaf that the first event names as its predecessor's."""

_PENDING: Final = "corpus_guard_events"  # key of `connection.info`: the events of the open transaction


@dataclass(frozen=True, slots=True)
class Event:
    """A change of the corpus, as the log tells it."""

    seq: int  # 0-based
    at: datetime  # UTC
    kind: str
    subject: str  # id of what changed
    run_id: str
    body: Mapping[str, object]  # without fractional numbers
    previous: str  # leaf of the event before it, hex

    @property
    def line(self) -> bytes:
        """Canonical JSON, without a newline."""
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
        """Leaf hash of the line (RFC 6962, 2.1), hex."""
        return event_leaf(self.line)

    @classmethod
    def from_row(cls, row: Row, previous: str) -> Event:
        """Build the event of a row of `events`; `previous` is the leaf of the row before it."""
        return cls(row.seq, row.at, row.kind, row.subject, row.run_id, row.body, previous)


class _Pending(NamedTuple):
    """An event that gets its number when its transaction commits."""

    at: datetime
    kind: str
    subject: str
    run_id: str
    body: Mapping[str, object]


def append_event(connection: Connection, kind: str, subject: str, run_id: str, **body: object) -> None:
    """Append to the event log, in the transaction of the change that the event is about.

    Raises:
        KeyError: the connection does not come from `Ledger.write`.
    """
    pending: list[_Pending] = connection.info[_PENDING]
    pending.append(_Pending(datetime.now(UTC), kind, str(loggable(subject)), run_id, _loggable_mapping(body)))


@contextlib.contextmanager
def chained_events(connection: Connection) -> Iterator[None]:
    """Collect the events that the block appends, and write them when it ends without an error."""
    info = connection.info  # of the driver's connection: it outlives a transaction that fails
    info[_PENDING] = []
    try:
        with noticed_changes(connection) as changes:
            yield
            if changes:
                _lock_log(connection)  # what another transaction commits until now counts among the rows
            for table, groups in changed_groups(connection, changes):
                append_event(connection, ROWS_EVENT, table, "", **{GROUPS: groups})
            write_pending_events(connection)
    finally:
        del info[_PENDING]


def write_pending_events(connection: Connection) -> None:
    """Number, chain and write the events appended so far; `Ledger.write` does so before it commits."""
    pending: list[_Pending] = connection.info[_PENDING]
    if pending:
        _lock_log(connection)
        _write(connection, pending)
        pending.clear()


def event_leaf(line: bytes) -> str:
    """Return the leaf hash of a line (RFC 6962, 2.1), hex."""
    return hashlib.sha256(b"\0" + line).hexdigest()


def loggable(value: object) -> object:
    """Return `value` as the log holds it: fractions as decimal text, lone surrogates escaped, keys as text."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return _loggable_mapping(value)
    if isinstance(value, list | tuple):
        return [loggable(item) for item in value]
    return value


def _loggable_mapping(mapping: Mapping[Any, object]) -> dict[str, object]:
    return {str(key): loggable(value) for key, value in mapping.items()}


def _lock_log(connection: Connection) -> None:
    """Keep the log's tip from moving before the commit; SQLite has one writer at a time."""
    if not is_sqlite(connection):
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(advisory_lock_key("events"))))


def _write(connection: Connection, pending: Sequence[_Pending]) -> None:
    """Number and chain events, in the order in which they were appended."""
    newest = sa.select(events.c.seq, events.c.leaf_sha256).order_by(events.c.seq.desc()).limit(1)
    tip = connection.execute(newest).first()
    seq, leaf = (tip.seq + 1, tip.leaf_sha256) if tip else (0, GENESIS_LEAF)
    rows = []
    for offset, (at, kind, subject, run_id, body) in enumerate(pending):
        event = Event(seq + offset, at, kind, subject, run_id, body, leaf)
        leaf = event.leaf
        row = {"seq": event.seq, "at": at, "kind": kind, "subject": subject, "run_id": run_id, "body": body}
        rows.append({**row, "leaf_sha256": leaf})
    connection.execute(events.insert(), rows)
