"""Comparison of the event log with its signed heads, and of these with heads that were kept elsewhere.

Rules
    * events are numbered 0, 1, 2, … and each has the leaf hash of its own line, which names the leaf of its
      predecessor;
    * heads are numbered 0, 1, 2, …, never get smaller, and each states the root of the log at its size: in
      its signed note and in its columns alike;
    * a note counts when the keyring opens it; a missing keyring opens nothing;
    * the newest head continues the one that this machine remembers and the newest one that was anchored;
    * if a witness is configured, it cosigned the newest head;
    * the newest event under a head is not older than allowed.

Heads kept elsewhere are read first, then the heads, then the events: a head that is signed meanwhile is never
larger than the log that is read after it. One pass; memory stays flat except for the heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import orjson
import sqlalchemy as sa

from corpus_guard.domain import Progress
from corpus_guard.errors import SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import GENESIS_LEAF, Event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import events, heads
from corpus_guard.proof.deviations import DeviationKind
from corpus_guard.proof.log.anchors import newest_anchor
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.heads import RememberedHead
from corpus_guard.proof.log.keys import HeadRefused, Keyring, open_head
from corpus_guard.proof.log.merkle import HASH_BYTES, Frontier
from corpus_guard.proof.log.note import VerifierKey
from corpus_guard.proof.verify.findings import DeviationCollector
from corpus_guard.settings import Settings

EVENTS_PER_FETCH: Final = 5_000
ANCHOR: Final = "the newest anchor"
RESTORE: Final = "restore the ledger from a backup"

_Row: TypeAlias = sa.Row[tuple[object, ...]]
"""A row whose values may be of any type: whoever edits the database file chooses them."""


@dataclass(frozen=True, slots=True)
class LogCheck:
    """The log, as far as it could be proved."""

    events: int
    heads: int
    signed: int  # events under the newest valid head; 0 if no head is valid
    note: str  # of that head


@dataclass(frozen=True, slots=True)
class _LogState:
    """The log at one size."""

    root: str
    nodes: list[str]
    at: datetime | None  # of its last event


@dataclass(frozen=True, slots=True)
class _RecomputedLog:
    """The log as its stored events give it."""

    events: int
    states: dict[int, _LogState]  # at the sizes of heads
    first_gap: int | None  # number of the first missing event


@dataclass(frozen=True, slots=True)
class _OutsideHead:
    """A head that was kept outside the ledger."""

    location: str
    checkpoint: Checkpoint


def check_log(
    ledger: Ledger, settings: Settings, collector: DeviationCollector, max_age_hours: float, progress: Progress
) -> LogCheck:
    """Compare the log, its heads and the heads kept elsewhere; deviations go to `collector`."""
    keyring = _open_keyring(settings, collector)
    outside = _outside_heads(settings, keyring, collector) if keyring else []
    rows = _head_rows(ledger)
    sizes = {row.size for row in rows} | {head.checkpoint.size for head in outside}
    log = _recompute_log(ledger, collector, sizes, progress)
    newest = None
    for row in _rows_in_sequence(rows, collector):
        if _check_head(row, keyring, log, collector):
            newest = row
    if not rows:
        collector.add(
            DeviationKind.HEAD_MISSING,
            "heads",
            f"nothing was ever signed in the ledger {ledger.address}; `guard refresh` seals what it "
            "publishes. If something was signed before, this is another ledger, or it was emptied",
        )
    last = rows[-1] if rows else None
    for head in outside:
        _check_continues(head, last, log, collector)
    if last is not None:
        _check_witnessed(settings, last, collector)
    if newest is not None and (signed_at := log.states[newest.size].at):
        _check_age(newest, signed_at, max_age_hours, collector)
    return LogCheck(log.events, len(rows), newest.size if newest else 0, newest.note if newest else "")


def _open_keyring(settings: Settings, collector: DeviationCollector) -> Keyring | None:
    try:
        return Keyring.open(settings.keys)
    except SettingsError as error:
        collector.add(DeviationKind.UNKNOWN_KEY, settings.keys, f"no signature can be verified: {error}")
        return None


def _outside_heads(settings: Settings, keyring: Keyring, collector: DeviationCollector) -> list[_OutsideHead]:
    remembered = RememberedHead(settings.home)
    memory = str(remembered.path)
    notes: list[tuple[str, str | None]] = []
    with collector.catching_unreadable(memory, DeviationKind.BAD_SIGNATURE):
        notes.append((memory, remembered.read()))
    if settings.anchor_url:
        with collector.catching_unreadable(ANCHOR, DeviationKind.BAD_SIGNATURE):
            notes.append((ANCHOR, newest_anchor(settings.anchor_url)))
    outside = []
    for location, note in notes:
        if note is None:
            if location != memory:  # a machine that never verified remembers nothing; an anchor is never empty
                collector.add(
                    DeviationKind.HEAD_MISSING,
                    location,
                    "nothing is anchored at CORPUS_GUARD_ANCHOR_URL: either it was set after the last seal, "
                    "or it was emptied; find out which, then seal again",
                )
            continue
        try:
            outside.append(_OutsideHead(location, keyring.open_head(note).checkpoint))
        except HeadRefused as error:
            collector.add(error.kind, location, f"{location} does not vouch for this log: {error}")
    return outside


def _head_rows(ledger: Ledger) -> Sequence[_Row]:
    nodes = sa.cast(heads.c.nodes, sa.Text).label("nodes")
    columns: sa.Select[tuple[object, ...]] = sa.select(heads.c.number, heads.c.size, heads.c.root, nodes, heads.c.note)
    return ledger.rows(columns.order_by(heads.c.number))


def _recompute_log(
    ledger: Ledger, collector: DeviationCollector, sizes: set[int], progress: Progress
) -> _RecomputedLog:
    """Recompute the log and its state at each of `sizes`."""
    tree, previous = Frontier(), GENESIS_LEAF
    states = {0: _LogState(tree.root().hex(), [], None)} if 0 in sizes else {}
    first_gap: int | None = None
    expected = 0
    for row in _event_rows(ledger):
        if tree.size % EVENTS_PER_FETCH == 0:
            progress("log", tree.size, None)
        if not isinstance(row.seq, int) or row.seq < expected:
            collector.add(
                DeviationKind.EVENT_CHANGED,
                row.seq,
                f"event {row.seq} has a number that the log never assigns; it was written from outside",
            )
            continue
        if row.seq > expected:
            numbers = str(expected) if row.seq == expected + 1 else f"{expected}-{row.seq - 1}"
            collector.add(
                DeviationKind.EVENT_MISSING,
                numbers,
                f"event {numbers} is missing from the log, the next one is {row.seq}; {RESTORE}",
                expected=expected,
                actual=row.seq,
            )
            first_gap = expected if first_gap is None else first_gap
        leaf = _recomputed_leaf(row, previous)
        # The event after a gap names a leaf that nobody has any more.
        if leaf != row.leaf_sha256 and row.seq == expected:
            collector.add(
                DeviationKind.EVENT_CHANGED,
                row.seq,
                f"event {row.seq} is not what was logged, or does not follow event {row.seq - 1}; {RESTORE}",
                expected=row.leaf_sha256,
                actual=leaf,
            )
        # Continuing with the stored leaves reports each change once; without deviations they are the
        # recomputed ones.
        previous = row.leaf_sha256
        tree.append(_leaf_bytes(previous))
        expected = row.seq + 1
        if tree.size in sizes:
            nodes = [node.hex() for node in tree.nodes]
            states[tree.size] = _LogState(tree.root().hex(), nodes, getattr(row, "at", None))
    return _RecomputedLog(tree.size, states, first_gap)


def _event_rows(ledger: Ledger) -> Iterator[_Row]:
    last_seq = None
    while True:
        is_next = events.c.seq > last_seq if last_seq is not None else sa.true()
        page: sa.Select[tuple[object, ...]] = sa.select(events).where(is_next)
        leaves: sa.Select[tuple[object, ...]] = sa.select(events.c.seq, events.c.leaf_sha256).where(is_next)
        rows: Sequence[_Row]
        with ledger.read() as connection:
            try:
                rows = connection.execute(page.order_by(events.c.seq).limit(EVENTS_PER_FETCH)).all()
            except (ValueError, TypeError):  # a time or a body that no longer parses
                leaf_rows = connection.execute(leaves.order_by(events.c.seq).limit(EVENTS_PER_FETCH))
                rows = [_event_row(connection, leaf_row) for leaf_row in leaf_rows]
        yield from rows
        if len(rows) < EVENTS_PER_FETCH:
            return
        last_seq = rows[-1].seq


def _event_row(connection: sa.Connection, leaf_row: _Row) -> _Row:
    statement: sa.Select[tuple[object, ...]] = sa.select(events).where(events.c.seq == leaf_row.seq)
    try:
        return connection.execute(statement).one()
    except (ValueError, TypeError):
        return leaf_row  # without a body its hash is none that was ever logged


def _recomputed_leaf(row: _Row, previous: str) -> str:
    try:
        return Event.from_row(row, previous).leaf
    except (ValueError, TypeError, AttributeError):
        return "unreadable"


def _leaf_bytes(leaf: object) -> bytes:
    try:
        value = bytes.fromhex(leaf) if isinstance(leaf, str) else b""
    except ValueError:
        value = b""
    return value if len(value) == HASH_BYTES else bytes(HASH_BYTES)


def _rows_in_sequence(rows: Sequence[_Row], collector: DeviationCollector) -> Iterator[_Row]:
    """Yield the heads that do not shrink; report gaps in their numbers, and shrinking ones."""
    expected, size = 0, 0
    for row in rows:
        if row.number != expected:
            collector.add(
                DeviationKind.HEAD_MISSING,
                f"head {expected}",
                f"head {expected} is missing, the next one is {row.number}; {RESTORE}",
                expected=expected,
                actual=row.number,
            )
        if not isinstance(row.size, int) or row.size < size:
            collector.add(
                DeviationKind.HEAD_CHANGED,
                f"head {row.number}",
                f"head {row.number} has size {row.size}, the one before it {size}: a log only grows; {RESTORE}",
                expected=size,
                actual=row.size,
            )
        else:
            size = row.size
            yield row
        expected = row.number + 1 if isinstance(row.number, int) else expected


def _check_head(row: _Row, keyring: Keyring | None, log: _RecomputedLog, collector: DeviationCollector) -> bool:
    """Return whether a head is signed and is that of the log at its size; report it if not."""
    subject = f"head {row.number}"
    signed = _signed_checkpoint(row, keyring, collector)
    if signed is not None and (signed.size, signed.root.hex()) != (row.size, row.root):
        collector.add(
            DeviationKind.HEAD_CHANGED,
            subject,
            f"{subject} was signed for {signed.size} events, its row says {row.size} or another root; {RESTORE}",
            expected=signed.root.hex(),
            actual=row.root,
        )
        return False
    if log.first_gap is not None and row.size > log.first_gap:
        return False  # the gap is reported; what this head was signed over cannot be known
    if row.size > log.events:
        collector.add(
            DeviationKind.LOG_TRUNCATED,
            subject,
            f"{subject} was signed over {row.size} events, and the log has {log.events}: its end was cut "
            f"off; {RESTORE}",
            expected=row.size,
            actual=log.events,
        )
        return False
    state = log.states[row.size]
    if (state.root, _parsed_nodes(row.nodes)) != (row.root, state.nodes):
        collector.add(
            DeviationKind.HEAD_CHANGED,
            subject,
            f"{subject} is not that of the log at {row.size} events: events below it were rewritten, or the "
            f"head was; {RESTORE}",
            expected=row.root,
            actual=state.root,
        )
        return False
    return signed is not None


def _signed_checkpoint(row: _Row, keyring: Keyring | None, collector: DeviationCollector) -> Checkpoint | None:
    if keyring is None:
        return None
    subject = f"head {row.number}"
    try:
        return keyring.open_head(row.note).checkpoint
    except HeadRefused as error:
        collector.add(error.kind, subject, f"{subject} proves nothing: {error}")
    except (TypeError, ValueError):
        collector.add(DeviationKind.BAD_SIGNATURE, subject, f"the note of {subject} is not a text; {RESTORE}")
    return None


def _parsed_nodes(text: str) -> object:
    try:
        return orjson.loads(text)
    except (ValueError, TypeError):
        return None


def _check_continues(head: _OutsideHead, last: _Row | None, log: _RecomputedLog, collector: DeviationCollector) -> None:
    size = head.checkpoint.size
    ledger_size = 0 if last is None else last.size
    if last is None or ledger_size < size:
        collector.add(
            DeviationKind.ROLLED_BACK,
            head.location,
            f"{head.location} has a head of {size} events, the newest head of the ledger has {ledger_size}: "
            "the ledger was replaced by an older one, or heads were removed; restore the newer one. If there is none, "
            "accept the incident: the collections then follow this ledger",
            expected=size,
            actual=ledger_size,
        )
        return
    before_gap = log.first_gap is None or size <= log.first_gap
    if size in log.states and log.states[size].root != head.checkpoint.root.hex() and before_gap:
        collector.add(
            DeviationKind.FORKED,
            head.location,
            f"{head.location} has another history of the first {size} events than the ledger: it was "
            "rewritten; restore the ledger that was signed, and find out who holds its keys",
            expected=head.checkpoint.root.hex(),
            actual=log.states[size].root,
        )


def _check_witnessed(settings: Settings, last: _Row, collector: DeviationCollector) -> None:
    if not settings.witness_key:
        return
    witness = VerifierKey.parse(settings.witness_key)
    try:
        open_head(last.note, [witness])
    except HeadRefused as error:
        kind = DeviationKind.WITNESS_MISSING if error.kind is DeviationKind.UNKNOWN_KEY else error.kind
        collector.add(
            kind,
            f"head {last.number}",
            f"head {last.number} has no valid cosignature of the witness {witness}; check that it runs at "
            "CORPUS_GUARD_WITNESS_URL, then seal again",
            expected=witness,
        )


def _check_age(newest: _Row, signed_at: datetime, max_age_hours: float, collector: DeviationCollector) -> None:
    age = now() - signed_at
    if age > timedelta(hours=max_age_hours):
        hours = age.total_seconds() / 3600
        collector.add(
            DeviationKind.STALE,
            f"head {newest.number}",
            f"the newest signed event is {hours:.1f} hours old, the limit is {max_age_hours:g} "
            "(CORPUS_GUARD_HEAD_MAX_HOURS): either nothing was sealed since then, or this is an old copy of "
            "the corpus; run `guard refresh`",
            expected=f"{max_age_hours:g} h",
            actual=f"{hours:.1f} h",
        )
