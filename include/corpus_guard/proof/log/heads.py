"""Signed heads: the state of the log at a time, so that nobody can later claim another.

Rules
    * a head is signed only over a log whose every new event follows its predecessor, and only as a
      continuation of the last head;
    * the head that this machine signed or verified last is remembered outside the ledger: a ledger that was
      rolled back or forked is not signed;
    * heads follow each other: each number can be written once, and none is ever overwritten;
    * with a witness, the witness cosigns before the head is stored; a witness that refuses stops the signing,
      one that does not answer delays its cosignature to the next signing, and a verification says so;
    * the keys are made by the first seal of a ledger, never again: a ledger with heads and without keys is an
      error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from corpus_guard.errors import Inconsistent, SettingsError
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.event_log import GENESIS_LEAF, Event
from corpus_guard.ledger.ledger import now
from corpus_guard.ledger.tables import events, heads
from corpus_guard.proof.log.anchors import AnchorUnavailable, anchor
from corpus_guard.proof.log.checkpoint import Checkpoint
from corpus_guard.proof.log.key_files import write_durably
from corpus_guard.proof.log.keys import Keyring
from corpus_guard.proof.log.merkle import Frontier, consistency_proof, root_of
from corpus_guard.proof.log.note import VerifierKey, parse_note
from corpus_guard.proof.log.witness import WitnessUnavailable, submit
from corpus_guard.settings import Settings

log = logging.getLogger(__name__)

EVENTS_PER_FETCH: Final = 5_000


@dataclass(frozen=True, slots=True)
class StoredHead:
    """A head as its row in the ledger states it; nothing is verified."""

    number: int
    size: int  # events
    root: str  # hex
    nodes: tuple[str, ...]  # of the tree's frontier, hex
    note: str


def sign_head(ledger: Ledger, settings: Settings) -> Checkpoint:
    """Sign the log as it is now, unless the newest head already covers it.

    Raises:
        Inconsistent: the log does not continue what was signed, remembered or witnessed before; nothing is
            signed.
        SettingsError: there are heads and no keys.
    """
    with ledger.exclusive("heads"):
        last = newest_head(ledger)
        keyring = _open_keyring(ledger, settings, create=last is None)
        tree = _frontier_at(keyring, last)
        remembered = RememberedHead(settings.home)
        _require_continuation(ledger, keyring, last, remembered)
        for event in verified_events(ledger, tree.size):
            tree.append(bytes.fromhex(event.leaf))
        head = Checkpoint(keyring.origin, tree.size, tree.root())
        if last is not None and tree.size == last.size and _is_cosigned(settings, last.note):
            return head
        note = _cosign(ledger, settings, last, keyring.sign(head), tree.size)
        ledger.execute(
            heads.insert().values(
                number=last.number + 1 if last else 0,
                size=tree.size,
                root=head.root.hex(),
                note=note,
                nodes=[node.hex() for node in tree.nodes],
                signed_at=now(),
            )
        )
        remembered.write(note)
        _anchor_head(settings, note, tree.size)
        return head


def require_sealable(ledger: Ledger, settings: Settings) -> None:
    """Check keys, newest head and memory as signing does, before hours of work are done that could not be sealed.

    Raises:
        Inconsistent: the ledger does not continue what was signed or remembered before.
        SettingsError: a key is missing, the keyring is malformed, or others can read or change a key.
    """
    if keyring := require_continuation(ledger, settings):
        keyring.signers()


def require_continuation(ledger: Ledger, settings: Settings) -> Keyring | None:
    """Check that the ledger continues what was signed and remembered; return the keys, or None before the first seal makes them.

    Raises:
        Inconsistent: it does not.
        SettingsError: there are heads and no keyring, it is malformed, or others can read or change a key.
    """
    with ledger.exclusive("heads"):  # another process may sign a head, and remember it
        last = newest_head(ledger)
        if last is None and not Keyring.exists(settings.keys):
            return None
        keyring = _open_keyring(ledger, settings, create=False)
        _frontier_at(keyring, last)
        _require_continuation(ledger, keyring, last, RememberedHead(settings.home))
        return keyring


def newest_head(ledger: Ledger) -> StoredHead | None:
    """Return the newest head; None if nothing was signed yet."""
    row = ledger.first(sa.select(heads).order_by(heads.c.number.desc()).limit(1))
    return StoredHead(row.number, row.size, row.root, tuple(row.nodes), row.note) if row else None


def verified_events(ledger: Ledger, start: int = 0) -> Iterator[Event]:
    """Yield the events from number `start` on, each checked against its leaf and predecessor; memory stays flat.

    Raises:
        Inconsistent: an event is missing, or was changed.
    """
    previous = GENESIS_LEAF if start == 0 else _leaf_of(ledger, start - 1)
    expected = start
    while True:
        page = sa.select(events).where(events.c.seq >= expected).order_by(events.c.seq).limit(EVENTS_PER_FETCH)
        rows = ledger.rows(page)
        for row in rows:
            event = Event.from_row(row, previous)
            if row.seq != expected or event.leaf != row.leaf_sha256:
                problem = "is missing from the log" if row.seq != expected else "is not what was logged"
                raise Inconsistent(
                    f"event {expected} of the ledger {ledger.address} {problem}; nothing was signed. `guard "
                    "verify` lists what is wrong"
                )
            yield event
            previous, expected = event.leaf, expected + 1
        if len(rows) < EVENTS_PER_FETCH:
            return


def leaf_hashes(ledger: Ledger, size: int) -> list[bytes]:
    """Return the first `size` leaf hashes as the ledger states them, 32 bytes each."""
    statement = sa.select(events.c.leaf_sha256).where(events.c.seq < size).order_by(events.c.seq)
    with ledger.read() as connection:
        leaves = connection.execute(statement.execution_options(yield_per=EVENTS_PER_FETCH)).scalars()
        return [bytes.fromhex(leaf) for leaf in leaves]


class RememberedHead:
    """The newest head that this machine signed or verified, in a file outside the ledger."""

    def __init__(self, home: Path) -> None:
        self.path = home / "proof" / "head.note"

    def read(self) -> str | None:
        """Return the note; None if no head is remembered."""
        return self.path.read_text(encoding="utf-8") if self.path.exists() else None

    def write(self, note: str) -> None:
        """Replace the note, as a whole or not at all; it is on disk when this returns."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(self.path, note.encode(), 0o644)

    def forget(self) -> None:
        """Remember no head, so that a new ledger can sign its first one."""
        self.path.unlink(missing_ok=True)


def _open_keyring(ledger: Ledger, settings: Settings, *, create: bool) -> Keyring:
    folder = settings.keys
    if Keyring.exists(folder):
        return Keyring.open(folder)
    if not create:
        raise SettingsError(
            f"{folder}: no keys, and the ledger {ledger.address} has signed heads; restore the folder from "
            "your backup, or point CORPUS_GUARD_KEYS_FOLDER at it. New keys would hide a forged log"
        )
    return Keyring.create(folder, settings.log_origin)


def _frontier_at(keyring: Keyring, last: StoredHead | None) -> Frontier:
    """Return the tree at the last head, after verifying its signature against its row."""
    if last is None:
        return Frontier()
    head = keyring.open_head(last.note).checkpoint
    nodes = tuple(bytes.fromhex(node) for node in last.nodes)
    tree = Frontier(head.size, nodes) if len(nodes) == head.size.bit_count() else Frontier()
    if (last.size, last.root, tree.root()) != (head.size, head.root.hex(), head.root):
        raise Inconsistent(
            f"head {last.number} of the ledger is not what was signed; nothing was signed. `guard verify` "
            "lists what is wrong"
        )
    return tree


def _require_continuation(
    ledger: Ledger, keyring: Keyring, last: StoredHead | None, remembered: RememberedHead
) -> None:
    """Check that the log continues the head that this machine remembers."""
    note = remembered.read()
    if note is None:
        return
    head = keyring.open_head(note).checkpoint
    if last is None or last.size < head.size:
        raise Inconsistent(
            f"this machine remembers a head of {head.size} events ({remembered.path}), the newest one of the "
            f"ledger {ledger.address} has {last.size if last else 0}: it was rolled back. Nothing was signed; restore the "
            "newer ledger. If there is none, run `guard verify`, then `guard incident accept`"
        )
    root = bytes.fromhex(last.root) if last.size == head.size else root_of(leaf_hashes(ledger, head.size))
    if root != head.root:
        raise Inconsistent(
            f"the log of the ledger {ledger.address} does not continue the head that this machine remembers "
            f"({remembered.path}): history was rewritten. Nothing was signed; restore the ledger that was "
            "signed"
        )


def _cosign(ledger: Ledger, settings: Settings, last: StoredHead | None, note: str, size: int) -> str:
    """Return the note with the witness's cosignature, or without it if no witness is configured or answers."""
    if not settings.witness_url:
        return note

    def prove(old_size: int) -> list[bytes]:
        return consistency_proof(leaf_hashes(ledger, size), old_size)

    key = VerifierKey.parse(settings.witness_key)
    try:
        return submit(settings.witness_url, note, last.size if last else 0, prove, key)
    except WitnessUnavailable as error:
        log.warning("%s; the head is stored without its cosignature, the next signing submits it again", error)
        return note


def _is_cosigned(settings: Settings, note: str) -> bool:
    if not settings.witness_url:
        return True
    return bool(parse_note(note).verified_by([VerifierKey.parse(settings.witness_key)]))


def _anchor_head(settings: Settings, note: str, size: int) -> None:
    if not settings.anchor_url:
        return
    try:
        anchor(settings.anchor_url, note, size)
    except AnchorUnavailable as error:
        log.warning("%s; the head is stored, the next one is anchored again", error)


def _leaf_of(ledger: Ledger, seq: int) -> str:
    leaf = ledger.scalar(sa.select(events.c.leaf_sha256).where(events.c.seq == seq))
    if leaf is None:
        raise Inconsistent(f"event {seq} is missing from the log of the ledger {ledger.address}; nothing was signed")
    return str(leaf)
