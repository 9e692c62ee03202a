"""The event log against its signed heads, and these against what was known of them before.

Rules
    * events are numbered 0, 1, 2, … and each has the leaf hash of its own line, which names the leaf of its predecessor;
    * heads are numbered 0, 1, 2, …, never get smaller, and each says the root of the log at its size: in its signed note and in its
      columns alike;
    * a note counts when the keyring opens it; a keyring that is missing opens nothing;
    * the newest head continues the one this machine remembers and the newest one that was anchored;
    * where a witness is configured, it cosigned the newest head;
    * the newest event under a head is not older than allowed.

What is known elsewhere is read first and the heads before the events: a head that is signed meanwhile is never larger than the log
that is read after it. One pass, memory flat but for the heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from corpus_guard.errors import SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import BEFORE_THE_FIRST, Event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import events, heads
from corpus_guard.proof._found import Found, Progress
from corpus_guard.proof.checkpoint import Checkpoint
from corpus_guard.proof.deviations import Kind
from corpus_guard.proof.heads import Memory
from corpus_guard.proof.keys import HeadRefused, Keyring, open_head
from corpus_guard.proof.merkle import HASH_BYTES, Frontier
from corpus_guard.proof.note import VerifierKey

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

PAGE = 5_000  # events held at a time
ANCHOR = "the newest anchor"


@dataclass(frozen=True, slots=True)
class Log:
    """What the log is, as far as it could be proved."""

    events: int
    heads: int
    signed: int  # events under the newest head that is in order; 0: none is
    note: str  # of that head


@dataclass(frozen=True, slots=True)
class _Reached:
    """The log at one size."""

    root: str
    nodes: list[str]
    at: datetime | None  # of its last event


@dataclass(frozen=True, slots=True)
class _Known:
    """A head that somebody outside the ledger has kept."""

    where: str
    head: Checkpoint


def check_log(guard: Guard, found: Found, max_age_hours: float, progress: Progress) -> Log:
    """Compare log, heads and what was known of them; deviations go to `found`."""
    keyring = _keyring(guard, found)
    known = _known(guard, keyring, found) if keyring else []
    rows = _heads(guard.ledger)
    sizes = {row.size for row in rows} | {one.head.size for one in known}
    count, reached, unbroken = _walk(guard.ledger, found, sizes, progress)
    newest = None
    for row in _in_sequence(rows, found):
        if _in_order(row, keyring, count, reached, unbroken, found):
            newest = row
    if not rows:
        found.add(
            Kind.HEAD_MISSING,
            "heads",
            f"nothing was ever signed in the ledger {guard.ledger.address}; `guard refresh` seals what it publishes. "
            "If something was, the ledger is another one, or was emptied",
        )
    last = rows[-1] if rows else None
    for one in known:
        _continues(one, last, reached, unbroken, found)
    if last is not None:
        _is_witnessed(guard, last, found)
    if newest is not None and (moment := reached[newest.size].at):
        _is_fresh(newest, moment, max_age_hours, found)
    return Log(count, len(rows), newest.size if newest else 0, newest.note if newest else "")


def _keyring(guard: Guard, found: Found) -> Keyring | None:
    folder = guard.settings.keys
    try:
        return Keyring.open(folder)
    except SettingsError as error:
        found.add(Kind.UNKNOWN_KEY, folder, f"no signature can be verified: {error}")
        return None


def _known(guard: Guard, keyring: Keyring, found: Found) -> list[_Known]:
    memory = Memory(guard.settings.home)
    kept = []
    with found.reading(str(memory.path), Kind.BAD_SIGNATURE):
        kept.append((str(memory.path), memory.read()))
    if guard.settings.anchor_url:
        from corpus_guard.proof.anchors import newest_anchor

        with found.reading(ANCHOR, Kind.BAD_SIGNATURE):
            kept.append((ANCHOR, newest_anchor(guard.settings.anchor_url)))
    known = []
    for where, note in kept:
        if note is None and where != str(
            memory.path
        ):  # a machine that never verified remembers nothing; an anchor is never empty
            found.add(
                Kind.HEAD_MISSING,
                where,
                "nothing is anchored at CORPUS_GUARD_ANCHOR_URL: it was set after the last seal, or somebody emptied the place; see which, "
                "then seal again",
            )
        if note is None:
            continue
        try:
            known.append(_Known(where, keyring.open_head(note).checkpoint))
        except HeadRefused as error:
            found.add(error.kind, where, f"{where} does not vouch for this log: {error}")
    return known


def _heads(ledger: Ledger) -> Sequence[Any]:
    columns = (heads.c.number, heads.c.size, heads.c.root, sa.cast(heads.c.nodes, sa.Text).label("nodes"), heads.c.note)
    with ledger.read() as connection:
        return connection.execute(sa.select(*columns).order_by(heads.c.number)).all()


def _walk(
    ledger: Ledger, found: Found, sizes: set[int], progress: Progress
) -> tuple[int, dict[int, _Reached], int | None]:
    """Recompute the log; how many events there are, what it was at `sizes`, and the first number that is missing."""
    tree, previous = Frontier(), BEFORE_THE_FIRST
    reached = {0: _Reached(tree.root().hex(), [], None)} if 0 in sizes else {}
    unbroken: int | None = None
    following = 0
    for row in _rows(ledger):
        if tree.size % PAGE == 0:
            progress("log", tree.size, None)
        if not isinstance(row.seq, int) or row.seq < following:
            found.add(
                Kind.EVENT_CHANGED, row.seq, f"event {row.seq} has a number that no log gives; somebody wrote it there"
            )
            continue
        if row.seq > following:
            span = str(following) if row.seq == following + 1 else f"{following}-{row.seq - 1}"
            found.add(
                Kind.EVENT_MISSING,
                span,
                f"event {span} is gone from the log, the next one there is {row.seq}; restore the ledger from a copy",
                expected=following,
                found=row.seq,
            )
            unbroken = following if unbroken is None else unbroken
        leaf = _recomputed(row, previous)
        # What follows a gap names a leaf that nobody has any more.
        if leaf != row.leaf_sha256 and row.seq == following:
            found.add(
                Kind.EVENT_CHANGED,
                row.seq,
                f"event {row.seq} is not what was logged, or does not follow event {row.seq - 1}; restore the ledger from a copy",
                expected=row.leaf_sha256,
                found=leaf,
            )
        # With the stored leaves one change is named once; where nothing was found they are the recomputed ones.
        previous = row.leaf_sha256
        tree.append(_bytes(previous))
        following = row.seq + 1
        if tree.size in sizes:
            reached[tree.size] = _Reached(
                tree.root().hex(), [node.hex() for node in tree.nodes], getattr(row, "at", None)
            )
    return tree.size, reached, unbroken


def _rows(ledger: Ledger) -> Iterator[Any]:
    last = None
    while True:
        after = events.c.seq > last if last is not None else sa.true()
        with ledger.read() as connection:
            page = sa.select(events).where(after).order_by(events.c.seq).limit(PAGE)
            numbers = sa.select(events.c.seq, events.c.leaf_sha256).where(after).order_by(events.c.seq).limit(PAGE)
            try:
                rows = connection.execute(page).all()
            except (ValueError, TypeError):  # a time or a body that no longer parses
                rows = [_row(connection, number) for number in connection.execute(numbers)]
        yield from rows
        if len(rows) < PAGE:
            return
        last = rows[-1].seq


def _row(connection: sa.Connection, number: Any) -> Any:
    try:
        return connection.execute(sa.select(events).where(events.c.seq == number.seq)).one()
    except (ValueError, TypeError):
        return number  # without a body: it hashes to nothing that was logged


def _recomputed(row: Any, previous: str) -> str:
    try:
        return Event.of_row(row, previous).leaf
    except (ValueError, TypeError, AttributeError):
        return "unreadable"


def _bytes(leaf: Any) -> bytes:
    try:
        value = bytes.fromhex(leaf)
    except (ValueError, TypeError):
        value = b""
    return value if len(value) == HASH_BYTES else bytes(HASH_BYTES)


def _in_sequence(rows: Sequence[Any], found: Found) -> Iterator[Any]:
    expected, size = 0, 0
    for row in rows:
        if row.number != expected:
            found.add(
                Kind.HEAD_MISSING,
                f"head {expected}",
                f"head {expected} is gone, the next one there is {row.number}; restore the ledger from a copy",
                expected=expected,
                found=row.number,
            )
        if not isinstance(row.size, int) or row.size < size:
            found.add(
                Kind.HEAD_CHANGED,
                f"head {row.number}",
                f"head {row.number} has size {row.size}, the one before it {size}: a log only grows; restore the ledger from a copy",
                expected=size,
                found=row.size,
            )
        else:
            size = row.size
            yield row
        expected = row.number + 1 if isinstance(row.number, int) else expected


def _in_order(
    row: Any, keyring: Keyring | None, count: int, reached: dict[int, _Reached], unbroken: int | None, found: Found
) -> bool:
    name = f"head {row.number}"
    signed = _opened(row, keyring, found)
    if signed is not None and (signed.size, signed.root.hex()) != (row.size, row.root):
        found.add(
            Kind.HEAD_CHANGED,
            name,
            f"{name} was signed for {signed.size} events, its row says {row.size} or another root; restore the ledger from a copy",
            expected=signed.root.hex(),
            found=row.root,
        )
        return False
    if unbroken is not None and row.size > unbroken:
        return False  # the gap is named; what this head was signed over cannot be known
    if row.size > count:
        found.add(
            Kind.LOG_TRUNCATED,
            name,
            f"{name} was signed over {row.size} events, the log has {count}: its end was cut off; restore the ledger from a copy",
            expected=row.size,
            found=count,
        )
        return False
    there = reached[row.size]
    if (there.root, _nodes(row.nodes)) != (row.root, there.nodes):
        found.add(
            Kind.HEAD_CHANGED,
            name,
            f"{name} is not that of the log at {row.size} events: events below it were rewritten, or the head was; "
            "restore the ledger from a copy",
            expected=row.root,
            found=there.root,
        )
        return False
    return signed is not None


def _opened(row: Any, keyring: Keyring | None, found: Found) -> Checkpoint | None:
    if keyring is None:
        return None
    try:
        return keyring.open_head(row.note).checkpoint
    except HeadRefused as error:
        found.add(error.kind, f"head {row.number}", f"head {row.number} proves nothing: {error}")
    except (TypeError, ValueError):
        found.add(Kind.BAD_SIGNATURE, f"head {row.number}", f"the note of head {row.number} is no text")
    return None


def _nodes(text: str) -> Any:
    try:
        return orjson.loads(text)
    except (ValueError, TypeError):
        return None


def _continues(known: _Known, last: Any, reached: dict[int, _Reached], unbroken: int | None, found: Found) -> None:
    size = known.head.size
    if last is None or last.size < size:
        found.add(
            Kind.ROLLED_BACK,
            known.where,
            f"{known.where} knows a head of {size} events, the newest head of the ledger has {last.size if last else 0}: somebody put an "
            "older ledger in its place, or took heads away; restore the newer one",
            expected=size,
            found=last.size if last else 0,
        )
    elif size in reached and reached[size].root != known.head.root.hex() and (unbroken is None or size <= unbroken):
        found.add(
            Kind.FORKED,
            known.where,
            f"{known.where} knows another history of the first {size} events than the ledger tells: it was rewritten; "
            "restore the ledger that was signed, and find out who holds its keys",
            expected=known.head.root.hex(),
            found=reached[size].root,
        )


def _is_witnessed(guard: Guard, last: Any, found: Found) -> None:
    if not guard.settings.witness_key:
        return
    witness = VerifierKey.parse(guard.settings.witness_key)
    try:
        open_head(last.note, [witness])
    except HeadRefused as error:
        kind = Kind.WITNESS_MISSING if error.kind is Kind.UNKNOWN_KEY else error.kind
        found.add(
            kind,
            f"head {last.number}",
            f"head {last.number} has no valid cosignature of the witness {witness}; see that it runs at CORPUS_GUARD_WITNESS_URL, "
            "then seal again",
            expected=witness,
        )


def _is_fresh(newest: Any, moment: datetime, max_age_hours: float, found: Found) -> None:
    age = now() - moment
    if age > timedelta(hours=max_age_hours):
        hours = age.total_seconds() / 3600
        found.add(
            Kind.STALE,
            f"head {newest.number}",
            f"the newest signed event is {hours:.1f} hours old, allowed are {max_age_hours:g} (CORPUS_GUARD_HEAD_MAX_HOURS): nothing was "
            "sealed since, or somebody serves an old corpus; run `guard refresh`",
            expected=f"{max_age_hours:g} h",
            found=f"{hours:.1f} h",
        )
