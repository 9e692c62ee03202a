"""Signed heads: what the log was at a time, so that nobody can say later it was something else.

Rules
    * a head is signed only over a log whose every new event follows its predecessor, and only as a continuation of the last head;
    * what this machine signed or verified last is remembered outside the ledger: a ledger that was rolled back or forked is not signed;
    * one head after the other: each number can be written once, and none is ever overwritten;
    * with a witness, the witness cosigns before the head is kept; a witness that refuses stops the signing, one that does not answer
      delays its cosignature to the next signing, and a verification says so;
    * the keys are made by the first seal of a ledger, never again: a ledger with heads and without keys is an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import BEFORE_THE_FIRST, Event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import events, heads
from corpus_guard.proof._key_files import write_durably
from corpus_guard.proof.checkpoint import Checkpoint
from corpus_guard.proof.keys import Keyring
from corpus_guard.proof.merkle import Frontier, consistency_proof, root_of

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

log = logging.getLogger(__name__)

PAGE = 5_000  # events held at a time


def sign_head(guard: Guard) -> Checkpoint:
    """Sign the log as it stands, unless the newest head says it already.

    Raises:
        Inconsistent: the log does not continue what was signed, remembered or witnessed before; nothing is signed.
        SettingsError: there are heads and no keys.
    """
    ledger = guard.ledger
    with ledger.exclusive("heads"):
        last = newest_head(ledger)
        keyring = _keyring(guard, first=last is None)
        tree = _continued(keyring, last)
        remembered = Memory(guard.settings.home)
        _see_that_it_continues(ledger, keyring, last, remembered)
        for event in chained(ledger, tree.size):
            tree.append(bytes.fromhex(event.leaf))
        head = Checkpoint(keyring.origin, tree.size, tree.root())
        if last is not None and tree.size == last.size and _cosigned(guard, last.note):
            return head
        note = _witnessed(guard, last, keyring.sign(head), tree.size)
        with ledger.write() as connection:
            row = {"number": last.number + 1 if last else 0, "size": tree.size, "root": head.root.hex(), "note": note}
            connection.execute(heads.insert().values(**row, nodes=[node.hex() for node in tree.nodes], signed_at=now()))
        remembered.write(note)
        _anchored(guard, note, tree.size)
        return head


def newest_head(ledger: Ledger) -> Any:
    """The row of the newest head; None where nothing was signed yet."""
    with ledger.read() as connection:
        return connection.execute(sa.select(heads).order_by(heads.c.number.desc()).limit(1)).first()


def chained(ledger: Ledger, start: int = 0) -> Iterator[Event]:
    """The events from number `start` on, each seen to follow its predecessor and to have the leaf it was logged with; memory flat.

    Raises:
        Inconsistent: one is missing, or was changed.
    """
    previous = BEFORE_THE_FIRST if start == 0 else _leaf_of(ledger, start - 1)
    expected = start
    while True:
        with ledger.read() as connection:
            statement = sa.select(events).where(events.c.seq >= expected).order_by(events.c.seq).limit(PAGE)
            rows = connection.execute(statement).all()
        for row in rows:
            event = Event.of_row(row, previous)
            if row.seq != expected or event.leaf != row.leaf_sha256:
                what = "is missing from the log" if row.seq != expected else "is not what was logged"
                raise Inconsistent(
                    f"event {expected} of the ledger {ledger.address} {what}; nothing was signed. `guard verify` names all that is wrong"
                )
            yield event
            previous, expected = event.leaf, expected + 1
        if len(rows) < PAGE:
            return


def leaves(ledger: Ledger, size: int) -> list[bytes]:
    """The first `size` leaf hashes as they stand in the ledger, 32 bytes each."""
    with ledger.read() as connection:
        statement = sa.select(events.c.leaf_sha256).where(events.c.seq < size).order_by(events.c.seq)
        return [
            bytes.fromhex(leaf) for leaf in connection.execute(statement.execution_options(yield_per=PAGE)).scalars()
        ]


class Memory:
    """The newest head this machine signed or verified, in a file outside the ledger."""

    def __init__(self, home: Path) -> None:
        self.path = home / "proof" / "head.note"

    def read(self) -> str | None:
        """The note; None where nothing is remembered."""
        return self.path.read_text(encoding="utf-8") if self.path.exists() else None

    def write(self, note: str) -> None:
        """Remember a note instead; whole or not at all, and on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(self.path, note.encode(), 0o644)


def _keyring(guard: Guard, *, first: bool) -> Keyring:
    folder = guard.settings.keys
    if Keyring.exists(folder):
        return Keyring.open(folder)
    if not first:
        raise SettingsError(
            f"{folder}: no keys, and the ledger {guard.ledger.address} has signed heads; restore the folder from your copy, or point "
            "CORPUS_GUARD_KEYS_FOLDER at it. New keys would hide a forged log"
        )
    return Keyring.create(folder, guard.settings.log_origin)


def _continued(keyring: Keyring, last: Any) -> Frontier:
    if last is None:
        return Frontier()
    head = keyring.open_head(last.note).checkpoint
    nodes = tuple(bytes.fromhex(node) for node in last.nodes)
    fitting = len(nodes) == head.size.bit_count()
    tree = Frontier(head.size, nodes) if fitting else Frontier()
    if (last.size, last.root, tree.root()) != (head.size, head.root.hex(), head.root):
        raise Inconsistent(
            f"head {last.number} of the ledger is not what was signed; nothing was signed. `guard verify` names all that is wrong"
        )
    return tree


def _see_that_it_continues(ledger: Ledger, keyring: Keyring, last: Any, remembered: Memory) -> None:
    note = remembered.read()
    if note is None:
        return
    known = keyring.open_head(note).checkpoint
    if last is None or last.size < known.size:
        raise Inconsistent(
            f"this machine knows a head of {known.size} events ({remembered.path}), the ledger {ledger.address} one of "
            f"{last.size if last else 0}: it was rolled back. Nothing was signed; restore the newer ledger"
        )
    root = bytes.fromhex(last.root) if last.size == known.size else root_of(leaves(ledger, known.size))
    if root != known.root:
        raise Inconsistent(
            f"the log of the ledger {ledger.address} is not a continuation of the head this machine knows ({remembered.path}): history was "
            "rewritten. Nothing was signed; restore the ledger that was signed"
        )


def _witnessed(guard: Guard, last: Any, note: str, size: int) -> str:
    if not guard.settings.witness_url:
        return note
    from corpus_guard.proof.note import VerifierKey
    from corpus_guard.proof.witness import WitnessUnavailable, submit

    key = VerifierKey.parse(guard.settings.witness_key)

    def prove(old: int) -> list[bytes]:
        return consistency_proof(leaves(guard.ledger, size), old)

    try:
        return submit(guard.settings.witness_url, note, last.size if last else 0, prove, key)
    except WitnessUnavailable as error:
        log.warning("%s; the head is kept without its cosignature and submitted again by the next signing", error)
        return note


def _cosigned(guard: Guard, note: str) -> bool:
    if not guard.settings.witness_url:
        return True
    from corpus_guard.proof.note import VerifierKey, parse_note

    return bool(parse_note(note).verified_by([VerifierKey.parse(guard.settings.witness_key)]))


def _anchored(guard: Guard, note: str, size: int) -> None:
    if not guard.settings.anchor_url:
        return
    from corpus_guard.proof.anchors import AnchorUnavailable, anchor

    try:
        anchor(guard.settings.anchor_url, note, size)
    except AnchorUnavailable as error:
        log.warning("%s; the head is kept, the next one is anchored again", error)


def _leaf_of(ledger: Ledger, seq: int) -> str:
    with ledger.read() as connection:
        leaf = connection.scalar(sa.select(events.c.leaf_sha256).where(events.c.seq == seq))
    if leaf is None:
        raise Inconsistent(f"event {seq} is missing from the log of the ledger {ledger.address}; nothing was signed")
    return str(leaf)
