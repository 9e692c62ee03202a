"""Proofs for others: that a chunk is in the corpus as it was sealed, and exports of the whole log.

Rules
    * a proof is about the newest signed seal, and about nothing after it;
    * it holds the path from the chunk's line to the manifest's root, the path from the sealing event to the
      log's root, and the head that signs the log: everything except trust in a key;
    * the public keys inside are a hint: whoever checks the proof uses a key that they got another way;
    * it holds no document's text: a line has the text's hash.

`corpus_guard.proof.checking` checks these proofs.

Sources: RFC 9162 section 2.1.3 (inclusion proofs), C2SP tlog-checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import orjson
import sqlalchemy as sa

from corpus_guard.batches import Storage
from corpus_guard.errors import Inconsistent, Misuse, UnknownSubject
from corpus_guard.ledger import Ledger
from corpus_guard.ledger.tables import events
from corpus_guard.proof.checking import HEAD_FILE, LOG_FILE, MANIFEST_FILE
from corpus_guard.proof.log.heads import StoredHead, leaf_hashes, newest_head, verified_events
from corpus_guard.proof.log.keys import PUBLIC_KEYS_FILE, Keyring
from corpus_guard.proof.log.merkle import inclusion_proof, leaf_hash, root_of
from corpus_guard.proof.manifest import ManifestLine, SealEvent, last_seal_below
from corpus_guard.settings import Settings


class InclusionPath(TypedDict):
    """Proof that a line is in a tree, JSON-ready."""

    line: str
    index: int  # 0-based
    size: int  # leaves of the tree
    proof: list[str]  # hex hashes, lowest first


class ChunkProof(TypedDict):
    """Proof that a chunk is in the corpus, JSON-ready."""

    v: int
    chunk_id: str
    manifest: InclusionPath
    log: InclusionPath
    head: str  # note
    keys: list[str]  # verifier keys, a hint


def prove_chunk(ledger: Ledger, storage: Storage, settings: Settings, chunk_id: str) -> ChunkProof:
    """Return a proof that a chunk is in the newest sealed manifest, which needs trust in a key only.

    Raises:
        UnknownSubject: the manifest does not list the chunk.
        Misuse: nothing was sealed and signed yet.
        Inconsistent: manifest, log and head do not agree; nothing can be proved from them.
    """
    head, seal = _newest_signed_seal(ledger)
    hashes, line, index = [], b"", -1
    for number, raw in enumerate(storage.read_lines(seal.name)):
        hashes.append(leaf_hash(raw))
        parsed: ManifestLine = orjson.loads(raw)
        if index < 0 and parsed["chunk_id"] == chunk_id:
            line, index = raw, number
    _require_root(f"manifest {seal.name}", root_of(hashes).hex(), seal.root)
    if index < 0:
        raise UnknownSubject(
            f"chunk {chunk_id!r} is not in the manifest of {seal.at:%Y-%m-%d %H:%M} UTC, which lists "
            f"{seal.chunks} chunks; `guard search --json` shows ids of what is served"
        )
    leaves = leaf_hashes(ledger, head.size)
    _require_root(f"log of {head.size} events", root_of(leaves).hex(), head.root)
    event = next(event for event in verified_events(ledger, seal.seq))
    keys = Keyring.open(settings.keys).public_keys()
    return ChunkProof(
        v=1,
        chunk_id=chunk_id,
        manifest=_inclusion_path(line, index, hashes),
        log=_inclusion_path(event.line, seal.seq, leaves),
        head=head.note,
        keys=[trusted.key.encode() for trusted in keys if not trusted.revoked],
    )


def export_proofs(ledger: Ledger, storage: Storage, settings: Settings, folder: Path) -> int:
    """Export the log, its newest head, the manifest it names and the public keys as files; return the number of events.

    `corpus_guard.proof.checking` checks them without this machine.

    Args:
        folder: created if it does not exist; files of an older export are replaced, the head last.

    Raises:
        Misuse: nothing was sealed and signed yet.
        Inconsistent: an event is missing or was changed.
    """
    head, seal = _newest_signed_seal(ledger)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HEAD_FILE).unlink(missing_ok=True)  # a folder without head proves nothing, one with an older head would
    with (folder / LOG_FILE).open("wb") as stream:
        for event in verified_events(ledger):
            if event.seq == head.size:
                break
            stream.write(event.line + b"\n")
    with (folder / MANIFEST_FILE).open("wb") as stream:
        for line in storage.read_lines(seal.name):
            stream.write(line + b"\n")
    shutil.copyfile(settings.keys / PUBLIC_KEYS_FILE, folder / PUBLIC_KEYS_FILE)
    (folder / HEAD_FILE).write_text(head.note, encoding="utf-8")
    return head.size


def newest_events(ledger: Ledger, since: int, kind: str | None, limit: int) -> Sequence[sa.Row[tuple[object, ...]]]:
    """Return the newest `limit` events from number `since` on, the oldest first, unverified.

    Raises:
        Inconsistent: one of them no longer parses.
    """
    statement = sa.select(events).where(events.c.seq >= since).order_by(events.c.seq.desc()).limit(limit)
    if kind is not None:
        statement = statement.where(events.c.kind == kind)
    try:
        return list(reversed(ledger.rows(statement)))
    except (ValueError, TypeError) as error:
        raise Inconsistent(
            f"an event of the ledger {ledger.address} is unreadable ({type(error).__name__}); `guard verify` "
            "says which one"
        ) from error


def logged_kinds(ledger: Ledger) -> list[str]:
    """Return the kinds of the events in the log, in alphabetical order."""
    return ledger.scalars(sa.select(events.c.kind).distinct().order_by(events.c.kind))


def _newest_signed_seal(ledger: Ledger) -> tuple[StoredHead, SealEvent]:
    head = newest_head(ledger)
    seal = last_seal_below(ledger, head.size) if head else None
    if head is None or seal is None:
        raise Misuse(f"nothing in the ledger {ledger.address} was sealed and signed yet; run `guard refresh` first")
    return head, seal


def _inclusion_path(line: bytes, index: int, hashes: list[bytes]) -> InclusionPath:
    proof = [node.hex() for node in inclusion_proof(hashes, index)]
    return InclusionPath(line=line.decode(), index=index, size=len(hashes), proof=proof)


def _require_root(subject: str, root: str, expected: str) -> None:
    if root != expected:
        raise Inconsistent(
            f"{subject} has root {root[:16]}…, expected {expected[:16]}… as signed; it proves nothing. "
            "`guard verify` lists what is wrong"
        )
