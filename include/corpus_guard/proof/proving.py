"""Proofs to hand out: that a chunk is in the corpus as it was sealed, and the whole log for whoever wants to keep it.

Rules
    * a proof speaks of the newest seal that is signed for, and of nothing after it;
    * it holds the way from the chunk's line to the manifest's root, from the event that tells of the root to that of the log, and the
      head that signs for the log: everything but the trust in a key;
    * the public keys inside are a hint: whoever checks brings the key that they were given by another road;
    * no document's text is in it: a line has the text's hash.

Sources: RFC 9162 section 2.1.3 (inclusion proofs), C2SP tlog-checkpoint. What checks them is `corpus_guard.proof.checking`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import sqlalchemy as sa

from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger.tables import events
from corpus_guard.proof._sealed import sealed_below
from corpus_guard.proof.heads import chained, leaves, newest_head
from corpus_guard.proof.keys import PUBLIC, Keyring
from corpus_guard.proof.manifest import LastSealed
from corpus_guard.proof.merkle import inclusion_proof, leaf_hash, root_of

if TYPE_CHECKING:
    from corpus_guard.guard import Guard

HEAD, LOG, MANIFEST = "head.note", "log.jsonl", "manifest.jsonl"
"""The files of an exported folder, besides ``log.pub``."""


def prove(guard: Guard, chunk_id: str) -> dict[str, Any]:
    """That a chunk is in the newest sealed manifest, for somebody who trusts a key and not us.

    Returns:
        JSON-ready: ``chunk_id``; ``manifest`` and ``log``, each with ``line`` (text), ``index`` (0-based), ``size`` (leaves) and ``proof``
        (hex hashes, lowest first); ``head`` (the note); ``keys`` (verifier keys, a hint).

    Raises:
        UnknownSubject: the manifest does not list the chunk.
        Misuse: nothing was sealed and signed yet.
        Inconsistent: manifest, log and head do not agree; nothing can be proved from them.
    """
    head, seal = _newest(guard)
    hashes, line, index = [], b"", -1
    for number, listed in enumerate(guard.storage.lines(seal.name)):
        hashes.append(leaf_hash(listed))
        if index < 0 and orjson.loads(listed)["chunk_id"] == chunk_id:
            line, index = listed, number
    _agree(f"manifest {seal.name}", root_of(hashes).hex(), seal.root)
    if index < 0:
        raise UnknownSubject(
            f"chunk {chunk_id!r} is not in the manifest of {seal.at:%Y-%m-%d %H:%M} UTC, which lists {seal.chunks} chunks; "
            "`guard search --json` shows ids of what is served"
        )
    below = leaves(guard.ledger, head.size)
    _agree(f"log of {head.size} events", root_of(below).hex(), head.root)
    event = next(event for event in chained(guard.ledger, seal.seq))
    return {
        "v": 1,
        "chunk_id": chunk_id,
        "manifest": _way(line, index, hashes),
        "log": _way(event.line, seal.seq, below),
        "head": head.note,
        "keys": [
            trusted.key.encode() for trusted in Keyring.open(guard.settings.keys).public_keys() if not trusted.revoked
        ],
    }


def export_proofs(guard: Guard, folder: Path) -> int:
    """Write the log, its newest head, the manifest it tells of and the public keys as files that check without us.

    Args:
        guard: the deployment.
        folder: made where it does not exist; files of an older export are replaced, the head last.

    Returns:
        Events written.

    Raises:
        Misuse: nothing was sealed and signed yet.
        Inconsistent: an event is missing or was changed.
    """
    head, seal = _newest(guard)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HEAD).unlink(missing_ok=True)  # a folder without head proves nothing, one with an older head would
    with (folder / LOG).open("wb") as stream:
        for event in chained(guard.ledger):
            if event.seq == head.size:
                break
            stream.write(event.line + b"\n")
    with (folder / MANIFEST).open("wb") as stream:
        for line in guard.storage.lines(seal.name):
            stream.write(line + b"\n")
    shutil.copyfile(guard.settings.keys / PUBLIC, folder / PUBLIC)
    (folder / HEAD).write_text(head.note, encoding="utf-8")
    return int(head.size)


def _newest(guard: Guard) -> tuple[Any, LastSealed]:
    head = newest_head(guard.ledger)
    seal = sealed_below(guard.ledger, head.size) if head else None
    if head is None or seal is None:
        raise Misuse(
            f"nothing in the ledger {guard.ledger.address} was sealed and signed yet; run `guard refresh` first"
        )
    return head, seal


def _way(line: bytes, index: int, hashes: list[bytes]) -> dict[str, Any]:
    proof = [one.hex() for one in inclusion_proof(hashes, index)]
    return {"line": line.decode(), "index": index, "size": len(hashes), "proof": proof}


def _agree(subject: str, found: str, expected: str) -> None:
    if found != expected:
        raise Inconsistent(
            f"{subject} has root {found[:16]}…, signed was {expected[:16]}…; it proves nothing. `guard verify` names what is wrong"
        )


def newest_events(guard: Guard, since: int, kind: str | None, limit: int) -> list[Any]:
    """The newest `limit` events from number `since` on, oldest first: rows of the ledger, not verified.

    Raises:
        Inconsistent: one of them no longer parses.
    """
    statement = sa.select(events).where(events.c.seq >= since).order_by(events.c.seq.desc()).limit(limit)
    if kind is not None:
        statement = statement.where(events.c.kind == kind)
    try:
        with guard.ledger.read() as connection:
            return list(reversed(connection.execute(statement).all()))
    except (ValueError, TypeError) as error:
        raise Inconsistent(
            f"an event of the ledger {guard.ledger.address} cannot be read ({type(error).__name__}); `guard verify` names it"
        ) from error
